"""Taggers: what they answer. Letters: N tags, C classes."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from satchel import config
from satchel.api.classification import LabelledPredictions
from satchel.api.model import Model
from satchel.charts import html
from satchel.data.batches import NO_TARGET
from satchel.data.examples import class_indices, read_classes
from satchel.data.tagged import Unit, split_tags, split_units, tokenize_tagged
from satchel.errors import DataError
from satchel.evaluation.classification import ClassificationMetrics, classification
from satchel.predictor import Labeller
from satchel.progress import Progress, silent
from satchel.runs import folder as runs
from satchel.text.tables import prefer_header, read_tagged
from satchel.training.rows import check_unit

if TYPE_CHECKING:
    from satchel.training.networks import NetworkSettings

BATCH = 1024


@dataclass(frozen=True)
class Tagging:
    """A text, what its tags belong to, the tags, and how sure each is."""

    text: str
    tokens: tuple[str, ...]
    tags: tuple[str, ...]
    probabilities: tuple[float, ...]

    def _repr_html_(self) -> str:
        """Show each tag below what it belongs to, the fainter the surer it is."""
        return html.tinted(self.tokens, [1 - chance for chance in self.probabilities], self.tags)


class Tagger(Model):
    """A trained tagger and everything it can be asked."""

    predictor: Labeller
    settings: "NetworkSettings"

    @property
    def unit(self) -> Unit:
        """What a tag belongs to."""
        unit: Unit = self.run.facts["unit"]
        return unit

    def tag(self, text: str) -> Tagging:
        """Return the tags of a text."""
        return next(self.predict([text]))

    def predict(self, texts: Iterable[str], batch: int = BATCH) -> Iterator[Tagging]:
        """Return the tags of each text, in order, reading no more than `batch` of them ahead."""
        waiting = iter(texts)
        while some := list(islice(waiting, batch)):
            tokens, places_N = tokenize_tagged(some, self.tokenizer, self.unit)
            logprobs_NC = self.predictor.label(tokens.ids)[places_N]
            best_N, sure_N = logprobs_NC.argmax(axis=1), np.exp(logprobs_NC.max(axis=1))
            start = 0
            for text in some:
                parts = split_units(text, self.unit, self.tokenizer)
                found = slice(start, start := start + len(parts))
                tags = tuple(self.labels[place] for place in best_N[found])
                yield Tagging(text, tuple(parts), tags, tuple(sure_N[found].tolist()))

    def evaluate(
        self, data: str | Path | None = None, *, reading: config.Tree | None = None, progress: Progress = silent
    ) -> ClassificationMetrics:
        """Return how good its tags are; without data, on the run's own held-out rows."""
        return self.metrics(self.judge(data, reading=reading, progress=progress))

    def metrics(self, judged: LabelledPredictions) -> ClassificationMetrics:
        """Return how good its answers are."""
        return classification(judged.logprobs_EC, judged.gold_E, judged.names, self.majority)

    def judge(
        self, data: str | Path | None = None, *, reading: config.Tree | None = None, progress: Progress = silent
    ) -> LabelledPredictions:
        """Return what it says of every tag of a table, or of the run's own held-out rows."""
        if data is None:
            names = (*self.labels, *self.run.facts["labels_only_held_out"])
            tokens = self.own_valid()
            placed = read_classes(self.folder / runs.VALID_CLASSES, len(tokens.ids), len(names), NO_TARGET)
            places_N = np.flatnonzero(placed != NO_TARGET)
            gold_N = placed[places_N]
            texts = tuple(self.tokenizer.text_of(int(id_)) for id_ in tokens.ids[places_N])
        else:
            corpus = self.corpus(data, reading)
            rows = list(read_tagged(corpus if reading and "columns" in reading else prefer_header(corpus)))
            check_unit(rows, self.unit, self.tokenizer, corpus.name)
            gold_N, all_names = class_indices([tag for row in rows for tag in split_tags(row, self.unit)], self.labels)
            names = tuple(all_names)
            progress("tokenizing", None)
            tokens, places_N = tokenize_tagged([row.text for row in rows], self.tokenizer, self.unit)
            texts = tuple(part for row in rows for part in split_units(row.text, self.unit, self.tokenizer))
        if not len(gold_N):
            raise DataError("found no tags, expected at least one", where=str(data))
        progress("tagging", None)
        return LabelledPredictions(texts, gold_N, names, self.predictor.label(tokens.ids)[places_N])
