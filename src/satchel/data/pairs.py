"""Pairs of texts: which of them are held out, so that no sentence is on both sides of the split."""

import hashlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from satchel.text.tables import TextPair

# A group of pairs that share sentences is held out whole, and is not more than this share of what is to be.
LARGEST_GROUP = 0.5


def held_out_pairs(pairs: Sequence[TextPair], fraction: float, seed: int) -> npt.NDArray[np.bool_]:
    """Return which pairs are held out: about this share, chosen by a hash of the seed.

    Pairs that have a source or a target in common are one group: all of it is held out, or none.
    """
    groups = _groups(pairs)
    wanted = fraction * len(pairs)
    order = sorted(groups, key=lambda rows: hashlib.blake2b(f"{seed} {rows[0]}".encode(), digest_size=8).digest())
    chosen = np.zeros(len(pairs), bool)
    count = 0
    for rows in order:
        if count + len(rows) <= max(1.0, wanted) and len(rows) <= max(1.0, LARGEST_GROUP * wanted):
            chosen[rows] = True
            count += len(rows)
    return chosen if count < len(pairs) else np.zeros(len(pairs), bool)


def _groups(pairs: Sequence[TextPair]) -> list[list[int]]:
    """Return the rows of pairs that share a sentence with each other, directly or by others."""
    above = list(range(len(pairs)))

    def top(row: int) -> int:
        while above[row] != row:
            above[row] = above[above[row]]
            row = above[row]
        return row

    first: dict[tuple[bool, str], int] = {}
    for row, pair in enumerate(pairs):
        for key in ((True, pair.source), (False, pair.target)):
            above[top(row)] = top(first.setdefault(key, row))
    groups: dict[int, list[int]] = {}
    for row in range(len(pairs)):
        groups.setdefault(top(row), []).append(row)
    return list(groups.values())
