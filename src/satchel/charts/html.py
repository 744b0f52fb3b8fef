"""HTML for notebooks: tables, words on tinted grounds, texts.

Everything is escaped. Letters have the colour of the page around them, and grounds let it through, so that a notebook
may be light or dark. What a tint tells is also told by a number (blue adds, orange takes away: Okabe and Ito).
"""

import math
import re
from collections.abc import Iterable, Sequence
from html import escape

from satchel.text.display import safe, visible

ADDS, TAKES, NO_NUMBER = "0,114,178", "213,94,0", "128,128,128"
# The share of colour that the largest number gets: letters are read on it, be they dark or light.
STRONGEST = 0.6
# A notebook keeps what it shows.
MOST_WORDS = 500
NUMBER = re.compile(r"[-+]?\d[\d,]*(\.\d+)?( ?%)?|[-+]?(inf|nan)|-?")


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], title: str = "") -> str:
    """Return a table; columns of numbers stand on the right."""
    listed = [list(row) for row in rows]
    sides = [
        "right" if listed and all(NUMBER.fullmatch(row[place]) for row in listed) else "left"
        for place in range(len(columns))
    ]
    caption = f"<caption>{_text(title)}</caption>" if title else ""
    head = _row("th", columns, sides) if any(columns) else ""
    return f"<table>{caption}{head}{''.join(_row('td', row, sides) for row in listed)}</table>"


def facts(rows: Iterable[tuple[str, str]], title: str = "") -> str:
    """Return a table of names and what they are."""
    return table(["", ""], rows, title)


def tinted(words: Sequence[str], values: Sequence[float], told: Sequence[str]) -> str:
    """Return words one after the other, on grounds as strong as their values, and below each what is told of it."""
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    parts = []
    for word, value, said in list(zip(words, values, told, strict=True))[:MOST_WORDS]:
        # A word that is nothing but spaces would not be seen.
        shown = escape(visible(word, spaces=not word.strip(" ")))
        parts.append(
            f'<span style="display:inline-block;margin:1px;padding:0 3px;text-align:center;white-space:pre;'
            f'line-height:1.3;background:{_ground(value, largest)}">{shown}'
            f'<small style="display:block;opacity:0.8">{_text(said)}</small></span>'
        )
        if word.endswith("\n"):
            parts.append("<br>")
    more = len(words) - MOST_WORDS
    return f"<div>{''.join(parts)}</div>{lines([f'and {more:,} more']) if more > 0 else ''}"


def passage(text: str, before: str = "") -> str:
    """Return a text as it was written; what stood `before` it is faint."""
    faint = f'<span style="opacity:0.6">{escape(safe(before))}</span>' if before else ""
    return f'<pre style="white-space:pre-wrap;overflow-wrap:anywhere">{faint}{escape(safe(text))}</pre>'


def lines(texts: Iterable[str]) -> str:
    """Return a line for each text."""
    return "".join(f"<div>{_text(text)}</div>" for text in texts)


def folded(title: str, body: str) -> str:
    """Return a part that is shown when its title is clicked."""
    return f"<details><summary>{_text(title)}</summary>{body}</details>"


def _row(kind: str, cells: Sequence[str], sides: Sequence[str]) -> str:
    shown = (
        f'<{kind} style="text-align:{side}">{_text(cell)}</{kind}>' for cell, side in zip(cells, sides, strict=True)
    )
    return f"<tr>{''.join(shown)}</tr>"


def _ground(value: float, largest: float) -> str:
    if not math.isfinite(value):
        return f"rgba({NO_NUMBER},{STRONGEST / 2})"
    share = STRONGEST * abs(value) / largest if largest else 0.0
    return f"rgba({TAKES if value < 0 else ADDS},{share:.2f})"


def _text(text: str) -> str:
    return escape(visible(text))
