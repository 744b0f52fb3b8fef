"""Rank correlation: whether two lists put the same things first."""

import numpy as np

from satchel.predictor import Floats


def spearman(a: Floats, b: Floats) -> float:
    """Return the correlation of the ranks of two lists; those that are equal share theirs."""
    first, second = (ranks - ranks.mean() for ranks in (_ranks(a), _ranks(b)))
    spread = float(np.sqrt((first**2).sum() * (second**2).sum()))
    return float((first * second).sum() / spread) if spread else 0.0


def _ranks(values: Floats) -> Floats:
    _, where, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    ranks: Floats = ((ends - counts + ends - 1) / 2)[where]
    return ranks
