"""Tables: .tsv, .csv and .jsonl files, and two aligned files of lines. Errors name the file and the line."""

import csv
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from satchel.errors import DataError
from satchel.text.reading import HALF_PAIR, Corpus, DataSettings, Source, Task, lines, whole_lines

SUFFIXES = (".tsv", ".csv", ".jsonl")
LARGEST_FIELD = (1 << 31) - 1


@dataclass(frozen=True)
class Row:
    """The values of one row by column as text, the line where it begins, and all of its cells as they were."""

    line: int
    values: dict[str, str]
    cells: dict[str, Any] = field(default_factory=dict, compare=False)


class Example(NamedTuple):
    """A text and its label."""

    text: str
    label: str


class Tagged(NamedTuple):
    """A text, its tags as they are written, and the line where they stand."""

    text: str
    tags: str
    line: int


def table_format(name: str) -> str:
    """Return tsv, csv or jsonl if that is what a file's name says, else nothing."""
    suffix = Path(name.removesuffix(".gz")).suffix
    return suffix[1:] if suffix in SUFFIXES else ""


def read_rows(corpus: Corpus, source: Source) -> Iterator[Row]:
    """Return the rows of a table; every row has every column."""
    form = table_format(source.name)
    if form == "jsonl":
        yield from read_objects(lines(corpus.texts(source)), source.where)
        return
    rows = _csv(corpus, source) if form == "csv" else _tsv(corpus, source)
    names = list(corpus.settings.columns)
    if not names:
        first = next(rows, None)
        if first is None:
            raise DataError("is empty", "expected a header line and rows", where=source.where)
        names = first[1]
    if len(kept := [name for name in names if name != "-"]) != len(set(kept)):
        raise DataError(f"found the columns {', '.join(names)}, expected each once", where=source.where)
    for line, values in rows:
        if len(values) != len(names):
            raise DataError(
                f"found {_columns(len(values))}, expected {len(names)} ({', '.join(names)})",
                _width_remedy(form, len(values) > len(names)),
                where=f"{source.where}, line {line}",
            )
        cells = dict(zip(_distinct(names), values, strict=True))
        yield Row(line, {name: value for name, value in zip(names, values, strict=True) if name != "-"}, cells)


def _distinct(names: Sequence[str]) -> list[str]:
    """Return a name for every column: those that nobody named are called after their place."""
    return [f"column_{place}" if name == "-" else name for place, name in enumerate(names, start=1)]


def _columns(count: int) -> str:
    return "1 column" if count == 1 else f"{count} columns"


def _width_remedy(form: str, is_wide: bool) -> str:
    if form == "tsv" and is_wide:
        return "a tab inside a text splits it: replace it, or save the file as .csv or .jsonl"
    if form == "csv":
        return "a text with commas or newlines has to be quoted; another separator is named with --delimiter"
    return "every line needs every column; give the names with --columns if the file has no header"


def _tsv(corpus: Corpus, source: Source) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(lines(corpus.texts(source)), start=1):
        if line:
            yield number, line.split("\t")


def _csv(corpus: Corpus, source: Source) -> Iterator[tuple[int, list[str]]]:
    csv.field_size_limit(LARGEST_FIELD)
    reader = csv.reader(
        whole_lines(corpus.texts(source)),
        delimiter=corpus.settings.delimiter,
        strict=True,
    )
    start = 1
    try:
        for values in reader:
            if values:
                yield start, values
            start = reader.line_num + 1
    except csv.Error as error:
        raise DataError(f"is not CSV: {error}", where=f"{source.where}, line {start}") from error


def read_objects(found_lines: Iterable[str], name: str) -> Iterator[Row]:
    """Return the rows of JSON Lines: an object on each line that is not blank."""
    for number, line in enumerate(found_lines, start=1):
        if not line.strip():
            continue
        where = f"{name}, line {number}"
        try:
            found = json.loads(line, object_pairs_hook=_Pairs)
        except (ValueError, RecursionError) as error:
            raise DataError(f"is not JSON: {error}", "expected one object per line", where=where) from None
        if not isinstance(found, _Pairs):
            raise DataError(f"found {type(found).__name__}, expected an object", where=where)
        values = {key: _as_text(value) for key, value in found}
        if len(values) < len(found):
            names = ", ".join(key for key, _ in found)
            raise DataError(f"found the columns {names}, expected each once", where=where)
        if any(map(HALF_PAIR.search, (*values, *values.values()))):
            raise DataError("found half of a surrogate pair, expected text", "repair its \\u escapes", where=where)
        yield Row(number, values, {key: _plain(value) for key, value in found})


class _Pairs(list[tuple[str, Any]]):
    """The keys and values of a JSON object, before one that comes twice hides the other."""


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(_plain(value), ensure_ascii=False)


def _plain(value: object) -> object:
    if isinstance(value, _Pairs):
        return {key: _plain(inner) for key, inner in value}
    return [_plain(inner) for inner in value] if isinstance(value, list) else value


def infer_task(columns: Iterable[str], settings: DataSettings) -> Task:
    """Return the task that a table's columns are for; a file without them is text."""
    found = set(columns)
    has_text = set(settings.text_column.split(",")) <= found
    if has_text and settings.label_column in found:
        return "classify"
    if has_text and settings.tags_column in found:
        return "tag"
    if {settings.source_column, settings.target_column} <= found:
        return "translate"
    return "lm"


def value(row: Row, column: str, where: str) -> str:
    """Return a column of a row; several columns joined by a comma are joined by a newline."""
    try:
        return "\n".join(row.values[name] for name in column.split(","))
    except KeyError as error:
        raise DataError(
            f"found the columns {', '.join(row.values)}, expected {error.args[0]}",
            "name it with --text-column, --label-column and so on, or all of them with --columns",
            where=f"{where}, line {row.line}",
        ) from None


def read_examples(corpus: Corpus) -> Iterator[Example]:
    """Return the texts and labels of a table for the task classify."""
    source, settings = corpus.sources[0], corpus.settings
    for row in read_rows(corpus, source):
        label = value(row, settings.label_column, source.where)
        if not label.strip():
            raise DataError(
                "found an empty label",
                "give the row a label, or leave it out",
                where=f"{source.where}, line {row.line}",
            )
        yield Example(value(row, settings.text_column, source.where), label)


def read_tagged(corpus: Corpus) -> Iterator[Tagged]:
    """Return the texts and tags of a table for the task tag."""
    source, settings = corpus.sources[0], corpus.settings
    for row in read_rows(corpus, source):
        text, tags = (value(row, column, source.where) for column in (settings.text_column, settings.tags_column))
        yield Tagged(text, tags, row.line)


def without_header(corpus: Corpus) -> Corpus:
    """Return the corpus, with the names of its columns taken from its first line if they stand there.

    A run remembers the columns of the table it was trained on; another table may have a header.
    """
    source, settings = corpus.sources[0], corpus.settings
    if not settings.columns or table_format(source.name) not in ("csv", "tsv"):
        return corpus
    rows = _csv(corpus, source) if table_format(source.name) == "csv" else _tsv(corpus, source)
    first = next(rows, (0, []))[1]
    if set(settings.text_column.split(",")) <= set(first):
        return replace(corpus, settings=settings.model_copy(update={"columns": ()}))
    return corpus


class TextPair(NamedTuple):
    """A source, its target, and the line where they stand."""

    source: str
    target: str
    line: int


def read_pairs(corpus: Corpus) -> Iterator[TextPair]:
    """Return the sources and targets of a table, or the lines of two aligned files, which must have equally many."""
    if len(corpus.sources) == 1:
        source, settings = corpus.sources[0], corpus.settings
        for row in read_rows(corpus, source):
            first, second = (
                value(row, column, source.where) for column in (settings.source_column, settings.target_column)
            )
            yield TextPair(first, second, row.line)
        return
    one, other = corpus.sources
    pairs = zip_longest(lines(corpus.texts(one)), lines(corpus.texts(other)))
    for count, (a, b) in enumerate(pairs):  # of those before
        if a is None or b is None:
            shorter, longer = (one, other) if a is None else (other, one)
            raise DataError(
                f"found {count} lines, expected as many as in {longer.where}, which has more",
                "aligned files have one translation per line",
                where=shorter.where,
            )
        yield TextPair(a, b, count + 1)
