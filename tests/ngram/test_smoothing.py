"""Smoothing: equality with a reference implementation in exact fractions, and normalised distributions."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from satchel.config import build
from satchel.errors import SettingsError
from satchel.ngram.smoothing import FALLBACK, NgramSettings, Smoothing, _discounts, estimate
from satchel.ngram.tables import Table
from tests.decoders import next_logprobs, stepwise_logprobs

from .oracle import END, START, Oracle, Token

TOKENS = 3
BOUNDARY = TOKENS
SIZE = TOKENS + 1
SMOOTHINGS: tuple[Smoothing, ...] = ("kneser-ney", "witten-bell", "add-k", "mle")

documents = st.lists(st.lists(st.integers(0, TOKENS - 1), max_size=25), min_size=1, max_size=12)
streams = st.lists(st.integers(0, TOKENS - 1), min_size=1, max_size=120).map(lambda text: [text])


def join(texts: list[list[int]], ends: bool) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the ids of documents, with boundaries between them if `ends`."""
    ids = [BOUNDARY]
    for text in texts:
        ids += [*text, BOUNDARY] if ends else text
    return np.array(ids)


def check_against_oracle(texts: list[list[int]], model: NgramSettings, *, ends: bool) -> None:
    """Compare the distributions after all short contexts and after all contexts in the texts."""
    table = estimate(join(texts, ends), SIZE, model, ends=ends).table
    oracle = Oracle(texts, TOKENS, model.order, model.smoothing, ends=ends, k=Fraction(model.k), prune=model.prune)
    lengths = range(min(model.order, 3))
    contexts: list[tuple[Token, ...]] = [c for n in lengths for c in product(range(TOKENS), repeat=n)]
    contexts += [(START, *context) for context in contexts]
    seen = {gram[:-1] for n in range(2, model.order + 1) for gram in oracle.raw[n] if END not in gram[:-1]}
    for context in [*contexts, *seen]:
        ids = [BOUNDARY if token == START else int(token) for token in context]
        probabilities = table.distribution(table.advance(np.array([ids], np.int64).reshape(1, -1), table.start(1)))[0]
        expected = [oracle.probability(token, context) for token in oracle.events]
        expected += [] if ends else [Fraction(0)]
        assert probabilities == pytest.approx([float(p) for p in expected], rel=1e-12, abs=1e-15)
        assert abs(probabilities.sum() - 1) < 1e-12


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
@settings(max_examples=40, deadline=None)
@given(texts=documents, order=st.integers(1, 5))
def test_models_of_documents_equal_the_oracle(smoothing: Smoothing, texts: list[list[int]], order: int) -> None:
    check_against_oracle(texts, NgramSettings(order=order, smoothing=smoothing, k=0.5), ends=True)


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
@settings(max_examples=30, deadline=None)
@given(texts=streams, order=st.integers(1, 5))
def test_models_of_streams_equal_the_oracle(smoothing: Smoothing, texts: list[list[int]], order: int) -> None:
    check_against_oracle(texts, NgramSettings(order=order, smoothing=smoothing), ends=False)


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
@pytest.mark.parametrize("prune", [(0, 1), (0, 0, 1), (0, 0, 1, 2)])
@settings(max_examples=15, deadline=None)
@given(texts=documents)
def test_pruned_models_equal_the_oracle(smoothing: Smoothing, prune: tuple[int, ...], texts: list[list[int]]) -> None:
    check_against_oracle(texts, NgramSettings(order=4, smoothing=smoothing, prune=prune), ends=True)


def test_a_discount_of_zero_does_not_trigger_the_fallback() -> None:
    # Counts of counts with a second discount of zero; rounding must not make it negative.
    for t1, t2, t3 in ((4, 3, 5), (8, 6, 10), (12, 9, 15)):
        counts = np.repeat([1, 2, 3], [t1, t2, t3])
        assert _discounts(counts).amounts[1] == 0
        assert not _discounts(counts).is_fallback


def zipf(count: int, size: int, seed: int = 0) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return ids with a Zipf distribution; the last id of the vocabulary is the boundary."""
    generator = np.random.default_rng(seed)
    ids = np.minimum(generator.zipf(1.3, count) - 1, size - 1)
    ids[0] = ids[-1] = size - 1
    return ids


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
@pytest.mark.parametrize("order", [1, 2, 5, 10])
def test_the_distribution_after_every_context_sums_to_one(smoothing: Smoothing, order: int) -> None:
    ids = zipf(20_000, 500)
    table = estimate(ids, 500, NgramSettings(order=order, smoothing=smoothing), ends=True).table
    generator = np.random.default_rng(1)
    starts = generator.integers(0, len(ids) - order, 200)
    seen = np.stack([ids[start : start + order - 1] for start in starts])
    unseen = generator.integers(0, 499, seen.shape)
    for contexts in (seen, unseen):
        sums = table.distribution(table.advance(contexts, table.start(len(contexts)))).sum(axis=1)
        assert np.abs(sums - 1).max() < 1e-12


def test_scores_equal_those_of_stepping_through_the_text() -> None:
    ids = zipf(3_000, 60)
    table = estimate(ids, 60, NgramSettings(order=4), ends=True).table
    scores = table.score(ids).logprobs
    np.testing.assert_allclose(stepwise_logprobs(table, ids[:301]), scores[:300], rtol=1e-12)


def test_scores_do_not_depend_on_the_block_size(monkeypatch: pytest.MonkeyPatch) -> None:
    ids = zipf(5_000, 60)
    table = estimate(ids, 60, NgramSettings(order=5), ends=True).table
    in_one_block = table.score(ids)
    monkeypatch.setattr("satchel.ngram.tables.BLOCK", 7)
    blocks = table.score(ids)
    assert np.array_equal(in_one_block.logprobs, blocks.logprobs)
    assert np.array_equal(in_one_block.notes["order"], blocks.notes["order"])


def test_a_batch_gives_the_same_log_probabilities_as_its_rows() -> None:
    ids = zipf(2_000, 40)
    table = estimate(ids, 40, NgramSettings(order=3), ends=True).table
    rows = np.stack([ids[start : start + 6] for start in (10, 200, 777)])
    for row, logprobs in zip(rows, next_logprobs(table, *rows), strict=True):
        assert np.array_equal(next_logprobs(table, row)[0], logprobs)


def test_only_the_last_order_minus_one_tokens_matter() -> None:
    ids = zipf(5_000, 40)
    table = estimate(ids, 40, NgramSettings(order=3), ends=True).table
    short, long, other = next_logprobs(table, [3, 1], [7, 7, 0, 3, 1], [7, 7, 0, 2, 1])
    assert np.array_equal(short, long)
    assert not np.array_equal(long, other)


def test_mle_bigram_probabilities_are_relative_frequencies() -> None:
    # Text "a b a a": a is followed by b, by a and by the end, once each.
    ids = np.array([3, 0, 1, 0, 0, 3])
    table = estimate(ids, 4, NgramSettings(order=2, smoothing="mle"), ends=True).table
    row = table.distribution(table.advance(np.array([[0]]), table.start(1)))[0]
    assert row.tolist() == pytest.approx([1 / 3, 1 / 3, 0, 1 / 3])


def test_the_order_of_a_score_is_that_of_the_longest_known_ngram() -> None:
    ids = np.array([4, 0, 1, 2, 0, 1, 2, 4])
    table = estimate(ids, 5, NgramSettings(order=3), ends=True).table
    assert table.score(np.array([4, 0, 1, 2, 2, 3])).notes["order"].tolist() == [2, 3, 3, 1, 1]


def test_discounts_of_a_small_text_are_the_fallback() -> None:
    large = estimate(zipf(20_000, 500), 500, NgramSettings(order=3), ends=True).discounts
    assert not any(discount.is_fallback for discount in large)
    small = estimate(np.array([3, 0, 1, 2, 3]), 4, NgramSettings(order=2), ends=True).discounts
    assert [discount.amounts for discount in small] == [FALLBACK, FALLBACK]


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
@pytest.mark.parametrize("ends", [True, False])
@pytest.mark.parametrize("prune", [(0,), (0, 0, 1)])
def test_the_training_loss_equals_the_mean_loss_of_the_training_text(
    smoothing: Smoothing, ends: bool, prune: tuple[int, ...]
) -> None:
    ids = zipf(4_000, 50) if ends else np.concatenate([[49], zipf(4_000, 49)[1:-1] % 49])
    for order in (1, 2, 5):
        fitted = estimate(ids, 50, NgramSettings(order=order, smoothing=smoothing, prune=prune), ends=ends)
        with np.errstate(invalid="ignore"):
            loss = -fitted.table.score(ids).logprobs.mean()
        assert fitted.train_loss == pytest.approx(loss, rel=1e-9)


def test_pruning_removes_rare_ngrams_and_keeps_the_contexts_of_the_others() -> None:
    ids = zipf(5_000, 50)
    full = estimate(ids, 50, NgramSettings(order=4), ends=True).table
    pruned = estimate(ids, 50, NgramSettings(order=4, prune=(0, 0, 1)), ends=True).table
    assert pruned.sizes[:2] == full.sizes[:2]
    assert pruned.sizes[2] < full.sizes[2]
    assert pruned.sizes[3] < full.sizes[3]
    for n in range(2, 5):
        assert (pruned.levels[n - 1].keys // 50 < pruned.sizes[n - 2]).all()


@pytest.mark.parametrize("length", [1, 2, 3])
def test_a_text_shorter_than_the_order_gives_a_valid_model(length: int) -> None:
    ids = np.array([3, *range(length)])
    table: Table = estimate(ids, 4, NgramSettings(order=5), ends=False).table
    assert table.distribution(table.start(1)).sum() == pytest.approx(1)
    assert np.isfinite(table.score(ids).logprobs).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"order": 0}, "order: found 0"),
        ({"order": 11}, "order: found 11"),
        ({"order": 2.5}, "order: found 2.5"),
        ({"smoothing": "kneser"}, "smoothing: found"),
        ({"prune": [1, 2]}, "start with 0"),
        ({"prune": [0, 2, 1]}, "non-decreasing"),
        ({"k": 0}, "k: found 0"),
        ({"ordr": 3}, "did you mean order?"),
    ],
)
def test_an_invalid_setting_is_reported_by_name(settings: dict[str, object], message: str) -> None:
    with pytest.raises(SettingsError, match=message.replace("?", r"\?")):
        build(NgramSettings, settings)
