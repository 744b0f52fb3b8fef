"""Regression tests of loss and accuracy on real data."""

from pathlib import Path

import pytest

import satchel


def test_loss_of_a_character_7_gram_on_tiny_shakespeare(shared: Path, tmp_path: Path) -> None:
    text = shared / "tiny-shakespeare" / "input.txt"
    model = satchel.train(
        text, model="ngram", tokenizer="char", valid=0.1, settings={"model.order": 7}, out=tmp_path / "run", task="lm"
    )
    result = model.evaluate()
    assert result.tokens == 111_540
    assert result.nats_per_token <= 1.517


def test_perplexity_of_a_character_8_gram_on_text8_small(shared: Path, tmp_path: Path) -> None:
    folder = shared / "text8-small"
    model = satchel.train(
        folder / "text8-100k.txt",
        model="ngram",
        tokenizer="char",
        settings={"model.order": 8},
        out=tmp_path / "run",
        task="lm",
    )
    assert model.evaluate(folder / "text8-dev.txt").perplexity <= 3.83
    assert model.evaluate(folder / "text8-test.txt").perplexity <= 6.1


def test_perplexity_of_a_word_trigram_model_on_wikitext_2_equals_that_of_kenlm(shared: Path, tmp_path: Path) -> None:
    folder = shared / "wikitext-2"
    settings = {"model.order": 3, "data.documents": "line"}
    model = satchel.train(
        folder / "wiki.train.tokens.gz",
        model="ngram",
        tokenizer="word",
        settings=settings,
        out=tmp_path / "run",
        task="lm",
    )
    result = model.evaluate(folder / "wiki.test.tokens.gz")
    assert (result.tokens, result.unknown) == (244_102, 0)
    assert result.perplexity == pytest.approx(230.89, abs=0.005)


@pytest.mark.slow
def test_accuracy_and_calibration_of_the_imdb_ngram_recipe(shared: Path, tmp_path: Path) -> None:
    model = satchel.train(shared / "imdb" / "train.tsv.gz", recipe="imdb-ngram", out=tmp_path / "run", task="classify")
    result = model.evaluate(shared / "imdb" / "test.tsv.gz")
    assert result.examples == 25_000
    assert result.accuracy >= 0.865
    assert result.expected_error < 0.03


def test_accuracy_and_calibration_of_word_unigrams_on_sst2(shared: Path, tmp_path: Path) -> None:
    for part in ("train", "test"):
        rows = (shared / "sst2" / f"stsa.binary.{part}").read_text(encoding="utf-8").rstrip("\n").split("\n")
        lines = [f"{row[0]}\t{row[2:]}\n" for row in rows]
        (tmp_path / f"{part}.tsv").write_text("label\ttext\n" + "".join(lines), encoding="utf-8")
    settings = {"model.order": 1}
    model = satchel.train(
        tmp_path / "train.tsv",
        model="ngram",
        tokenizer="word",
        settings=settings,
        out=tmp_path / "run",
        task="classify",
    )
    result = model.evaluate(tmp_path / "test.tsv")
    assert result.examples == 1821
    assert result.accuracy >= 0.8
    assert result.expected_error < 0.05
