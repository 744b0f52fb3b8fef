"""Probes of models: what a linear map reads off each layer, on a table of tagged texts. Letters: R rows, N words."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from satchel import config
from satchel.data.batches import Ints, split_documents
from satchel.data.examples import class_indices, stratified_split
from satchel.data.tagged import Unit, infer_unit, split_tags, split_units, tokenize_tagged
from satchel.datasets.corpora import open_corpus
from satchel.datasets.registry import dataset_for_task
from satchel.errors import DataError
from satchel.inspection.hidden_states import Span, of_words, read_states
from satchel.inspection.probing import Baselines, LayerProbe, baselines, probed
from satchel.predictor import Floats, Ids
from satchel.progress import Progress, silent
from satchel.text.reading import Corpus, DataSettings
from satchel.text.tables import TaggedText, prefer_header, read_tagged, table_format

if TYPE_CHECKING:
    from satchel.api.model import Model
    from satchel.api.representations import VectorReader

# The share of rows that is held out, and how many tagged words are read at most.
HELD_OUT = 0.25
MOST_WORDS = 6_000


@dataclass(frozen=True)
class Probed:
    """What can be read off each layer of a network, and beside it what counting finds.

    Words are those of the rows that the map was fitted to, and of those held out; `unit` is what a tag belongs to.
    """

    data: str
    unit: Unit
    tags: tuple[str, ...]
    words: tuple[int, int]
    rows: tuple[int, int]
    baselines: Baselines
    layers: tuple[LayerProbe, ...]
    notes: tuple[str, ...] = ()

    @property
    def static(self) -> LayerProbe:
        """What can be read off the words themselves."""
        return self.layers[0]


@dataclass(frozen=True)
class _Row:
    """A text as it is read, and of its tagged words the tokens, the spelling and the tag."""

    ids: Ids
    spans: list[Span]
    words: list[str]
    tags: list[str]


def probe_model(
    model: "Model",
    data: str | Path,
    *,
    leave_out: Sequence[str] = (),
    reading: config.Tree | None = None,
    seed: int = 0,
    progress: Progress = silent,
) -> Probed:
    """Return what a linear map reads off each layer of a model on a table of tagged texts."""
    reader = model.vectors
    corpus = _corpus(model, data, reading)
    rows, unit, notes = _rows(reader, corpus, leave_out)
    held_R = _held_out([row.ids for row in rows], seed)
    words = [word for row in rows for word in row.words]
    tags_N, names = class_indices([tag for row in rows for tag in row.tags], ())
    held_N = np.repeat(held_R, [len(row.words) for row in rows])
    if len(names) < 2 or held_N.all() or not held_N.any():
        raise DataError(
            f"found {len(rows):,} {'row' if len(rows) == 1 else 'rows'} with {len(names)} "
            f"{'tag' if len(names) == 1 else 'tags'} in all, expected two or more of each",
            "a probe is fitted to some rows and asked about others",
            where=str(data),
        )
    progress("reading", None)
    layers = _vectors(reader, rows)
    progress("fitting", None)
    return Probed(
        corpus.name,
        unit,
        tuple(names),
        (int((~held_N).sum()), int(held_N.sum())),
        (int((~held_R).sum()), int(held_R.sum())),
        baselines(words, tags_N, held_N),
        probed(layers, words, tags_N, held_N, seed),
        tuple(notes),
    )


def _corpus(model: "Model", data: str | Path, reading: config.Tree | None) -> Corpus:
    """Return a table of texts and tags; of built-in data, the part that is for testing."""
    tree = config.merge(model.settings.data.model_dump(), reading or {})
    settings, seed = config.build(DataSettings, tree), model.settings.training.seed
    corpus = open_corpus(dataset_for_task(str(data), "tag"), settings, seed, split="test")
    if len(corpus.sources) != 1 or not table_format(corpus.sources[0].name):
        raise DataError("is no table", "expected a .tsv, .csv or .jsonl with texts and tags", where=str(data))
    return corpus if reading and "columns" in reading else prefer_header(corpus)


def _rows(reader: "VectorReader", corpus: Corpus, leave_out: Sequence[str]) -> tuple[list[_Row], Unit, list[str]]:
    """Return the rows of a table that have a word to ask about, what a tag belongs to, and what is to be said of it."""
    table = list(read_tagged(corpus))
    if not table:
        raise DataError("found no rows, expected at least two", where=corpus.name)
    unit = infer_unit(table, reader.tokenizer, corpus.name)
    tokens, places_N = tokenize_tagged([row.text for row in table], reader.tokenizer, unit)
    texts = split_documents(np.asarray(tokens.ids, np.int64), reader.tokenizer.boundary)
    rows, cut, left, words = list[_Row](), 0, 0, 0
    for number, (row, start, stop) in enumerate(zip(table, texts.starts_R, texts.stops_R, strict=True)):
        last_N = places_N[slice(*np.searchsorted(places_N, [start, stop]))] - start
        found = _row(reader, row, unit, texts.ids[start:stop], last_N, leave_out)
        beyond = int((last_N >= (reader.room if reader.room is not None else stop)).sum())
        cut, left = cut + bool(beyond), left + beyond
        if found.words:
            rows.append(found)
        words += len(found.words)
        if words >= MOST_WORDS and number + 1 < len(table):
            return rows, unit, [*_cut(reader, cut, left), f"the first {number + 1:,} of {len(table):,} rows are read"]
    return rows, unit, _cut(reader, cut, left)


def _row(reader: "VectorReader", row: TaggedText, unit: Unit, ids: Ids, last_N: Ints, leave_out: Sequence[str]) -> _Row:
    """Return a row as it is read. A word has all tokens after those of the word before, up to where its tag stands."""
    piece = reader.framed(ids)
    spans, words, tags = list[Span](), list[str](), list[str]()
    begin = 0
    named = zip(last_N.tolist(), split_units(row.text, unit, reader.tokenizer), split_tags(row, unit), strict=True)
    for last, word, tag in named:
        if (reader.room is None or last < reader.room) and tag not in leave_out:
            spans.append((reader.before + begin, reader.before + last + 1))
            words.append(word)
            tags.append(tag)
        begin = last + 1
    return _Row(piece, spans, words, tags)


def _cut(reader: "VectorReader", rows: int, words: int) -> list[str]:
    if not rows:
        return []
    return [f"{rows:,} rows are longer than the context of {reader.context:,}: {words:,} tags beyond it are left out"]


def _held_out(texts: Sequence[Ids], seed: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return which rows are held out; those of the same text together, or what is asked would have been told."""
    distinct: dict[bytes, int] = {}
    numbers_R = np.array([distinct.setdefault(text.tobytes(), len(distinct)) for text in texts], np.int64)
    return stratified_split(np.zeros(len(distinct), np.int64), HELD_OUT, seed)[numbers_R]


def _vectors(reader: "VectorReader", rows: Sequence[_Row]) -> dict[str, Floats]:
    """Return the (N, D) vectors of all words of all rows, by layer."""
    found: dict[str, list[Floats]] = {site: [np.empty(0)] * len(rows) for site in reader.layers}
    for number, states in read_states(reader.encoder, [row.ids for row in rows], reader.layers):
        for site, states_TD in states.items():
            found[site][number] = of_words(states_TD, rows[number].spans)
    return {site: np.concatenate(parts) for site, parts in found.items()}
