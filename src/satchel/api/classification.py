"""Classifiers: what they answer, and how they are fitted. Letters: E examples, C classes."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from satchel import config, durable
from satchel.api.model import Model, TrainReport
from satchel.charts import html
from satchel.data.batches import Ints
from satchel.data.examples import class_indices, read_classes, stratified_folds, tokenize_texts
from satchel.data.tokens import TokenFile, decode_documents, open_tokens
from satchel.errors import DataError
from satchel.evaluation.classification import ClassificationMetrics, classification
from satchel.ngram.classes import MAX_FOLDS, CrossValidation, calibrate, estimate_classes
from satchel.predictor import Floats, Labeller
from satchel.progress import Progress, silent
from satchel.runs import folder as runs
from satchel.text import row_files
from satchel.text.reading import Corpus
from satchel.text.tables import prefer_header, read_examples
from satchel.training.plan import Plan
from satchel.training.rows import write_labelled
from satchel.training.run_settings import ClassifierSettings

if TYPE_CHECKING:
    from satchel.api.senses import Explanation
    from satchel.training.networks import NetworkSettings

# As many texts at once as are worth it; more would only take memory.
BATCH = 1024
# As many labels as a notebook shows.
MOST_LABELS = 10
CHECK_FOLDS = 2 * MAX_FOLDS


@dataclass(frozen=True)
class Prediction:
    """The likeliest label of a text, and the probability of every label, likeliest first."""

    text: str
    label: str
    probabilities: dict[str, float]

    @property
    def probability(self) -> float:
        """How sure the label is."""
        return self.probabilities[self.label]

    def _repr_html_(self) -> str:
        rows = [(label, f"{chance:.4f}") for label, chance in list(self.probabilities.items())[:MOST_LABELS]]
        return html.passage(self.text) + html.table(["label", "probability"], rows)


@dataclass(frozen=True)
class LabelledPredictions:
    """Labelled examples and what a classifier says of them; `names` are its labels, then those only they have."""

    texts: tuple[str, ...]
    gold_E: Ints
    names: tuple[str, ...]
    logprobs_EC: Floats

    def wrong(self) -> list[tuple[str, str, float, str]]:
        """Return label, prediction, its probability and the text of every error, the surest first."""
        predicted_E = self.logprobs_EC.argmax(axis=1)
        sure_E = np.exp(self.logprobs_EC.max(axis=1))
        errors = [
            example for example in np.argsort(-sure_E, kind="stable") if predicted_E[example] != self.gold_E[example]
        ]
        return [
            (self.names[self.gold_E[e]], self.names[predicted_E[e]], float(sure_E[e]), self.texts[e]) for e in errors
        ]


class Classifier(Model):
    """A trained classifier and everything it can be asked."""

    predictor: Labeller
    settings: "ClassifierSettings | NetworkSettings"

    def classify(self, text: str) -> Prediction:
        """Return the label of a text."""
        return next(self.predict([text]))

    def contributions(self, text: str) -> "list[Explanation]":
        """Return what each sense of each word adds to the score of each label, in the order of `labels`."""
        return self.reader.explain_labels(text)

    def texts_of(self, data: str | Path) -> list[str]:
        """Return the texts of a table's rows, or of a file's lines."""
        corpus = prefer_header(self.corpus(data))
        return [question.text for question in row_files.read_input_rows(corpus, corpus.settings.text_column)]

    def predict(self, texts: Iterable[str], batch: int = BATCH) -> Iterator[Prediction]:
        """Return the label of each text, in order, reading no more than `batch` of them ahead."""
        waiting = iter(texts)
        while some := list(islice(waiting, batch)):
            tokens = tokenize_texts(some, self.tokenizer)
            for text, logprobs_C in zip(some, self.predictor.label(tokens.ids), strict=True):
                best = np.argsort(-logprobs_C, kind="stable")
                chances = {self.labels[place]: float(np.exp(logprobs_C[place])) for place in best}
                yield Prediction(text, self.labels[best[0]], chances)

    def evaluate(
        self, data: str | Path | None = None, *, reading: config.Tree | None = None, progress: Progress = silent
    ) -> ClassificationMetrics:
        """Return how good it is on labelled texts; without any, on the run's own held-out rows.

        `reading` may change how the table is read: {"text_column": "body"}.
        """
        return self.metrics(self.judge(data, reading=reading, progress=progress))

    def metrics(self, judged: LabelledPredictions) -> ClassificationMetrics:
        """Return how good its answers are."""
        return classification(judged.logprobs_EC, judged.gold_E, judged.names, self.majority)

    def judge(
        self, data: str | Path | None = None, *, reading: config.Tree | None = None, progress: Progress = silent
    ) -> LabelledPredictions:
        """Return what it says of every labelled text of a table, or of the run's own held-out rows."""
        if data is None:
            tokens, gold_E, names = self._own_examples()
            texts = tuple(decode_documents(tokens.ids, self.tokenizer))
        else:
            corpus = self.corpus(data, reading)
            corpus = corpus if reading and "columns" in reading else prefer_header(corpus)
            rows = list(read_examples(corpus))
            texts = tuple(row.text for row in rows)
            gold_E, all_names = class_indices([row.label for row in rows], self.labels)
            names = tuple(all_names)
            tokens = tokenize_texts(texts, self.tokenizer, lambda done: progress("tokenizing", None))
        if not len(gold_E):
            raise DataError("found no rows, expected at least one", where=str(data))
        progress("classifying", None)
        return LabelledPredictions(texts, gold_E, names, self.predictor.label(tokens.ids))

    def _own_examples(self) -> tuple[TokenFile, Ints, tuple[str, ...]]:
        tokens = self.own_valid()
        names = (*self.labels, *self.run.facts["labels_only_held_out"])
        gold_E = read_classes(self.folder / runs.VALID_CLASSES, tokens.counts.documents, len(names))
        return tokens, gold_E, names


# --- fitting ---------------------------------------------------------------------------------------


def fit_classifier(
    folder: durable.NewFolder, corpus: Corpus, planned: Plan, target: Path, began: float, progress: Progress
) -> Classifier:
    """Count a classifier from a table and write its run into a new folder."""
    settings = planned.settings
    assert isinstance(settings, ClassifierSettings)
    rows = write_labelled(folder, corpus, planned, progress)
    size, names = rows.tokenizer.size + 1, rows.names
    tokens = open_tokens(folder.path / runs.TRAIN_TOKENS)
    counted = estimate_classes(
        tokens.ids,
        rows.classes,
        size,
        len(names),
        settings.model,
        lambda done: progress("counting the classes", done),
    )
    progress("cross-checking", None)
    parts = stratified_folds(rows.classes, CHECK_FOLDS, settings.training.seed)
    fitted, check = calibrate(counted, tokens.ids, rows.classes, parts, settings.model)
    progress("writing", None)
    facts = {
        "counts": asdict(tokens.counts),
        "repaired": dict(corpus.repaired),
        "rows_by_label": np.bincount(rows.classes, minlength=len(names)).tolist(),
        "labels_only_held_out": list(rows.others),
        "ngrams": fitted.background.sizes,
        "temper": asdict(fitted.temperature),
        "cross_check": asdict(check) if check else None,
    }
    described = runs.describe(settings, rows.tokenizer, corpus.name, rows.sha256, facts, names)
    runs.write_model(folder, described, rows.tokenizer, fitted.arrays())
    trained = Classifier(fitted, rows.tokenizer, settings, described, target)
    valid = None
    if rows.valid is not None:
        held = open_tokens(folder.path / runs.VALID_TOKENS)
        valid = classification(fitted.label(held.ids), rows.valid, (*names, *rows.others), trained.majority)
    seconds = time.perf_counter() - began
    runs.write_metrics(
        folder,
        step=0,
        seconds=round(seconds, 3),
        train_loss=_loss(check),
        valid_accuracy=valid.accuracy if valid else None,
    )
    trained.report = TrainReport(
        run=str(target),
        parameters=fitted.parameters,
        seconds=seconds,
        tokens_per_second=tokens.counts.tokens / seconds,
        train_loss=_loss(check),
        valid=valid,
        reasons=planned.reasons,
        counts=tokens.counts,
    )
    return trained


def _loss(check: CrossValidation | None) -> float | None:
    return check.nats_per_example if check else None
