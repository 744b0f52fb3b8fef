"""Counting n-grams with sorted integer keys.

An n-gram is known by its place in the sorted table of its order. Its key is the place of its first
n-1 tokens in the table below, times the number of ids, plus its last token: one integer, whatever
the order. Letters: E entries of a level, T tokens of the text.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from satchel.predictor import Ids

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Counts:
    """The n-grams of one order: sorted keys, how often each occurs, and the place of its last n-1 tokens."""

    keys: Ints
    counts: Ids
    suffixes: Ids


def count_ngrams(ids: Ids, order: int, size: int, progress: Callable[[int], None]) -> list[Counts]:
    """Return the n-grams of orders 1 to `order` of a text whose documents are set apart by the id `size - 1`.

    Nothing is counted across a boundary: an n-gram may begin with one (the start of a document) or
    end with one (its end). The unigrams are all `size` ids, seen or not.
    """
    narrow: Any = np.int32 if max(len(ids), size) < 1 << 31 else np.int64
    text: npt.NDArray[Any] = np.asarray(ids, narrow)
    levels = [Counts(np.arange(size), np.bincount(text, minlength=size), np.zeros(size, narrow))]
    # Where the n-grams start, sorted by n-gram, the place of each in its table, and its last token;
    # places[t] is the place of the n-gram that starts at t.
    starts = np.arange(len(text))
    groups = tokens = places = text
    for n in range(2, order + 1):
        progress(n)
        extends = starts < len(text) - n + 1
        if n > 2:
            extends &= tokens != size - 1
        extended = np.flatnonzero(extends)
        starts, groups = starts[extended], groups[extended]
        tokens = text[n - 1 :][starts]
        keys = np.multiply(groups, size, dtype=np.int64)
        keys += tokens
        if n == 2:
            keys, starts = _sorted_with(keys, starts)
            tokens = (keys % size).astype(narrow)
        else:
            # Sorted by their first n-1 tokens they are nearly sorted, which a merge sort is quick about.
            sorting = np.argsort(keys, kind="stable")
            keys, starts, tokens = keys[sorting], starts[sorting], tokens[sorting]
        is_first = np.empty(len(keys), bool)
        is_first[:1] = True
        np.not_equal(keys[1:], keys[:-1], out=is_first[1:])
        firsts = np.flatnonzero(is_first)
        counts = np.empty(len(firsts), narrow)
        np.subtract(firsts[1:], firsts[:-1], out=counts[:-1], casting="same_kind")
        counts[-1:] = len(keys) - firsts[-1:]
        levels.append(Counts(keys[firsts], counts, places[1:][starts[firsts]]))
        if n < order:
            groups = np.cumsum(is_first, dtype=narrow)
            groups -= 1
            places = np.empty(len(text), narrow)
            places[starts] = groups
    return levels


def _sorted_with(keys: Ints, starts: Ints) -> tuple[Ints, Ints]:
    """Return the keys in order and the starts that go with them, in one sort of both where they fit 63 bits."""
    bits = len(starts).bit_length()
    if not len(keys) or int(keys.max()).bit_length() + bits > 63:
        sorting = np.argsort(keys, kind="stable")
        return keys[sorting], starts[sorting]
    keys <<= bits
    keys |= starts
    keys.sort()
    starts = keys & ((1 << bits) - 1)
    keys >>= bits
    return keys, starts
