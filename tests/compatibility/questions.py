"""Commands asked of each fixture: their `--json` output is recorded in expected.json and compared by the test.

RUN stands for the run folder. Commands run in the folder `data`.
"""

import json
import math
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RUNS = HERE / "runs"
DATA = HERE / "data"
EXPECTED = HERE / "expected.json"

TEXT = "The old dog saw the cat near the river."
UNSEEN = "A dog sang; the Fox met\tthe grey bird twice."  # with characters outside of the training text
SOURCE = {"reverse": "satchel", "dates": "May 3, 2021"}
TARGET = {"reverse": "lehctas", "dates": "2021-05-03"}

# Keys whose values depend on the clock, the place of a file or the version of sacrebleu.
VOLATILE = frozenset({"run", "seconds", "tokens_per_second", "signature", "chrf_signature"})
# Keys whose values are prose for people: only their presence is compared.
PROSE = frozenset({"context", "measure"})

Question = tuple[str, ...]

LANGUAGE: tuple[Question, ...] = (
    ("evaluate", "RUN"),
    ("evaluate", "RUN", "heldout.txt"),
    ("score", "RUN", TEXT),
    ("score", "RUN", UNSEEN),
    ("generate", "RUN", "The cat", "--tokens", "20", "--temperature", "0"),
    ("generate", "RUN", "The cat", "--tokens", "20", "--seed", "3", "--samples", "2"),
    ("look", "surprise", "RUN", TEXT),
)
ATTRIBUTION: tuple[Question, ...] = (("look", "attribution", "RUN", "The old dog saw"), ("look", "training", "RUN"))
SIMILAR: tuple[Question, ...] = (("similar", "RUN", "dog"), ("look", "embeddings", "RUN", "--top", "5"))
ORDERS: tuple[Question, ...] = (("look", "order", "RUN", TEXT),)
ATTENTION: tuple[Question, ...] = (
    ("look", "attention", "RUN", TEXT, "--start", "0"),
    ("look", "patterns", "RUN", "--data", "heldout.txt", "--start", "0"),
    ("look", "ablation", "RUN", "--data", "heldout.txt"),
)
LENS: tuple[Question, ...] = (("look", "lens", "RUN", TEXT),)
SENSES: tuple[Question, ...] = (
    ("senses", "RUN", "dog", "cat", "--top", "4"),
    ("look", "senses", "RUN", TEXT),
    ("look", "contributions", "RUN", "The old dog saw"),
)
CLASSIFIER: tuple[Question, ...] = (
    ("evaluate", "RUN"),
    ("evaluate", "RUN", "heldout.tsv"),
    ("classify", "RUN", TEXT),
    ("classify", "RUN", UNSEEN),
)
TAGGER: tuple[Question, ...] = (
    ("evaluate", "RUN"),
    ("tag", "RUN", "abcabcaabbccabcabcaa"),
    ("look", "attention", "RUN", "abcabcaabbccabcabcaa"),
)
CROSS_ATTENTION: tuple[Question, ...] = (
    ("look", "attention", "RUN", TARGET["reverse"], "--source", SOURCE["reverse"], "--which", "cross"),
)


def translator(data: str) -> tuple[Question, ...]:
    """Return the questions of a translator of one of the built-in data sets."""
    source, target = SOURCE[data], TARGET[data]
    return (
        ("evaluate", "RUN"),
        ("evaluate", "RUN", "--beam", "1"),
        ("translate", "RUN", source),
        ("translate", "RUN", source, "--beam", "3", "--best", "3"),
        ("translate", "RUN", source, "--sample", "--seed", "3"),
        ("score", "RUN", source, "--target", target),
        ("look", "alignment", "RUN", target, "--source", source),
    )


def command(question: Question, run: str) -> list[str]:
    """Return the arguments of `satchel` that ask a question of a run."""
    return [str(RUNS / run) if part == "RUN" else part for part in question] + ["--json"]


def _without_volatile(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_volatile(each) for key, each in value.items() if key not in VOLATILE}
    return [_without_volatile(each) for each in value] if isinstance(value, list) else value


def attention_means(document: dict[str, Any]) -> dict[str, Any]:
    """Return the weights of each head averaged over its rows."""
    heads = []
    for entry in document["maps"]:
        rows = entry["weights"]
        means = [sum(row[column] for row in rows) / len(rows) for column in range(len(rows[0]))]
        heads.append({"layer": entry["layer"], "head": entry["head"], "means": means})
    return {"rows": document["rows"], "columns": document["columns"], "maps": heads}


def recorded_form(question: Question, printed: str) -> Any:
    """Return the recorded form of the JSON that a command printed: small, and the same at any time and place."""
    document = json.loads(printed)
    if question[:2] == ("look", "attention"):
        document = attention_means(document)
    return _without_volatile(document)


def differences(expected: Any, actual: Any, where: str = "") -> list[str]:
    """Return the differences between two JSON values; floats are equal within 1e-5, and new keys are permitted.

    Scores are rounded to six decimals, so the last of them may differ by one.
    """
    if isinstance(expected, dict) and isinstance(actual, dict):
        missing = [f"{where}.{key}: missing" for key in expected if key not in actual]
        shared = [key for key in expected if key in actual and key not in PROSE]
        return missing + [line for key in shared for line in differences(expected[key], actual[key], f"{where}.{key}")]
    if isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        pairs = enumerate(zip(expected, actual, strict=True))
        return [line for index, pair in pairs for line in differences(*pair, f"{where}[{index}]")]
    numbers = all(isinstance(each, (int, float)) and not isinstance(each, bool) for each in (expected, actual))
    if numbers and math.isclose(expected, actual, rel_tol=1e-5, abs_tol=1.5e-6):
        return []
    # The items of `notes` are prose; under the same key, `look surprise` has numbers by name.
    is_prose = isinstance(expected, str) and isinstance(actual, str) and ".notes[" in where
    return [] if expected == actual or is_prose else [f"{where}: expected {expected!r}, got {actual!r}"]
