"""N-gram counts: equality with counted windows, for both sorting methods."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from satchel.ngram.counts import _sorted_with, count_ngrams


@settings(max_examples=150, deadline=None)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=80), st.integers(1, 6))
def test_counts_equal_those_of_the_windows_inside_documents(text: list[int], order: int) -> None:
    boundary, size = 4, 5
    levels = count_ngrams(np.array(text), order, size, lambda n: None)
    grams_by_order: list[list[tuple[int, ...]]] = [[(token,) for token in range(size)]]
    for n in range(2, order + 1):
        windows = [tuple(text[i : i + n]) for i in range(len(text) - n + 1)]
        expected = Counter(window for window in windows if boundary not in window[1:-1])
        keys = levels[n - 1].keys.tolist()
        grams = [(*grams_by_order[-1][key // size], key % size) for key in keys]
        assert grams == sorted(expected)
        assert levels[n - 1].counts.tolist() == [expected[gram] for gram in grams]
        assert [grams_by_order[-1][index] for index in levels[n - 1].suffixes.tolist()] == [gram[1:] for gram in grams]
        grams_by_order.append(grams)


@pytest.mark.parametrize("largest", [100, 1 << 61])
def test_sorting_packed_keys_and_sorting_by_index_are_both_stable(largest: int) -> None:
    keys = np.random.default_rng(0).integers(0, 50, 500) * (largest // 50)
    starts = np.arange(500)
    sorted_keys, sorted_starts = _sorted_with(keys.copy(), starts)
    assert sorted_keys.tolist() == sorted(keys.tolist())
    assert keys[sorted_starts].tolist() == sorted_keys.tolist()
    assert all(
        a < b
        for a, b, same in zip(sorted_starts, sorted_starts[1:], sorted_keys[1:] == sorted_keys[:-1], strict=False)
        if same
    )
