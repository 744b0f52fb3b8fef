"""Comparison: the values are those of `evaluate`, intervals cover, and copies never differ."""

import math
import shutil
from pathlib import Path

import numpy as np
import pytest

import satchel
from satchel import api
from satchel.data.tokens import tokenize_corpus
from satchel.datasets.corpora import open_corpus
from satchel.errors import RunError, SettingsError
from satchel.evaluation import reports
from satchel.evaluation.comparison import Comparison, UnitCosts, byte_costs, compare, unit_bytes


def made_up(costs: list[np.ndarray[tuple[int], np.dtype[np.float64]]]) -> Comparison:
    """Compare runs whose costs per unit of 100 bytes are given."""
    sizes = np.full(len(costs[0]), 100.0)
    names = [f"run {index}" for index in range(len(costs))]
    return compare(names, [UnitCosts(cost, sizes) for cost in costs], "bits_per_byte", 1.0, [])


def test_two_copies_of_one_model_never_differ() -> None:
    cost = np.random.default_rng(0).gamma(5, 20, 300)
    (pair,) = made_up([cost, cost.copy()]).pairs
    assert (pair.difference, pair.low, pair.high, pair.is_significant) == (0, 0, 0, False)


def test_a_slightly_better_model_is_told_apart_with_enough_text_and_not_with_too_little() -> None:
    generator = np.random.default_rng(1)
    cost = generator.gamma(5, 20, 3000)
    better = cost * 0.99 + generator.normal(0, 10, 3000)
    assert made_up([cost, better]).pairs[0].is_significant
    assert not made_up([cost[:20], better[:20]]).pairs[0].is_significant


def test_pairing_finds_what_the_intervals_of_the_rows_hide() -> None:
    cost = np.random.default_rng(2).gamma(1, 100, 200)
    found = made_up([cost, cost * 0.97])
    first, second = found.rows
    assert first.low < second.high
    assert found.pairs[0].is_significant


def test_intervals_cover_the_truth_about_as_often_as_they_say() -> None:
    generator = np.random.default_rng(3)
    covered = 0
    for _ in range(100):
        row = made_up([generator.gamma(4, 25, 150)] * 2).rows[0]
        covered += row.low <= 1.0 <= row.high
    assert 86 <= covered <= 100


@pytest.fixture
def runs(verse: Path, tmp_path: Path) -> list[Path]:
    made = []
    for name, tokenizer, order in (("chars", "char", 5), ("pieces", "bpe:300", 3), ("bytes", "byte", 2)):
        satchel.train(verse, model="ngram", tokenizer=tokenizer, settings={"model.order": order}, out=tmp_path / name)
        made.append(tmp_path / name)
    return made


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "new.txt"
    path.write_text("The dog saw the mat.\nThe flat log, the cat; not the dog.\n" * 150)
    return path


@pytest.mark.parametrize("rule", ["stream", "line", "file"])
def test_values_are_those_of_evaluate_whatever_the_tokenizer(
    rule: str, verse: Path, text: Path, tmp_path: Path
) -> None:
    runs = []
    for tokenizer in ("char", "bpe:300", "byte"):
        run = tmp_path / f"{tokenizer[:4]}-{rule}"
        satchel.train(
            verse, model="ngram", tokenizer=tokenizer, settings={"data.documents": rule, "model.order": 4}, out=run
        )
        runs.append(run)
    found = api.compare(runs, text)
    assert found.metric == "bits_per_byte"
    for row, run in zip(found.rows, runs, strict=True):
        assert row.value == pytest.approx(satchel.load(run, task="lm").evaluate(text).bits_per_byte, rel=1e-12)
        assert row.low <= row.value <= row.high
    characters = len(text.read_text())
    block = min(1000, characters // 20)
    assert found.units == {"stream": -(-characters // block), "line": 300, "file": 1}[rule]


def test_of_a_short_text_the_blocks_are_short_and_of_one_document_nothing_is_clear(tmp_path: Path) -> None:
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


def test_characters_of_several_bytes_are_counted_in_their_blocks(tmp_path: Path) -> None:
    path = tmp_path / "greek.txt"
    path.write_text("αβγ δε ζηθ.\n" * 400, encoding="utf-8")
    runs = []
    for tokenizer in ("char", "byte", "bpe:300"):
        satchel.train(
            path, model="ngram", tokenizer=tokenizer, settings={"model.order": 3}, out=tmp_path / tokenizer[:3]
        )
        runs.append(tmp_path / tokenizer[:3])
    found = api.compare(runs, path)
    for row, run in zip(found.rows, runs, strict=True):
        assert row.value == pytest.approx(satchel.load(run, task="lm").evaluate(path).bits_per_byte, rel=1e-12)


def test_copies_of_a_run_do_not_differ(runs: list[Path], text: Path, tmp_path: Path) -> None:
    shutil.copytree(runs[0], tmp_path / "copy")
    (pair,) = api.compare([runs[0], tmp_path / "copy"], text).pairs
    assert (pair.difference, pair.low, pair.high) == (0, 0, 0)


def test_tokenizers_that_lose_text_are_compared_only_with_their_like(
    runs: list[Path], verse: Path, text: Path, tmp_path: Path
) -> None:
    satchel.train(verse, model="ngram", tokenizer="word", settings={"model.order": 1}, out=tmp_path / "one")
    satchel.train(verse, model="ngram", tokenizer=tmp_path / "one", settings={"model.order": 3}, out=tmp_path / "three")
    found = api.compare([tmp_path / "one", tmp_path / "three"], text)
    assert found.metric == "nats_per_token"
    assert found.rows[1].value == pytest.approx(
        satchel.load(tmp_path / "three", task="lm").evaluate(text).nats_per_token
    )
    with pytest.raises(RunError, match="no common unit"):
        api.compare([runs[0], tmp_path / "one"], text)


def test_runs_that_differ_in_their_seed_alone_are_grouped(verse: Path, text: Path, tmp_path: Path) -> None:
    made = []
    for seed in (1, 2, 3):
        run = tmp_path / f"seed-{seed}"
        # With documents, the seed chooses which are held out.
        by_line = {"data.documents": "line", "model.order": 3}
        satchel.train(verse, model="ngram", tokenizer="char", valid=0.3, seed=seed, settings=by_line, out=run)
        made.append(run)
    satchel.train(
        verse,
        model="ngram",
        tokenizer="char",
        settings={"data.documents": "line", "model.order": 2},
        out=tmp_path / "other",
    )
    found = api.compare([*made, tmp_path / "other"], text)
    (group,) = found.groups
    assert group.runs == tuple(map(str, made))
    assert group.mean == pytest.approx(np.mean([row.value for row in found.rows[:3]]))


def test_what_cannot_be_compared_is_told(runs: list[Path], verse: Path, text: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="two or more"):
        api.compare(runs[:1], text)
    satchel.train(verse, model="ngram", tokenizer="char", settings={"data.documents": "line"}, out=tmp_path / "lines")
    with pytest.raises(RunError, match="divide text into documents differently"):
        api.compare([runs[0], tmp_path / "lines"], text)


def test_tables_and_pictures_are_written(runs: list[Path], text: Path, tmp_path: Path) -> None:
    found = api.compare(runs, text)
    for suffix, start in ((".csv", "run,bits_per_byte,low,high\n"), (".md", "| run | bits_per_byte"), (".svg", "<svg")):
        reports.save_comparison(found, tmp_path / f"table{suffix}")
        assert (tmp_path / f"table{suffix}").read_text().startswith(start)
    reports.save_comparison(found, tmp_path / "table.tex")
    assert "bits\\_per\\_byte" in (tmp_path / "table.tex").read_text()
    with pytest.raises(SettingsError, match=r"use \.csv"):
        reports.save_comparison(found, tmp_path / "table.doc")


def test_a_cell_is_never_a_formula(tmp_path: Path) -> None:
    cost = np.ones(3)
    found = compare(["=SUM(A1)", "-x"], [UnitCosts(cost, cost)] * 2, "bits_per_byte", 1.0, [])
    reports.save_comparison(found, tmp_path / "table.csv")
    assert (tmp_path / "table.csv").read_text().splitlines()[1].startswith("'=SUM")
    assert (tmp_path / "table.csv").read_text().splitlines()[2].startswith("'-x")


def test_a_token_belongs_to_the_block_where_it_begins(verse: Path, text: Path, tmp_path: Path) -> None:
    model = satchel.train(
        verse, model="ngram", tokenizer="char", settings={"model.order": 3}, out=tmp_path / "run", task="lm"
    )
    corpus = open_corpus(text, model.settings.data)
    tokens = tokenize_corpus(corpus, model.tokenizer, "stream")
    costs = byte_costs(model.predictor, model.tokenizer, tokens, unit_bytes(corpus, "stream"))
    logprobs = model.predictor.score(tokens.ids).logprobs
    block = len(logprobs) // 20
    wanted = [-logprobs[start : start + block].sum() for start in range(0, len(logprobs), block)]
    assert costs.nats == pytest.approx(wanted, rel=1e-12)
    assert costs.sizes.tolist() == [float(block)] * (len(wanted) - 1) + [len(logprobs) % block]


@pytest.mark.parametrize(("rule", "tokenizer"), [("stream", "char"), ("line", "bpe:300"), ("line", "word")])
def test_without_data_the_runs_are_compared_on_what_they_held_out(
    rule: str, tokenizer: str, verse: Path, tmp_path: Path
) -> None:
    settings = {"data.documents": rule, "model.order": 2}
    satchel.train(verse, model="ngram", tokenizer=tokenizer, valid=0.2, settings=settings, out=tmp_path / "two")
    settings["model.order"] = 4
    satchel.train(verse, model="ngram", tokenizer=tmp_path / "two", valid=0.2, settings=settings, out=tmp_path / "four")
    found = api.compare([tmp_path / "two", tmp_path / "four"])
    for row, name in zip(found.rows, ("two", "four"), strict=True):
        valid = satchel.load(tmp_path / name, task="lm").evaluate()
        expected = valid.nats_per_token if found.metric == "nats_per_token" else valid.bits_per_byte
        assert row.value == pytest.approx(expected, rel=1e-12)
    satchel.train(
        verse, model="ngram", tokenizer=tmp_path / "two", valid=0.3, settings=settings, out=tmp_path / "other"
    )
    with pytest.raises(RunError, match="different held-out texts"):
        api.compare([tmp_path / "two", tmp_path / "other"])


@pytest.mark.parametrize("rule", ["stream", "line"])
def test_a_mix_without_data_learns_on_one_half_and_is_measured_on_the_other(
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
    # The middle is that of the tokens, or of the documents: as good as that of the lines.
    assert report.weights == pytest.approx(expected.weights, abs=0.02)
    assert (report.is_new, expected.is_new) == (True, False)
    second = satchel.load(runs[1], task="lm").evaluate(tmp_path / "second.txt")
    assert report.alone[1].nats_per_token == pytest.approx(second.nats_per_token, abs=0.05)
    assert report.alone[1].bits_per_byte == pytest.approx(second.bits_per_byte, abs=0.05)
    assert abs(report.alone[1].tokens - second.tokens) <= 40
