"""Lexical translation probabilities by IBM Model 1 (Brown et al., 1993), used to align tokens independently of a model.

Shapes: S source tokens, T target tokens, P pairs of a source and a target position, X distinct pairs of ids.
"""

from collections.abc import Sequence

import numpy as np

from satchel.data.batches import Ints
from satchel.predictor import Floats, Ids

ITERATIONS = 6
# Maximum number of text pairs used for estimation.
MAX_PAIRS = 30_000


class Lexicon:
    """Probability of each target id given a source id, for pairs of ids that co-occur."""

    def __init__(self, keys_X: Ints, probabilities_X: Floats, target_vocabulary: int) -> None:
        self._keys_X, self._probabilities_X, self._target_vocabulary = keys_X, probabilities_X, target_vocabulary

    def source_of(self, source_S: Ids, target_T: Ids) -> Ints:
        """Return the most probable source position of each target token."""
        source_T1, target_T1 = np.asarray(source_S, np.int64)[None], np.asarray(target_T, np.int64)[:, None]
        keys_TS = source_T1 * self._target_vocabulary + target_T1
        rows_TS = np.searchsorted(self._keys_X, keys_TS).clip(max=len(self._keys_X) - 1)
        probabilities_TS = np.where(self._keys_X[rows_TS] == keys_TS, self._probabilities_X[rows_TS], 0.0)
        return np.asarray(probabilities_TS.argmax(axis=1))


def learn_lexicon(sources: Sequence[Ids], targets: Sequence[Ids], vocabulary: int) -> Lexicon:
    """Estimate the lexicon from text pairs by expectation-maximisation; `vocabulary` is the target vocabulary size."""
    sources, targets = sources[:MAX_PAIRS], targets[:MAX_PAIRS]
    keys = [
        (np.asarray(a, np.int64)[None] * vocabulary + np.asarray(b, np.int64)[:, None]).ravel()
        for a, b in zip(sources, targets, strict=True)
    ]
    keys_X, key_P = np.unique(np.concatenate(keys), return_inverse=True)
    # Target position of each pair: every target token is aligned with the tokens of its source.
    source_lengths = np.concatenate([np.full(len(b), len(a)) for a, b in zip(sources, targets, strict=True)])
    target_P = np.repeat(np.arange(len(source_lengths)), source_lengths)
    source_X = keys_X // vocabulary
    probabilities_X = np.ones(len(keys_X))
    for _ in range(ITERATIONS):
        posterior_P = probabilities_X[key_P]
        posterior_P /= np.bincount(target_P, posterior_P)[target_P]
        counts_X = np.bincount(key_P, posterior_P, len(keys_X))
        probabilities_X = counts_X / np.bincount(source_X, counts_X)[source_X]
    return Lexicon(keys_X, probabilities_X, vocabulary)
