"""Metrics of classifiers: equality with scikit-learn, unseen labels, calibration, confidence intervals."""

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
def predictions(draw: st.DrawFn) -> tuple[Any, Any]:
    """Draw log-probabilities of three classes, and gold labels that may include a fourth, unseen class."""
    count = draw(st.integers(1, 40))
    rng = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    probabilities = rng.dirichlet([0.4] * 3, count)
    return np.log(np.maximum(probabilities, 1e-9)), rng.integers(0, draw(st.integers(1, 4)), count)


@given(predictions())
def test_the_metrics_equal_those_of_scikit_learn(drawn: tuple[Any, Any]) -> None:
    logprobs, gold = drawn
    result = classification(logprobs, gold, NAMES, 0)
    predicted = logprobs.argmax(axis=1)
    assert result.accuracy == pytest.approx(accuracy_score(gold, predicted))
    labels = sorted(set(gold.tolist()) | set(predicted.tolist()))
    assert [report.label for report in result.per_label] == [NAMES[label] for label in labels]
    expected = precision_recall_fscore_support(gold, predicted, labels=labels, zero_division=0)
    rows = [(report.precision, report.recall, report.f1, report.support) for report in result.per_label]
    np.testing.assert_allclose(rows, np.transpose(expected))
    assert result.macro_f1 == pytest.approx(np.mean(expected[2]))
    table = confusion_matrix(gold, predicted, labels=range(4))
    counts = {(cell.label, cell.predicted): cell.count for cell in result.confusion}
    assert counts == {(NAMES[i], NAMES[j]): table[i, j] for i in range(4) for j in range(4) if table[i, j]}
    assert result.unseen == int((gold == 3).sum())
    assert result.majority == pytest.approx(float((gold == 0).mean()))


@given(predictions())
def test_calibration_bins_and_coverage_follow_their_definitions(drawn: tuple[Any, Any]) -> None:
    logprobs, gold = drawn
    result = classification(logprobs, gold, NAMES, 0)
    confidences, is_correct = np.exp(logprobs).max(axis=1), logprobs.argmax(axis=1) == gold
    assert sum(bin_.count for bin_ in result.bins) == len(gold)
    accuracy, confidence = calibration_curve(is_correct, np.minimum(confidences, 1), n_bins=10)
    np.testing.assert_allclose([bin_.accuracy for bin_ in result.bins], accuracy)
    np.testing.assert_allclose([bin_.confidence for bin_ in result.bins], confidence)
    gaps = [abs(bin_.accuracy - bin_.confidence) * bin_.count for bin_ in result.bins]
    assert result.expected_error == pytest.approx(sum(gaps) / len(gold))
    for coverage in result.coverage:
        is_covered = confidences >= coverage.threshold
        assert coverage.share == pytest.approx(is_covered.mean())
        assert (coverage.accuracy is None) == (not is_covered.any())
        if coverage.accuracy is not None:
            assert coverage.accuracy == pytest.approx(is_correct[is_covered].mean())


@pytest.mark.parametrize(
    ("share", "count", "low", "high"),
    # Known values of the Wilson score interval, including shares of 0 and 1.
    [(0.5, 10, 0.2366, 0.7634), (0.9, 100, 0.8256, 0.9448), (0.0, 5, 0.0, 0.4345), (1.0, 5, 0.5655, 1.0)],
)
def test_the_confidence_interval_is_the_wilson_score_interval(
    share: float, count: int, low: float, high: float
) -> None:
    assert interval(share, count) == pytest.approx((low, high), abs=5e-5)
