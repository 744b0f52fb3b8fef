"""`satchel look attention`: attention weights."""

import re
from pathlib import Path

import numpy as np
import pytest

import satchel
from tests.cli.conftest import (
    TEXT,
    Cli,
    json_of,
)


def test_attention_weights_of_one_head_are_printed_as_shades(cli: Cli, runs: dict[str, Path]) -> None:
    code, printed, messages = cli("look", "attention", runs["transformer"], TEXT)
    assert code == 0, messages
    chosen = json_of(cli, "look", "attention", runs["transformer"], TEXT)["chosen"]
    assert f"Self-attention weights, layer {chosen['layer']}, head {chosen['head']};" in printed
    assert f"layer {chosen['layer']}, head {chosen['head']} is shown first: lowest mean entropy" in messages
    rows = [line for line in printed.split("\n") if re.match(r"\s*(<start>|the|cat|sat) ", line)]
    assert len(rows) == 4
    assert "█" in rows[1] + rows[2] + rows[3]
    assert "2 layers with 2 heads" in messages
    code, printed, messages = cli("look", "attention", runs["transformer"], TEXT, "--layer", 1, "--head", 0)
    assert (code, "layer 1, head 0" in printed, "is shown first" in messages) == (0, True, False)
    code, printed, _ = cli("look", "attention", runs["transformer"], TEXT, "--mean")
    assert (code, "mean over layers, mean over heads" in printed) == (0, True)


def test_the_default_head_has_the_clearest_pattern(cli: Cli, runs: dict[str, Path], tmp_path: Path) -> None:
    text = "the cat sat on the mat . the dog saw the cat ."
    result = json_of(cli, "look", "attention", runs["transformer"], text)
    fits = json_of(cli, "look", "patterns", runs["transformer"], text)["heads"]
    rows = [row for row in fits if row["pattern"] not in ("first", "new") and row["queries"] >= 10]
    best = max(rows, key=lambda row: row["weight"] / row["chance"])
    chosen = result["chosen"]
    assert all(chosen[key] == pytest.approx(best[key]) for key in ("layer", "head", "weight", "chance", "queries"))
    assert chosen["pattern"] in chosen["reason"]
    assert len(result["maps"]) == 4
    mean = json_of(cli, "look", "attention", runs["transformer"], text, "--mean")
    np.testing.assert_allclose(mean["mean"], np.mean([each["weights"] for each in mean["maps"]], axis=0), atol=1e-6)
    cli("look", "attention", runs["transformer"], text, "-o", tmp_path / "map.svg")
    svg = (tmp_path / "map.svg").read_text(encoding="utf-8")
    assert f"layer {best['layer']}, head {best['head']} is shown first" in svg


def test_titles_name_the_part_of_a_backpack(cli: Cli, runs: dict[str, Path]) -> None:
    code, printed, messages = cli("look", "attention", runs["backpack"], TEXT)
    assert code == 0, messages
    assert "Self-attention weights, contextualiser layer " in printed
    code, printed, _ = cli("look", "attention", runs["backpack"], TEXT, "--which", "senses", "--head", 1)
    assert "Sense attention weights, sense attention, sense 1" in printed
    weights = json_of(cli, "look", "attention", runs["backpack"], TEXT, "--which", "senses")["maps"]
    trace = satchel.load(runs["backpack"]).trace(TEXT)
    np.testing.assert_allclose([each["weights"] for each in weights], trace.sense_weights)


def test_a_model_without_the_attention_lists_the_attention_that_it_has(cli: Cli, runs: dict[str, Path]) -> None:
    code, _, messages = cli("look", "attention", runs["transformer"], TEXT, "--which", "senses")
    assert (code, "it has attention of: own" in messages) == (2, True)
    code, _, messages = cli("look", "attention", runs["transformer"], TEXT, "--which", "other")
    assert (code, "expected own, source, cross, senses" in messages) == (2, True)
    code, _, messages = cli("look", "attention", runs["transformer"], TEXT, "--mean", "--form", "lines")
    assert (code, "--mean and --form lines" in messages) == (2, True)


def test_a_translator_has_encoder_decoder_and_cross_attention(cli: Cli, runs: dict[str, Path]) -> None:
    run = runs["translator"]
    cross = json_of(cli, "look", "attention", run, "abcde", "--target", "edcba", "--which", "cross")
    assert cross["rows"] == ["<start>", *"edcba"]
    assert cross["columns"] == [*"abcde", "<end>"]
    again = json_of(cli, "look", "attention", run, "edcba", "--source", "abcde", "--which", "cross")
    assert again == cross
    source = json_of(cli, "look", "attention", run, "abcde", "--target", "edcba", "--which", "source")
    assert source["rows"] == source["columns"] == [*"abcde", "<end>"]
