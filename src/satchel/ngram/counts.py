"""Counting n-grams with sorted integer keys.

An n-gram is identified by its row in the sorted table of its order. Its key is
(row of its first n - 1 tokens in the table of order n - 1) * vocabulary size + last token: one integer for any order.
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
    """The n-grams of one order: sorted keys, counts, and the row of each n-gram's last n - 1 tokens."""

    keys: Ints
    counts: Ids
    suffixes: Ids


def count_ngrams(ids: Ids, order: int, size: int, progress: Callable[[int], None]) -> list[Counts]:
    """Return the n-grams of orders 1 to `order`; documents are separated by the boundary id `size - 1`.

    N-grams do not cross document boundaries: an n-gram may start with the boundary id (start of a document) or end
    with it (end of a document). The unigram table contains all `size` ids, including those with count 0.
    """
    narrow: Any = np.int32 if max(len(ids), size) < 1 << 31 else np.int64
    text: npt.NDArray[Any] = np.asarray(ids, narrow)
    levels = [Counts(np.arange(size), np.bincount(text, minlength=size), np.zeros(size, narrow))]
    # starts: start positions sorted by n-gram; groups, tokens: the table row and last token of each of them;
    # rows[t]: the table row of the n-gram that starts at position t.
    starts = np.arange(len(text))
    groups = tokens = rows = text
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
            # The keys are already sorted by their first n - 1 tokens; a stable (merge) sort is fast on such input.
            sorting = np.argsort(keys, kind="stable")
            keys, starts, tokens = keys[sorting], starts[sorting], tokens[sorting]
        is_first = np.empty(len(keys), bool)
        is_first[:1] = True
        np.not_equal(keys[1:], keys[:-1], out=is_first[1:])
        firsts = np.flatnonzero(is_first)
        counts = np.empty(len(firsts), narrow)
        np.subtract(firsts[1:], firsts[:-1], out=counts[:-1], casting="same_kind")
        counts[-1:] = len(keys) - firsts[-1:]
        levels.append(Counts(keys[firsts], counts, rows[1:][starts[firsts]]))
        if n < order:
            groups = np.cumsum(is_first, dtype=narrow)
            groups -= 1
            rows = np.empty(len(text), narrow)
            rows[starts] = groups
    return levels


def _sorted_with(keys: Ints, starts: Ints) -> tuple[Ints, Ints]:
    """Return the sorted keys and the corresponding starts; both are packed into one integer if they fit 63 bits."""
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
