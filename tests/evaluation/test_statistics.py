"""Spearman's rank correlation: equality with SciPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr  # type: ignore[import-untyped]

from satchel.evaluation.similarity import spearman


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=3, max_size=30))
def test_ties_get_their_mean_rank_and_constants_a_correlation_of_zero(pairs: list[tuple[int, int]]) -> None:
    a, b = (np.array(column, float) for column in zip(*pairs, strict=True))
    if len(set(a)) == 1 or len(set(b)) == 1:
        assert spearman(a, b) == 0
    else:
        assert spearman(a, b) == pytest.approx(spearmanr(a, b).statistic, abs=1e-12)
