"""Statistics: Spearman's rank correlation."""

import numpy as np

from satchel.predictor import Floats


def spearman(a: Floats, b: Floats) -> float:
    """Return Spearman's rank correlation; ties get the mean of their ranks. 0 if one list is constant."""
    first, second = (ranks - ranks.mean() for ranks in (_ranks(a), _ranks(b)))
    spread = float(np.sqrt((first**2).sum() * (second**2).sum()))
    return float((first * second).sum() / spread) if spread else 0.0


def _ranks(values: Floats) -> Floats:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    ranks: Floats = ((ends - counts + ends - 1) / 2)[inverse]
    return ranks
