"""Tables of labelled or tagged texts: read, split, tokenized, and written into a run. Letters: R rows, N ids."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from satchel import durable
from satchel.data.batches import Ints
from satchel.data.examples import class_indices, stratified_split, write_classes, write_examples
from satchel.data.tagged import Unit, infer_unit, split_tags, tag_targets, write_tagged
from satchel.data.tokens import TokenWriter
from satchel.datasets.corpora import open_corpus
from satchel.errors import DataError
from satchel.progress import Progress
from satchel.runs import folder as runs
from satchel.text.reading import Corpus, text_pieces
from satchel.text.tables import Example, TaggedText, read_examples, read_tagged
from satchel.text.tokenizer import Tokenizer, train_tokenizer
from satchel.training.plan import Plan

T = TypeVar("T")


@dataclass(frozen=True)
class Rows:
    """What was read and written: the labels by number, and the numbers of the training rows and the held-out ones."""

    tokenizer: Tokenizer
    sha256: str
    names: tuple[str, ...]
    others: tuple[str, ...]  # labels that only held-out rows have
    classes: Ints  # of the training rows, or of all tags in them
    valid: Ints | None
    unit: Unit | None = None  # what a tag belongs to


def write_labelled(folder: durable.NewFolder, corpus: Corpus, planned: Plan, progress: Progress) -> Rows:
    """Write the tokens and classes of the training rows, and of the held-out rows if there are any."""
    progress("reading", None)
    rows = list(read_examples(corpus))
    names = tuple(sorted({row.label for row in rows}))
    _check_labels(names, len(rows), corpus.name, "label")
    all_R, _ = class_indices([row.label for row in rows], names)
    is_valid_R = _held_out(all_R, planned)
    train, held = _parted(rows, is_valid_R)
    tokenizer = _tokenizer([row.text for row in train], planned, corpus.name, progress)
    characters = sum(len(row.text) for row in train)

    def write(tokens: str, numbers: str, some: Sequence[Example], classes_R: Ints, identity: str) -> None:
        with folder.create(tokens) as handle:
            texts = (row.text for row in some)
            write_examples(handle, tokenizer, texts, identity, _tokenizing(progress, characters))
        with folder.create(numbers) as handle:
            write_classes(handle, classes_R)

    sha256 = corpus.identity()
    write(runs.TRAIN_TOKENS, runs.TRAIN_CLASSES, train, all_R[~is_valid_R], sha256)
    other = _valid_corpus(planned)
    if other is None and not held:
        return Rows(tokenizer, sha256, names, (), all_R, None)
    others: tuple[str, ...] = ()
    valid_R, identity = all_R[is_valid_R], sha256
    if other is not None:
        held, identity = _some(read_examples(other), other.name), other.identity()
        valid_R, all_names = class_indices([row.label for row in held], names)
        others = tuple(all_names[len(names) :])
    write(runs.VALID_TOKENS, runs.VALID_CLASSES, held, valid_R, identity)
    return Rows(tokenizer, sha256, names, others, all_R[~is_valid_R], valid_R)


def write_tagged_rows(folder: durable.NewFolder, corpus: Corpus, planned: Plan, progress: Progress) -> Rows:
    """Write the tokens and tags of the training rows, and of the held-out rows if there are any."""
    progress("reading", None)
    rows = list(read_tagged(corpus))
    is_valid_R = _held_out(np.zeros(len(rows), np.int64), planned)
    train, held = _parted(rows, is_valid_R)
    tokenizer = _tokenizer([row.text for row in train], planned, corpus.name, progress)
    unit = infer_unit(rows, tokenizer, corpus.name)
    names = tuple(sorted({tag for row in rows for tag in split_tags(row, unit)}))
    _check_labels(names, len(rows), corpus.name, "tag")
    progress("tokenizing", None)

    def write(tokens: str, numbers: str, some: Sequence[TaggedText], identity: str) -> tuple[Ints, list[str]]:
        with folder.create(tokens) as handle:
            writer = TokenWriter(handle, tokenizer, "file")
            places_N = write_tagged(writer, (row.text for row in some), unit)
            writer.finish(identity)
        tags_N, all_names = class_indices([tag for row in some for tag in split_tags(row, unit)], names)
        with folder.create(numbers) as handle:
            write_classes(handle, tag_targets(tags_N, places_N, writer.counts.tokens + 1))
        return tags_N, all_names

    sha256 = corpus.identity()
    classes_N, _ = write(runs.TRAIN_TOKENS, runs.TRAIN_CLASSES, train, sha256)
    other = _valid_corpus(planned)
    if other is None and not held:
        return Rows(tokenizer, sha256, names, (), classes_N, None, unit)
    identity = sha256
    if other is not None:
        held, identity = _some(read_tagged(other), other.name), other.identity()
        check_unit(held, unit, tokenizer, other.name)
    valid_N, all_names = write(runs.VALID_TOKENS, runs.VALID_CLASSES, held, identity)
    return Rows(tokenizer, sha256, names, tuple(all_names[len(names) :]), classes_N, valid_N, unit)


def check_unit(rows: Sequence[TaggedText], unit: Unit, tokenizer: Tokenizer, where: str) -> None:
    """Refuse a table whose tags belong to something else than those a tagger was trained on."""
    if unit == "word" and all(len(row.tags.split()) == len(row.text.split()) for row in rows):
        return
    found = infer_unit(rows, tokenizer, where)
    if found != unit:
        raise DataError(f"has a tag for each {found}, expected one for each {unit}", where=where)


def _held_out(classes_R: Ints, planned: Plan) -> npt.NDArray[np.bool_]:
    """Return which rows are held out; some, if a fraction is to be."""
    valid, seed = planned.settings.data.valid, planned.settings.training.seed
    if isinstance(valid, str) or not valid:
        return np.zeros(len(classes_R), bool)
    chosen = stratified_split(classes_R, valid, seed)
    if not chosen.any() and "data.valid" not in planned.chosen:
        raise DataError(
            f"the fraction {valid} of each label's rows is none", "give a larger fraction, or a file with --valid"
        )
    return chosen


def _parted(rows: Sequence[T], is_valid_R: npt.NDArray[np.bool_]) -> tuple[list[T], list[T]]:
    train, held = list[T](), list[T]()
    for row, is_valid in zip(rows, is_valid_R, strict=True):
        (held if is_valid else train).append(row)
    return train, held


def _valid_corpus(planned: Plan) -> Corpus | None:
    valid, settings = planned.settings.data.valid, planned.settings
    if not isinstance(valid, str):
        return None
    return open_corpus(valid, settings.data, settings.training.seed, split="valid")


def _some(rows: Iterable[T], where: str) -> list[T]:
    found = list(rows)
    if not found:
        raise DataError("found no rows, expected at least one", where=where)
    return found


def _check_labels(names: Sequence[str], rows: int, where: str, what: str) -> None:
    if len(names) < 2:
        raise DataError(
            f"found {rows:,} rows with {len(names)} {what}{'' if len(names) == 1 else 's'}, expected two or more",
            f"there have to be examples of each {what}; check the columns with `satchel data`",
            where=where,
        )


def _tokenizer(texts: Sequence[str], planned: Plan, where: str, progress: Progress) -> Tokenizer:
    if planned.tokenizer is not None:
        return planned.tokenizer
    progress("learning the tokenizer", None)
    characters = sum(map(len, texts))
    if not characters:
        raise DataError("found only empty texts", "check the text column with `satchel data`", where=where)
    learned_from = (piece.text for piece in text_pieces(texts))
    return train_tokenizer(planned.settings.tokenizer, learned_from, characters)


def _tokenizing(progress: Progress, characters: int) -> Callable[[int], None]:
    return lambda done: progress("tokenizing", min(1.0, done / max(1, characters)))
