"""Terminal output: results on stdout, messages and progress on stderr.

All functions escape control and invisible characters, so that names and texts cannot change the terminal.
"""

import builtins
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from satchel.text.display import finite, json_text, safe, visible
from satchel.torchrun import launch

if TYPE_CHECKING:
    from rich.text import Text

SCHEMA_VERSION = 1
# Seconds before the first progress line, and between two progress lines if stderr is not a terminal.
FIRST_PROGRESS = 2.0
PROGRESS_INTERVAL = 5.0
# Column formats of print_table besides format specifications of numbers.
TEXT, TOKEN = "text", "token"


def print(text: str = "", *, end: str = "\n", flush: bool = False) -> None:
    """Print a result of one or more lines. Commands use this function instead of the built-in one."""
    builtins.print(safe(text), end=end, flush=flush)


def emit_json(document: Mapping[str, Any]) -> None:
    """Print one JSON document; numbers that are not finite become null."""
    tree = {"schema_version": SCHEMA_VERSION, **finite(document)}
    builtins.print(json_text(tree, indent=2))


def message(*lines: str) -> None:
    """Print messages on stderr, one per line; in distributed training only rank 0 prints."""
    if launch().is_first:
        builtins.print(*(f"{_one_line(line)}\n" for line in lines), sep="", end="", file=sys.stderr)


def _one_line(text: str) -> str:
    """Return a message with newlines escaped, except newlines before the text."""
    line = text.lstrip("\n")
    return "\n" * (len(text) - len(line)) + visible(line)


def print_fields(fields: Iterable[tuple[str, str]]) -> None:
    """Print names and values in two columns."""
    rows = [(visible(name), visible(text)) for name, text in fields]
    width = max((len(name) for name, _ in rows), default=0)
    for name, text in rows:
        builtins.print(f"  {name:<{width}}  {text}")


def print_table(
    columns: Mapping[str, str] | Sequence[tuple[str, str]], rows: Iterable[Sequence[object]], *, gap: int = 2
) -> None:
    """Print a table with `gap` spaces between columns. None is printed as "-".

    `columns` gives the heading and format of each column: TEXT, TOKEN (spaces are shown as ␣), or a
    format specification such as ".3f", which also aligns the column to the right.
    """
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    headings = list(columns.items()) if isinstance(columns, Mapping) else list(columns)
    table = Table(box=None, padding=(0, gap, 0, 0), pad_edge=False, header_style="bold")
    for heading, form in headings:
        table.add_column(Text(visible(heading)), justify="left" if form in (TEXT, TOKEN) else "right", overflow="fold")
    for row in rows:
        cells = zip(row, headings, strict=True)
        table.add_row(*(Text(_cell(value, form)) for value, (_, form) in cells))
    Console(highlight=False).print(table)


def _cell(value: Any, form: str) -> str:
    if value is None:
        return "-"
    if form in (TEXT, TOKEN):
        # `str` of a token would drop its role.
        return visible(value if isinstance(value, str) else str(value), spaces=form == TOKEN)
    return format(value, form)


def print_drawing(drawing: "Text | str") -> None:
    """Print a chart made of characters; the chart functions escape its labels."""
    from rich.console import Console

    Console(highlight=False).print(drawing, soft_wrap=True, markup=False)


class Progress:
    """Progress display: one live line on a terminal, otherwise a plain line every few seconds."""

    def __init__(self) -> None:
        self._start = self._last = time.monotonic()
        self._is_terminal = sys.stderr.isatty()
        self._is_shown = False
        self._is_first = launch().is_first
        self._stage = ""

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *exception: object) -> None:
        if self._is_shown and self._is_terminal:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def note(self, text: str) -> None:
        """Print a permanent message above the live line."""
        if self._is_terminal:
            sys.stderr.write("\r\x1b[K")
        message(text)

    def __call__(self, stage: str, done: float | None) -> None:
        now = time.monotonic()
        if now - self._start < FIRST_PROGRESS or not self._is_first:
            return
        interval = 0.1 if self._is_terminal else PROGRESS_INTERVAL
        if now - self._last < interval and (stage == self._stage or not self._is_terminal):
            return
        self._last, self._stage, self._is_shown = now, stage, True
        share = f" {done:4.0%}" if done is not None else ""
        line = f"{visible(stage)} ...{share}  {now - self._start:.0f} s"
        sys.stderr.write(f"\r\x1b[K{line}" if self._is_terminal else f"{line}\n")
        sys.stderr.flush()
