"""`satchel look training`: validation curves in one unit."""

from pathlib import Path

import pytest

import satchel
from satchel import api
from tests.cli.conftest import SMALL, Cli, json_of


@pytest.fixture(scope="module")
def bpe(verses: Path) -> Path:
    """A language model whose loss is known in bits per byte."""
    out = verses.parent / "bpe"
    settings = {**SMALL, "training.evaluate_every": 2}
    satchel.train(verses, model="transformer", tokenizer="bpe:280", steps=4, valid=0.1, settings=settings, out=out)
    return out


def test_runs_with_different_units_are_refused(cli: Cli, runs: dict[str, Path], bpe: Path) -> None:
    word, tagger = runs["transformer"], runs["tagger"]
    code, printed, messages = cli("look", "training", f"{bpe},{word}")
    assert (code, printed) == (2, "")
    assert f"{bpe}: bits per byte (task lm, bpe tokenizer" in messages
    assert f"{word}: loss (nats per token) (task lm, word tokenizer" in messages
    code, _, messages = cli("look", "training", f"{word},{tagger}")
    assert code == 2
    assert f"{tagger}: loss (nats per tag)" in messages


def test_language_models_are_drawn_in_bits_per_byte(cli: Cli, bpe: Path, tmp_path: Path) -> None:
    result = json_of(cli, "look", "training", f"{bpe},{bpe}")
    assert result["measure"] == "bits per byte"
    counts = satchel.load(bpe).valid_tokens().counts
    measure, nats = satchel.load(bpe).validation_curve(convert=False)
    assert measure == "loss (nats per token)"
    assert result["curves"][0]["points"][-1][1] == pytest.approx(nats[-1][1] / 0.693147 * counts.tokens / counts.bytes)


def test_lossy_runs_with_the_same_tokenizer_are_drawn_in_nats_per_token(runs: dict[str, Path]) -> None:
    measure, curves = api.validation_curves([runs["transformer"], runs["backpack"]])
    assert (measure, len(curves)) == ("loss (nats per token)", 2)


def test_an_ngram_model_without_held_out_data_has_no_curve(cli: Cli, verses: Path, tmp_path: Path) -> None:
    satchel.train(verses, model="ngram", out=tmp_path / "ngram")
    code, _, messages = cli("look", "training", tmp_path / "ngram")
    assert code == 2
    assert "model.kind=ngram is not trained in steps" in messages
