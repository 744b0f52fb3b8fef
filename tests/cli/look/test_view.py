"""All views of `satchel look` as text, JSON and figures."""

from pathlib import Path

import numpy as np
import pytest

import satchel
from tests.cli.conftest import (
    TEXT,
    Cli,
    json_of,
)


def test_orders_layers_and_curves_are_printed(cli: Cli, runs: dict[str, Path]) -> None:
    code, printed, _ = cli("look", "order", runs["ngram"], TEXT)
    assert (code, printed.split("\n")[0].split()) == (0, ["the", "cat", "sat"])
    code, printed, messages = cli("look", "lens", runs["transformer"], TEXT)
    assert code == 0, messages
    assert all(word in printed for word in ("embedding", "layer 0", "layer 1 (output)", "cat"))
    code, printed, _ = cli("look", "training", f"{runs['transformer']},{runs['backpack']}")
    assert (code, printed.count("loss (nats per token):")) == (
        0,
        2,
    )  # bits per byte are not defined for word tokenizers


def test_json_contains_the_numbers_of_the_trace(cli: Cli, runs: dict[str, Path]) -> None:
    result = json_of(cli, "look", "attention", runs["transformer"], TEXT)
    trace = satchel.load(runs["transformer"]).trace(TEXT)
    assert result["rows"] == result["columns"] == list(trace.tokens)
    assert [(each["layer"], each["head"]) for each in result["maps"]] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    np.testing.assert_allclose(result["maps"][3]["weights"], trace.attention[1, 1])
    (one,) = json_of(cli, "look", "attention", runs["transformer"], TEXT, "--layer", 1, "--head", 1)["maps"]
    assert one == result["maps"][3]
    values = json_of(cli, "look", "surprise", runs["transformer"], TEXT)
    np.testing.assert_allclose(values["bits"], trace.surprise / np.log(2))
    layers = json_of(cli, "look", "lens", runs["transformer"], TEXT)
    assert layers["layers"] == ["embedded", "blocks.0.output", "blocks.1.output"]
    assert layers["names"] == ["embedding", "layer 0", "layer 1 (output)"]
    points = json_of(cli, "look", "embeddings", runs["transformer"], "cat mat")["points"]
    assert [point["word"] for point in points] == ["cat", "mat"]
    curve = json_of(cli, "look", "training", runs["transformer"])["curves"][0]
    assert [step for step, _ in curve["points"]] == [3, 6]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("transformer", ["attention", TEXT]),
        ("transformer", ["attention", TEXT, "--form", "grid"]),
        ("transformer", ["attention", TEXT, "--form", "lines", "--layer", "0"]),
        ("transformer", ["surprise", TEXT]),
        ("transformer", ["lens", TEXT]),
        ("transformer", ["embeddings", "--top", "5"]),
        ("transformer", ["training"]),
        ("transformer", ["attribution", TEXT]),
        ("transformer", ["patterns", TEXT]),
        ("transformer", ["ablation"]),
        ("ngram", ["order", TEXT]),
        ("backpack", ["senses", TEXT]),
        ("backpack", ["contributions", TEXT]),
        ("translator", ["alignment", "abcde", "--target", "edcba"]),
    ],
    ids=lambda value: " ".join(value[:1]) if isinstance(value, list) else str(value),
)
def test_every_view_is_drawn(cli: Cli, runs: dict[str, Path], tmp_path: Path, name: str, arguments: list[str]) -> None:
    view, *others = arguments
    out = tmp_path / "picture.svg"
    code, _, messages = cli("look", view, runs[name], *others, "-o", out, "--theme", "dark", "--width", "600px")
    assert (code, f"wrote {out}" in messages) == (0, True), messages
    assert out.read_text(encoding="utf-8").startswith("<svg")
