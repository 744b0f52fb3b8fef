"""`similar` by vectors and in context, and `probe`: keys scripts rely on, what is printed, what cannot be is told."""

from pathlib import Path
from typing import Any

import pytest

import satchel
from tests.cli.conftest import Cli, answer
from tests.conftest import VERSE

SMALL: dict[str, Any] = {"model.width": 16, "model.layers": 1, "model.heads": 2, "model.context": 32}
SETTINGS = {**SMALL, "training.threads": 1, "data.documents": "line"}
HERE, THERE = "The cat sat on the mat.", "The dog saw the cat."


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A transformer, a Backpack and an n-gram model of the same verse, and a table of tags."""
    folder = tmp_path_factory.mktemp("representations")
    (folder / "verse.txt").write_text(VERSE * 20, encoding="utf-8")
    for kind, own in (("transformer", {}), ("backpack", {"model.senses": 3})):
        satchel.train(
            folder / "verse.txt",
            model=kind,
            tokenizer="bpe:280",
            steps=10,
            settings={**SETTINGS, **own},
            out=folder / kind,
        )
    satchel.train(folder / "verse.txt", model="ngram", out=folder / "ngram")
    lines = [line for line in VERSE.splitlines() if line] * 4
    rows = "".join(f"{line} {number}\t{' '.join('x' * len(line.split()))} n\n" for number, line in enumerate(lines))
    (folder / "tags.tsv").write_text(f"text\ttags\n{rows}", encoding="utf-8")
    return folder


# --- similar -------------------------------------------------------------------------------------------------


def test_words_alike_by_their_vectors_have_the_keys_scripts_rely_on(cli: Cli, runs: Path) -> None:
    found = answer(cli, "similar", runs / "transformer", "cat", "--top", 5)
    assert set(found) == {"schema_version", "word", "words"}
    assert len(found["words"]) == 5
    first = found["words"][0]
    assert set(first) == {"word", "alike"}
    both = answer(cli, "similar", runs / "transformer", "cat", "dog")
    assert set(both) == {"schema_version", "first", "second", "alike"}
    assert -1 <= both["alike"] <= 1
    assert answer(cli, "similar", runs / "transformer", "cat", "cat")["alike"] == pytest.approx(1)
    code, printed, _ = cli("similar", runs / "transformer", "cat")
    assert code == 0
    assert first["word"].strip() in printed
    code, printed, _ = cli("similar", runs / "transformer", "cat", "dog")
    assert code == 0
    assert f"{both['alike']:.3f}" in printed


def test_the_words_of_a_backpack_are_compared_by_sense_or_by_their_vectors(cli: Cli, runs: Path) -> None:
    assert set(answer(cli, "similar", runs / "backpack", "cat")) == {"schema_version", "word", "senses"}
    assert set(answer(cli, "similar", runs / "backpack", "cat", "--by", "sense")) == {
        "schema_version",
        "word",
        "senses",
    }
    assert set(answer(cli, "similar", runs / "backpack", "cat", "--by", "embedding")) == {
        "schema_version",
        "word",
        "words",
    }


@pytest.mark.parametrize("kind", ["transformer", "backpack"])
def test_a_word_in_two_sentences_is_compared_at_every_layer(cli: Cli, runs: Path, kind: str) -> None:
    asked = ("similar", runs / kind, "cat", "--context", HERE, "--context", THERE, "--top", 2)
    found = answer(cli, *asked)
    assert set(found) == {"schema_version", "word", "layer", "layers", "contexts", "notes"}
    assert [each["layer"] for each in found["layers"]] == [0, 1, 2]
    assert found["layer"] == 2
    assert found["layers"][0]["site"] == "embedded"
    assert found["layers"][0]["alike"][0][1] == pytest.approx(1, abs=1e-5)
    assert found["layers"][2]["alike"][0][1] < 0.999
    assert [each["before"] for each in found["contexts"]] == ["The", "The dog saw the"]
    assert [len(each["near"]) for each in found["contexts"]] == [2, 2]
    assert set(found["contexts"][0]["near"][0]) == {"before", "word", "after", "alike"}
    code, printed, _ = cli(*asked)
    assert code == 0
    assert "1 and 2" in printed
    assert "The [cat] sat on the mat." in printed
    assert "1.000" in printed
    assert "most like 2 at encoded" in printed
    static = answer(cli, *asked, "--layer", 0)
    assert static["layer"] == 0
    assert static["contexts"][0]["near"][0]["alike"] == pytest.approx(1, abs=1e-5)


def test_one_sentence_has_nothing_to_be_compared_with_but_the_training_text(cli: Cli, runs: Path) -> None:
    code, printed, _ = cli("similar", runs / "transformer", "cat", "--context", HERE)
    assert code == 0
    assert "1 and" not in printed
    assert "in the training text" in printed


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ["similar", "transformer", "dog", "--context", HERE],
            "the words that are read there: The cat sat on the mat .",
        ),
        (["similar", "transformer", "cat", "dog", "--context", HERE], "compares a word with itself"),
        (["similar", "transformer", "cat", "--by", "sense", "--context", HERE], "compares a word with itself"),
        (["similar", "transformer", "cat", "--layer", 1], "--layer is for words in context"),
        (
            ["similar", "transformer", "cat", "--layer", 3, "--context", HERE],
            "found layers 0 (embedded) to 2 (encoded)",
        ),
        (["similar", "transformer", "cat", "--by", "sound"], "expected sense or embedding"),
        (["similar", "transformer", "cat", "--by", "sense"], "is no Backpack but transformer"),
        (["similar", "transformer", " "], "expected a word"),
        (["similar", "ngram", "cat"], "is ngram: it has no vectors"),
        (["similar", "ngram", "cat", "--context", HERE], "is ngram: it has no vectors"),
        (["probe", "ngram", "tags.tsv"], "is ngram: it has no vectors"),
        (["probe", "transformer", "verse.txt"], "is no table"),
        (["probe", "transformer", "tags.tsv", "--leave-out", "n"], "with 1 tag in all"),
        (["probe", "transformer", "tags.tsv", "--tags-column", "sense"], "expected sense"),
        (["probe", "transformer", "nowhere.tsv"], "nowhere.tsv"),
    ],
)
def test_what_cannot_be_is_told(cli: Cli, runs: Path, arguments: list[object], told: str) -> None:
    verb, run, data, *others = arguments
    code, printed, said = cli(verb, runs / str(run), runs / str(data) if verb == "probe" else data, *others)
    assert (code, printed) == (2, "")
    assert told in said


# --- probe ---------------------------------------------------------------------------------------------------


def test_a_probe_has_the_keys_scripts_rely_on(cli: Cli, runs: Path) -> None:
    found = answer(cli, "probe", runs / "transformer", runs / "tags.tsv")
    assert set(found) == {
        *("schema_version", "data", "unit", "tags", "words", "rows", "majority", "by_word", "layers", "notes")
    }
    assert found["tags"] == ["n", "x"]
    assert found["rows"] == {"fitted": 12, "held_out": 4}
    assert [each["layer"] for each in found["layers"]] == [0, 1, 2]
    for each in found["layers"]:
        assert set(each) == {"layer", "site", "accuracy", "control", "selectivity"}
        assert each["selectivity"] == pytest.approx(each["accuracy"] - each["control"])
    assert answer(cli, "probe", runs / "transformer", runs / "tags.tsv") == found
    code, printed, said = cli("probe", runs / "transformer", runs / "tags.tsv")
    assert code == 0
    assert "the tag most have" in printed
    assert "selectivity" in printed
    assert "blocks.0.output" in printed
    assert "learned by heart" in said
