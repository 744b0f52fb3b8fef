"""The end of a text is set aside, so that something can be learned of how well what was learned from the rest does."""

import numpy as np

from satchel.predictor import Ids

# The share of a text that is set aside, and the most tokens: a gate needs no more.
SHARE = 0.04
MOST_TOKENS = 50_000
# Where whole documents are set aside, they may be so many times as long as was wanted.
LONGEST = 3


def set_aside(ids_T: Ids, boundary: int) -> tuple[Ids, Ids]:
    """Return a text in two: what is learned from, and what is set aside. Both begin with a boundary.

    Whole documents are set aside where there are some of a fitting length, else the end of the last one.
    """
    wanted = max(1, min(MOST_TOKENS, round(SHARE * len(ids_T))))
    cut = len(ids_T) - wanted
    between_X = np.flatnonzero(np.asarray(ids_T[1:-1]) == boundary) + 1
    if len(between_X):
        nearest = int(between_X[np.abs(between_X - cut).argmin()])
        if len(ids_T) - nearest <= LONGEST * wanted:
            return ids_T[: nearest + 1], ids_T[nearest:]
    return ids_T[:cut], np.concatenate([[boundary], ids_T[cut:]])
