"""What n-grams say of a text they were not counted on, though it is the one they are made of.

The text is cut into folds; each is scored by the n-grams of the others. So something that learns how far to believe
n-grams sees them as they will be on new text.
"""

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from satchel.ngram.smoothing import NgramSettings, estimate
from satchel.predictor import Floats, Ids

# The more folds, the more like the n-grams of the whole text; but about so many tokens are counted again at most.
MOST_FOLDS, LEAST_FOLDS = 10, 3
TOKENS_AGAIN = 40_000_000


def held_out_logprobs(
    ids: Ids,
    size: int,
    settings: NgramSettings,
    *,
    ends: bool,
    progress: Callable[[float], None] = lambda done: None,
) -> Floats:
    """Return the log-probability of every id after the first, each by n-grams of the text without its fold."""
    folds = max(LEAST_FOLDS, min(MOST_FOLDS, TOKENS_AGAIN // len(ids)))
    cuts = np.unique(np.linspace(1, len(ids), folds + 1).astype(int)).tolist()
    logprobs = np.empty(max(0, len(ids) - 1))
    for start, stop in pairwise(cuts):
        progress((start - 1) / len(logprobs))
        others = np.concatenate([ids[:start], ids[stop:]])
        table = estimate(others, size, settings, ends=ends).table
        context = max(0, start - settings.order)
        logprobs[start - 1 : stop - 1] = table.score(ids[context:stop]).logprobs[start - context - 1 :]
    return logprobs
