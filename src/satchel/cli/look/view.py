"""Output shared by the views: a figure file (-o), JSON (--json), or text in the terminal."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Protocol

from typer import Option

from satchel.cli.options import AsJson, Command, with_options
from satchel.cli.output import Progress, emit_json, message

PANEL = "Output"
Out = Annotated[
    Path | None, Option("-o", "--out", help="Write a figure: .svg, .png, .pdf, .html or .json.", rich_help_panel=PANEL)
]
Theme = Annotated[str, Option(help="Colours of the figure: light, dark or slides.", rich_help_panel=PANEL)]
Width = Annotated[str | None, Option(help="Width of the figure: 3.3in, 12cm, 600px.", rich_help_panel=PANEL)]

Target = Annotated[str | None, Option(help="Translators: the translation; default: the model's own.")]
Source = Annotated[str | None, Option(help="Translators: the source text; TEXT is then the translation.")]
Layer = Annotated[int | None, Option(help="Layer, counted from 0; default: all layers.")]
Head = Annotated[int | None, Option(help="Head, counted from 0; default: all heads.")]
Start = Annotated[int, Option(help="First token of the window if TEXT is longer than the model's context.", min=0)]


class Saveable(Protocol):
    """A figure, or a table that is written instead of one."""

    def save(self, path: Path, theme: str, width: str | None) -> object:
        """Write a file."""


@dataclass(frozen=True)
class View:
    """The three forms of a view."""

    figure: Callable[[], Saveable]
    document: Callable[[], dict[str, Any]]
    show: Callable[[], None]


def view(command: Callable[..., View]) -> Command:
    """Add -o, --theme, --width and --json to a command that returns a View."""

    def call(*, out: Path | None, theme: str, width: str | None, as_json: bool, **values: Any) -> None:
        result = command(**values)
        if out is not None:
            with Progress() as progress:
                progress("drawing", None)
                result.figure().save(out, theme, width)
            message(f"wrote {out}")
        elif as_json:
            emit_json(result.document())
        else:
            result.show()

    added = {"out": (Out, None), "theme": (Theme, "light"), "width": (Width, None), "as_json": (AsJson, False)}
    return with_options(command, call, added)
