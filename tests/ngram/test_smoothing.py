"""Estimation is exact: it equals an oracle in fractions, and every distribution sums to one."""

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

from .oracle import END, START, Oracle, Token

TOKENS = 3
BOUNDARY = TOKENS
SIZE = TOKENS + 1
SMOOTHINGS: tuple[Smoothing, ...] = ("kneser-ney", "witten-bell", "add-k", "mle")

documents = st.lists(st.lists(st.integers(0, TOKENS - 1), max_size=25), min_size=1, max_size=12)
streams = st.lists(st.integers(0, TOKENS - 1), min_size=1, max_size=120).map(lambda text: [text])


def flat(texts: list[list[int]], ends: bool) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return documents as one text of ids."""
    ids = [BOUNDARY]
    for text in texts:
        ids += [*text, BOUNDARY] if ends else text
    return np.array(ids)


def check_against_oracle(texts: list[list[int]], model: NgramSettings, *, ends: bool) -> None:
    table = estimate(flat(texts, ends), SIZE, model, ends=ends).table
    oracle = Oracle(texts, TOKENS, model.order, model.smoothing, ends=ends, k=Fraction(model.k), prune=model.prune)
    lengths = range(min(model.order, 3))
    contexts: list[tuple[Token, ...]] = [c for n in lengths for c in product(range(TOKENS), repeat=n)]
    contexts += [(START, *context) for context in contexts]
    seen = {gram[:-1] for n in range(2, model.order + 1) for gram in oracle.raw[n] if END not in gram[:-1]}
    for context in [*contexts, *seen]:
        ids = [BOUNDARY if token == START else int(token) for token in context]
        answered = table.distribution(table.advance(np.array([ids], np.int64).reshape(1, -1), table.start(1)))[0]
        wanted = [oracle.probability(token, context) for token in oracle.events]
        wanted += [] if ends else [Fraction(0)]
        assert answered == pytest.approx([float(p) for p in wanted], rel=1e-12, abs=1e-15)
        assert abs(answered.sum() - 1) < 1e-12


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
@settings(max_examples=40, deadline=None)
@given(texts=documents, order=st.integers(1, 5))
def test_documents_equal_the_oracle(smoothing: Smoothing, texts: list[list[int]], order: int) -> None:
    check_against_oracle(texts, NgramSettings(order=order, smoothing=smoothing, k=0.5), ends=True)


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
@settings(max_examples=30, deadline=None)
@given(texts=streams, order=st.integers(1, 5))
def test_streams_equal_the_oracle(smoothing: Smoothing, texts: list[list[int]], order: int) -> None:
    check_against_oracle(texts, NgramSettings(order=order, smoothing=smoothing), ends=False)


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
@pytest.mark.parametrize("prune", [(0, 1), (0, 0, 1), (0, 0, 1, 2)])
@settings(max_examples=15, deadline=None)
@given(texts=documents)
def test_pruned_models_equal_the_oracle(smoothing: Smoothing, prune: tuple[int, ...], texts: list[list[int]]) -> None:
    check_against_oracle(texts, NgramSettings(order=4, smoothing=smoothing, prune=prune), ends=True)


def test_a_discount_of_exactly_nothing_is_a_discount() -> None:
    # Counts of counts for which the second discount is zero; in floating point it came out just below.
    for t1, t2, t3 in ((4, 3, 5), (8, 6, 10), (12, 9, 15)):
        counts = np.repeat([1, 2, 3], [t1, t2, t3])
        assert _discounts(counts).amounts[1] == 0
        assert not _discounts(counts).is_fallback


def zipf(count: int, size: int, seed: int = 0) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return a text of ids with many rare and few common ones, and now and then a boundary."""
    generator = np.random.default_rng(seed)
    ids = np.minimum(generator.zipf(1.3, count) - 1, size - 1)
    ids[0] = ids[-1] = size - 1
    return ids


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
@pytest.mark.parametrize("order", [1, 2, 5, 10])
def test_every_context_sums_to_one(smoothing: Smoothing, order: int) -> None:
    ids = zipf(20_000, 500)
    table = estimate(ids, 500, NgramSettings(order=order, smoothing=smoothing), ends=True).table
    generator = np.random.default_rng(1)
    starts = generator.integers(0, len(ids) - order, 200)
    seen = np.stack([ids[start : start + order - 1] for start in starts])
    unseen = generator.integers(0, 499, seen.shape)
    for contexts in (seen, unseen):
        sums = table.distribution(table.advance(contexts, table.start(len(contexts)))).sum(axis=1)
        assert np.abs(sums - 1).max() < 1e-12


def test_scores_are_what_stepping_through_the_text_gives() -> None:
    ids = zipf(3_000, 60)
    table = estimate(ids, 60, NgramSettings(order=4), ends=True).table
    scores = table.score(ids).logprobs
    state = table.start(1)
    for place in range(300):
        logprobs, state = table.step(ids[None, place : place + 1], state)
        assert logprobs[0, ids[place + 1]] == pytest.approx(scores[place], rel=1e-12)


def test_long_texts_are_scored_in_blocks_that_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    ids = zipf(5_000, 60)
    table = estimate(ids, 60, NgramSettings(order=5), ends=True).table
    whole = table.score(ids)
    monkeypatch.setattr("satchel.ngram.tables.BLOCK", 7)
    blocks = table.score(ids)
    assert np.array_equal(whole.logprobs, blocks.logprobs)
    assert np.array_equal(whole.notes["order"], blocks.notes["order"])


def test_a_sequence_costs_the_sum_of_its_steps_and_a_batch_what_its_rows_cost() -> None:
    ids = zipf(2_000, 40)
    table = estimate(ids, 40, NgramSettings(order=3), ends=True).table
    rows = np.stack([ids[start : start + 6] for start in (10, 200, 777)])
    together, _ = table.step(rows, table.start(3))
    for row, logprobs in zip(rows, together, strict=True):
        alone, _ = table.step(row[None], table.start(1))
        assert np.array_equal(alone[0], logprobs)


def test_only_the_last_order_minus_one_tokens_matter() -> None:
    ids = zipf(5_000, 40)
    table = estimate(ids, 40, NgramSettings(order=3), ends=True).table
    short, _ = table.step(np.array([[3, 1]]), table.start(1))
    long, _ = table.step(np.array([[7, 7, 0, 3, 1]]), table.start(1))
    assert np.array_equal(short, long)
    other, _ = table.step(np.array([[7, 7, 0, 2, 1]]), table.start(1))
    assert not np.array_equal(long, other)


def test_a_bigram_row_by_plain_counting_is_counts_over_their_sum() -> None:
    # a b a a | : after a come b, a and the end, once each.
    ids = np.array([3, 0, 1, 0, 0, 3])
    table = estimate(ids, 4, NgramSettings(order=2, smoothing="mle"), ends=True).table
    row = table.distribution(table.advance(np.array([[0]]), table.start(1)))[0]
    assert row.tolist() == pytest.approx([1 / 3, 1 / 3, 0, 1 / 3])


def test_the_order_that_answered_is_that_of_the_longest_ngram_seen() -> None:
    ids = np.array([4, 0, 1, 2, 0, 1, 2, 4])
    table = estimate(ids, 5, NgramSettings(order=3), ends=True).table
    assert table.score(np.array([4, 0, 1, 2, 2, 3])).notes["order"].tolist() == [2, 3, 3, 1, 1]


def test_discounts_come_from_the_text_or_from_the_fallback() -> None:
    rich = estimate(zipf(20_000, 500), 500, NgramSettings(order=3), ends=True).discounts
    assert not any(discount.is_fallback for discount in rich)
    poor = estimate(np.array([3, 0, 1, 2, 3]), 4, NgramSettings(order=2), ends=True).discounts
    assert [discount.amounts for discount in poor] == [FALLBACK, FALLBACK]


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
@pytest.mark.parametrize("ends", [True, False])
@pytest.mark.parametrize("prune", [(0,), (0, 0, 1)])
def test_the_train_loss_is_the_cost_of_the_training_text(
    smoothing: Smoothing, ends: bool, prune: tuple[int, ...]
) -> None:
    ids = zipf(4_000, 50) if ends else np.concatenate([[49], zipf(4_000, 49)[1:-1] % 49])
    for order in (1, 2, 5):
        fitted = estimate(ids, 50, NgramSettings(order=order, smoothing=smoothing, prune=prune), ends=ends)
        with np.errstate(invalid="ignore"):
            cost = -fitted.table.score(ids).logprobs.mean()
        assert fitted.train_loss == pytest.approx(cost, rel=1e-9)


def test_pruning_drops_what_is_rare_and_keeps_contexts_of_what_stays() -> None:
    ids = zipf(5_000, 50)
    whole = estimate(ids, 50, NgramSettings(order=4), ends=True).table
    pruned = estimate(ids, 50, NgramSettings(order=4, prune=(0, 0, 1)), ends=True).table
    assert pruned.sizes[:2] == whole.sizes[:2]
    assert pruned.sizes[2] < whole.sizes[2]
    assert pruned.sizes[3] < whole.sizes[3]
    for n in range(2, 5):
        assert (pruned.levels[n - 1].keys // 50 < pruned.sizes[n - 2]).all()


@pytest.mark.parametrize("length", [1, 2, 3])
def test_a_text_shorter_than_the_order_still_makes_a_model(length: int) -> None:
    ids = np.array([3, *range(length)])
    table: Table = estimate(ids, 4, NgramSettings(order=5), ends=False).table
    assert table.distribution(table.start(1)).sum() == pytest.approx(1)
    assert np.isfinite(table.score(ids).logprobs).all()


@pytest.mark.parametrize(
    ("tree", "said"),
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
def test_a_wrong_setting_is_named(tree: dict[str, object], said: str) -> None:
    with pytest.raises(SettingsError, match=said.replace("?", r"\?")):
        build(NgramSettings, tree)
