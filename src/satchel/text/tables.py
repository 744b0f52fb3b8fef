"""Tables (.tsv, .csv and .jsonl files) and pairs of aligned text files. Errors name the file and the line."""

import csv
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, starmap, zip_longest
from typing import Any, NamedTuple

from satchel.errors import DataError
from satchel.text.columns import (
    LARGEST_FIELD,
    REQUIRED,
    SAMPLED_ROWS,
    find_columns,
    find_delimiter,
    listing,
    missing_columns,
    table_format,
)
from satchel.text.reading import SURROGATE, Corpus, DataSettings, Task, lines, lines_with_ends
from satchel.text.sources import Source

# Maximum number of line numbers in a message.
SHOWN_LINES = 5


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


def read_rows(corpus: Corpus, source: Source, required: Sequence[str] = ()) -> Iterator[Row]:
    """Yield the rows of a table; all rows of a .tsv or .csv file have the same columns.

    Raise ColumnError if a .tsv or .csv file lacks one of the columns with the names of the data settings `required`.
    """
    form, settings = table_format(source.name), corpus.settings
    if form == "jsonl":
        yield from read_json_lines(lines(corpus.texts(source)), source.where)
        return
    rows = _split_lines(corpus, source)
    header_line, names = (0, list(settings.columns)) if settings.columns else next(rows, (1, []))
    if not any(names):
        raise DataError("is empty, expected a header line and rows", where=source.where)
    where = f"{source.where}, line {header_line}" if header_line else source.where
    if len(used := [name for name in names if name not in ("-", "")]) != len(set(used)):
        raise DataError(f"found the columns {', '.join(names)}, expected distinct names", where=where)
    cell_names = [f"column_{number}" if name in ("-", "") else name for number, name in enumerate(names, start=1)]

    def make_row(line: int, values: list[str]) -> Row:
        if len(values) != len(names):
            count = "1 column" if len(values) == 1 else f"{len(values)} columns"
            raise DataError(
                f"found {count}, expected {len(names)} ({listing(names)})",
                _column_count_remedy(form, len(values) > len(names)),
                where=f"{source.where}, line {line}",
            )
        cells = dict(zip(cell_names, values, strict=True))
        return Row(line, {name: cells[name] for name in used}, cells)

    missing = [setting for setting in required if find_columns(used, getattr(settings, setting)) is None]
    if missing:
        # Rows with another number of columns give no example values.
        sample = [make_row(*row).values for row in islice(rows, SAMPLED_ROWS) if len(row[1]) == len(names)]
        raise missing_columns(used, sample, missing, settings, where, form)
    yield from starmap(make_row, rows)


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
    reader = csv.reader(lines_with_ends(corpus.texts(source)), delimiter=find_delimiter(corpus, source), strict=True)
    start = 1
    try:
        for values in reader:
            if values:
                yield start, values
            start = reader.line_num + 1
    except csv.Error as error:
        raise DataError(f"is not CSV: {error}", where=f"{source.where}, line {start}") from error


# --- JSON Lines ------------------------------------------------------------------------------------------


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
    """Return a text unchanged, null and NaN as an empty text, and other values as JSON."""
    if isinstance(value, str):
        return value
    return "" if value is None or value != value else json.dumps(value, ensure_ascii=False)


def _plain(value: object) -> object:
    if isinstance(value, _Pairs):
        return {key: _plain(inner) for key, inner in value}
    return [_plain(inner) for inner in value] if isinstance(value, list) else value


# --- texts, labels, tags and pairs -----------------------------------------------------------------------


def infer_task(corpus: Corpus) -> Task:
    """Return the task given by the columns of a table; raise ColumnError if no task has such columns."""
    source, settings = corpus.sources[0], corpus.settings
    rows = list(islice(read_rows(corpus, source), SAMPLED_ROWS))
    # A .jsonl file may have other columns in each row.
    names = list(dict.fromkeys(name for row in rows for name in row.values)) or _header(corpus, source)
    if not names:
        raise DataError("is empty, expected rows", where=source.where)
    for task, required in REQUIRED.items():
        if all(find_columns(names, getattr(settings, setting)) for setting in required):
            return task
    missing = [setting for setting in REQUIRED["classify"] if not find_columns(names, getattr(settings, setting))]
    expected = [" and ".join(getattr(settings, name) for name in required) for required in REQUIRED.values()]
    cause = f"found the column{'s' if len(names) > 1 else ''} {listing(names)}, expected {', or '.join(expected)}"
    values, form = [row.values for row in rows], table_format(source.name)
    hint = "\nfor a language model, save the texts in a .txt file"
    raise missing_columns(names, values, missing, settings, source.where, form, cause, hint)


def _header(corpus: Corpus, source: Source) -> list[str]:
    """Return the column names of a table without rows; empty for .jsonl files."""
    if table_format(source.name) == "jsonl":
        return []
    return list(corpus.settings.columns) or next(_split_lines(corpus, source), (0, []))[1]


def column_text(row: Row, setting: str, settings: DataSettings, where: str) -> str:
    """Return the value of the column of a data setting; the values of several columns are joined by newlines."""
    names = find_columns(row.values, getattr(settings, setting))
    if names is None:
        raise missing_columns(
            list(row.values), [row.values], [setting], settings, f"{where}, line {row.line}", table_format(where)
        )
    return "\n".join(row.values[name] for name in names)


def label_text(row: Row, setting: str, settings: DataSettings) -> str:
    """Return the label or the tags of a row; empty if the row has none. A row of a .jsonl file may lack the column."""
    names = find_columns(row.values, getattr(settings, setting))
    return "\n".join(row.values[name] for name in names or ())


def _read_columns(corpus: Corpus, first: str, second: str) -> Iterator[tuple[str, str, int]]:
    """Yield the values of the columns of two data settings, and the line of each row."""
    source, settings = corpus.sources[0], corpus.settings
    for row in read_rows(corpus, source, (first, second)):
        values = [column_text(row, setting, settings, source.where) for setting in (first, second)]
        yield values[0], values[1], row.line


def _read_annotated(corpus: Corpus, annotation: str) -> Iterator[tuple[str, str, int]]:
    """Yield text, label or tags, and line of the rows that have a label or tags.

    After the last row, raise DataError if rows have none, unless `skip_unlabelled` is set.
    """
    source, settings = corpus.sources[0], corpus.settings
    column, sample, unlabelled = getattr(settings, annotation), list[dict[str, str]](), list[int]()
    is_present = False
    for row in read_rows(corpus, source, ("text_column", annotation)):
        sample += [row.values] * (len(sample) < SAMPLED_ROWS)
        text = column_text(row, "text_column", settings, source.where)
        is_present = is_present or find_columns(row.values, column) is not None
        value = label_text(row, annotation, settings)
        # An empty text has no tags.
        if value.strip() or (annotation == "tags_column" and not text.strip()):
            yield text, value, row.line
        else:
            unlabelled.append(row.line)
    if sample and not is_present:
        names = list(dict.fromkeys(name for values in sample for name in values))
        raise missing_columns(names, sample, [annotation], settings, source.where, table_format(source.name))
    corpus.unlabelled = len(unlabelled)
    if unlabelled and not settings.skip_unlabelled:
        shown = ", ".join(map(str, unlabelled[:SHOWN_LINES])) + (", ..." if len(unlabelled) > SHOWN_LINES else "")
        count = "1 row has" if len(unlabelled) == 1 else f"{len(unlabelled):,} rows have"
        noun = "label" if annotation == "label_column" else "tags"
        raise DataError(
            f"{count} no {noun}: line{'' if len(unlabelled) == 1 else 's'} {shown}",
            f"add the {noun} in column {column}, or skip such rows with --skip-unlabelled",
            where=source.where,
        )


def read_examples(corpus: Corpus) -> Iterator[Example]:
    """Yield the texts and labels of a table for the task classify."""
    return (Example(text, label) for text, label, _ in _read_annotated(corpus, "label_column"))


def read_tagged(corpus: Corpus) -> Iterator[TaggedText]:
    """Return the texts and tags of a table for the task tag."""
    return starmap(TaggedText, _read_annotated(corpus, "tags_column"))


def prefer_header(corpus: Corpus) -> Corpus:
    """Return the corpus without the setting `columns` if the first line of its table is a header.

    A run stores the columns of its training table; another table for the same run may have a header line.
    """
    source, settings = corpus.sources[0], corpus.settings
    if not settings.columns or table_format(source.name) not in ("csv", "tsv"):
        return corpus
    _, first = next(_split_lines(corpus, source), (0, []))
    if find_columns(first, settings.text_column):
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
        yield from starmap(TextPair, _read_columns(corpus, "source_column", "target_column"))
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
