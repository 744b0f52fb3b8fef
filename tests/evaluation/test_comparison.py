"""Comparison of runs: values, bootstrap intervals, paired differences, units of text, saved tables."""

import csv
import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import satchel
from satchel import api
from satchel.data.tokens import tokenize_pieces
from satchel.datasets.corpora import open_corpus
from satchel.errors import RunError, SettingsError
from satchel.evaluation import reports
from satchel.evaluation.comparison import Comparison, UnitCosts, byte_costs, compare, unit_bytes


def compare_losses(losses: list[np.ndarray[tuple[int], np.dtype[np.float64]]]) -> Comparison:
    """Compare runs with the given losses per unit of 100 bytes."""
    sizes = np.full(len(losses[0]), 100.0)
    names = [f"run {index}" for index in range(len(losses))]
    return compare(names, [UnitCosts(loss, sizes) for loss in losses], "bits_per_byte", 1.0, [])


def test_equal_losses_give_a_difference_of_zero() -> None:
    loss = np.random.default_rng(0).gamma(5, 20, 300)
    (pair,) = compare_losses([loss, loss.copy()]).pairs
    assert (pair.difference, pair.low, pair.high, pair.is_significant) == (0, 0, 0, False)


def test_a_small_improvement_is_significant_with_enough_text_only() -> None:
    rng = np.random.default_rng(1)
    loss = rng.gamma(5, 20, 3000)
    better = loss * 0.99 + rng.normal(0, 10, 3000)
    assert compare_losses([loss, better]).pairs[0].is_significant
    assert not compare_losses([loss[:20], better[:20]]).pairs[0].is_significant


def test_a_paired_difference_can_be_significant_although_the_intervals_overlap() -> None:
    loss = np.random.default_rng(2).gamma(1, 100, 200)
    comparison = compare_losses([loss, loss * 0.97])
    first, second = comparison.rows
    assert first.low < second.high
    assert comparison.pairs[0].is_significant


def test_95_percent_intervals_cover_the_true_value_in_about_95_of_100_cases() -> None:
    rng = np.random.default_rng(3)
    covered = 0
    for _ in range(100):
        row = compare_losses([rng.gamma(4, 25, 150)] * 2).rows[0]
        covered += row.low <= 1.0 <= row.high
    assert 86 <= covered <= 100


@pytest.fixture
def runs(verse: Path, tmp_path: Path) -> list[Path]:
    """Train three models with different tokenizers and return their run folders."""
    folders = []
    for name, tokenizer, order in (("chars", "char", 5), ("bpe", "bpe:300", 3), ("bytes", "byte", 2)):
        satchel.train(verse, model="ngram", tokenizer=tokenizer, settings={"model.order": order}, out=tmp_path / name)
        folders.append(tmp_path / name)
    return folders


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """Return the path of a text that the models are not trained on."""
    path = tmp_path / "new.txt"
    path.write_text("The dog saw the mat.\nThe flat log, the cat; not the dog.\n" * 150)
    return path


@pytest.mark.parametrize("rule", ["stream", "line", "file"])
def test_values_equal_those_of_evaluate_for_every_tokenizer(rule: str, verse: Path, text: Path, tmp_path: Path) -> None:
    runs = []
    for tokenizer in ("char", "bpe:300", "byte"):
        run = tmp_path / f"{tokenizer[:4]}-{rule}"
        satchel.train(
            verse, model="ngram", tokenizer=tokenizer, settings={"data.documents": rule, "model.order": 4}, out=run
        )
        runs.append(run)
    comparison = api.compare(runs, text)
    assert comparison.metric == "bits_per_byte"
    for row, run in zip(comparison.rows, runs, strict=True):
        assert row.value == pytest.approx(satchel.load(run, task="lm").evaluate(text).bits_per_byte, rel=1e-12)
        assert row.low <= row.value <= row.high
    characters = len(text.read_text())
    block = min(1000, characters // 20)
    assert comparison.units == {"stream": -(-characters // block), "line": 300, "file": 1}[rule]


def test_a_short_stream_has_20_blocks_and_a_single_document_has_no_interval(tmp_path: Path) -> None:
    path = tmp_path / "short.txt"
    path.write_text("the cat sat on the mat and " * 20)
    for name, rule in (("a", "stream"), ("b", "stream"), ("c", "file"), ("d", "file")):
        settings = {"model.order": 2 if name in "ac" else 4, "data.documents": rule}
        satchel.train(path, model="ngram", tokenizer="char", settings=settings, out=tmp_path / name)
    blocks = api.compare([tmp_path / "a", tmp_path / "b"], path)
    assert blocks.units == 20
    assert blocks.pairs[0].is_significant
    assert blocks.rows[0].low < blocks.rows[0].value < blocks.rows[0].high
    one = api.compare([tmp_path / "c", tmp_path / "d"], path)
    assert one.units == 1
    assert not one.pairs[0].is_significant
    assert (one.rows[0].low, one.rows[0].high) == (-math.inf, math.inf)


def test_values_are_exact_for_characters_of_several_bytes(tmp_path: Path) -> None:
    path = tmp_path / "greek.txt"
    path.write_text("αβγ δε ζηθ.\n" * 400, encoding="utf-8")
    runs = []
    for tokenizer in ("char", "byte", "bpe:300"):
        satchel.train(
            path, model="ngram", tokenizer=tokenizer, settings={"model.order": 3}, out=tmp_path / tokenizer[:3]
        )
        runs.append(tmp_path / tokenizer[:3])
    comparison = api.compare(runs, path)
    for row, run in zip(comparison.rows, runs, strict=True):
        assert row.value == pytest.approx(satchel.load(run, task="lm").evaluate(path).bits_per_byte, rel=1e-12)


def test_a_copy_of_a_run_has_a_difference_of_zero(runs: list[Path], text: Path, tmp_path: Path) -> None:
    shutil.copytree(runs[0], tmp_path / "copy")
    (pair,) = api.compare([runs[0], tmp_path / "copy"], text).pairs
    assert (pair.difference, pair.low, pair.high) == (0, 0, 0)


def test_lossy_tokenizers_are_compared_per_token_and_only_with_the_same_tokenizer(
    runs: list[Path], verse: Path, text: Path, tmp_path: Path
) -> None:
    satchel.train(verse, model="ngram", tokenizer="word", settings={"model.order": 1}, out=tmp_path / "one")
    satchel.train(verse, model="ngram", tokenizer=tmp_path / "one", settings={"model.order": 3}, out=tmp_path / "three")
    comparison = api.compare([tmp_path / "one", tmp_path / "three"], text)
    assert comparison.metric == "nats_per_token"
    assert comparison.rows[1].value == pytest.approx(
        satchel.load(tmp_path / "three", task="lm").evaluate(text).nats_per_token
    )
    with pytest.raises(RunError, match="no common unit"):
        api.compare([runs[0], tmp_path / "one"], text)


def test_runs_that_differ_only_in_the_seed_are_grouped(verse: Path, text: Path, tmp_path: Path) -> None:
    seed_runs = []
    for seed in (1, 2, 3):
        run = tmp_path / f"seed-{seed}"
        # The seed selects the held-out documents.
        by_line = {"data.documents": "line", "model.order": 3}
        satchel.train(verse, model="ngram", tokenizer="char", valid=0.3, seed=seed, settings=by_line, out=run)
        seed_runs.append(run)
    satchel.train(
        verse,
        model="ngram",
        tokenizer="char",
        settings={"data.documents": "line", "model.order": 2},
        out=tmp_path / "other",
    )
    comparison = api.compare([*seed_runs, tmp_path / "other"], text)
    (group,) = comparison.groups
    assert group.runs == tuple(map(str, seed_runs))
    assert group.mean == pytest.approx(np.mean([row.value for row in comparison.rows[:3]]))


def test_incomparable_runs_are_refused(runs: list[Path], verse: Path, text: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="two or more"):
        api.compare(runs[:1], text)
    satchel.train(verse, model="ngram", tokenizer="char", settings={"data.documents": "line"}, out=tmp_path / "lines")
    with pytest.raises(RunError, match="divide text into documents differently"):
        api.compare([runs[0], tmp_path / "lines"], text)


def test_a_comparison_is_saved_as_csv_markdown_svg_or_latex(runs: list[Path], text: Path, tmp_path: Path) -> None:
    comparison = api.compare(runs, text)
    header = "run,bits_per_byte,low,high,perplexity,parameters,seconds\n"
    for suffix, start in ((".csv", header), (".md", "| run | bits per byte | 95 % CI | perplexity"), (".svg", "<svg")):
        reports.save_comparison(comparison, tmp_path / f"table{suffix}")
        assert (tmp_path / f"table{suffix}").read_text().startswith(start)
    with (tmp_path / "table.csv").open() as handle:
        numbers = [[float(cell) for cell in row[1:]] for row in list(csv.reader(handle))[1:]]
    assert [row[3] for row in numbers] == pytest.approx([row.perplexity for row in comparison.rows], rel=1e-5)
    with pytest.raises(SettingsError, match=r"use \.csv"):
        reports.save_comparison(comparison, tmp_path / "table.doc")


@pytest.mark.parametrize("suffix", [".md", ".tex"])
def test_saved_tables_contain_differences_costs_and_notes(
    suffix: str, runs: list[Path], text: Path, tmp_path: Path
) -> None:
    comparison = api.compare(runs, text)
    reports.save_comparison(comparison, tmp_path / f"table{suffix}")
    written = (tmp_path / f"table{suffix}").read_text().replace("\\", "")
    for row in comparison.rows:
        assert f"{row.perplexity:,.2f}" in written
        assert f"{row.parameters:,}" in written
        assert f"{row.seconds:,.1f} s" in written
    for pair in comparison.pairs:
        assert f"{pair.a} - {pair.b}" in written.replace("_", "_")
        assert f"{pair.difference:+.4f}" in written
    assert "lower is better; paired bootstrap over" in written
    assert "the tokenizers differ" in written


def test_the_costs_of_a_run_are_those_of_its_folder(runs: list[Path], text: Path, tmp_path: Path) -> None:
    satchel.mix([runs[0], runs[0]], tmp_path / "mix", text)
    comparison = api.compare([*runs, tmp_path / "mix"], text)
    for row, run in zip(comparison.rows, runs, strict=False):
        table: Any = satchel.load(run, task="lm").predictor
        assert row.parameters == table.parameters
        assert row.seconds == json.loads((run / "metrics.jsonl").read_text())["seconds"]
        assert row.perplexity == pytest.approx(satchel.load(run, task="lm").evaluate(text).perplexity, rel=1e-12)
    assert comparison.rows[-1].parameters == 2 * (comparison.rows[0].parameters or 0)
    assert comparison.rows[-1].seconds is None


def test_runs_with_other_labels_get_a_warning_and_runs_without_common_labels_are_refused(tmp_path: Path) -> None:
    for name, labels in {"ab": "aabb", "abc": "abca", "xy": "xyxy"}.items():
        rows = "".join(f"{label}\tword {label} {number}\n" for number, label in enumerate(labels))
        (tmp_path / f"{name}.tsv").write_text(f"label\ttext\n{rows}")
        satchel.train(tmp_path / f"{name}.tsv", model="ngram", tokenizer="word", out=tmp_path / name)
    comparison = api.compare([tmp_path / "ab", tmp_path / "abc"], tmp_path / "abc.tsv")
    assert comparison.warnings == (f"{tmp_path / 'ab'} cannot predict c: such rows count as its errors",)
    assert comparison.rows[0].perplexity is None
    assert api.compare([tmp_path / "ab", tmp_path / "ab"], tmp_path / "ab.tsv").warnings == ()
    with pytest.raises(RunError, match="no label in common"):
        api.compare([tmp_path / "ab", tmp_path / "xy"], tmp_path / "ab.tsv")


def test_csv_cells_that_look_like_formulas_are_quoted(tmp_path: Path) -> None:
    loss = np.ones(3)
    comparison = compare(["=SUM(A1)", "-x"], [UnitCosts(loss, loss)] * 2, "bits_per_byte", 1.0, [])
    reports.save_comparison(comparison, tmp_path / "table.csv")
    assert (tmp_path / "table.csv").read_text().splitlines()[1].startswith("'=SUM")
    assert (tmp_path / "table.csv").read_text().splitlines()[2].startswith("'-x")


def test_the_loss_of_a_token_counts_for_the_block_in_which_the_token_begins(
    verse: Path, text: Path, tmp_path: Path
) -> None:
    model = satchel.train(
        verse, model="ngram", tokenizer="char", settings={"model.order": 3}, out=tmp_path / "run", task="lm"
    )
    corpus = open_corpus(text, model.settings.data)
    tokens = tokenize_pieces(corpus.pieces("stream"), model.tokenizer, "stream")
    costs = byte_costs(model.predictor, model.tokenizer, tokens, unit_bytes(corpus, "stream"))
    logprobs = model.predictor.score(tokens.ids).logprobs
    block = len(logprobs) // 20
    expected = [-logprobs[start : start + block].sum() for start in range(0, len(logprobs), block)]
    assert costs.nats == pytest.approx(expected, rel=1e-12)
    assert costs.sizes.tolist() == [float(block)] * (len(expected) - 1) + [len(logprobs) % block]


@pytest.mark.parametrize(("rule", "tokenizer"), [("stream", "char"), ("line", "bpe:300"), ("line", "word")])
def test_without_data_the_runs_are_compared_on_their_held_out_text(
    rule: str, tokenizer: str, verse: Path, tmp_path: Path
) -> None:
    settings = {"data.documents": rule, "model.order": 2}
    satchel.train(verse, model="ngram", tokenizer=tokenizer, valid=0.2, settings=settings, out=tmp_path / "two")
    settings["model.order"] = 4
    satchel.train(verse, model="ngram", tokenizer=tmp_path / "two", valid=0.2, settings=settings, out=tmp_path / "four")
    comparison = api.compare([tmp_path / "two", tmp_path / "four"])
    for row, name in zip(comparison.rows, ("two", "four"), strict=True):
        valid = satchel.load(tmp_path / name, task="lm").evaluate()
        expected = valid.nats_per_token if comparison.metric == "nats_per_token" else valid.bits_per_byte
        assert row.value == pytest.approx(expected, rel=1e-12)
    satchel.train(
        verse, model="ngram", tokenizer=tmp_path / "two", valid=0.3, settings=settings, out=tmp_path / "other"
    )
    with pytest.raises(RunError, match="different held-out texts"):
        api.compare([tmp_path / "two", tmp_path / "other"])


@pytest.mark.parametrize("rule", ["stream", "line"])
def test_a_mix_without_data_fits_on_half_of_the_held_out_text_and_evaluates_on_the_other(
    rule: str, verse: Path, tmp_path: Path
) -> None:
    lines = verse.read_text().split("\n")
    halves = {"first": "\n".join(lines[:30]), "second": "\n".join(lines[30:60])}
    for name, text in halves.items():
        (tmp_path / f"{name}.txt").write_text(f"{text}\n" if rule == "line" else text)
    (tmp_path / "both.txt").write_text("\n".join(halves.values()) if rule == "line" else "".join(halves.values()))
    for order in (1, 3):
        api.train(
            verse,
            model="ngram",
            tokenizer="char",
            valid=str(tmp_path / "both.txt"),
            settings={"data.documents": rule, "model.order": order},
            out=tmp_path / str(order),
        )
    runs = [tmp_path / "1", tmp_path / "3"]
    _, report = api.mix(runs, tmp_path / "mix")
    _, expected = api.mix(runs, tmp_path / "expected", tmp_path / "first.txt")
    # Held-out text is split at the middle token or document, which is close to the middle line.
    assert report.weights == pytest.approx(expected.weights, abs=0.02)
    assert (report.is_new, expected.is_new) == (True, False)
    second = satchel.load(runs[1], task="lm").evaluate(tmp_path / "second.txt")
    assert report.alone[1].nats_per_token == pytest.approx(second.nats_per_token, abs=0.05)
    assert report.alone[1].bits_per_byte == pytest.approx(second.bits_per_byte, abs=0.05)
    assert abs(report.alone[1].tokens - second.tokens) <= 40
