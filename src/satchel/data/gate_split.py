"""Gate training split: segments of the training text that only fit the gate between a network and an n-gram model.

The gate must see text that neither model was trained on. The segments are spread over the text, because a single
segment at the end may have topics that do not occur in the rest.
"""

from itertools import pairwise

import numpy as np

from satchel.predictor import Ids

# Fraction of the text used for the gate, and the maximum number of tokens: more do not improve the gate.
FRACTION = 0.04
MAX_TOKENS = 50_000
# Number of tokens of a segment, and the minimum number of segments.
SEGMENT = 1000
MIN_SEGMENTS = 10


def split_for_gate(ids_T: Ids, boundary: int) -> tuple[Ids, Ids]:
    """Return the ids that train the models, and the ids that train the gate: segments preceded by a boundary."""
    tokens = min(MAX_TOKENS, int(FRACTION * len(ids_T)))
    segments = max(min(MIN_SEGMENTS, tokens), tokens // SEGMENT)
    if not segments:
        return ids_T, np.array([boundary])
    # Equally spaced, with training text before the first and after the last segment.
    middles = np.linspace(0, len(ids_T), segments + 2)[1:-1].astype(int)
    starts = middles - tokens // segments // 2
    stops = starts + tokens // segments
    cuts = [0, *(cut for segment in zip(starts, stops, strict=True) for cut in segment), len(ids_T)]
    train = [ids_T[start:stop] for start, stop in list(pairwise(cuts))[::2]]
    gate = [part for start, stop in zip(starts, stops, strict=True) for part in ([boundary], ids_T[start:stop])]
    return np.concatenate(train), np.concatenate(gate)
