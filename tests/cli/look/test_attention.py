"""`satchel look attention`: attention weights."""

import re
from pathlib import Path

from tests.cli.conftest import (
    TEXT,
    Cli,
    json_of,
)


def test_attention_weights_are_printed_as_shades(cli: Cli, runs: dict[str, Path]) -> None:
    code, printed, messages = cli("look", "attention", runs["transformer"], TEXT)
    assert code == 0, messages
    assert "mean of all layers and heads" in printed
    rows = [line for line in printed.split("\n") if re.match(r"\s*(<start>|the|cat|sat) ", line)]
    assert len(rows) == 4
    assert "█" in rows[0]
    assert "2 layers with 2 heads each" in messages
    code, printed, _ = cli("look", "attention", runs["transformer"], TEXT, "--layer", 1, "--head", 0)
    assert (code, "layer 1, head 0" in printed) == (0, True)


def test_a_translator_has_encoder_decoder_and_cross_attention(cli: Cli, runs: dict[str, Path]) -> None:
    run = runs["translator"]
    cross = json_of(cli, "look", "attention", run, "abcde", "--target", "edcba", "--which", "cross")
    assert cross["rows"] == ["<start>", *"edcba"]
    assert cross["columns"] == [*"abcde", "<end>"]
    again = json_of(cli, "look", "attention", run, "edcba", "--source", "abcde", "--which", "cross")
    assert again == cross
    source = json_of(cli, "look", "attention", run, "abcde", "--target", "edcba", "--which", "source")
    assert source["rows"] == source["columns"] == [*"abcde", "<end>"]
