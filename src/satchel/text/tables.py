"""Tables (.tsv, .csv and .jsonl files) and pairs of aligned text files. Errors name the file and the line."""

import csv
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import starmap, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from satchel.errors import DataError
from satchel.text.reading import SURROGATE, Corpus, DataSettings, Task, lines, lines_with_ends
from satchel.text.sources import Source

SUFFIXES = (".tsv", ".csv", ".jsonl")
# Maximum number of characters of a .csv field.
LARGEST_FIELD = (1 << 31) - 1


@dataclass(frozen=True)
class Row:
    """A row: its first line in the file, its values by column as text, and all cells with their original types.

    `cells` also contains skipped columns, under the names `column_1`, `column_2`, ...
    """

    line: int
    values: dict[str, str]
    cells: dict[str, Any] = field(default_factory=dict, compare=False)


class Example(NamedTuple):
    """A text and its label."""

    text: str
    label: str


class TaggedText(NamedTuple):
    """A text, its tags as one string, and their line in the file."""

    text: str
    tags: str
    line: int


def table_format(name: str) -> str:
    """Return the format given by the extension of a file name: tsv, csv or jsonl; an empty string for others."""
    suffix = Path(name.removesuffix(".gz")).suffix
    return suffix[1:] if suffix in SUFFIXES else ""


def read_rows(corpus: Corpus, source: Source) -> Iterator[Row]:
    """Yield the rows of a table; all rows of a .tsv or .csv file have the same columns."""
    form = table_format(source.name)
    if form == "jsonl":
        yield from read_json_lines(lines(corpus.texts(source)), source.where)
        return
    rows = _split_lines(corpus, source)
    names = list(corpus.settings.columns) or next(rows, (1, []))[1]
    if not names:
        raise DataError("is empty, expected a header line and rows", where=source.where)
    if len(used := [name for name in names if name != "-"]) != len(set(used)):
        raise DataError(f"found the columns {', '.join(names)}, expected distinct names", where=source.where)
    cell_names = [f"column_{number}" if name == "-" else name for number, name in enumerate(names, start=1)]
    for line, values in rows:
        if len(values) != len(names):
            count = "1 column" if len(values) == 1 else f"{len(values)} columns"
            raise DataError(
                f"found {count}, expected {len(names)} ({', '.join(names)})",
                _column_count_remedy(form, len(values) > len(names)),
                where=f"{source.where}, line {line}",
            )
        cells = dict(zip(cell_names, values, strict=True))
        yield Row(line, {name: value for name, value in zip(names, values, strict=True) if name != "-"}, cells)


def _column_count_remedy(form: str, is_too_wide: bool) -> str:
    if form == "tsv" and is_too_wide:
        return "a tab inside a text splits it: replace it, or save the file as .csv or .jsonl"
    if form == "csv":
        return "quote texts that contain the delimiter or line breaks; set another delimiter with --delimiter"
    return "each line needs a value for each column; if the file has no header line, set the names with --columns"


def _split_lines(corpus: Corpus, source: Source) -> Iterator[tuple[int, list[str]]]:
    """Yield (line number, values) of the lines of a .csv or .tsv file that are not empty."""
    if table_format(source.name) != "csv":
        yield from ((n, line.split("\t")) for n, line in enumerate(lines(corpus.texts(source)), start=1) if line)
        return
    csv.field_size_limit(LARGEST_FIELD)
    reader = csv.reader(lines_with_ends(corpus.texts(source)), delimiter=corpus.settings.delimiter, strict=True)
    start = 1
    try:
        for values in reader:
            if values:
                yield start, values
            start = reader.line_num + 1
    except csv.Error as error:
        raise DataError(f"is not CSV: {error}", where=f"{source.where}, line {start}") from error


def read_json_lines(json_lines: Iterable[str], name: str) -> Iterator[Row]:
    """Yield the rows of JSON Lines: one object per line; blank lines are skipped."""
    for number, line in enumerate(json_lines, start=1):
        if not line.strip():
            continue
        where = f"{name}, line {number}"
        try:
            pairs = json.loads(line, object_pairs_hook=_Pairs)
        except (ValueError, RecursionError) as error:
            raise DataError(f"is not JSON: {error}", "expected one object per line", where=where) from None
        if not isinstance(pairs, _Pairs):
            raise DataError(f"found a JSON {JSON_TYPES[type(pairs)]}, expected an object", where=where)
        cells = {key: _plain(value) for key, value in pairs}
        values = {key: as_text(value) for key, value in cells.items()}
        if len(values) < len(pairs):
            names = ", ".join(key for key, _ in pairs)
            raise DataError(f"found the columns {names}, expected distinct names", where=where)
        if any(map(SURROGATE.search, (*values, *values.values()))):
            raise DataError("found an unpaired surrogate, expected text", "correct its \\u escapes", where=where)
        yield Row(number, values, cells)


# Names of JSON types other than objects.
JSON_TYPES = {list: "array", str: "string", int: "number", float: "number", bool: "boolean", type(None): "null"}


class _Pairs(list[tuple[str, Any]]):
    """The keys and values of a JSON object, including duplicate keys."""


def as_text(value: object) -> str:
    """Return a text unchanged, and other values as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _plain(value: object) -> object:
    if isinstance(value, _Pairs):
        return {key: _plain(inner) for key, inner in value}
    return [_plain(inner) for inner in value] if isinstance(value, list) else value


def infer_task(columns: Iterable[str], settings: DataSettings) -> Task:
    """Return the task given by the columns of a table; lm if the columns of no other task are present."""
    names = set(columns)
    has_text = set(settings.text_column.split(",")) <= names
    if has_text and settings.label_column in names:
        return "classify"
    if has_text and settings.tags_column in names:
        return "tag"
    if {settings.source_column, settings.target_column} <= names:
        return "translate"
    return "lm"


def column_text(row: Row, column: str, where: str) -> str:
    """Return the value of a column; if `column` lists several, separated by commas, join their values by newlines."""
    try:
        return "\n".join(row.values[name] for name in column.split(","))
    except KeyError as error:
        raise DataError(
            f"has no column {error.args[0]}, only {', '.join(row.values)}",
            "set the column with --text-column, --label-column and so on, or all names with --columns",
            where=f"{where}, line {row.line}",
        ) from None


def _read_columns(corpus: Corpus, first: str, second: str) -> Iterator[tuple[str, str, int]]:
    """Yield the values of two columns of a table, and the line of each row."""
    source = corpus.sources[0]
    for row in read_rows(corpus, source):
        yield column_text(row, first, source.where), column_text(row, second, source.where), row.line


def read_examples(corpus: Corpus) -> Iterator[Example]:
    """Yield the texts and labels of a table for the task classify."""
    settings = corpus.settings
    for label, text, line in _read_columns(corpus, settings.label_column, settings.text_column):
        if not label.strip():
            where = f"{corpus.sources[0].where}, line {line}"
            raise DataError("found an empty label", "add a label, or remove the row", where=where)
        yield Example(text, label)


def read_tagged(corpus: Corpus) -> Iterator[TaggedText]:
    """Return the texts and tags of a table for the task tag."""
    return starmap(TaggedText, _read_columns(corpus, corpus.settings.text_column, corpus.settings.tags_column))


def prefer_header(corpus: Corpus) -> Corpus:
    """Return the corpus without the setting `columns` if the first line of its table is a header.

    A run stores the columns of its training table; another table for the same run may have a header line.
    """
    source, settings = corpus.sources[0], corpus.settings
    if not settings.columns or table_format(source.name) not in ("csv", "tsv"):
        return corpus
    _, first = next(_split_lines(corpus, source), (0, []))
    if set(settings.text_column.split(",")) <= set(first):
        return replace(corpus, settings=settings.model_copy(update={"columns": ()}))
    return corpus


class TextPair(NamedTuple):
    """A source, its target, and their line in the file."""

    source: str
    target: str
    line: int


def read_pairs(corpus: Corpus) -> Iterator[TextPair]:
    """Yield the sources and targets of a table, or the lines of two aligned files with equal numbers of lines."""
    if len(corpus.sources) == 1:
        columns = corpus.settings.source_column, corpus.settings.target_column
        yield from starmap(TextPair, _read_columns(corpus, *columns))
        return
    sources, targets = corpus.sources
    pairs = zip_longest(lines(corpus.texts(sources)), lines(corpus.texts(targets)))
    for count, (source, target) in enumerate(pairs):
        if source is None or target is None:
            shorter, longer = (sources, targets) if source is None else (targets, sources)
            raise DataError(
                f"has {count} lines, fewer than {longer.where}",
                "aligned files have equal numbers of lines: line i of one is the translation of line i of the other",
                where=shorter.where,
            )
        yield TextPair(source, target, count + 1)
