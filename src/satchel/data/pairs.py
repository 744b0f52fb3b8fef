"""Held-out split of parallel text, without a sentence that occurs in both parts."""

import hashlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from satchel.text.tables import TextPair

# Maximum size of a held-out group of pairs, as a fraction of the number of pairs to hold out.
LARGEST_GROUP = 0.5


def held_out_pairs(pairs: Sequence[TextPair], fraction: float, seed: int) -> npt.NDArray[np.bool_]:
    """Return a mask of the held-out pairs: about this fraction, in a pseudo-random order given by the seed.

    Pairs that share a source or a target form a group, which is held out as a whole or not at all.
    """
    groups = _groups(pairs)
    limit = fraction * len(pairs)
    order = sorted(groups, key=lambda rows: hashlib.blake2b(f"{seed} {rows[0]}".encode(), digest_size=8).digest())
    mask = np.zeros(len(pairs), bool)
    count = 0
    for rows in order:
        if count + len(rows) <= max(1.0, limit) and len(rows) <= max(1.0, LARGEST_GROUP * limit):
            mask[rows] = True
            count += len(rows)
    return mask if count < len(pairs) else np.zeros(len(pairs), bool)


def _groups(pairs: Sequence[TextPair]) -> list[list[int]]:
    """Return the row indices of each connected component: pairs that share a source or a target (union-find)."""
    parents = list(range(len(pairs)))

    def root(row: int) -> int:
        while parents[row] != row:
            parents[row] = parents[parents[row]]
            row = parents[row]
        return row

    first_row: dict[tuple[bool, str], int] = {}
    for row, pair in enumerate(pairs):
        for key in ((True, pair.source), (False, pair.target)):
            parents[root(row)] = root(first_row.setdefault(key, row))
    groups: dict[int, list[int]] = {}
    for row in range(len(pairs)):
        groups.setdefault(root(row), []).append(row)
    return list(groups.values())
