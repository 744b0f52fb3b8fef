"""Classifiers. Shapes: E examples, C classes."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from itertools import combinations, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from satchel import config
from satchel.api.model import MAX_LABELS, Model
from satchel.charts import html
from satchel.data.batches import Ints, split_documents
from satchel.data.examples import class_indices, tokenize_texts
from satchel.data.tokens import decode_documents
from satchel.errors import DataError, RunError
from satchel.evaluation.classification import ClassificationMetrics, classification
from satchel.evaluation.comparison import UnitCosts
from satchel.ngram.classes import ClassNgramSettings, estimate_classes
from satchel.predictor import Floats, Labeller
from satchel.progress import Progress, silent
from satchel.runs import folder as runs
from satchel.text import row_files
from satchel.text.display import role_of, visible
from satchel.text.tables import read_examples
from satchel.text.windows import Reading
from satchel.training.defaults import MOST_COUNTED

if TYPE_CHECKING:
    from satchel.inspection.ablation import Measure
    from satchel.inspection.contributions import Contributions

# Number of texts classified or tagged at once.
BATCH = 1024
# Maximum number of labels in a message.
SHOWN_LABELS = 5


@dataclass(frozen=True)
class Prediction:
    """The most probable label of a text, and the probabilities of all labels in descending order.

    `reading` states whether the text is longer than the context and is read in windows; the label depends on all.
    """

    text: str
    label: str
    probabilities: dict[str, float]
    reading: Reading
    explain: "Callable[[str], list[Contributions]] | None" = field(default=None, repr=False, compare=False)

    @cached_property
    def contributions(self) -> "list[Contributions]":
        """Contributions of senses to the logit of each label, in the order of the labels of the model.

        Empty unless the model is a Backpack.
        """
        return [] if self.explain is None else self.explain(self.text)

    def cells(self) -> dict[str, Any]:
        """Return the columns of a table of predictions."""
        return {"label": self.label, "probability": round(self.probability, 6)}

    def document(self, *, contributions: bool = True) -> dict[str, Any]:
        """Return the keys of a prediction in `classify --json`, for a Backpack with its contributions."""
        fields = {"text": self.text, **self.cells()}
        fields |= {"probabilities": self.probabilities, "windows": self.reading.windows}
        explained = self.contributions if contributions else []
        return {**fields, **_label_contributions(explained)} if explained else fields

    @property
    def note(self) -> str:
        """A note if the text is longer than the context of the model; otherwise empty."""
        return self.reading.note(self.text, "words of different windows do not affect each other's encodings")

    @property
    def probability(self) -> float:
        """Probability of the most probable label."""
        return self.probabilities[self.label]

    def _repr_html_(self) -> str:
        rows = [(label, f"{value:.4f}") for label, value in list(self.probabilities.items())[:MAX_LABELS]]
        table = html.table(["label", "probability"], rows)
        return html.passage(self.text) + table + html.lines(filter(None, [self.note]))


def _label_contributions(explained: "Sequence[Contributions]") -> dict[str, Any]:
    """Return the contribution of each sense of each word to the logit of each label.

    `value` and `bias` sum to the logit, and so do `centred` and `centred_bias`.
    """
    return {
        "contributions": [
            {
                "word": word,
                "role": role_of(word),
                "position": position,
                "sense": sense,
                "label": each.target,
                "value": float(value),
                "centred": float(centred),
            }
            for each in explained
            for word, position, values, all_centred in zip(
                each.words, each.positions, each.values, each.centred, strict=True
            )
            for sense, (value, centred) in enumerate(zip(values, all_centred, strict=True))
        ],
        "bias": {each.target: each.constant for each in explained},
        "centred_bias": {each.target: each.bias for each in explained},
        "logits": {each.target: each.logit for each in explained},
    }


@dataclass(frozen=True)
class LabelledPredictions:
    """Class ids of labelled examples, and the log-probabilities predicted for them.

    `names` are the labels of the model, followed by labels that occur only in these examples.
    """

    gold_E: Ints
    names: tuple[str, ...]
    logprobs_EC: Floats
    texts: Iterable[str]  # or tagged units; read only by `wrong`
    unlabelled: int = 0  # number of skipped rows without a label or tags

    def wrong(self) -> list[tuple[str, str, float, str]]:
        """Return label, prediction, its probability and text of every error, most confident first."""
        texts = list(self.texts)
        predicted_E = self.logprobs_EC.argmax(axis=1)
        confidence_E = np.exp(self.logprobs_EC.max(axis=1))
        return [
            (self.names[self.gold_E[e]], self.names[predicted_E[e]], float(confidence_E[e]), texts[e])
            for e in np.argsort(-confidence_E, kind="stable")
            if predicted_E[e] != self.gold_E[e]
        ]


def _few(labels: Sequence[str]) -> str:
    """Return the first labels in one line."""
    shown = ", ".join(map(visible, labels[:SHOWN_LABELS]))
    return shown + (f" and {len(labels) - SHOWN_LABELS:,} more" if len(labels) > SHOWN_LABELS else "")


class LabelModel(Model):
    """Base class of classifiers and taggers."""

    predictor: Labeller

    @abstractmethod
    def labelled_predictions(
        self, data: str | Path | None = None, *, reading: config.Tree | None = None, progress: Progress = silent
    ) -> LabelledPredictions:
        """Return the predictions for every labelled example of a table; without data, of the held-out rows."""

    def evaluate(
        self, data: str | Path | None = None, *, reading: config.Tree | None = None, progress: Progress = silent
    ) -> ClassificationMetrics:
        """Return the metrics on a labelled table; without data, on the held-out rows of the run.

        `reading` changes how the table is read, for example {"text_column": "body"}.
        """
        return self.metrics(self.labelled_predictions(data, reading=reading, progress=progress))

    def _measure(self, data: str | Path | None) -> "tuple[Measure, Callable[[Any], float]]":
        return "accuracy", lambda model: model.evaluate(data).accuracy

    def metrics(self, predictions: LabelledPredictions) -> ClassificationMetrics:
        """Return the metrics of predictions."""
        metrics = classification(predictions.logprobs_EC, predictions.gold_E, predictions.names, self.majority)
        return replace(metrics, unlabelled=predictions.unlabelled)

    def texts_of(self, data: str | Path) -> list[str]:
        """Return the texts of a table, or the lines of a file."""
        corpus = self.table(data)
        return [question.text for question in row_files.read_input_rows(corpus, "text_column")]

    @classmethod
    def comparison_warnings(cls, models: "Sequence[LabelModel]") -> list[str]:
        """Return a warning for each model that lacks labels of another; raise RunError if two have none in common."""
        for a, b in combinations(models, 2):
            if not set(a.labels) & set(b.labels):
                raise RunError(
                    f"has no label in common with {a.folder}: {_few(b.labels)} and {_few(a.labels)}",
                    "compare runs for the same labels",
                    where=str(b.folder),
                )
        labels = dict.fromkeys(label for model in models for label in model.labels)
        missing = [[label for label in labels if label not in model.labels] for model in models]
        return [
            f"{model.folder} cannot predict {_few(absent)}: such rows count as its errors"
            for model, absent in zip(models, missing, strict=True)
            if absent
        ]

    @classmethod
    def unit_costs(
        cls, models: "Sequence[LabelModel]", data: str | Path | None, reading: config.Tree, progress: Progress
    ) -> tuple[str, list[UnitCosts], Iterable[str]]:
        """Return the accuracy of each model by example."""
        predictions = [model.labelled_predictions(data, reading=reading, progress=progress) for model in models]
        labels = [[each.names[class_id] for class_id in each.gold_E] for each in predictions]
        for model, gold in zip(models, labels, strict=True):
            if gold != labels[0]:
                raise RunError(
                    f"was validated on other rows than {models[0].folder}"
                    if data is None
                    else f"reads other rows of {data} than {models[0].folder}",
                    "compare the runs on one file with --data FILE" if data is None else "",
                    where=str(model.folder),
                )
        correct = [(each.logprobs_EC.argmax(axis=1) == each.gold_E) * 1.0 for each in predictions]
        return "accuracy", [UnitCosts(each, np.ones(len(each))) for each in correct], predictions[0].texts


class Classifier(LabelModel):
    """A trained classifier."""

    def classify(self, text: str) -> Prediction:
        """Return the most probable label of a text."""
        return next(self.predict([text]))

    def contributions(self, text: str) -> "list[Contributions]":
        """Return the contribution of each sense of each word to the logit of each label, in the order of `labels`."""
        return self.explainer()(text)

    def explainer(self) -> "Callable[[str], list[Contributions]]":
        """Return `contributions` for several texts: the means over the vocabulary are computed once."""
        from satchel.inspection.contributions import label_contributions
        from satchel.inspection.subject import backpack_of

        means_ND = backpack_of(self).mean_senses()
        return lambda text: label_contributions(self, text, means_ND)

    def predict(
        self,
        texts: Iterable[str],
        batch: int = BATCH,
        explainer: "Callable[[], Callable[[str], list[Contributions]]] | None" = None,
    ) -> Iterator[Prediction]:
        """Return the prediction for each text, in order, reading at most `batch` texts ahead.

        `explainer` returns the function that computes `contributions` when they are first used; by default it is
        created once per call.
        """
        remaining = iter(texts)
        prepared = cache(explainer or self.explainer)
        explain = (lambda text: prepared()(text)) if self.has_senses else None
        while chunk := list(islice(remaining, batch)):
            tokens = tokenize_texts(chunk, self.tokenizer)
            lengths = split_documents(tokens.ids, self.tokenizer.boundary).lengths.tolist()
            for text, length, logprobs_C in zip(chunk, lengths, self.predictor.label(tokens.ids), strict=True):
                order = np.argsort(-logprobs_C, kind="stable")
                probabilities = {self.labels[class_id]: float(np.exp(logprobs_C[class_id])) for class_id in order}
                yield Prediction(text, self.labels[order[0]], probabilities, self.predictor.reading(length), explain)

    def labelled_predictions(
        self, data: str | Path | None = None, *, reading: config.Tree | None = None, progress: Progress = silent
    ) -> LabelledPredictions:
        """Return the predictions for every labelled text of a table; without data, of the held-out rows."""
        texts: Iterable[str]
        unlabelled = 0
        if data is None:
            tokens, names = self.valid_tokens(), self._files.all_labels
            gold_E = self._files.classes(runs.VALID_CLASSES, tokens, per_token=False)
            texts = decode_documents(tokens.ids, self.tokenizer)
        else:
            corpus = self.table(data, reading)
            rows, unlabelled = list(read_examples(corpus)), corpus.unlabelled
            texts = [row.text for row in rows]
            gold_E, all_names = class_indices([row.label for row in rows], self.labels)
            names = tuple(all_names)
            tokens = tokenize_texts(texts, self.tokenizer, lambda done: progress("tokenizing", None))
        if not len(gold_E):
            raise DataError("found no rows, expected at least one", where=str(data))
        progress("classifying", None)
        return LabelledPredictions(gold_E, names, self.predictor.label(tokens.ids), texts, unlabelled)

    def ngram_baseline(self, progress: Progress = silent) -> ClassificationMetrics | None:
        """Return the metrics of an n-gram classifier on the held-out rows; None if there are too many tokens."""
        train = self._files.tokens()
        if train.counts.tokens > MOST_COUNTED:
            return None
        progress("counting n-grams for comparison", None)
        is_single = self.tokenizer.kind in ("char", "byte")
        tables = estimate_classes(
            train.ids,
            self._files.classes(runs.TRAIN_CLASSES, train, per_token=False),
            self.tokenizer.size + 1,
            len(self.labels),
            ClassNgramSettings(order=6 if is_single else 2),
            lambda done: None,
        )
        valid = self.valid_tokens()
        gold_E = self._files.classes(runs.VALID_CLASSES, valid, per_token=False)
        return classification(tables.label(valid.ids), gold_E, self._files.all_labels, self.majority)
