"""Tables in, tables out: every row gets its answer, and keeps every other column."""

import csv
import io
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from satchel import durable
from satchel.errors import DataError, SettingsError
from satchel.text import tables
from satchel.text.reading import Corpus, lines

FORMATS = ("csv", "tsv", "jsonl", "txt")

Cells = dict[str, Any]


class Question(NamedTuple):
    """A row's text and all its cells."""

    text: str
    cells: Cells


def read_questions(corpus: Corpus, column: str) -> Iterator[Question]:
    """Return the rows of a table, of which a column is asked about; or the lines of a text, blank ones too."""
    source = corpus.sources[0]
    if not tables.table_format(source.name):
        for line in lines(corpus.texts(source)):
            yield Question(line, {column: line})
        return
    for row in tables.read_rows(corpus, source):
        yield Question(tables.value(row, column, source.where), row.cells)


def answered(cells: Cells, answer: Mapping[str, Any]) -> Cells:
    """Return a row with its answer; a column that is called like a part of it goes on as `given_...`."""
    kept = {}
    for name, cell in cells.items():
        while name in answer or name in kept:
            name = f"given_{name}"
        kept[name] = cell
    return kept | dict(answer)


def output_format(path: Path) -> str:
    """Return csv, tsv, jsonl or txt, as the name of a file says."""
    if path.suffix[1:] not in FORMATS:
        raise SettingsError(f"found the ending {path.suffix!r}", "expected .csv, .tsv, .jsonl or .txt", where=str(path))
    return path.suffix[1:]


def write_rows(path: Path, rows: Iterable[Cells], columns: Sequence[str] = (), *, delimiter: str = ",") -> int:
    """Write rows as a table, whole or not at all, and return how many; without `columns` the first row has them.

    A .txt has no table: it holds the last of the columns, a line for each row.
    """
    form = output_format(path)
    count = 0
    with durable.new_file(path) as handle:
        if columns and form in ("csv", "tsv"):
            handle.write(_table_row(list(columns), form, delimiter, path, 0))
        for count, cells in enumerate(rows, start=1):
            if not columns:
                columns = list(cells)
                if form in ("csv", "tsv"):
                    handle.write(_table_row(columns, form, delimiter, path, 0))
            if form == "jsonl":
                handle.write(json_line(cells))
            elif form == "txt":
                handle.write(_line([_text(cells[columns[-1]])], path, count))
            elif set(cells) != set(columns):
                raise DataError(
                    f"row {count} has the columns {', '.join(cells)}, the first has {', '.join(columns)}",
                    "a table has the same columns in every row: write .jsonl instead",
                    where=str(path),
                )
            else:
                handle.write(_table_row([_text(cells[name]) for name in columns], form, delimiter, path, count))
    return count


def refuse_same(path: Path, name: str) -> None:
    """Refuse to write over what is being read."""
    if path.exists() and os.path.exists(name) and os.path.samefile(path, name):
        raise SettingsError("is the input itself", "name another file with -o", where=str(path))


def json_line(cells: Mapping[str, Any]) -> bytes:
    """Return a row as a line of JSON."""
    return json.dumps(cells, ensure_ascii=False).encode() + b"\n"


def _table_row(values: list[str], form: str, delimiter: str, path: Path, number: int) -> bytes:
    if form == "tsv":
        return _line(values, path, number)
    text = io.StringIO()
    # The writer quotes what ends its own lines, and readers take either character for the end of one.
    csv.writer(text, delimiter=delimiter, lineterminator="\r\n").writerow(values)
    return text.getvalue().removesuffix("\r\n").encode() + b"\n"


def _line(values: list[str], path: Path, number: int) -> bytes:
    if any(character in value for value in values for character in "\t\n\r"):
        raise DataError(
            f"row {number} holds a tab or the end of a line, which a {path.suffix} file cannot hold",
            "write .csv or .jsonl instead",
            where=str(path),
        )
    return "\t".join(values).encode() + b"\n"


def _text(cell: Any) -> str:
    return cell if isinstance(cell, str) else json.dumps(cell, ensure_ascii=False)
