"""Classification metrics: accuracy, precision, recall, F1, calibration, accuracy at coverage, confusion matrix.

Shapes: E examples, C classes. Examples whose label did not occur in training count as errors.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from satchel.charts import html
from satchel.predictor import Floats

Ints = npt.NDArray[np.int64]

# Number of calibration bins.
BINS = 10
# Maximum number of labels listed in a notebook.
MAX_LABELS = 30
THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
# 97.5 % quantile of the normal distribution, for 95 % confidence intervals.
Z = 1.959963984540054


@dataclass(frozen=True)
class LabelMetrics:
    """Precision, recall and F1 of one label; `support` is its number of examples."""

    label: str
    precision: float
    recall: float
    f1: float
    support: int


@dataclass(frozen=True)
class Bin:
    """Calibration bin: predictions with a probability from `low` to `high`, their mean confidence and accuracy."""

    low: float
    high: float
    count: int
    confidence: float
    accuracy: float


@dataclass(frozen=True)
class Coverage:
    """Share of the predictions with a probability of at least `threshold`, and their accuracy."""

    threshold: float
    share: float
    accuracy: float | None


@dataclass(frozen=True)
class Confusion:
    """Entry of the confusion matrix: number of examples of `label` predicted as `predicted`."""

    label: str
    predicted: str
    count: int


@dataclass(frozen=True)
class ClassificationMetrics:
    """Metrics of a classifier on labelled examples; `low` and `high` bound the 95 % CI of the accuracy."""

    examples: int
    accuracy: float
    low: float
    high: float
    macro_f1: float
    majority: float  # accuracy of the most frequent training label
    unseen: int  # number of examples whose label did not occur in training
    per_label: tuple[LabelMetrics, ...]
    expected_error: float  # expected calibration error: mean |confidence - accuracy|, weighted by bin size
    bins: tuple[Bin, ...]
    coverage: tuple[Coverage, ...]
    confusion: tuple[Confusion, ...]
    unlabelled: int = 0  # number of skipped rows without a label

    @property
    def headline(self) -> str:
        """One-line summary: accuracy with its 95 % CI."""
        interval = f"95 % CI {100 * self.low:.2f} to {100 * self.high:.2f}"
        return f"accuracy {self.accuracy:.2%} ({interval}) on {self.examples:,} examples"

    def document(self) -> dict[str, Any]:
        """Return the metrics as JSON."""
        return {
            "examples": self.examples,
            "accuracy": self.accuracy,
            "accuracy_interval": [self.low, self.high],
            "macro_f1": self.macro_f1,
            "majority_accuracy": self.majority,
            "unseen_labels": self.unseen,
            "unlabelled": self.unlabelled,
            "per_label": [asdict(each) for each in self.per_label],
            "calibration": {"expected_error": self.expected_error, "bins": [asdict(each) for each in self.bins]},
            "coverage": [asdict(each) for each in self.coverage],
            "confusion": [asdict(each) for each in self.confusion],
        }

    def _repr_html_(self) -> str:
        rows = [
            (each.label, f"{each.precision:.3f}", f"{each.recall:.3f}", f"{each.f1:.3f}", f"{each.support:,}")
            for each in self.per_label
        ]
        lines = [
            f"{self.headline}; majority class {self.majority:.2%}",
            f"macro F1 {self.macro_f1:.3f}, expected calibration error {self.expected_error:.3f}",
        ]
        more = [f"{len(rows) - MAX_LABELS:,} more labels"] if len(rows) > MAX_LABELS else []
        columns = ["label", "precision", "recall", "F1", "support"]
        return html.lines(lines) + html.table(columns, rows[:MAX_LABELS]) + html.lines(more)


def classification(logprobs_EC: Floats, gold_E: Ints, labels: Sequence[str], majority: int) -> ClassificationMetrics:
    """Return the metrics. `labels` names the C classes, followed by labels that occur in the evaluation data only."""
    predicted_E = logprobs_EC.argmax(axis=1)
    confidence_E = np.exp(logprobs_EC[np.arange(len(gold_E)), predicted_E])
    correct_E = predicted_E == gold_E
    accuracy = float(correct_E.mean())
    per_label = _per_label(predicted_E, gold_E, labels)
    bins = _bins(confidence_E, correct_E)
    low, high = interval(accuracy, len(gold_E))
    return ClassificationMetrics(
        examples=len(gold_E),
        accuracy=accuracy,
        low=low,
        high=high,
        macro_f1=float(np.mean([label.f1 for label in per_label])),
        majority=float((gold_E == majority).mean()),
        unseen=int((gold_E >= logprobs_EC.shape[1]).sum()),
        per_label=per_label,
        expected_error=sum(abs(each.confidence - each.accuracy) * each.count for each in bins) / len(gold_E),
        bins=bins,
        coverage=tuple(_coverage(threshold, confidence_E, correct_E) for threshold in THRESHOLDS),
        confusion=_confusion(predicted_E, gold_E, labels),
    )


def interval(share: float, count: int) -> tuple[float, float]:
    """Return the Wilson 95 % confidence interval of a proportion of `count` trials."""
    centre = share + Z**2 / (2 * count)
    spread = Z * math.sqrt(share * (1 - share) / count + Z**2 / (4 * count**2))
    scale = 1 + Z**2 / count
    return max(0.0, (centre - spread) / scale), min(1.0, (centre + spread) / scale)


def _per_label(predicted_E: Ints, gold_E: Ints, labels: Sequence[str]) -> tuple[LabelMetrics, ...]:
    """Return the metrics of each label that occurs as a gold label or as a prediction."""
    count = len(labels)
    predictions = np.bincount(predicted_E, minlength=count)
    support = np.bincount(gold_E, minlength=count)
    correct = np.bincount(gold_E[predicted_E == gold_E], minlength=count)
    return tuple(
        LabelMetrics(
            labels[index],
            float(correct[index] / predictions[index]) if predictions[index] else 0.0,
            float(correct[index] / support[index]) if support[index] else 0.0,
            float(2 * correct[index] / (predictions[index] + support[index])),
            int(support[index]),
        )
        for index in np.flatnonzero(predictions + support).tolist()
    )


def _bins(confidence_E: Floats, correct_E: npt.NDArray[np.bool_]) -> tuple[Bin, ...]:
    """Return the non-empty calibration bins."""
    # A probability on an edge belongs to the bin that starts there; 1 belongs to the last bin.
    bin_E = np.minimum((confidence_E * BINS).astype(int), BINS - 1)
    counts = np.bincount(bin_E, minlength=BINS)
    confidence = np.bincount(bin_E, confidence_E, BINS)
    correct = np.bincount(bin_E, correct_E, BINS)
    bins = []
    for index in np.flatnonzero(counts).tolist():
        count = int(counts[index])
        low, high = index / BINS, (index + 1) / BINS
        bins.append(Bin(low, high, count, float(confidence[index] / count), float(correct[index] / count)))
    return tuple(bins)


def _coverage(threshold: float, confidence_E: Floats, correct_E: npt.NDArray[np.bool_]) -> Coverage:
    covered = correct_E[confidence_E >= threshold]
    return Coverage(threshold, len(covered) / len(correct_E), float(covered.mean()) if len(covered) else None)


def _confusion(predicted_E: Ints, gold_E: Ints, labels: Sequence[str]) -> tuple[Confusion, ...]:
    pairs, counts = np.unique(gold_E * len(labels) + predicted_E, return_counts=True)
    return tuple(
        Confusion(labels[pair // len(labels)], labels[pair % len(labels)], int(count))
        for pair, count in zip(pairs.tolist(), counts, strict=True)
    )
