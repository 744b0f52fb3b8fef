"""N-gram models as language models and classifiers. Imports no torch."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from satchel import durable
from satchel.data.splits import stratified_folds
from satchel.data.tokens import TokenFile, open_tokens
from satchel.errors import SettingsError
from satchel.evaluation.classification import ClassificationMetrics, classification
from satchel.evaluation.likelihood import likelihood
from satchel.ngram.classes import MAX_FOLDS, ClassTables, calibrate, class_tables_from_arrays, estimate_classes
from satchel.ngram.smoothing import estimate
from satchel.ngram.tables import table_from_arrays
from satchel.progress import Progress
from satchel.runs import folder as runs
from satchel.runs.folder import RunFolder
from satchel.torchrun import launch
from satchel.training.examples.common import Examples, open_data
from satchel.training.report import Hooks, TrainReport
from satchel.training.settings import ClassNgramRunSettings, NgramRunSettings, RunSettings

if TYPE_CHECKING:
    from satchel.training.plan import Plan

# Seconds per token and order of counting n-grams, with a margin.
COUNTING_SECONDS = 1.5e-7
# Number of folds of the cross-validation of a classifier.
CHECK_FOLDS = 2 * MAX_FOLDS


# A model estimated from counts, facts for the run's configuration, and the training loss.
Counted: TypeAlias = tuple[Any, dict[str, Any], float | None]


def counting_seconds(tokens: int, order: int) -> float:
    """Return the expected time of counting the n-grams of a text."""
    return COUNTING_SECONDS * tokens * order


@dataclass(frozen=True)
class Counting:
    """Estimates and loads the n-gram model of a task."""

    settings: type[RunSettings]
    estimate: Callable[[Any, TokenFile, Examples, Progress], Counted]
    load: Callable[[RunFolder, Any, Any], Any]  # returns the predictor of a run with these settings
    evaluate: Callable[[Any, RunFolder, TokenFile], Any]  # returns the metrics of a predictor on the held-out tokens
    metric: tuple[str, str]  # key in metrics.jsonl, and attribute of the metrics
    character_order: int  # default order for tokens that are single characters
    tables: int = 1  # number of probabilities stored per n-gram, for estimates

    def estimates(self, settings: Any, vocabulary: int, tokens: int, characters: int) -> dict[str, int]:
        """Return the expected numbers of parameters, bytes of memory and seconds."""
        ngrams = self.tables * sum(min((vocabulary - 1) ** n, tokens) for n in range(1, settings.model.order + 1))
        return {
            "parameters_at_most": 2 * ngrams,
            "memory_bytes": 100 * tokens + 40 * ngrams,
            "seconds": 1 + int(characters * 4e-7 + ngrams * 5e-7),
        }

    def train(self, plan: "Plan", target: Path, hooks: Hooks, *, force: bool) -> tuple[TrainReport, Any]:
        """Count n-grams, write a new run, and return a report and the predictor."""
        settings, progress, began = plan.settings, hooks.progress, time.perf_counter()
        if settings.model.smoothing == "imported":
            raise SettingsError("model.smoothing=imported: imported models cannot be trained", "use kneser-ney")
        if launch().size > 1:
            raise SettingsError("n-grams are counted by a single process", "start satchel without torchrun")
        with durable.new_folder(target, runs.check_replaceable if force else None) as folder:
            corpus = open_data(folder, plan, progress)
            examples = plan.task.write_examples(folder, corpus, plan, progress)
            tokenizer, tokens = examples.tokenizer, open_tokens(folder.path / runs.TRAIN_TOKENS)
            predictor, facts, train_loss = self.estimate(settings, tokens, examples, progress)
            progress("writing", None)
            facts = examples.facts | facts
            config = runs.new_config(settings, tokenizer, corpus.name, examples.sha256, facts, examples.labels)
            runs.write_model(folder, config, tokenizer, predictor.arrays())
            run = RunFolder(folder.path, config, tokenizer, tokenizer)
            held_out = run.valid_tokens()
            valid = self.evaluate(predictor, run, held_out) if held_out else None
            seconds = time.perf_counter() - began
            key, attribute = self.metric
            metrics = {"train_loss": train_loss, key: getattr(valid, attribute, None)}
            runs.write_metrics(folder, step=0, seconds=round(seconds, 3), **metrics)
        report = TrainReport(
            run=str(target),
            parameters=predictor.parameters,
            seconds=seconds,
            tokens_per_second=tokens.counts.tokens / max(seconds, 1e-9),
            train_loss=train_loss,
            counts=tokens.counts,
            valid=valid,
            reasons=plan.reasons,
        )
        return report, predictor


def _count_language(settings: NgramRunSettings, tokens: TokenFile, examples: Examples, progress: Progress) -> Counted:
    order = settings.model.order
    result = estimate(
        tokens.ids,
        examples.tokenizer.size + 1,
        settings.model,
        ends=settings.data.documents != "stream",
        progress=lambda n: progress(f"counting {n}-grams", (n - 1) / order),
    )
    facts = {
        "ngrams": result.table.sizes,
        "discounts": [[*discount.amounts] for discount in result.discounts],
        "fallback_orders": [n for n, discount in enumerate(result.discounts, start=1) if discount.is_fallback],
    }
    return result.table, facts, result.train_loss


def _count_classes(
    settings: ClassNgramRunSettings, tokens: TokenFile, examples: Examples, progress: Progress
) -> Counted:
    classes = examples.classes
    assert classes is not None
    counted = estimate_classes(
        tokens.ids,
        classes,
        examples.tokenizer.size + 1,
        len(examples.labels),
        settings.model,
        lambda done: progress("counting the classes", done),
    )
    progress("cross-validating", None)
    parts = stratified_folds(classes, CHECK_FOLDS, settings.training.seed)
    tables, check = calibrate(counted, tokens.ids, classes, parts, settings.model)
    facts = {
        "ngrams": tables.background.sizes,
        "temper": asdict(tables.temperature),
        "cross_check": asdict(check) if check else None,
    }
    return tables, facts, check.nats_per_example if check else None


def _evaluate_classes(tables: ClassTables, run: RunFolder, valid: TokenFile) -> ClassificationMetrics:
    gold_E = run.classes(runs.VALID_CLASSES, valid, per_token=False)
    return classification(tables.label(valid.ids), gold_E, run.all_labels, run.majority)


LANGUAGE = Counting(
    NgramRunSettings,
    estimate=_count_language,
    load=lambda run, settings, custom_encoder: table_from_arrays(
        run.arrays(), run.tokenizer.size + 1, settings.model.order, str(run.path / runs.MODEL)
    ),
    evaluate=lambda table, run, valid: likelihood(table, valid.ids, valid.counts),
    metric=("valid_loss", "nats_per_token"),
    character_order=7,
)
CLASSIFICATION = Counting(
    ClassNgramRunSettings,
    estimate=_count_classes,
    load=lambda run, settings, custom_encoder: class_tables_from_arrays(
        run.arrays(), run.tokenizer.size + 1, settings.model, len(run.config.labels), str(run.path / runs.MODEL)
    ),
    evaluate=_evaluate_classes,
    metric=("valid_accuracy", "accuracy"),
    character_order=6,
    tables=2,
)
