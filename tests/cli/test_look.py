"""`satchel look` and `report`: every view in the terminal, as JSON and as a picture; what cannot be is told."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import satchel
from tests.cli.conftest import Cli, answer
from tests.conftest import VERSE

SMALL: dict[str, Any] = {"model.width": 16, "model.layers": 2, "model.heads": 2, "model.context": 32}
TEXT = "the cat sat"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run of every task, trained for a moment."""
    folder = tmp_path_factory.mktemp("views")
    (folder / "verse.txt").write_text(VERSE * 20, encoding="utf-8")
    verse = folder / "verse.txt"
    common: dict[str, Any] = {"training.threads": 1, **SMALL, "training.evaluate_every": 3}
    lm: dict[str, Any] = {"tokenizer": "word", "steps": 6}
    satchel.train(verse, model="ngram", tokenizer="word", out=folder / "ngram", valid=0.1)
    satchel.train(verse, model="transformer", settings=common, out=folder / "transformer", valid=0.1, **lm)
    senses = {**common, "model.senses": 3}
    satchel.train(verse, model="backpack", settings=senses, out=folder / "backpack", valid=0.1, **lm)
    satchel.train("@counting", steps=2, settings={**common, "data.size": 60}, out=folder / "tagger")
    pairs = {**common, "data.size": 60, "model.context": 64}
    satchel.train("@reverse", steps=2, settings=pairs, out=folder / "translator")
    return {path.name: path for path in folder.iterdir() if path.is_dir()}


# --- in the terminal ---------------------------------------------------------------------------------------


def test_attention_is_drawn_with_words_and_shades(cli: Cli, runs: dict[str, Path]) -> None:
    code, printed, said = cli("look", "attention", runs["transformer"], TEXT)
    assert code == 0, said
    assert "the mean of all heads" in printed
    rows = [line for line in printed.split("\n") if re.match(r"\s*(<start>|the|cat|sat) ", line)]
    assert len(rows) == 4
    assert "█" in rows[0]
    assert "2 layers of 2 heads" in said
    code, printed, _ = cli("look", "attention", runs["transformer"], TEXT, "--layer", 1, "--head", 0)
    assert (code, "layer 1, head 0" in printed) == (0, True)


def test_surprise_stands_below_each_token(cli: Cli, runs: dict[str, Path]) -> None:
    for name in ("ngram", "transformer"):
        code, printed, said = cli("look", "surprise", runs[name], TEXT)
        assert (code, "in the mean of 3" in said) == (0, True)
        bits = -satchel.load(runs[name]).score(TEXT).logprobs / np.log(2)
        assert printed.split("\n")[1].split() == [f"{value:.1f}" for value in bits]


def test_orders_and_layers_and_curves_are_told(cli: Cli, runs: dict[str, Path]) -> None:
    code, printed, _ = cli("look", "order", runs["ngram"], TEXT)
    assert (code, printed.split("\n")[0].split()) == (0, ["the", "cat", "sat"])
    code, printed, said = cli("look", "lens", runs["transformer"], TEXT)
    assert code == 0, said
    assert all(word in printed for word in ("embedded", "blocks.0", "blocks.1", "cat"))
    code, printed, _ = cli("look", "training", f"{runs['transformer']},{runs['backpack']}")
    assert (code, printed.count("nats, held out:")) == (0, 2)  # words without their spaces have no bytes


def test_attributions_are_told_with_the_check_and_what_is_exact(cli: Cli, runs: dict[str, Path]) -> None:
    code, printed, said = cli("look", "attribution", runs["backpack"], TEXT, "--target", "on", "--versus", "mat")
    assert code == 0, said
    assert all(word in printed for word in ("occlusion", "gradient", "integrated", "exact", "on rather than mat"))
    assert "rank correlation with what is exact" in said
    code, other, said = cli("look", "attribution", runs["backpack"], TEXT, "--target", "on", "--instead", "words")
    assert (code, other != printed) == (0, True), said
    code, printed, said = cli("look", "attribution", runs["tagger"], "a cat", "--target", "1", "--method", "occlusion")
    assert code == 0, said
    assert "gradient" not in printed


def test_words_stand_on_a_map(cli: Cli, runs: dict[str, Path]) -> None:
    code, printed, said = cli("look", "embeddings", runs["transformer"], "--top", 5)
    assert code == 0, said
    assert "directions in which they differ most" in printed
    code, printed, _ = cli("look", "embeddings", runs["backpack"], "cat mat sat", "--sense", 1)
    assert (code, "sense 1" in printed) == (0, True)


def test_heads_are_ranked_by_pattern_and_by_what_they_are_worth(
    cli: Cli, runs: dict[str, Path], tmp_path: Path
) -> None:
    (tmp_path / "lines.txt").write_text("the cat sat on the mat\n\nthe cat\n")
    run = runs["transformer"]
    code, printed, said = cli("look", "patterns", run, "--data", tmp_path / "lines.txt", "--pattern", "previous,first")
    assert (code, "in 2 texts" in said) == (0, True), said
    assert printed.count("previous") == printed.count("first") == 3
    found = answer(cli, "look", "patterns", run, "--data", tmp_path / "lines.txt")
    best = max(row["weight"] for row in found["heads"] if row["pattern"] == "previous")
    assert best == next(row["weight"] for row in found["heads"] if row["pattern"] == "previous")
    code, printed, said = cli("look", "ablation", run)
    assert (code, "with all heads" in said) == (0, True), said
    costs = answer(cli, "look", "ablation", runs["tagger"])
    assert costs["measure"] == "accuracy"
    assert [(row["layer"], row["head"]) for row in costs["heads"]] == [(0, 0), (0, 1), (1, 0), (1, 1)]


# --- numbers and pictures ----------------------------------------------------------------------------------


def test_numbers_are_those_of_the_trace(cli: Cli, runs: dict[str, Path]) -> None:
    found = answer(cli, "look", "attention", runs["transformer"], TEXT)
    trace = satchel.load(runs["transformer"]).trace(TEXT)
    assert found["rows"] == found["columns"] == list(trace.tokens)
    assert [(each["layer"], each["head"]) for each in found["maps"]] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    np.testing.assert_allclose(found["maps"][3]["weights"], trace.attention[1, 1])
    (one,) = answer(cli, "look", "attention", runs["transformer"], TEXT, "--layer", 1, "--head", 1)["maps"]
    assert one == found["maps"][3]
    told = answer(cli, "look", "surprise", runs["transformer"], TEXT)
    np.testing.assert_allclose(told["bits"], trace.surprise / np.log(2))
    layers = answer(cli, "look", "lens", runs["transformer"], TEXT)
    assert layers["layers"] == ["embedded", "blocks.0.output", "blocks.1.output"]
    points = answer(cli, "look", "embeddings", runs["transformer"], "cat mat")["points"]
    assert [point["word"] for point in points] == ["cat", "mat"]
    curve = answer(cli, "look", "training", runs["transformer"])["curves"][0]
    assert [step for step, _ in curve["points"]] == [3, 6]


def test_a_translators_maps_are_of_source_target_and_between(cli: Cli, runs: dict[str, Path]) -> None:
    run = runs["translator"]
    cross = answer(cli, "look", "attention", run, "abcde", "--target", "edcba", "--which", "cross")
    assert cross["rows"] == ["<start>", *"edcba"]
    assert cross["columns"] == [*"abcde", "<end>"]
    again = answer(cli, "look", "attention", run, "edcba", "--source", "abcde", "--which", "cross")
    assert again == cross
    source = answer(cli, "look", "attention", run, "abcde", "--target", "edcba", "--which", "source")
    assert source["rows"] == source["columns"] == [*"abcde", "<end>"]


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
    code, _, said = cli("look", view, runs[name], *others, "-o", out, "--theme", "dark", "--width", "600px")
    assert (code, f"drew {out}" in said) == (0, True), said
    assert out.read_text(encoding="utf-8").startswith("<svg")


def test_a_report_is_one_page_that_asks_for_nothing(cli: Cli, runs: dict[str, Path], tmp_path: Path) -> None:
    for name, run in runs.items():
        out = tmp_path / f"{name}.html"
        code, _, said = cli("report", run, "-o", out)
        assert code == 0, said
        page = out.read_text(encoding="utf-8")
        assert "What it is" in page
        assert not re.search(r"(src|href)\s*=\s*[\"']?https?:", page)
        assert ("Senses" in page) == (name == "backpack")
        assert ('id="attention"' in page) == (name in ("transformer", "backpack", "tagger", "translator"))
        assert ('id="surprise"' in page) == (name in ("ngram", "transformer", "backpack"))


# --- what cannot be ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("transformer", ["nothing", TEXT], "there is attention, surprise"),
        ("transformer", ["attention", TEXT, "--layer", "9"], "found layers 0 to 1"),
        ("transformer", ["attention", TEXT, "--head", "1"], "give --layer too"),
        ("transformer", ["attention", TEXT, "--form", "pie"], "expected matrix, lines, grid"),
        ("transformer", ["attention", TEXT, "--target", "mat"], "a target is for translators"),
        ("transformer", ["surprise", TEXT, "--versus", "mat"], "--versus is not for surprise"),
        ("transformer", ["attention", TEXT, "-o", "map.bmp"], "unsupported file extension '.bmp'"),
        ("transformer", ["attention", TEXT, "-o", "map.svg", "--width", "wide"], "invalid figure width wide"),
        ("transformer", ["attention", TEXT, "-o", "map.svg", "--theme", "pink"], "pink"),
        ("transformer", ["contributions", TEXT], "is no Backpack"),
        ("transformer", ["order", TEXT], "stands on no n-gram"),
        ("transformer", ["patterns", TEXT, "--pattern", "stripes"], "stripes"),
        ("transformer", ["attribution", TEXT, "--instead", "zeros"], "expected mean, words"),
        ("ngram", ["attention", TEXT], "does not look at anything"),
        ("ngram", ["embeddings"], "has no vectors"),
        ("backpack", ["lens", TEXT], "of a Backpack look at contributions"),
        ("tagger", ["attribution", "a cat", "--target", "cat"], "counted from 0, and its tag"),
    ],
)
def test_what_cannot_be_looked_at_is_told(
    cli: Cli,
    runs: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    arguments: list[str],
    told: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    view, *others = arguments
    code, printed, said = cli("look", view, runs[name], *others)
    assert (code, printed) == (2, ""), said
    assert told in said
    assert not list(tmp_path.iterdir())


def test_info_tells_the_sites_that_traces_have(cli: Cli, runs: dict[str, Path]) -> None:
    for name in ("transformer", "backpack", "tagger"):
        told = answer(cli, "info", runs[name])["sites"]
        assert told == list(satchel.load(runs[name]).trace(TEXT).sites)
    code, printed, _ = cli("info", runs["transformer"])
    assert (code, "blocks.0-1.attention.weights" in printed) == (0, True)
    assert "sites" not in answer(cli, "info", runs["ngram"])
