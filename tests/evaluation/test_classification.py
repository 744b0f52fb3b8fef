"""The report on a classifier equals scikit-learn's, and says what happens to labels it has never seen."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.calibration import calibration_curve
from sklearn.metrics import accuracy_score, confusion_matrix, precision_recall_fscore_support

from satchel.evaluation.classification import classification, interval

NAMES = ["a", "b", "c", "unseen"]


@st.composite
def answers(draw: st.DrawFn) -> tuple[Any, Any]:
    """Log-probabilities of three classes and the right ones, of which one may be a fourth that nobody knows."""
    count = draw(st.integers(1, 40))
    generator = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    chances = generator.dirichlet([0.4] * 3, count)
    return np.log(np.maximum(chances, 1e-9)), generator.integers(0, draw(st.integers(1, 4)), count)


@given(answers())
def test_the_figures_are_those_of_scikit_learn(made: tuple[Any, Any]) -> None:
    logprobs, gold = made
    found = classification(logprobs, gold, NAMES, 0)
    predicted = logprobs.argmax(axis=1)
    assert found.accuracy == pytest.approx(accuracy_score(gold, predicted))
    there = sorted(set(gold.tolist()) | set(predicted.tolist()))
    assert [report.label for report in found.per_label] == [NAMES[label] for label in there]
    expected = precision_recall_fscore_support(gold, predicted, labels=there, zero_division=0)
    mine = [(report.precision, report.recall, report.f1, report.support) for report in found.per_label]
    np.testing.assert_allclose(mine, np.transpose(expected))
    assert found.macro_f1 == pytest.approx(np.mean(expected[2]))
    table = confusion_matrix(gold, predicted, labels=range(4))
    counts = {(each.label, each.predicted): each.count for each in found.confusion}
    assert counts == {(NAMES[i], NAMES[j]): table[i, j] for i in range(4) for j in range(4) if table[i, j]}
    assert found.unseen == int((gold == 3).sum())
    assert found.majority == pytest.approx(float((gold == 0).mean()))


@given(answers())
def test_bins_and_coverage_are_those_of_their_definition(made: tuple[Any, Any]) -> None:
    logprobs, gold = made
    found = classification(logprobs, gold, NAMES, 0)
    sure, right = np.exp(logprobs).max(axis=1), logprobs.argmax(axis=1) == gold
    assert sum(each.count for each in found.bins) == len(gold)
    accuracy, confidence = calibration_curve(right, np.minimum(sure, 1), n_bins=10)
    np.testing.assert_allclose([each.accuracy for each in found.bins], accuracy)
    np.testing.assert_allclose([each.confidence for each in found.bins], confidence)
    gaps = [abs(each.accuracy - each.confidence) * each.count for each in found.bins]
    assert found.expected_error == pytest.approx(sum(gaps) / len(gold))
    for each in found.coverage:
        chosen = sure >= each.threshold
        assert each.share == pytest.approx(chosen.mean())
        assert (each.accuracy is None) == (not chosen.any())
        if each.accuracy is not None:
            assert each.accuracy == pytest.approx(right[chosen].mean())


@pytest.mark.parametrize(
    ("share", "count", "low", "high"),
    # Known values of Wilson's interval, and its ends.
    [(0.5, 10, 0.2366, 0.7634), (0.9, 100, 0.8256, 0.9448), (0.0, 5, 0.0, 0.4345), (1.0, 5, 0.5655, 1.0)],
)
def test_the_interval_is_wilsons(share: float, count: int, low: float, high: float) -> None:
    assert interval(share, count) == pytest.approx((low, high), abs=5e-5)
