"""Counting n-grams: equal to counting windows one by one, on both ways of sorting."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from satchel.ngram.counts import _sorted_with, count_ngrams


@settings(max_examples=150, deadline=None)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=80), st.integers(1, 6))
def test_counts_are_those_of_the_windows_inside_documents(text: list[int], order: int) -> None:
    boundary, size = 4, 5
    levels = count_ngrams(np.array(text), order, size, lambda n: None)
    spelled: list[list[tuple[int, ...]]] = [[(token,) for token in range(size)]]
    for n in range(2, order + 1):
        windows = [tuple(text[i : i + n]) for i in range(len(text) - n + 1)]
        wanted = Counter(window for window in windows if boundary not in window[1:-1])
        keys = levels[n - 1].keys.tolist()
        grams = [(*spelled[-1][key // size], key % size) for key in keys]
        assert grams == sorted(wanted)
        assert levels[n - 1].counts.tolist() == [wanted[gram] for gram in grams]
        assert [spelled[-1][place] for place in levels[n - 1].suffixes.tolist()] == [gram[1:] for gram in grams]
        spelled.append(grams)


@pytest.mark.parametrize("largest", [100, 1 << 61])
def test_one_sort_of_both_and_a_sort_by_index_agree(largest: int) -> None:
    keys = np.random.default_rng(0).integers(0, 50, 500) * (largest // 50)
    starts = np.arange(500)
    by_key, moved = _sorted_with(keys.copy(), starts)
    assert by_key.tolist() == sorted(keys.tolist())
    assert keys[moved].tolist() == by_key.tolist()
    assert all(a < b for a, b, same in zip(moved, moved[1:], by_key[1:] == by_key[:-1], strict=False) if same)
