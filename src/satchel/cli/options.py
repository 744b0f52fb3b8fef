"""Arguments and options shared by several commands."""

import functools
import inspect
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from satchel.cli.output import message
from satchel.errors import DataError, SettingsError
from satchel.text.display import quoted

Command = Callable[..., Any]

Run = Annotated[str, Argument(metavar="RUN", help="Run folder of a trained model.")]
Text = Annotated[str | None, Argument(metavar="TEXT", help="Input text in quotes, or - to read standard input.")]
Raw = Annotated[
    bool,
    Option(
        "--raw", help="Backpacks: show raw contributions and the bias of the head instead of centred contributions."
    ),
]
AsJson = Annotated[bool, Option("--json", help="Print the result as one JSON document.")]
Force = Annotated[bool, Option("--force", help="Replace an existing run folder.")]
RunOut = Annotated[Path, Option("-o", "--out", help="Run folder to write.")]
Assignments = Annotated[list[str] | None, Option("--set", metavar="KEY=VALUE", help="Change one setting; repeatable.")]
PrecisionOption = Annotated[
    str,
    Option("--precision", metavar="PRECISION", help="Precision of matrix products: float32 or bfloat16."),
]
DecodingPrecisionOption = Annotated[
    str,
    Option(
        "--precision",
        metavar="PRECISION",
        help="Precision of matrix products: float32, bfloat16 or int8. The loss on held-out text is printed.",
    ),
]
Top = Annotated[int, Option(help="Number of words in each list.", min=1)]
Temperature = Annotated[float, Option(help="Sampling temperature: the logits are divided by it; 0 is greedy.")]
TopK = Annotated[int | None, Option(help="Sample from the K most probable tokens.")]
TopP = Annotated[float | None, Option(help="Sample from the most probable tokens whose probabilities sum to P.")]
SamplingSeed = Annotated[int, Option(help="Random seed of the sampler.")]

PANEL = "Input format"
# Options for the format of input files, by the name of the data setting that each of them changes.
READING = {
    "encoding": "Character encoding of the input (default: utf-8).",
    "encoding_errors": "Undecodable bytes: strict (stop), replace or skip.",
    "columns": "Column names of a table without a header, separated by commas; - skips a column.",
    "delimiter": "Column separator of .csv files (default: detected).",
    "text_column": "Name of the column with the text.",
    "label_column": "Name of the column with the label.",
    "tags_column": "Name of the column with the tags.",
    "source_column": "Name of the column with the source text.",
    "target_column": "Name of the column with the translation.",
    "skip_unlabelled": "Skip rows without a label or tags (default: report them and stop).",
}
# Options of commands that evaluate runs on a table.
EVALUATION = tuple(name for name in READING if name != "encoding_errors")


def with_options(command: Command, call: Command, added: dict[str, Any], *, replaces: str = "") -> Command:
    """Return `call` as a command with the parameters of `command` and the optional parameters in `added`.

    `added` maps the names of parameters to their annotations and defaults. The parameter `replaces` is removed.
    """
    parameters = [each for each in inspect.signature(command).parameters.values() if each.name != replaces]
    for name, (annotation, default) in added.items():
        parameters.append(
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        )
    wrapper = functools.wraps(command)(call)
    wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return wrapper


def reads_files(*names: str) -> Callable[[Command], Command]:
    """Add the named options of READING to a command, which gets the values as one dict `reading` of data settings."""

    def decorate(command: Command) -> Command:
        def call(**values: Any) -> Any:
            reading = {name: values.pop(name) for name in names}
            reading = {name: value for name, value in reading.items() if value not in (None, False)}
            if "columns" in reading:
                reading["columns"] = reading["columns"].split(",")
            if reading.get("delimiter") == "\\t":
                reading["delimiter"] = "\t"
            return command(**values, reading=reading)

        added: dict[str, Any] = {}
        for name in names:
            if name == "skip_unlabelled":
                flag = Option("--skip-unlabelled", help=READING[name], rich_help_panel=PANEL)
                added[name] = (Annotated[bool, flag], False)
            else:
                added[name] = (Annotated[str | None, Option(help=READING[name], rich_help_panel=PANEL)], None)
        return with_options(command, call, added, replaces="reading")

    return decorate


def read_text(text: str | None, name: str = "TEXT", *, file_option: str | None = None) -> str:
    """Return the value of a text argument, or standard input if the argument is - or missing.

    `file_option` is the option of the command for files; a text that is the name of a file gets a hint at it.
    """
    if text is None and sys.stdin.isatty():
        raise DataError(f"{name} is missing", "give it in quotes, or - to read standard input")
    if text is None or text == "-":
        return decode_utf8(sys.stdin.buffer.read(), "standard input")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise DataError(f"{name} cannot be encoded as utf-8", "check the locale of your terminal") from None
    _hint_at_path(text, name, file_option)
    return text


def _hint_at_path(text: str, name: str, file_option: str | None) -> None:
    """Print a message if a text is the name of an existing file or folder."""
    if "\0" in text or not os.path.exists(text):
        return
    kind, remedy = "file", f"to read the file, use - and redirect it: - < {quoted(text)}"
    if file_option is not None:
        remedy = f"to read its rows, use {file_option} {quoted(text)}"
    if os.path.isdir(text):
        kind, remedy = "folder", f"{name} is a text, not a name"
    message(f"note: {name} is used as it is, but {quoted(text)} is also the name of a {kind}; {remedy}")


def decode_utf8(data: bytes, where: str) -> str:
    """Return the text of UTF-8 bytes, or raise an error that names the first invalid byte."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        cause = f"byte {data[error.start]:#04x} at offset {error.start} is not valid utf-8"
        raise DataError(cause, where=where) from None


def use_precision(model: Any, precision: str) -> None:
    """Set the precision of a model; print a message if the processor emulates it."""
    check_choice("--precision", precision, ("float32", "bfloat16"))
    model.set_precision(precision)
    if precision == "bfloat16":
        from satchel.nn.precision import has_bfloat16, instruction_sets

        if not has_bfloat16(instruction_sets("cpu")):
            message("note: the processor has no bfloat16 instructions and emulates them: float32 is faster")


def use_decoding_precision(model: Any, precision: str) -> None:
    """Set the precision of decoding; print the change of the bits per byte of held-out text."""
    check_choice("--precision", precision, ("float32", "bfloat16", "int8"))
    if precision == "float32":
        return
    if precision == "int8":
        from satchel.nn.precision import AVX2, instruction_sets

        if AVX2 not in instruction_sets("cpu"):
            raise SettingsError("--precision int8: the processor has no instructions for it", "use float32")
    else:
        use_precision(model, precision)
    bits = model.decoding_bits(precision)
    if bits is None:
        message(f"note: the run has no held-out text, so the loss of {precision} is not measured")
        return
    message(f"{precision}: {bits[1]:.4f} bits per byte on held-out text; float32: {bits[0]:.4f}")


def check_choice(option: str, value: str, choices: Sequence[str]) -> None:
    """Raise an error if the value of an option is not one of its choices."""
    if value not in choices:
        raise SettingsError(f"{option} {value}: unknown value", f"expected {', '.join(choices)}")
