"""Rows in, rows out: a file, or lines as they come, answered by a model."""

import sys
from collections.abc import Callable, Iterator
from itertools import tee
from pathlib import Path
from typing import TYPE_CHECKING, Any

from satchel.cli.output import Progress, emit_json, say

if TYPE_CHECKING:
    from satchel.api import Classifier, Tagger, Translator

Cells = Callable[[Any], dict[str, Any]]


def answer_stream(
    model: "Classifier | Tagger | Translator",
    changes: dict[str, Any],
    cells: Cells,
    options: dict[str, Any] | None = None,
) -> None:
    """Answer each line as it comes: whoever writes the lines may wait for the answers."""
    from satchel.text import answers, tables

    column = _column(model, changes)
    where = "standard input"
    for row in tables.read_objects(_input_lines(where), where):
        (answer,) = model.predict([tables.value(row, column, where)], **(options or {}))
        sys.stdout.buffer.write(answers.json_line(answers.answered(row.cells, cells(answer))))
        sys.stdout.buffer.flush()


def _column(model: "Classifier | Tagger | Translator", changes: dict[str, Any]) -> str:
    """Return the column that holds what is asked about."""
    name = "source_column" if model.settings.task == "translate" else "text_column"
    column: str = changes.get(name, getattr(model.settings.data, name))
    return column


def _input_lines(where: str) -> Iterator[str]:
    from satchel.errors import DataError

    for number, line in enumerate(sys.stdin.buffer, start=1):
        try:
            yield line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise DataError(
                f"found byte {line[error.start]:#04x}, expected utf-8", where=f"{where}, line {number}"
            ) from None


def answer_file(
    model: "Classifier | Tagger | Translator",
    name: str,
    out: Path | None,
    changes: dict[str, Any],
    *,
    cells: Cells,  # of a row of a table
    objects: Cells,  # of a line of JSON
    as_json: bool,
    key: str = "predictions",
    options: dict[str, Any] | None = None,
) -> None:
    """Answer every row of a file: into another, or on standard output."""
    from satchel.text import answers, tables
    from satchel.text.display import visible

    corpus = model.corpus(name, changes)
    if "columns" not in changes:
        corpus = tables.without_header(corpus)
    asked, again = tee(answers.read_questions(corpus, _column(model, changes)))
    found: Iterator[Any] = model.predict((question.text for question in again), **(options or {}))
    if out is None and as_json:
        name = "source" if model.settings.task == "translate" else "text"
        emit_json({key: [{name: getattr(each, name), **objects(each)} for each in found]})
        return
    if out is None:
        for each in found:
            print(visible(next(iter(cells(each).values()))))
        return
    answers.refuse_same(out, name)
    answer = objects if answers.output_format(out) == "jsonl" else cells
    first: list[str] = []
    with Progress() as progress:

        def rows() -> Iterator[dict[str, Any]]:
            for number, (question, each) in enumerate(zip(asked, found, strict=True), start=1):
                progress(f"{number:,} rows", None)
                yield answers.answered(question.cells, answer(each))

        if answers.output_format(out) == "txt":
            first = [ANSWER[type(model).__name__]]
        count = answers.write_rows(out, rows(), first, delimiter=corpus.settings.delimiter)
    say(f"wrote {out}: {count:,} rows")
    if as_json:
        emit_json({"input": name, "output": str(out), "rows": count})


# What a .txt holds of each answer.
ANSWER = {"Classifier": "label", "Tagger": "tags", "Translator": "target"}
