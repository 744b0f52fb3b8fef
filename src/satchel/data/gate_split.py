"""Pieces of a text are set aside, so that something can be learned of how well what was learned from the rest does.

They are spread over the text: its end alone may be about something that the rest never mentions, and then whatever is
not learned there is missed most by what follows it.
"""

from itertools import pairwise

import numpy as np

from satchel.predictor import Ids

# The share of a text that is set aside, the most tokens (a gate needs no more), and those of a piece.
SHARE = 0.04
MOST_TOKENS = 50_000
PIECE = 1000
LEAST_PIECES = 10


def set_aside(ids_T: Ids, boundary: int) -> tuple[Ids, Ids]:
    """Return a text in two: what is learned from, and the pieces set aside, each of which begins with a boundary."""
    wanted = min(MOST_TOKENS, int(SHARE * len(ids_T)))
    pieces = max(min(LEAST_PIECES, wanted), wanted // PIECE)
    if not pieces:
        return ids_T, np.array([boundary])
    # So many pieces, and one more stretch of what stays: the text begins and ends with those.
    middles = np.linspace(0, len(ids_T), pieces + 2)[1:-1].astype(int)
    starts = middles - wanted // pieces // 2
    stops = starts + wanted // pieces
    kept = [0, *(place for pair in zip(starts, stops, strict=True) for place in pair), len(ids_T)]
    rest = [ids_T[start:stop] for start, stop in list(pairwise(kept))[::2]]
    aside = [part for start, stop in zip(starts, stops, strict=True) for part in ([boundary], ids_T[start:stop])]
    return np.concatenate(rest), np.concatenate(aside)
