"""Inputs and outputs of classify, tag, translate and score: a text, a file, or JSON lines on standard input."""

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import tee
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from satchel.cli.options import AsJson, Command, Text, decode_utf8, read_text, reads_files, with_options
from satchel.cli.output import Progress, emit_json, message, print
from satchel.cli.result import Result, present
from satchel.errors import SettingsError
from satchel.text.display import visible

if TYPE_CHECKING:
    from satchel.api.tasks import AnyModel
    from satchel.text.reading import Corpus
    from satchel.text.row_files import InputRow

# Maximum number of notes about the rows of a file.
MAX_NOTES = 3

FORMATS = ".csv, .tsv, .jsonl or .txt"
Input = Annotated[str | None, Option("--input", help=f"{FORMATS} file: answer every row and keep its other columns.")]
Out = Annotated[Path | None, Option("-o", "--out", help=f"{FORMATS} file for the rows of --input.")]
Jsonl = Annotated[bool, Option("--jsonl", help="Read JSON lines from standard input and answer each line at once.")]


@dataclass(frozen=True)
class Predictor:
    """A loaded model and the presentation of its predictions.

    A prediction of a text has the text as an attribute with the name of the column in `columns`.
    """

    model: "AnyModel"
    # Fields of a prediction in a row of a table; the first of them is the line printed for each row of a file.
    cells: Callable[[Any], dict[str, Any]]
    # Fields of a prediction as a JSON object.
    document: Callable[[Any], dict[str, Any]]
    # Prints the prediction of a single text.
    show: Callable[[Any], None] = lambda prediction: None
    # JSON object of a single text, if it has more fields.
    details: Callable[[Any], dict[str, Any]] | None = None
    # Message about a prediction, or "".
    note: Callable[[Any], str] = lambda prediction: ""
    # Returns the predictions of texts, or of tuples of texts if there are several columns.
    predict: Callable[[Iterator[Any]], Iterator[Any]] | None = None
    # Result of a single text, if it is presented differently from a row.
    single: Callable[[str], Result] | None = None
    options: dict[str, Any] = field(default_factory=dict)
    columns: tuple[str, ...] = ("text",)
    key: str = "predictions"

    def __call__(self, rows: Iterable["InputRow"]) -> Iterator[Any]:
        """Return the predictions of rows, in order, and print the first notes about them and the number of others."""
        predict: Any = self.predict or getattr(self.model, "predict", None)
        count = 0
        for prediction in predict((row.texts if len(self.columns) > 1 else row.text for row in rows), **self.options):
            if note := self.note(prediction):
                count += 1
                if count <= MAX_NOTES:
                    message(note)
            yield prediction
        if count > MAX_NOTES:
            message(f"{count - MAX_NOTES:,} further texts are longer than the context")

    def fields(self, prediction: Any) -> dict[str, Any]:
        """Return the fields of a prediction that are added to its input row."""
        return {name: value for name, value in self.document(prediction).items() if name not in self.columns}

    @property
    def settings(self) -> tuple[str, ...]:
        """Data settings that name the columns with the input texts."""
        return tuple(f"{column}_column" for column in self.columns)


def predicts(*columns: str) -> Callable[[Callable[..., Predictor]], Command]:
    """Turn a function that loads a Predictor into a command with options for its inputs and outputs."""

    def decorate(load: Callable[..., Predictor]) -> Command:
        def call(
            *, text: str | None, file: str | None, out: Path | None, jsonl: bool, reading: dict[str, Any],
            as_json: bool, **values: Any,
        ) -> None:  # fmt: skip
            _check(text, file, out, jsonl)
            content = read_text(text, file_option="--input") if file is None and not jsonl else ""
            predictor = load(**values)
            if jsonl:
                _predict_lines(predictor, reading)
            elif file is not None and out is not None:
                _write_file(predictor, file, out, reading, as_json)
            elif file is not None:
                _print_file(predictor, file, reading, as_json)
            else:
                _predict_text(predictor, content, as_json)

        added: dict[str, Any] = {
            "text": (Text, None), "file": (Input, None), "out": (Out, None), "jsonl": (Jsonl, False),
            "as_json": (AsJson, False), "reading": (dict[str, Any], {}),
        }  # fmt: skip
        return reads_files("encoding", "columns", "delimiter", *columns)(with_options(load, call, added))

    return decorate


def _check(text: str | None, file: str | None, out: Path | None, jsonl: bool) -> None:
    """Raise an error if inputs and outputs contradict each other."""
    if (text is not None) + (file is not None) + jsonl > 1:
        raise SettingsError("found more than one of TEXT, --input and --jsonl", "give exactly one of them")
    if out is not None and file is None:
        raise SettingsError("-o requires --input", "name the input file with --input")


def _predict_text(predictor: Predictor, text: str, as_json: bool) -> None:
    from satchel.text.row_files import InputRow

    if predictor.single is not None:
        present(predictor.single(text), as_json=as_json)
        return
    (prediction,) = predictor([InputRow((text,), {})])
    if as_json:
        emit_json({predictor.key: [(predictor.details or predictor.document)(prediction)]})
    else:
        predictor.show(prediction)


def _predict_lines(predictor: Predictor, reading: dict[str, Any]) -> None:
    """Answer each JSON line of standard input before reading the next, for interactive use."""
    from satchel import config
    from satchel.text import row_files, tables
    from satchel.text.reading import DataSettings

    where = "standard input"
    settings = config.build(DataSettings, config.merge(predictor.model.settings.data.model_dump(), reading))
    lines = (decode_utf8(line, f"{where}, line {number}") for number, line in enumerate(sys.stdin.buffer, start=1))
    for row in tables.read_json_lines(lines, where):
        texts = (tables.column_text(row, setting, settings, where) for setting in predictor.settings)
        (prediction,) = predictor([row_files.InputRow(tuple(texts), row.cells)])
        sys.stdout.buffer.write(row_files.json_line(row_files.add_predictions(row.cells, predictor.fields(prediction))))
        sys.stdout.buffer.flush()


def _open(predictor: Predictor, file: str, reading: dict[str, Any]) -> "Corpus":
    task = "classify" if predictor.model.task == "lm" else None  # a table is no text of a language model
    return predictor.model.table(file, reading, task)


def _rows(predictor: Predictor, corpus: "Corpus") -> Iterator[tuple["InputRow", Any]]:
    """Return every row of a file with its prediction."""
    from satchel.text import row_files

    rows, again = tee(row_files.read_input_rows(corpus, *predictor.settings))
    return zip(rows, predictor(again), strict=True)


def _print_file(predictor: Predictor, file: str, reading: dict[str, Any], as_json: bool) -> None:
    from satchel.text import tables

    rows = _rows(predictor, _open(predictor, file, reading))
    if as_json:
        documents = [
            {**dict(zip(predictor.columns, row.texts, strict=True)), **predictor.fields(prediction)}
            for row, prediction in rows
        ]
        emit_json({predictor.key: documents})
        return
    for _, prediction in rows:
        print(visible(tables.as_text(next(iter(predictor.cells(prediction).values())))))


def _write_file(predictor: Predictor, file: str, out: Path, reading: dict[str, Any], as_json: bool) -> None:
    """Write the rows of a file with their predictions to another file."""
    from satchel.text import columns, row_files

    row_files.check_distinct(out, file)
    form = row_files.output_format(out)
    fields = predictor.fields if form == "jsonl" else predictor.cells
    corpus = _open(predictor, file, reading)
    with Progress() as progress:

        def rows() -> Iterator[dict[str, Any]]:
            for number, (row, prediction) in enumerate(_rows(predictor, corpus), start=1):
                progress(f"{number:,} rows", None)
                predicted = fields(prediction)
                # A text file contains the first field only.
                yield (
                    dict([next(iter(predicted.items()))])
                    if form == "txt"
                    else row_files.add_predictions(row.cells, predicted)
                )

        count = row_files.write_rows(out, rows(), delimiter=columns.find_delimiter(corpus, corpus.sources[0]))
    message(f"wrote {out}: {count:,} rows")
    if as_json:
        emit_json({"input": file, "output": str(out), "rows": count})
