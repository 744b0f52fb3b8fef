"""Make the fixtures of test_previous_runs: run folders of a previous version, and numbers computed by it.

    python -m tests.compatibility.make_fixtures SOURCE_TREE

SOURCE_TREE is a checkout of that version. Its commands train the runs and answer the questions of questions.py.
`runs/`, `data/` and expected.json are replaced. Checkpoints are kept only where a training was interrupted.
"""

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.compatibility.questions import (
    ATTENTION,
    ATTRIBUTION,
    CLASSIFIER,
    CROSS_ATTENTION,
    DATA,
    EXPECTED,
    LANGUAGE,
    LENS,
    ORDERS,
    RUNS,
    SENSES,
    SIMILAR,
    TAGGER,
    Question,
    command,
    recorded_form,
    translator,
)
from tests.compatibility.samples import write_all
from tests.compatibility.tensor_files import machine, trained_digests

NETWORK_TRAINING = (
    "--steps 200 --seed 1 --threads 1 --set training.batch_tokens=256 --set training.learning_rate=0.005"
    " --set training.evaluate_every=100 --set model.width=16 --set model.layers=1"
)
ATTENTION_SHAPE = "--set model.heads=2 --set model.context=32"
SENSE_SHAPE = f"{ATTENTION_SHAPE} --set model.senses=4"
TEXT = "train text.txt --valid 0.1"
TABLE = "train rows.tsv --valid 0.1"
PAIRS = f"--set data.size=400 --valid 0.05 --set model.context=64 {NETWORK_TRAINING} --steps 800"

# The questions asked of each run, and the command that makes it. Later ones may use the folders of earlier ones.
FIXTURES: dict[str, tuple[tuple[Question, ...], str]] = {
    "ngram": (LANGUAGE + ORDERS, f"{TEXT} --model ngram --tokenizer char --set model.order=4"),
    "ngram-word": (LANGUAGE + ORDERS, f"{TEXT} --model ngram --tokenizer word --set model.order=3"),
    "arpa": (LANGUAGE[1:] + ORDERS, "import model.arpa"),
    "ngram-classifier": (CLASSIFIER, f"{TABLE} --model ngram --tokenizer word --set model.order=2"),
    "dan-classifier": (
        CLASSIFIER + ATTRIBUTION,
        f"{TABLE} --model dan --tokenizer word {NETWORK_TRAINING} --set model.bigrams=128",
    ),
    "window": (LANGUAGE + ATTRIBUTION + SIMILAR, f"{TEXT} --model window --tokenizer char {NETWORK_TRAINING}"),
    "lstm": (LANGUAGE + ATTRIBUTION + SIMILAR + LENS, f"{TEXT} --model lstm --tokenizer ngram {NETWORK_TRAINING}"),
    "mix": (LANGUAGE[1:], "mix ngram lstm"),
    "transformer": (
        LANGUAGE + ATTRIBUTION + SIMILAR + LENS + ATTENTION,
        f"{TEXT} --model transformer --tokenizer bpe:300 {NETWORK_TRAINING} {ATTENTION_SHAPE}",
    ),
    "transformer-ngram": (
        LANGUAGE + ATTRIBUTION + SIMILAR + ATTENTION + ORDERS,
        f"{TEXT} --model transformer --tokenizer char {NETWORK_TRAINING} {ATTENTION_SHAPE}"
        " --set model.ngram=3 --set model.positions=learned",
    ),
    "backpack": (
        LANGUAGE + ATTRIBUTION + SIMILAR + ATTENTION + SENSES,
        f"{TEXT} --model backpack --tokenizer word {NETWORK_TRAINING} {SENSE_SHAPE}",
    ),
    "backpack-table": (
        LANGUAGE + SIMILAR + SENSES,
        f"{TEXT} --model backpack --tokenizer char {NETWORK_TRAINING} {SENSE_SHAPE} --set model.sense_source=table"
        " --set model.contextualiser=gru",
    ),
    "backpack-classifier": (
        CLASSIFIER + ATTRIBUTION + SENSES,
        f"{TABLE} --model backpack --tokenizer word {NETWORK_TRAINING} {SENSE_SHAPE}",
    ),
    "tagger": (
        TAGGER,
        f"train @counting --set data.size=300 --model transformer {NETWORK_TRAINING} {ATTENTION_SHAPE}",
    ),
    "lstm-translator": (
        translator("dates"),
        f"train @dates --model lstm --set model.attention=general {PAIRS}",
    ),
    "transformer-translator": (
        translator("reverse") + CROSS_ATTENTION,
        f"train @reverse --model transformer --set model.heads=2 {PAIRS}",
    ),
    "backpack-translator": (
        translator("dates"),
        f"train @dates --model backpack --set model.heads=2 --set model.senses=3 {PAIRS}",
    ),
}

# Trainings of 20 steps that are interrupted after 10; the test resumes them.
INTERRUPTED: dict[str, tuple[str, dict[str, Any]]] = {
    "interrupted-transformer": ("transformer", {"model.positions": "learned", "model.ngram": 2}),
    "interrupted-backpack": ("backpack", {"model.senses": 3, "training.parts": 2}),
}
INTERRUPT = """
import itertools, json, sys
from satchel import api
out, kind, settings = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
steps = itertools.count(1)
plan = api.plan("text.txt", model=kind, tokenizer="char", valid=0.1, steps=20, seed=1, threads=1, settings=settings)
api.carry_out(plan, out=out, should_stop=lambda: next(steps) == 10)
"""


def main() -> None:
    """Make all fixtures."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else None)
    parser.add_argument("source", type=Path, help="a checkout of the version that makes the fixtures")
    source: Path = parser.parse_args().source
    for folder in (RUNS, DATA):
        shutil.rmtree(folder, ignore_errors=True)
    DATA.mkdir()
    with tempfile.TemporaryDirectory() as work:
        results = make(source.resolve() / "src", Path(work))
        for run in [*FIXTURES, *INTERRUPTED]:
            shutil.copytree(Path(work) / run, RUNS / run)
    for run in FIXTURES:
        shutil.rmtree(RUNS / run / "checkpoints", ignore_errors=True)
    answers = {
        run: {shlex.join(question): answer(source.resolve() / "src", run, question) for question in questions}
        for run, (questions, _) in FIXTURES.items()
    }
    write_expected({"machine": machine(), "answers": answers, "resumed": results})


def write_expected(document: dict[str, Any]) -> None:
    """Write the expected numbers with one line for each answer."""

    def written(value: Any, depth: int) -> str:
        if depth and isinstance(value, dict):
            entries = (f"{json.dumps(key)}: {written(each, depth - 1)}" for key, each in value.items())
            return "{\n" + ",\n".join(entries) + "\n}"
        return json.dumps(value, ensure_ascii=False, allow_nan=False)

    EXPECTED.write_text(written(document, 3) + "\n", encoding="utf-8", newline="\n")


def make(source: Path, work: Path) -> dict[str, dict[str, dict[str, str]]]:
    """Train all runs in a folder, and return the digests of the interrupted ones after resuming a copy."""
    write_all(work)
    for name in ("heldout.txt", "heldout.tsv"):
        shutil.copy(work / name, DATA)
    for run, (_, line) in FIXTURES.items():
        if run == "arpa":
            python(source, work, "-m", "satchel", "export", "ngram-word", "--to", "arpa", "-o", "model.arpa")
        python(source, work, "-m", "satchel", *shlex.split(line), "-o", run)
    settings = {
        "model.width": 12,
        "model.layers": 1,
        "model.heads": 2,
        "model.context": 12,
        "model.dropout": 0.1,
        "training.dropout_after": 0,
        "training.batch_tokens": 48,
        "training.keep": 1,
        "training.evaluate_every": 5,
    }
    digests = {}
    for run, (kind, changes) in INTERRUPTED.items():
        python(source, work, "-c", INTERRUPT, run, kind, json.dumps(settings | changes))
        for folder in sorted((work / run / "checkpoints").iterdir())[:-1]:
            shutil.rmtree(folder)
        copy = work / f"{run}-resumed"
        shutil.copytree(work / run, copy)
        python(source, work, "-m", "satchel", "train", "--resume", copy.name)
        digests[run] = trained_digests(copy)
    return digests


def answer(source: Path, run: str, question: Question) -> object:
    """Return the recorded form of the answer of a run to a question."""
    return recorded_form(question, python(source, DATA, "-m", "satchel", *command(question, run)))


def python(source: Path, folder: Path, *arguments: str | Path) -> str:
    """Run Python with the modules of a source tree, and return its standard output."""
    environment = {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}
    line: Sequence[str] = [sys.executable, *map(str, arguments)]
    result = subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if result.returncode:
        raise SystemExit(f"{shlex.join(line)} failed:\n{result.stderr}")
    return result.stdout


if __name__ == "__main__":
    main()
