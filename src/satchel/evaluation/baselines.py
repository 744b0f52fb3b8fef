"""Comparison of a trained model with its baselines."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, TypeAlias

from satchel.evaluation.classification import ClassificationMetrics
from satchel.evaluation.likelihood import Likelihood
from satchel.evaluation.translation import TranslationMetrics

Metrics: TypeAlias = Likelihood | ClassificationMetrics | TranslationMetrics

# Relative difference below which a baseline counts as equal.
MARGIN = 1e-3
BASELINES = {
    "ngram": "an n-gram model of the same data",
    "majority": "always predicting the most frequent label",
    "copy": "copying the source",
    "memory": "the translation of the most similar training source",
}


class _Compared(NamedTuple):
    """The value of a metric for a baseline and for the model, and whether lower values are better."""

    baseline: str
    metric: str
    value: float
    model_value: float
    lower_is_better: bool = False


@dataclass(frozen=True)
class BetterBaseline:
    """A baseline that is better than the model, and the commands that use it or improve the model."""

    baseline: str  # ngram, majority, copy or memory
    metric: str
    value: float
    model_value: float
    commands: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """The result in one sentence, with the recommended commands."""
        values = f"{self._number(self.value)} against {self._number(self.model_value)}"
        remedy = f"; use: {'; '.join(self.commands)}" if self.commands else "; train longer, or on more data"
        return f"the baseline is better than the network: {BASELINES[self.baseline]} has {self.metric} {values}{remedy}"

    def _number(self, value: float) -> str:
        return f"{value:.2%}" if self.metric == "accuracy" else f"{value:,.4g}"

    def document(self) -> dict[str, Any]:
        """Return the comparison as JSON."""
        return asdict(self)


def better_baseline(model: Metrics, ngram: Metrics | None) -> BetterBaseline | None:
    """Return the best baseline if it is better than the model; `ngram` are the metrics of an n-gram model."""
    better = [
        each
        for each in _comparisons(model, ngram)
        if (each.model_value - each.value if each.lower_is_better else each.value - each.model_value)
        > MARGIN * abs(each.model_value)
    ]
    if not better:
        return None
    return BetterBaseline(*_best(better)[:4])


def headline_metric(model: Metrics, ngram: Metrics | None) -> tuple[str, float | None, tuple[str, float] | None]:
    """Return the name of the main metric, its value, and the name and the value of the best baseline, if there is one.

    The metric is bits_per_byte or perplexity of a language model, accuracy of a classifier, and chrf of a translator.
    """
    if compared := list(_comparisons(model, ngram)):
        best = _best(compared)
        return best.metric.lower().replace(" ", "_"), best.model_value, (best.baseline, best.value)
    if isinstance(model, Likelihood):
        is_exact = model.bits_per_byte is not None
        return ("bits_per_byte", model.bits_per_byte, None) if is_exact else ("perplexity", model.perplexity, None)
    assert isinstance(model, TranslationMetrics)  # classifiers always have a baseline
    return "chrf", model.quality.chrf, None


def _best(compared: list[_Compared]) -> _Compared:
    return max(compared, key=lambda each: -each.value if each.lower_is_better else each.value)


def _comparisons(model: Metrics, ngram: Metrics | None) -> Iterator[_Compared]:
    """Yield the comparisons with all baselines of a task."""
    if isinstance(model, Likelihood):
        if isinstance(ngram, Likelihood) and model.perplexity is not None and ngram.perplexity is not None:
            if model.bits_per_byte is not None and ngram.bits_per_byte is not None:
                yield _Compared("ngram", "bits per byte", ngram.bits_per_byte, model.bits_per_byte, True)
            else:
                yield _Compared("ngram", "perplexity", ngram.perplexity, model.perplexity, True)
    elif isinstance(model, ClassificationMetrics):
        yield _Compared("majority", "accuracy", model.majority, model.accuracy)
        if isinstance(ngram, ClassificationMetrics):
            yield _Compared("ngram", "accuracy", ngram.accuracy, model.accuracy)
    else:
        for name, quality in model.baselines.items():
            yield _Compared(name, "chrF", quality.chrf, model.quality.chrf)
