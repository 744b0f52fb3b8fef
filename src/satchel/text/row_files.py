"""Input rows of predictions, and output tables (.csv, .tsv, .jsonl, .txt) that keep the columns of the input."""

import csv
import io
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from satchel import durable
from satchel.errors import DataError, SettingsError
from satchel.text import tables
from satchel.text.columns import table_format
from satchel.text.display import json_text
from satchel.text.reading import Corpus, lines

FORMATS = ("csv", "tsv", "jsonl", "txt")

Cells = dict[str, Any]


class InputRow(NamedTuple):
    """The texts of a row, and all its cells by column."""

    texts: tuple[str, ...]
    cells: Cells

    @property
    def text(self) -> str:
        """The first text."""
        return self.texts[0]


def read_input_rows(corpus: Corpus, *settings: str) -> Iterator[InputRow]:
    """Yield the rows of a table, or the lines of a text file, including blank lines.

    `settings` are the data settings that name the columns of the texts. A text file has one column.
    """
    source, columns = corpus.sources[0], [getattr(corpus.settings, setting) for setting in settings]
    if not table_format(source.name):
        if len(columns) > 1:
            raise DataError(
                f"is a text file, expected a table with the columns {' and '.join(columns)}",
                "use a .csv, .tsv or .jsonl file",
                where=source.where,
            )
        for line in lines(corpus.texts(source)):
            yield InputRow((line,), {columns[0]: line})
        return
    for row in tables.read_rows(corpus, source, settings):
        texts = (tables.column_text(row, setting, corpus.settings, source.where) for setting in settings)
        yield InputRow(tuple(texts), row.cells)


def add_predictions(cells: Cells, predictions: Mapping[str, Any]) -> Cells:
    """Return the cells with predictions appended; an input column with the same name gets the prefix `given_`."""
    renamed: Cells = {}
    for name, cell in cells.items():
        while name in predictions or name in renamed:
            name = f"given_{name}"
        renamed[name] = cell
    return renamed | dict(predictions)


def output_format(path: Path) -> str:
    """Return the format given by the extension of a file: csv, tsv, jsonl or txt."""
    if path.suffix[1:] not in FORMATS:
        raise SettingsError(
            f"has the extension {path.suffix!r}", "expected .csv, .tsv, .jsonl or .txt", where=str(path)
        )
    return path.suffix[1:]


def write_rows(path: Path, rows: Iterable[Cells], columns: Sequence[str] = (), *, delimiter: str = ",") -> int:
    """Write a table atomically and return the number of rows. The default columns are those of the first row.

    A .txt file contains only the last column, one line per row.
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
                handle.write(_line([tables.as_text(cells[columns[-1]])], path, count))
            elif set(cells) != set(columns):
                raise DataError(
                    f"row {count} has the columns {', '.join(cells)}, expected {', '.join(columns)}",
                    "use .jsonl for rows with different columns",
                    where=str(path),
                )
            else:
                handle.write(
                    _table_row([tables.as_text(cells[name]) for name in columns], form, delimiter, path, count)
                )
    return count


def check_distinct(path: Path, input_name: str) -> None:
    """Raise SettingsError if the output file is the input file."""
    if path.exists() and os.path.exists(input_name) and os.path.samefile(path, input_name):
        raise SettingsError("is the input file", "write to another file with -o", where=str(path))


def json_line(cells: Mapping[str, Any]) -> bytes:
    """Return a row as one line of JSON Lines."""
    return json_text(cells).encode() + b"\n"


def _table_row(values: list[str], form: str, delimiter: str, path: Path, number: int) -> bytes:
    if form == "tsv":
        return _line(values, path, number)
    buffer = io.StringIO()
    # With this line terminator the writer quotes values that contain \r or \n: readers treat both as line ends.
    csv.writer(buffer, delimiter=delimiter, lineterminator="\r\n").writerow(values)
    return buffer.getvalue().removesuffix("\r\n").encode() + b"\n"


def _line(values: list[str], path: Path, number: int) -> bytes:
    if any(character in value for value in values for character in "\t\n\r"):
        raise DataError(
            f"row {number} contains a tab or a line break, which a {path.suffix} file cannot represent",
            "write .csv or .jsonl instead",
            where=str(path),
        )
    return "\t".join(values).encode() + b"\n"
