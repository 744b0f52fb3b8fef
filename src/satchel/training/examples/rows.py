"""Write tables of labelled or tagged texts. Shapes: R rows, N tags."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from typing import TypeVar

import numpy as np

from satchel import durable
from satchel.data.batches import Ints
from satchel.data.examples import class_indices, write_classes
from satchel.data.splits import stratified_split
from satchel.data.tagged import Unit, fits_unit, infer_unit, split_tags, tag_targets, write_tagged
from satchel.data.tokens import TokenCounts, TokenWriter, write_tokens
from satchel.errors import DataError
from satchel.progress import Progress
from satchel.runs import folder as runs
from satchel.text.reading import Corpus, text_pieces
from satchel.text.tables import Example, TaggedText, read_examples, read_tagged
from satchel.text.tokenizer import Tokenizer
from satchel.training.examples.common import Examples, choose_tokenizer, require_rows, split, valid_corpus
from satchel.training.plan import Plan

R = TypeVar("R")


def write_labelled(folder: durable.NewFolder, corpus: Corpus, plan: Plan, progress: Progress) -> Examples:
    """Write the tokens and class ids of the training rows, and of the held-out rows if there are any."""
    progress("reading", None)
    rows = list(read_examples(corpus))
    labels = _label_names([row.label for row in rows], len(rows), corpus.name, "label")
    strata_R, _ = class_indices([row.label for row in rows], labels)
    train, valid = split(rows, partial(stratified_split, strata_R), plan, "row")
    tokenizer = choose_tokenizer([row.text for row in train], plan, corpus.name, progress)
    characters = sum(len(row.text) for row in train)

    def write(writer: TokenWriter, rows: Sequence[Example]) -> None:
        texts = text_pieces(row.text for row in rows)
        write_tokens(writer, texts, lambda done: progress("tokenizing", min(1.0, done / max(1, characters))))

    def read(other: Corpus) -> list[Example]:
        return require_rows(read_examples(other), other.name)

    return _write(folder, corpus, plan, tokenizer, labels, (train, valid), read, lambda row: [row.label], write)


def write_tagged_rows(folder: durable.NewFolder, corpus: Corpus, plan: Plan, progress: Progress) -> Examples:
    """Write the tokens and tags of the training rows, and of the held-out rows if there are any."""
    progress("reading", None)
    rows = list(read_tagged(corpus))
    train, valid = split(rows, partial(stratified_split, np.zeros(len(rows), np.int64)), plan, "row")
    tokenizer = choose_tokenizer([row.text for row in train], plan, corpus.name, progress)
    unit = infer_unit(rows, tokenizer, corpus.name)
    tags = _label_names([tag for row in rows for tag in split_tags(row, unit)], len(rows), corpus.name, "tag")
    progress("tokenizing", None)

    def read(other: Corpus) -> list[TaggedText]:
        rows = require_rows(read_tagged(other), other.name)
        check_unit(rows, unit, tokenizer, other.name)
        return rows

    def write(writer: TokenWriter, rows: Sequence[TaggedText]) -> Ints:
        return write_tagged(writer, (row.text for row in rows), unit)

    examples = _write(
        folder, corpus, plan, tokenizer, tags, (train, valid), read, lambda row: split_tags(row, unit), write
    )
    examples.facts["unit"] = unit
    return examples


def check_unit(rows: Sequence[TaggedText], unit: Unit, tokenizer: Tokenizer, where: str) -> None:
    """Raise an error if the tags of a table do not belong to the unit (character, word or token) expected."""
    if not fits_unit(rows, unit, tokenizer):
        table_unit = infer_unit(rows, tokenizer, where)
        raise DataError(f"has one tag per {table_unit}, expected one per {unit}", where=where)


def _label_names(labels: Sequence[str], rows: int, where: str, noun: str) -> tuple[str, ...]:
    """Return the distinct labels in alphabetical order; raise an error if there are fewer than two."""
    names = tuple(sorted(set(labels)))
    if len(names) < 2:
        raise DataError(
            f"found {rows:,} rows with {len(names)} {noun}{'' if len(names) == 1 else 's'}, expected two or more",
            f"add rows with another {noun}, or check the columns with `satchel data`",
            where=where,
        )
    return names


def _write(
    folder: durable.NewFolder,
    corpus: Corpus,
    plan: Plan,
    tokenizer: Tokenizer,
    labels: tuple[str, ...],
    parts: tuple[list[R], list[R]],
    read: Callable[[Corpus], list[R]],
    labels_of: Callable[[R], list[str]],
    write_texts: Callable[[TokenWriter, Sequence[R]], Ints | None],
) -> Examples:
    """Write token files and class ids of training rows and held-out rows (`parts`).

    `read` reads held-out rows from another file; `write_texts` returns the positions of tags among the ids, or None if
    there is one label per text.
    """

    def write(tokens: str, classes: str, rows: list[R], sha256: str) -> tuple[TokenCounts, Ints, list[str]]:
        with folder.create(tokens) as handle:
            writer = TokenWriter(handle, tokenizer, "file")
            positions_N = write_texts(writer, rows)
            writer.finish(sha256)
        class_ids, names = class_indices([label for row in rows for label in labels_of(row)], labels)
        with folder.create(classes) as handle:
            tagged = None if positions_N is None else tag_targets(class_ids, positions_N, writer.counts.tokens + 1)
            write_classes(handle, class_ids if tagged is None else tagged)
        return writer.counts, class_ids, names

    train, valid = parts
    sha256 = valid_sha256 = corpus.identity()
    counts, classes, names = write(runs.TRAIN_TOKENS, runs.TRAIN_CLASSES, train, sha256)
    if other := valid_corpus(plan):
        valid, valid_sha256 = read(other), other.identity()
    if valid:
        _, _, names = write(runs.VALID_TOKENS, runs.VALID_CLASSES, valid, valid_sha256)
    facts = {
        "counts": asdict(counts),
        "repaired": dict(corpus.repaired),
        "rows_by_label": np.bincount(classes, minlength=len(labels)).tolist(),
        "labels_only_held_out": names[len(labels) :],
        "unlabelled": corpus.unlabelled + (other.unlabelled if other else 0),
    }
    return Examples(tokenizer, sha256, facts, labels, classes)
