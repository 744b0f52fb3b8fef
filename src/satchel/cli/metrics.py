"""Evaluation results of each task as tables and as JSON."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from satchel.cli.output import TEXT, message, print, print_fields, print_table

if TYPE_CHECKING:
    from satchel.api.model import Model
    from satchel.evaluation.classification import ClassificationMetrics
    from satchel.evaluation.likelihood import Likelihood
    from satchel.evaluation.translation import Quality, TranslationMetrics

# Maximum numbers of labels and of confusions printed; JSON contains all of them.
MAX_LABELS, MAX_CONFUSIONS = 20, 10
BASELINES = {"copy": "copy of the source", "memory": "nearest training pair"}
# Columns of a table of translation quality: scores from 0 to 100, and a share.
QUALITY = {"BLEU": ".2f", "BLEU (lower case)": ".2f", "chrF": ".2f", "exact match": ".2%"}


def show_metrics(model: "Model", metrics: Any) -> None:
    """Print an evaluation result as tables."""
    SHOW[model.settings.task](metrics)


# --- language models ---------------------------------------------------------------------------------


def _show_likelihood(metrics: "Likelihood") -> None:
    def number(value: float | None, digits: int) -> str:
        reason = "the model sees its targets" if metrics.sees_targets else "the tokenizer does not preserve the text"
        return f"-  (not defined: {reason})" if value is None else f"{value:,.{digits}f}"

    unknown = f", {metrics.unknown:,} unknown" if metrics.unknown else ""
    fields = [
        ("tokens", f"{metrics.tokens:,}{unknown}"),
        ("perplexity", number(metrics.perplexity, 2)),
        ("nats per token", number(metrics.nats_per_token, 4)),
        ("bits per byte", number(metrics.bits_per_byte, 4)),
        ("bits per character", number(metrics.bits_per_character, 4)),
        ("context", metrics.context),
    ]
    if metrics.impossible:
        fields.append(("zero probability", f"{metrics.impossible:,} tokens"))
    print_fields(fields)
    if metrics.targets_in_input is not None and metrics.targets_not_in_input is not None:
        print()
        parts = {"in the input": metrics.targets_in_input, "not in the input": metrics.targets_not_in_input}
        print_table(
            {"target": TEXT, "tokens": ",", "perplexity": ",.4g", "nats per token": ".4f"},
            [[name, part.tokens, part.perplexity, part.nats_per_token] for name, part in parts.items()],
        )
        from satchel.evaluation.likelihood import SEES_TARGETS

        message(SEES_TARGETS)
    if orders := metrics.notes.get("order"):
        print()
        print_table(
            {"n-gram order": TEXT, "tokens": ",", "share": ".1%"},
            [[order, count, count / metrics.tokens] for order, count in orders.items()],
        )


# --- classifiers and taggers -------------------------------------------------------------------------


def _show_labels(metrics: "ClassificationMetrics") -> None:
    fields = [
        ("examples", f"{metrics.examples:,}"),
        ("accuracy", f"{metrics.accuracy:.2%} (95 % CI {metrics.low:.2%} to {metrics.high:.2%})"),
        ("majority-class baseline", f"{metrics.majority:.2%}"),
        ("macro F1", f"{metrics.macro_f1:.4f}"),
        ("expected calibration error", f"{metrics.expected_error:.4f}"),
    ]
    if metrics.unseen:
        fields.append(("unseen labels", f"{metrics.unseen:,} examples have a label that is not in the training data"))
    if metrics.unlabelled:
        fields.append(("skipped rows", f"{metrics.unlabelled:,} without a label"))
    print_fields(fields)
    print()
    reports = sorted(metrics.per_label, key=lambda each: -each.support)
    print_table(
        {"label": TEXT, "precision": ".3f", "recall": ".3f", "F1": ".3f", "support": ","},
        [[each.label, each.precision, each.recall, each.f1, each.support] for each in reports[:MAX_LABELS]],
    )
    if len(reports) > MAX_LABELS:
        message(f"{len(reports) - MAX_LABELS:,} more labels (--json prints all)")
    errors = sorted((each for each in metrics.confusion if each.label != each.predicted), key=lambda each: -each.count)
    if errors:
        print()
        rows = [[each.label, each.predicted, each.count] for each in errors[:MAX_CONFUSIONS]]
        print_table({"label": TEXT, "predicted": TEXT, "count": ","}, rows)
    print()
    print_table(
        {"minimum probability": ".2f", "share of examples": ".1%", "accuracy": ".1%"},
        [[each.threshold, each.share, each.accuracy] for each in metrics.coverage],
    )


# --- translators -------------------------------------------------------------------------------------


def _show_translation(metrics: "TranslationMetrics") -> None:
    unknown = f", {metrics.unknown:,} unknown source tokens" if metrics.unknown else ""
    fields = [
        ("sentences", f"{metrics.sentences:,}{unknown}"),
        ("perplexity", f"{metrics.perplexity:,.2f} per token of the references"),
        ("BLEU signature", metrics.signature),
        ("chrF signature", metrics.chrf_signature),
    ]
    print_fields(fields)
    print()
    rows = {"this model": metrics.quality, **{BASELINES[name]: each for name, each in metrics.baselines.items()}}
    print_table({"": TEXT, **QUALITY}, [[name, *quality_cells(each)] for name, each in rows.items()])


def quality_cells(quality: "Quality") -> list[float]:
    """Return the values of the columns in QUALITY."""
    return [quality.bleu, quality.bleu_lowercase, quality.chrf, quality.exact_match]


SHOW: dict[str, Callable[[Any], None]] = {
    "lm": _show_likelihood,
    "classify": _show_labels,
    "tag": _show_labels,
    "translate": _show_translation,
}
