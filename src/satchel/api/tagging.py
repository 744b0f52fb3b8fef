"""Taggers. Shapes: N tags, C classes."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from satchel import config
from satchel.api.classification import BATCH, LabelledPredictions, LabelModel
from satchel.charts import html
from satchel.data.batches import NO_TARGET, split_documents
from satchel.data.examples import class_indices
from satchel.data.tagged import Unit, split_tags, split_units, tokenize_tagged
from satchel.errors import DataError
from satchel.progress import Progress, silent
from satchel.runs import folder as runs
from satchel.text.tables import read_tagged
from satchel.text.windows import Reading
from satchel.training.examples.rows import check_unit


@dataclass(frozen=True)
class Tagging:
    """The tagged units of a text (characters, words or tokens), their tags, and the probabilities of the tags.

    `reading` states whether the text is longer than the context and is read in overlapping windows. The tag of a token
    is then predicted in the window in which the token has the most context on both sides.
    """

    text: str
    tokens: tuple[str, ...]
    tags: tuple[str, ...]
    probabilities: tuple[float, ...]
    reading: Reading

    def document(self) -> dict[str, Any]:
        """Return the keys of a prediction in `tag --json`."""
        fields = {"text": self.text, "tokens": self.tokens, "tags": self.tags, "probabilities": self.probabilities}
        return {**fields, "windows": self.reading.windows}

    @property
    def note(self) -> str:
        """A note if the text is longer than the context of the model; otherwise empty."""
        return self.reading.note(self.text, "a tag depends on the tokens of one window only")

    def _repr_html_(self) -> str:
        """Show each tag below its unit; the colour is stronger for less probable tags."""
        tinted = html.tinted(self.tokens, [1 - probability for probability in self.probabilities], self.tags)
        return tinted + html.lines(filter(None, [self.note]))


class Tagger(LabelModel):
    """A trained tagger."""

    @property
    def unit(self) -> Unit:
        """Unit that has a tag: character, word or token."""
        unit: Unit = self.run.facts["unit"]
        return unit

    def tag(self, text: str) -> Tagging:
        """Return the tags of a text."""
        return next(self.predict([text]))

    def predict(self, texts: Iterable[str], batch: int = BATCH) -> Iterator[Tagging]:
        """Return the tags of each text, in order, reading at most `batch` texts ahead."""
        remaining = iter(texts)
        while chunk := list(islice(remaining, batch)):
            tokens, positions_N = tokenize_tagged(chunk, self.tokenizer, self.unit)
            logprobs_NC = self.predictor.label(tokens.ids)[positions_N]
            best_N, probabilities_N = logprobs_NC.argmax(axis=1), np.exp(logprobs_NC.max(axis=1))
            start = 0
            lengths = split_documents(tokens.ids, self.tokenizer.boundary).lengths.tolist()
            for text, length in zip(chunk, lengths, strict=True):
                parts = split_units(text, self.unit, self.tokenizer)
                span = slice(start, start := start + len(parts))
                tags = tuple(self.labels[class_id] for class_id in best_N[span])
                yield Tagging(
                    text, tuple(parts), tags, tuple(probabilities_N[span].tolist()), self.predictor.reading(length)
                )

    def labelled_predictions(
        self, data: str | Path | None = None, *, reading: config.Tree | None = None, progress: Progress = silent
    ) -> LabelledPredictions:
        """Return the predictions for every tag of a table; without data, of the held-out rows."""
        unlabelled = 0
        if data is None:
            tokens, names = self.valid_tokens(), self._files.all_labels
            classes = self._files.classes(runs.VALID_CLASSES, tokens, per_token=True)
            positions_N = np.flatnonzero(classes != NO_TARGET)
            gold_N = classes[positions_N]
            texts: tuple[str, ...] = self.tokenizer.tokens_of(tokens.ids[positions_N])
        else:
            corpus = self.table(data, reading)
            rows, unlabelled = list(read_tagged(corpus)), corpus.unlabelled
            check_unit(rows, self.unit, self.tokenizer, corpus.name)
            gold_N, all_names = class_indices([tag for row in rows for tag in split_tags(row, self.unit)], self.labels)
            names = tuple(all_names)
            progress("tokenizing", None)
            tokens, positions_N = tokenize_tagged([row.text for row in rows], self.tokenizer, self.unit)
            texts = tuple(part for row in rows for part in split_units(row.text, self.unit, self.tokenizer))
        if not len(gold_N):
            raise DataError("found no tags, expected at least one", where=str(data))
        progress("tagging", None)
        return LabelledPredictions(gold_N, names, self.predictor.label(tokens.ids)[positions_N], texts, unlabelled)
