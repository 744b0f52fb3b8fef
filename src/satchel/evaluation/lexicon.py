"""Which source word a target word is most likely of, by counting: the same for every model that is judged by it.

Probabilities of target words given source words are fitted to pairs by expectation-maximisation: the first of the
IBM models (Brown et al., 1993). Letters: P pairs of a source place and a target place, X distinct pairs of ids.
"""

from collections.abc import Sequence

import numpy as np

from satchel.data.batches import Ints
from satchel.predictor import Floats, Ids

ROUNDS = 6
# Pairs of texts that are learned from: more tell no more.
MOST_PAIRS = 30_000


class Lexicon:
    """How likely each target id is of each source id, for those that stood in a pair of texts."""

    def __init__(self, keys_X: Ints, chances_X: Floats, targets: int) -> None:
        self._keys_X, self._chances_X, self._targets = keys_X, chances_X, targets

    def source_of(self, source_S: Ids, target_T: Ids) -> Ints:
        """Return the place in a source that each target id is most likely of."""
        keys_TS = np.asarray(source_S, np.int64)[None] * self._targets + np.asarray(target_T, np.int64)[:, None]
        places = np.searchsorted(self._keys_X, keys_TS).clip(max=len(self._keys_X) - 1)
        chances_TS = np.where(self._keys_X[places] == keys_TS, self._chances_X[places], 0.0)
        return np.asarray(chances_TS.argmax(axis=1))


def learn_lexicon(sources: Sequence[Ids], targets: Sequence[Ids], vocabulary: int) -> Lexicon:
    """Return the lexicon of pairs of texts; target ids are below `vocabulary`."""
    sources, targets = sources[:MOST_PAIRS], targets[:MOST_PAIRS]
    keys = [
        (np.asarray(a, np.int64)[None] * vocabulary + np.asarray(b, np.int64)[:, None]).ravel()
        for a, b in zip(sources, targets, strict=True)
    ]
    keys_X, where_P = np.unique(np.concatenate(keys), return_inverse=True)
    # Each target place is explained by the places of its source.
    widths = np.concatenate([np.full(len(b), len(a)) for a, b in zip(sources, targets, strict=True)])
    place_P = np.repeat(np.arange(len(widths)), widths)
    source_X = keys_X // vocabulary
    chances_X = np.ones(len(keys_X))
    for _ in range(ROUNDS):
        own_P = chances_X[where_P]
        own_P /= np.bincount(place_P, own_P)[place_P]
        counts_X = np.bincount(where_P, own_P, len(keys_X))
        chances_X = counts_X / np.bincount(source_X, counts_X)[source_X]
    return Lexicon(keys_X, chances_X, vocabulary)
