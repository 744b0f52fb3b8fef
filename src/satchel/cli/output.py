"""What goes to the terminal: results on stdout, progress on stderr."""

import json
import math
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from satchel.torchrun import launch

if TYPE_CHECKING:
    from rich.text import Text

SCHEMA = 1
# Nothing is said of what takes less than this; without a terminal, a line every so often.
PATIENCE = 2.0
INTERVAL = 5.0


def emit_json(document: Mapping[str, Any]) -> None:
    """Print one JSON document; what is not finite is null."""
    print(json.dumps({"schema_version": SCHEMA, **_finite(document)}, indent=2, ensure_ascii=False, allow_nan=False))


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _finite(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def say(text: str) -> None:
    """Print a message that is not a result; of several processes the first one speaks."""
    if launch().is_first:
        print(text, file=sys.stderr)


def print_pairs(pairs: Iterable[tuple[str, str]]) -> None:
    """Print names and values in two columns."""
    rows = list(pairs)
    width = max((len(name) for name, _ in rows), default=0)
    for name, text in rows:
        print(f"  {name:<{width}}  {text}")


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], right: Sequence[int] = (), *, gap: int = 2
) -> None:
    """Print a table; the columns in `right` are numbers, and `gap` spaces stand between two."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, gap, 0, 0), pad_edge=False, header_style="bold")
    for index, column in enumerate(columns):
        table.add_column(column, justify="right" if index in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(str(cell)) for cell in row))
    Console(highlight=False).print(table)


def print_drawing(drawing: "Text | str") -> None:
    """Print a chart made of characters."""
    from rich.console import Console

    Console(highlight=False).print(drawing, soft_wrap=True, markup=False)


class Progress:
    """Says how far a long task is: one live line on a terminal, a plain line now and then elsewhere."""

    def __init__(self) -> None:
        self._began = self._said = time.monotonic()
        self._is_live = sys.stderr.isatty()
        self._is_shown = False
        self._speaks = launch().is_first
        self._stage = ""

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *exception: object) -> None:
        if self._is_shown and self._is_live:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def note(self, text: str) -> None:
        """Say something that stays, above the live line."""
        if self._is_live:
            sys.stderr.write("\r\x1b[K")
        say(text)

    def __call__(self, stage: str, done: float | None) -> None:
        now = time.monotonic()
        if now - self._began < PATIENCE or not self._speaks:
            return
        interval = 0.1 if self._is_live else INTERVAL
        if now - self._said < interval and (stage == self._stage or not self._is_live):
            return
        self._said, self._stage, self._is_shown = now, stage, True
        share = f" {done:4.0%}" if done is not None else ""
        line = f"{stage} ...{share}  {now - self._began:.0f} s"
        sys.stderr.write(f"\r\x1b[K{line}" if self._is_live else f"{line}\n")
        sys.stderr.flush()


def text_argument(text: str | None, name: str = "TEXT") -> str:
    """Return the text of an argument, or standard input where it is - or missing."""
    from satchel.errors import DataError

    if text is None and sys.stdin.isatty():
        raise DataError(f"{name} is missing", "give it in quotes, or - to read standard input")
    if text is None or text == "-":
        data = sys.stdin.buffer.read()
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise DataError(
                f"found byte {data[error.start]:#04x} at byte {error.start}, expected utf-8",
                where="standard input",
            ) from None
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise DataError(f"{name} is not text that can be encoded as utf-8", "check your terminal's locale") from None
    return text
