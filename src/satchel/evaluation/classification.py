"""How good a classifier is: accuracy, F1 by label, calibration, and what if it may pass on what it is not sure of.

Letters: E examples, C classes. A label that the classifier has never seen is one that it gets wrong.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from satchel.charts import html
from satchel.predictor import Floats

Ints = npt.NDArray[np.int64]

BINS = 10
# As many labels as a notebook shows.
MOST_LABELS = 30
THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
# The 97.5 % quantile of the normal distribution: for 95 % intervals.
Z = 1.959963984540054


@dataclass(frozen=True)
class LabelReport:
    """How a label fares: of those given it, of those that have it; `support` is how many have it."""

    label: str
    precision: float
    recall: float
    f1: float
    support: int


@dataclass(frozen=True)
class Bin:
    """The predictions whose probability is from `low` to `high`: how sure they were, and how many were right."""

    low: float
    high: float
    count: int
    confidence: float
    accuracy: float


@dataclass(frozen=True)
class Coverage:
    """If only predictions at least as sure as `threshold` count: which share that is, and how many are right."""

    threshold: float
    share: float
    accuracy: float | None


@dataclass(frozen=True)
class Confusion:
    """How often examples of a label were given another, or the same."""

    label: str
    predicted: str
    count: int


@dataclass(frozen=True)
class ClassificationMetrics:
    """What a classifier made of some labelled examples; `low` and `high` are the accuracy's 95 % interval."""

    examples: int
    accuracy: float
    low: float
    high: float
    macro_f1: float
    majority: float  # the accuracy of always giving the commonest label of the training rows
    unseen: int  # examples whose label the classifier has never seen
    per_label: tuple[LabelReport, ...]
    expected_error: float  # how far confidence and accuracy are apart, on average over the bins
    bins: tuple[Bin, ...]
    coverage: tuple[Coverage, ...]
    confusion: tuple[Confusion, ...]

    @property
    def headline(self) -> str:
        """How good it is in one line."""
        return f"{self.accuracy:.2%} right ({self.low:.2%} to {self.high:.2%}) of {self.examples:,}"

    def _repr_html_(self) -> str:
        rows = [
            (each.label, f"{each.precision:.3f}", f"{each.recall:.3f}", f"{each.f1:.3f}", f"{each.support:,}")
            for each in self.per_label
        ]
        lines = [
            f"{self.headline}; the commonest label {self.majority:.2%}",
            f"macro F1 {self.macro_f1:.3f}, expected calibration error {self.expected_error:.3f}",
        ]
        more = [f"and {len(rows) - MOST_LABELS:,} labels more"] if len(rows) > MOST_LABELS else []
        columns = ["label", "precision", "recall", "F1", "support"]
        return html.lines(lines) + html.table(columns, rows[:MOST_LABELS]) + html.lines(more)


def classification(logprobs_EC: Floats, gold_E: Ints, labels: Sequence[str], majority: int) -> ClassificationMetrics:
    """Return how good the predictions are. `labels` names the C classes, then others that only the data has."""
    predicted_E = logprobs_EC.argmax(axis=1)
    sure_E = np.exp(logprobs_EC[np.arange(len(gold_E)), predicted_E])
    right_E = predicted_E == gold_E
    accuracy = float(right_E.mean())
    per_label = _per_label(predicted_E, gold_E, labels)
    bins = _bins(sure_E, right_E)
    return ClassificationMetrics(
        examples=len(gold_E),
        accuracy=accuracy,
        **dict(zip(("low", "high"), interval(accuracy, len(gold_E)), strict=True)),
        macro_f1=float(np.mean([report.f1 for report in per_label])),
        majority=float((gold_E == majority).mean()),
        unseen=int((gold_E >= logprobs_EC.shape[1]).sum()),
        per_label=per_label,
        expected_error=sum(abs(each.confidence - each.accuracy) * each.count for each in bins) / len(gold_E),
        bins=bins,
        coverage=tuple(_coverage(threshold, sure_E, right_E) for threshold in THRESHOLDS),
        confusion=_confusion(predicted_E, gold_E, labels),
    )


def interval(share: float, count: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a share of `count` trials."""
    centre = share + Z**2 / (2 * count)
    spread = Z * math.sqrt(share * (1 - share) / count + Z**2 / (4 * count**2))
    scale = 1 + Z**2 / count
    return max(0.0, (centre - spread) / scale), min(1.0, (centre + spread) / scale)


def _per_label(predicted_E: Ints, gold_E: Ints, labels: Sequence[str]) -> tuple[LabelReport, ...]:
    """Return a report on each label that an example has or was given."""
    count = len(labels)
    given = np.bincount(predicted_E, minlength=count)
    support = np.bincount(gold_E, minlength=count)
    right = np.bincount(gold_E[predicted_E == gold_E], minlength=count)
    return tuple(
        LabelReport(
            labels[index],
            float(right[index] / given[index]) if given[index] else 0.0,
            float(right[index] / support[index]) if support[index] else 0.0,
            float(2 * right[index] / (given[index] + support[index])),
            int(support[index]),
        )
        for index in np.flatnonzero(given + support).tolist()
    )


def _bins(sure_E: Floats, right_E: npt.NDArray[np.bool_]) -> tuple[Bin, ...]:
    """Return the bins that have a prediction in them."""
    # A probability on an edge belongs to the bin that begins there; 1 to the last.
    where = np.minimum((sure_E * BINS).astype(int), BINS - 1)
    counts = np.bincount(where, minlength=BINS)
    confidence = np.bincount(where, sure_E, BINS)
    right = np.bincount(where, right_E, BINS)
    return tuple(
        Bin(
            index / BINS,
            (index + 1) / BINS,
            int(counts[index]),
            float(confidence[index] / counts[index]),
            float(right[index] / counts[index]),
        )
        for index in np.flatnonzero(counts).tolist()
    )


def _coverage(threshold: float, sure_E: Floats, right_E: npt.NDArray[np.bool_]) -> Coverage:
    chosen = right_E[sure_E >= threshold]
    return Coverage(threshold, len(chosen) / len(right_E), float(chosen.mean()) if len(chosen) else None)


def _confusion(predicted_E: Ints, gold_E: Ints, labels: Sequence[str]) -> tuple[Confusion, ...]:
    pairs, counts = np.unique(gold_E * len(labels) + predicted_E, return_counts=True)
    return tuple(
        Confusion(labels[pair // len(labels)], labels[pair % len(labels)], int(count))
        for pair, count in zip(pairs.tolist(), counts, strict=True)
    )
