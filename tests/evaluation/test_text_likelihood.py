"""Likelihoods of many texts: equal to those of the single texts for every kind of model, in bounded memory."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import satchel
from satchel.evaluation import likelihood
from tests.conftest import VERSE

NETWORK = {"model.width": 16, "model.layers": 1, "training.threads": 1}
HEADS = {**NETWORK, "model.heads": 2, "model.context": 16}
# Arguments of `train` by name; a context of 16 tokens is shorter than the longest texts.
KINDS: dict[str, dict[str, Any]] = {
    "ngram": {"model": "ngram"},
    "transformer": {"model": "transformer", "settings": {**HEADS, "model.ngram": 0}},
    "gate": {"model": "transformer", "settings": {**HEADS, "model.ngram": 3}},
    "unmasked": {"model": "transformer", "settings": {**HEADS, "model.causal": False}},
    "backpack": {"model": "backpack", "settings": {**HEADS, "model.senses": 2}},
    "lstm": {"model": "lstm", "settings": NETWORK},
    "dan": {"model": "dan", "settings": {"model.width": 16, "training.threads": 1}},
    "window": {"model": "window", "settings": {"model.width": 16, "training.threads": 1}},
}
TEXTS = [
    "The cat sat on the mat.", "", "The", "a", "The dog saw the cat, and the cat saw the dog, and the log is flat.",
    "  The\u00a0cät \u732b\U0001f600 sat", "   ", "The cat sat\nThe dog sat\n\nThe log", "The cat sat on the mat.",
    "\ufeffThe",
]  # fmt: skip


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of runs named RULE-KIND, made when `load` needs them."""
    return tmp_path_factory.mktemp("runs")


def load(folder: Path, kind: str, rule: str) -> satchel.LanguageModel:
    out = folder / f"{rule}-{kind}"
    if out.exists():
        return satchel.load(out, task="lm")
    if kind == "mix":
        parts = [load(folder, part, rule).folder for part in ("ngram", "transformer")]
        (folder / "mixed.txt").write_text(VERSE, encoding="utf-8")
        satchel.mix(parts, out, folder / "mixed.txt")
        return satchel.load(out, task="lm")
    text = folder / "verse.txt"
    text.write_text(VERSE * 20, encoding="utf-8")
    options = dict(KINDS[kind])
    steps: dict[str, Any] = {} if kind == "ngram" else {"steps": 3}
    settings = {**options.pop("settings", {}), "data.documents": rule}
    tokenizer = folder / f"{rule}-ngram" if kind == "transformer" else "bpe:280"
    if kind == "transformer":
        load(folder, "ngram", rule)
    satchel.train(text, tokenizer=tokenizer, settings=settings, out=out, **steps, **options)
    return satchel.load(out, task="lm")


@pytest.mark.parametrize("rule", ["stream", "line", "file"])
@pytest.mark.parametrize("kind", [*KINDS, "mix"])
def test_the_likelihood_of_a_text_does_not_depend_on_the_other_texts(kind: str, rule: str, runs: Path) -> None:
    model = load(runs, kind, rule)
    results = list(model.score_texts(TEXTS))
    assert [result.text for result in results] == TEXTS
    for text, result in zip(TEXTS, results, strict=True):
        if (rule == "line" and not text.strip()) or (rule == "stream" and not text):
            assert (result.tokens, result.logprob, result.perplexity, result.bits_per_byte) == (0, 0, None, None)
            continue
        single = model.score(text)
        assert result.tokens == len(single.ids)
        assert result.logprob == pytest.approx(single.total_logprob, rel=1e-6, abs=1e-6)
        assert result.perplexity == pytest.approx(single.perplexity, rel=1e-5)
        if model.sees_targets or not text:
            assert result.bits_per_byte is None
        else:
            # With one document per line, each line that is not blank has a line end.
            size = len(text.encode()) if rule != "line" else len(text.replace("\n\n", "\n").encode()) + 1
            assert result.bytes == size
            assert result.bits_per_byte == pytest.approx(-single.total_logprob / math.log(2) / size, rel=1e-5)


def test_the_sum_over_lines_is_the_likelihood_of_the_file(runs: Path) -> None:
    model = load(runs, "transformer", "line")
    (runs / "lines.txt").write_text(VERSE, encoding="utf-8")
    whole = model.evaluate(runs / "lines.txt")
    results = list(model.score_texts(VERSE.split("\n")))
    assert sum(result.tokens for result in results) == whole.tokens
    assert sum(result.bytes or 0 for result in results) == whole.bytes
    nats = -sum(result.logprob for result in results)
    assert nats / whole.tokens == pytest.approx(whole.nats_per_token, rel=1e-6)


@pytest.mark.parametrize("kind", ["ngram", "transformer", "lstm"])
def test_a_long_text_is_scored_with_short_ones(kind: str, runs: Path) -> None:
    model = load(runs, kind, "stream")
    texts = ["The cat", "The dog sat on the log. " * 4000 + "x" * 4000, "The dog"]
    results = list(model.score_texts(texts))
    assert results[1].bytes == 100_000
    for text, result in zip(texts, results, strict=True):
        assert result.logprob == pytest.approx(model.score(text).total_logprob, rel=1e-6)


def test_a_lossy_tokenizer_gives_no_bits_per_byte(tmp_path: Path) -> None:
    (tmp_path / "verse.txt").write_text(VERSE * 5, encoding="utf-8")
    out = tmp_path / "run"
    model = satchel.train(tmp_path / "verse.txt", task="lm", model="ngram", tokenizer="word", out=out)
    known, unknown, spaces = model.score_texts(["The cat sat", "The zebra sat", "The  cat"])
    assert known.bits_per_byte is not None
    assert (unknown.unknown, unknown.bytes, unknown.bits_per_byte) == (1, None, None)
    assert (spaces.unknown, spaces.bits_per_byte) == (0, None)


@pytest.mark.parametrize("limit", ["TEXTS_AT_ONCE", "CHARACTERS_AT_ONCE"])
def test_a_bounded_number_of_texts_is_read_ahead(limit: str, runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(likelihood, limit, 5)
    model = load(runs, "ngram", "stream")
    numbers: list[int] = []

    def texts() -> Iterator[str]:
        for number in range(100):
            numbers.append(number)
            yield "ab"

    results = model.score_texts(texts())
    for count in range(1, 101):
        next(results)
        assert len(numbers) <= count + 5
    assert next(results, None) is None


def test_bfloat16_rounds_matrix_products(runs: Path) -> None:
    model = load(runs, "transformer", "stream")
    exact = [result.logprob for result in model.score_texts(TEXTS)]
    model.set_precision("bfloat16")
    assert model.score(TEXTS[0]).logprobs.dtype == float
    rounded = [result.logprob for result in model.score_texts(TEXTS)]
    assert rounded != exact
    assert rounded == pytest.approx(exact, rel=0.01)
    model.set_precision("float32")
    assert [result.logprob for result in model.score_texts(TEXTS)] == exact
    assert all(parameter.dtype == torch.float32 for parameter in model.network.parameters())


def test_precision_does_not_apply_to_ngram_models(runs: Path) -> None:
    model = load(runs, "ngram", "stream")
    model.set_precision("float32")
    with pytest.raises(satchel.SatchelError, match="does not apply to n-gram models"):
        model.set_precision("bfloat16")
