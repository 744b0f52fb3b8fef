"""Batches depend on the seed and the step only, and an epoch covers the data."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from satchel.data.batches import PADDING, DocumentBatches, RowBatches, StreamBatches, pad, seeded_rng, unigram_noise


@given(st.integers(2, 200), st.integers(1, 20), st.integers(1, 5), st.integers(0, 3))
def test_a_window_is_a_range_of_positions_that_has_a_next_token(size: int, length: int, rows: int, seed: int) -> None:
    batches = StreamBatches(size, length, rows, seed)
    for step in range(2 * batches.steps_per_epoch):
        positions = batches.positions(step)
        assert positions.shape == (rows, min(length, size - 1))
        assert (np.diff(positions, axis=1) == 1).all()
        assert positions.min() >= 0
        assert positions.max() + 1 < size


def test_an_epoch_covers_nearly_all_of_a_stream_once_with_a_new_offset() -> None:
    batches = StreamBatches(1001, 10, 7, 0)
    offsets = []
    for epoch in range(2):
        first = epoch * batches.steps_per_epoch
        steps = range(first, first + batches.steps_per_epoch)
        seen = Counter(int(position) for step in steps for position in batches.positions(step).flat)
        assert max(seen.values()) == 1
        assert len(seen) >= 900
        offsets.append(min(seen) % 10)
    assert offsets[0] != offsets[1]


def test_steps_can_be_computed_in_any_order() -> None:
    stream = StreamBatches(500, 8, 4, 3)
    in_order = [stream.positions(step).tolist() for step in range(40)]
    for step in (39, 0, 17, 39):
        assert StreamBatches(500, 8, 4, 3).positions(step).tolist() == in_order[step]
    assert StreamBatches(500, 8, 4, 4).positions(0).tolist() != in_order[0]
    lengths = np.arange(1, 60)
    rows = RowBatches(lengths, 100, 3)
    in_order = [rows.rows(step).tolist() for step in range(60)]
    for step in (59, 0, 31, 59):
        assert RowBatches(lengths, 100, 3).rows(step).tolist() == in_order[step]
    assert RowBatches(lengths, 100, 4).rows(0).tolist() != in_order[0]


@given(st.lists(st.integers(0, 50), min_size=1, max_size=100), st.integers(1, 200), st.integers(0, 3))
def test_every_epoch_has_each_row_once_and_batches_stay_within_the_budget(
    lengths: list[int], tokens: int, seed: int
) -> None:
    batches = RowBatches(np.array(lengths), tokens, seed)
    step = 0
    for _ in range(3):
        seen: list[int] = []
        while len(seen) < len(lengths):
            rows = batches.rows(step)
            assert len(rows) == 1 or len(rows) * max(lengths[row] for row in rows) <= tokens
            seen += rows.tolist()
            step += 1
        assert sorted(seen) == list(range(len(lengths)))


def test_batches_have_little_padding_and_are_shuffled() -> None:
    lengths = seeded_rng("lengths", 0).integers(1, 100, 2000)
    batches = RowBatches(lengths, 1000, 0)
    steps = range(batches.steps_per_epoch)
    padding = sum(len(batches.rows(step)) * lengths[batches.rows(step)].max() for step in steps) / lengths.sum()
    assert padding < 1.15
    longest = [int(lengths[batches.rows(step)].max()) for step in steps]
    assert np.corrcoef(longest[1:], longest[:-1])[0, 1] < 0.5


def test_each_document_is_a_row_and_long_documents_are_split() -> None:
    end = 9
    ids = np.array([end, 1, 2, 3, 4, 5, end, end, 6, end])
    batches = DocumentBatches(ids, end, 4, 1, 0)
    rows = sorted(batches.positions(step)[0].tolist() for step in range(batches.steps_per_epoch))
    assert rows == [[0, 1, 2, 3], [4, 5], [6], [7, 8]]
    together = DocumentBatches(ids, end, 4, 100, 0)
    assert together.steps_per_epoch == 1
    assert sorted(together.positions(0).tolist()) == [
        [0, 1, 2, 3],
        [4, 5, PADDING, PADDING],
        [6, PADDING, PADDING, PADDING],
        [7, 8, PADDING, PADDING],
    ]


def test_rows_are_padded_at_their_end() -> None:
    ids, keep = pad([np.array([1]), np.array([2, 3]), np.array([], np.int64)], 8)
    assert ids.tolist() == [[1, 8], [2, 3], [8, 8]]
    assert keep.tolist() == [[True, False], [True, True], [False, False]]


def test_random_numbers_depend_on_the_key() -> None:
    draws = {name: seeded_rng(*name).integers(0, 1 << 60) for name in (("a", 0), ("a", 1), ("b", 0))}
    assert len(set(draws.values())) == 3
    assert seeded_rng("a", 0).integers(0, 1 << 60) == draws["a", 0]
    with pytest.raises(TypeError):
        hash(seeded_rng("a", 0).integers(0, 2, 3))


def test_unigram_noise_replaces_a_fraction_of_the_tokens_and_no_boundary() -> None:
    end = 9
    text = np.array([end, *[1, 1, 1, 2] * 100, end])
    inputs = np.full((100, 200), 5)
    inputs[:, 0] = end
    noised = unigram_noise(inputs, text, 0.2, end, seeded_rng("noise", 0))
    assert (noised[:, 0] == end).all()
    assert (noised[:, 1:] != end).all()
    changed = noised[noised != inputs]
    assert len(changed) / inputs.size == pytest.approx(0.2, abs=0.01)
    assert set(changed) == {1, 2}
    assert (changed == 1).mean() == pytest.approx(0.75, abs=0.02)
    assert (unigram_noise(inputs, text, 0.2, end, seeded_rng("noise", 0)) == noised).all()
    assert (inputs[:, 1:] == 5).all()
