"""Inputs and outputs of classify, tag and translate: a text, the rows of a file, or JSON lines on standard input."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import tee
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from satchel.cli.options import AsJson, Command, Text, decode_utf8, read_text, reads_files, with_options
from satchel.cli.output import Progress, emit_json, message, print
from satchel.errors import SettingsError
from satchel.text.display import visible

if TYPE_CHECKING:
    from satchel.api import Classifier, Tagger, Translator
    from satchel.text.reading import Corpus

# Maximum number of notes about the rows of a file.
MAX_NOTES = 3

FORMATS = ".csv, .tsv, .jsonl or .txt"
Input = Annotated[str | None, Option("--input", help=f"{FORMATS} file: predict every row and keep its other columns.")]
Out = Annotated[Path | None, Option("-o", "--out", help=f"{FORMATS} file for the rows of --input.")]
Jsonl = Annotated[bool, Option("--jsonl", help="Read JSON lines from standard input and answer each line at once.")]


@dataclass(frozen=True)
class Predictor:
    """A loaded model and the presentation of its predictions."""

    model: "Classifier | Tagger | Translator"
    # Fields of a prediction in a row of a table; the first of them is the line printed for each row of a file.
    cells: Callable[[Any], dict[str, Any]]
    # Fields of a prediction as a JSON object.
    document: Callable[[Any], dict[str, Any]]
    # Prints the prediction of a single text.
    show: Callable[[Any], None]
    # Fields added to the JSON object of a single text.
    details: Callable[[Any], dict[str, Any]] = lambda prediction: {}
    # Message about a prediction, or "".
    note: Callable[[Any], str] = lambda prediction: ""
    options: dict[str, Any] = field(default_factory=dict)
    text_key: str = "text"
    key: str = "predictions"

    def __call__(self, texts: Iterator[str]) -> Iterator[Any]:
        """Return the predictions of texts, in order, and print the first notes about them and the number of others."""
        count = 0
        for prediction in self.model.predict(texts, **self.options):
            if note := self.note(prediction):
                count += 1
                if count <= MAX_NOTES:
                    message(note)
            yield prediction
        if count > MAX_NOTES:
            message(f"{count - MAX_NOTES:,} further texts are longer than the context")

    @property
    def setting(self) -> str:
        """Data setting that names the column with the input text."""
        return f"{self.text_key}_column"


def predicts(column: str) -> Callable[[Callable[..., Predictor]], Command]:
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
        return reads_files("encoding", "columns", "delimiter", column)(with_options(load, call, added))

    return decorate


def _check(text: str | None, file: str | None, out: Path | None, jsonl: bool) -> None:
    """Raise an error if inputs and outputs contradict each other."""
    if (text is not None) + (file is not None) + jsonl > 1:
        raise SettingsError("found more than one of TEXT, --input and --jsonl", "give exactly one of them")
    if out is not None and file is None:
        raise SettingsError("-o requires --input", "name the input file with --input")


def _predict_text(predictor: Predictor, text: str, as_json: bool) -> None:
    (prediction,) = predictor(iter([text]))
    if as_json:
        fields = {**predictor.document(prediction), **predictor.details(prediction)}
        emit_json({predictor.key: [{predictor.text_key: text, **fields}]})
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
        (prediction,) = predictor(iter([tables.column_text(row, predictor.setting, settings, where)]))
        sys.stdout.buffer.write(
            row_files.json_line(row_files.add_predictions(row.cells, predictor.document(prediction)))
        )
        sys.stdout.buffer.flush()


def _open(predictor: Predictor, file: str, reading: dict[str, Any]) -> "Corpus":
    from satchel.text import tables

    corpus = predictor.model.corpus(file, reading)
    return corpus if "columns" in reading else tables.prefer_header(corpus)


def _rows(predictor: Predictor, corpus: "Corpus") -> Iterator[tuple[dict[str, Any], Any]]:
    """Return the cells and the prediction of every row of a file."""
    from satchel.text import row_files

    questions, again = tee(row_files.read_input_rows(corpus, predictor.setting))
    predictions = predictor(question.text for question in again)
    for question, prediction in zip(questions, predictions, strict=True):
        yield question.cells, prediction


def _print_file(predictor: Predictor, file: str, reading: dict[str, Any], as_json: bool) -> None:
    rows = _rows(predictor, _open(predictor, file, reading))
    if as_json:
        key = predictor.text_key
        emit_json({predictor.key: [{key: getattr(each, key), **predictor.document(each)} for _, each in rows]})
        return
    for _, prediction in rows:
        print(visible(next(iter(predictor.cells(prediction).values()))))


def _write_file(predictor: Predictor, file: str, out: Path, reading: dict[str, Any], as_json: bool) -> None:
    """Write the rows of a file with their predictions to another file."""
    from satchel.text import columns, row_files

    row_files.check_distinct(out, file)
    form = row_files.output_format(out)
    fields = predictor.document if form == "jsonl" else predictor.cells
    corpus = _open(predictor, file, reading)
    with Progress() as progress:

        def rows() -> Iterator[dict[str, Any]]:
            for number, (cells, prediction) in enumerate(_rows(predictor, corpus), start=1):
                progress(f"{number:,} rows", None)
                predicted = fields(prediction)
                # A text file contains the first field only.
                yield (
                    dict([next(iter(predicted.items()))])
                    if form == "txt"
                    else row_files.add_predictions(cells, predicted)
                )

        count = row_files.write_rows(out, rows(), delimiter=columns.find_delimiter(corpus, corpus.sources[0]))
    message(f"wrote {out}: {count:,} rows")
    if as_json:
        emit_json({"input": file, "output": str(out), "rows": count})
