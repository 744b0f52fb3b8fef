"""Results of commands and their forms: text in the terminal, JSON (--json), a file (-o)."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Protocol

from typer import Option

from satchel.cli.options import AsJson, Command, with_options
from satchel.cli.output import emit_json, message

PANEL = "Output"
Out = Annotated[
    Path | None, Option("-o", "--out", help="Write a figure: .svg, .png, .pdf, .html or .json.", rich_help_panel=PANEL)
]
Theme = Annotated[str, Option(help="Colours of the figure: light, dark or slides.", rich_help_panel=PANEL)]
Width = Annotated[str | None, Option(help="Width of the figure: 3.3in, 12cm, 600px.", rich_help_panel=PANEL)]


class Saveable(Protocol):
    """A figure, or a table that is written instead of one."""

    def save(self, path: Path, theme: str, width: str | None) -> object:
        """Write a file."""


class Result(NamedTuple):
    """Result of a command: functions that return it as JSON and that print it."""

    document: Callable[[], Mapping[str, Any]]
    show: Callable[[], None]


class View(NamedTuple):
    """Result of a view: functions that draw it, return it as JSON, and print it."""

    figure: Callable[[], Saveable]
    document: Callable[[], Mapping[str, Any]]
    show: Callable[[], None]


def reports(command: Callable[..., Result | View]) -> Command:
    """Turn a function that returns a Result into a command with the option --json."""

    def call(*, as_json: bool, **values: Any) -> None:
        present(command(**values), as_json=as_json)

    return with_options(command, call, {"as_json": (AsJson, False)})


def present(result: Result | View, *, as_json: bool) -> None:
    """Print a result as text or as JSON."""
    if as_json:
        emit_json(result.document())
    else:
        result.show()


def view(command: Callable[..., View]) -> Command:
    """Turn a function that returns a View into a command with the options -o, --theme, --width and --json."""

    def call(*, out: Path | None, theme: str, width: str | None, as_json: bool, **values: Any) -> None:
        if out is None:
            reports(command)(as_json=as_json, **values)
            return
        command(**values).figure().save(out, theme, width)
        message(f"wrote {out}")

    added = {"out": (Out, None), "theme": (Theme, "light"), "width": (Width, None), "as_json": (AsJson, False)}
    return with_options(command, call, added)
