"""`satchel senses`: promoted and suppressed words of each sense."""

import json
from pathlib import Path

import pytest

import satchel
from tests.cli.conftest import (
    SMALL,
    Cli,
    json_of,
)


def test_senses_reports_the_promised_keys(cli: Cli, backpack: Path) -> None:
    result = json_of(cli, "senses", backpack, "cat", "dogs", "--top", 5, "--contexts", 2)
    assert [each["word"] for each in result["words"]] == ["cat", "dogs"]
    for each in result["words"]:
        assert [sense["sense"] for sense in each["senses"]] == [0, 1, 2]
        for sense in each["senses"]:
            assert len(sense["promotes"]) == len(sense["suppresses"]) == 5
            assert sense["promotes"][0]["score"] >= sense["promotes"][1]["score"]
            assert sense["suppresses"][0]["score"] <= sense["suppresses"][1]["score"]
    cat, dogs = result["words"]
    assert cat["tokens"] == [" cat"]
    assert len(dogs["tokens"]) > 1
    assert sum(sense["share"] for sense in cat["senses"]) == pytest.approx(1)
    assert all(sense["share"] is None for sense in dogs["senses"])  # the text has no dogs
    assert cat["senses"][0]["contexts"][0]["word"] == " cat"


def test_one_sense_is_printed_with_the_tokens_of_the_word(cli: Cli, backpack: Path) -> None:
    code, printed, messages = cli("senses", backpack, "dogs", "--sense", 1)
    assert code == 0
    assert "dogs (" in printed
    assert "tokens:" in printed
    assert "does not occur in the sampled part of the training data" in messages
    assert len([line for line in printed.split("\n") if line.strip().startswith("1 ")]) == 1


def test_all_senses_go_to_a_file(cli: Cli, backpack: Path, tmp_path: Path) -> None:
    code, _, messages = cli("senses", backpack, "--all", "--top", 2, "-o", tmp_path / "senses.jsonl")
    assert code == 0, messages
    lines = [json.loads(line) for line in (tmp_path / "senses.jsonl").read_text(encoding="utf-8").splitlines()]
    assert len(lines) == satchel.load(backpack).tokenizer.size
    assert all(len(line["senses"]) == 3 for line in lines)


def test_a_run_without_senses_is_an_error(cli: Cli, verse: Path, tmp_path: Path) -> None:
    satchel.train(verse, model="ngram", out=tmp_path / "counted")
    code, _, messages = cli("senses", tmp_path / "counted", "cat")
    assert code == 2
    assert "has no sense vectors (task=lm, model.kind=ngram)" in messages
    assert "--model backpack" in messages


def test_an_unknown_word_is_an_error(cli: Cli, verse: Path, tmp_path: Path) -> None:
    settings = {**SMALL, "training.threads": 1}
    satchel.train(verse, model="backpack", tokenizer="word", steps=2, settings=settings, out=tmp_path / "words")
    code, _, messages = cli("senses", tmp_path / "words", "zebra")
    assert code == 2
    assert "'zebra' is not in the vocabulary" in messages
    result = json_of(cli, "senses", tmp_path / "words", "cat")
    assert result["words"][0]["tokens"] == ["cat"]


def test_senses_of_a_classifier_have_labels_with_scores(cli: Cli, backpack_classifier: Path) -> None:
    (word,) = json_of(cli, "senses", backpack_classifier, "sick")["words"]
    labels = {entry["word"] for entry in word["senses"][0]["promotes"]}
    assert labels == set(satchel.load(backpack_classifier).labels)
    code, printed, _ = cli("senses", backpack_classifier, "sick")
    assert code == 0
    assert "promotes (label and logit)" in printed
    for sense in word["senses"]:
        best, worst = sense["promotes"][0], sense["suppresses"][0]
        assert f"{best['word']} {best['score']:+.3f}" in printed
        assert f"{worst['word']} {worst['score']:+.3f}" in printed


def test_the_chance_level_of_the_coherence_is_printed(cli: Cli, backpack: Path) -> None:
    code, printed, messages = cli("senses", backpack, "cat", "--top", 4)
    assert code == 0
    assert "coherence" in printed
    (word,) = json_of(cli, "senses", backpack, "cat", "--top", 4)["words"]
    chance = word["coherence_chance"]
    assert chance["low"] < chance["mean"] < chance["high"]
    assert f"of random directions {chance['mean']:.2f}" in messages
    assert word["occurrences"] > 1
    for sense in word["senses"]:
        low, high = sense["share_interval"]
        assert 0 <= low <= sense["share"] <= high <= 1
