"""`satchel similar`: cosine similarity by embedding, by sense and in context."""

from pathlib import Path

import pytest

from tests.cli.conftest import (
    Cli,
    json_of,
)

HERE, THERE = "The cat sat on the mat.", "The dog saw the cat."


def test_neighbours_and_similarity_by_sense_agree(cli: Cli, backpack: Path) -> None:
    result = json_of(cli, "similar", backpack, "cat", "--top", 200)
    assert [each["sense"] for each in result["senses"]] == [0, 1, 2]
    first = next(each for each in result["senses"][0]["words"] if each["word"].startswith(" "))
    both = json_of(cli, "similar", backpack, "cat", first["word"])
    assert both["by_sense"][0] == pytest.approx(first["alike"], abs=1e-6)
    assert both["least"] == min(both["by_sense"])
    itself = json_of(cli, "similar", backpack, "cat", "cat")
    assert itself["joined"] == pytest.approx(1)
    code, printed, _ = cli("similar", backpack, "cat", "dog")
    assert code == 0
    assert "concatenated senses" in printed


def test_neighbours_and_similarity_by_embedding_have_the_promised_keys(cli: Cli, line_runs: Path) -> None:
    result = json_of(cli, "similar", line_runs / "transformer", "cat", "--top", 5)
    assert set(result) == {"schema_version", "word", "words"}
    assert len(result["words"]) == 5
    first = result["words"][0]
    assert set(first) == {"word", "alike"}
    both = json_of(cli, "similar", line_runs / "transformer", "cat", "dog")
    assert set(both) == {"schema_version", "first", "second", "alike"}
    assert -1 <= both["alike"] <= 1
    assert json_of(cli, "similar", line_runs / "transformer", "cat", "cat")["alike"] == pytest.approx(1)
    code, printed, _ = cli("similar", line_runs / "transformer", "cat")
    assert code == 0
    assert first["word"].strip() in printed
    code, printed, _ = cli("similar", line_runs / "transformer", "cat", "dog")
    assert code == 0
    assert f"{both['alike']:.3f}" in printed


def test_words_of_a_backpack_are_compared_by_sense_or_by_embedding(cli: Cli, line_runs: Path) -> None:
    assert set(json_of(cli, "similar", line_runs / "backpack", "cat")) == {"schema_version", "word", "senses"}
    assert set(json_of(cli, "similar", line_runs / "backpack", "cat", "--by", "sense")) == {
        "schema_version",
        "word",
        "senses",
    }
    assert set(json_of(cli, "similar", line_runs / "backpack", "cat", "--by", "embedding")) == {
        "schema_version",
        "word",
        "words",
    }


@pytest.mark.parametrize("kind", ["transformer", "backpack"])
def test_a_word_in_two_sentences_is_compared_at_every_layer(cli: Cli, line_runs: Path, kind: str) -> None:
    arguments = ("similar", line_runs / kind, "cat", "--context", HERE, "--context", THERE, "--top", 2)
    result = json_of(cli, *arguments)
    assert set(result) == {"schema_version", "word", "layer", "layers", "contexts", "notes"}
    assert [each["layer"] for each in result["layers"]] == [0, 1, 2]
    assert result["layer"] == 2
    assert result["layers"][0]["site"] == "embedded"
    assert result["layers"][0]["alike"][0][1] == pytest.approx(1, abs=1e-5)
    assert result["layers"][2]["alike"][0][1] < 0.999
    assert [each["before"] for each in result["contexts"]] == ["The", "The dog saw the"]
    assert [len(each["near"]) for each in result["contexts"]] == [2, 2]
    assert set(result["contexts"][0]["near"][0]) == {"before", "word", "after", "alike"}
    code, printed, _ = cli(*arguments)
    assert code == 0
    assert "1 and 2" in printed
    assert "The [cat] sat on the mat." in printed
    assert "1.000" in printed
    assert "most similar to 2 at encoded" in printed
    static = json_of(cli, *arguments, "--layer", 0)
    assert static["layer"] == 0
    assert static["contexts"][0]["near"][0]["alike"] == pytest.approx(1, abs=1e-5)


def test_one_occurrence_is_compared_with_the_training_text(cli: Cli, line_runs: Path) -> None:
    code, printed, _ = cli("similar", line_runs / "transformer", "cat", "--context", HERE)
    assert code == 0
    assert "1 and" not in printed
    assert "training context" in printed
