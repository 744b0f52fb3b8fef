"""HTML for notebooks and pages: tables, tinted words, passages, and a page without external resources.

All text is escaped here. In notebooks, text has the colour of the surrounding page and tints are translucent, so that
both light and dark notebooks are legible. Every tint is accompanied by its number.
"""

import math
import re
from base64 import b64encode
from collections.abc import Iterable, Sequence
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import Literal

from satchel.charts.palette import DARK, LIGHT, rgb
from satchel.text.display import safe, separator, visible

# Opacity of the tint of the largest value: dark and light text both keep a contrast of 4.5:1.
STRONGEST_TINT = 0.6
# Maximum number of words that a notebook shows.
MAX_WORDS = 500
NUMBER = re.compile(r"[-+]?\d[\d,]*(\.\d+)?( ?%)?|[-+]?(inf|nan)|-?")

PAGE_STYLE = Path(__file__).with_name("page.css").read_text(encoding="utf-8")


def escaped(text: str, *, multiline: bool = False) -> str:
    """Return text as HTML, with invisible characters spelled out; `multiline` keeps line breaks and tabs."""
    return escape(safe(text) if multiline else visible(text))


def page(
    title: str,
    body: str,
    *,
    theme: Literal["auto", "light", "dark"] = "auto",
    style: str = "",
    scripts: Sequence[str] = (),
) -> str:
    """Return a page that loads nothing; `theme="auto"` follows the reader's setting.

    The security policy allows no request, and no script except `scripts`, which it names by their hashes.
    """
    variables = f":root {{ color-scheme: light dark; {LIGHT.css()} }}"
    variables += f"\n@media screen and (prefers-color-scheme: dark) {{ :root {{ {DARK.css()} }} }}"
    if theme != "auto":
        variables = f":root {{ color-scheme: {theme}; {(LIGHT if theme == 'light' else DARK).css()} }}"
    policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
    if scripts:
        hashes = " ".join(f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'" for script in scripts)
        # Vega compiles its expressions with `new Function`.
        policy += f"; script-src {hashes} 'unsafe-eval'; img-src data: blob:"
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escaped(title)}</title>
<style>
{variables}
{PAGE_STYLE}{style}</style>
{"".join(f"<script>{script}</script>" for script in scripts)}</head>
<body>
{body}
</body>
</html>
"""


def section(title: str, body: str) -> str:
    """Return a section of a page."""
    return f"<section>\n<h2>{escaped(title)}</h2>\n{body}\n</section>\n"


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], title: str = "") -> str:
    """Return a table; columns of numbers are right-aligned."""
    listed = [list(row) for row in rows]
    sides = [
        "right" if listed and all(NUMBER.fullmatch(row[place]) for row in listed) else "left"
        for place in range(len(columns))
    ]
    caption = f"<caption>{escaped(title)}</caption>" if title else ""
    head = _row("th", columns, sides) if any(columns) else ""
    return f"<table>{caption}{head}{''.join(_row('td', row, sides) for row in listed)}</table>"


def facts(rows: Iterable[tuple[str, str]], title: str = "") -> str:
    """Return a table of names and values."""
    return table(["", ""], rows, title)


def tinted(words: Sequence[str], values: Sequence[float], notes: Sequence[str]) -> str:
    """Return running text, each word tinted by its value, with a note below it."""
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    parts = []
    for word, value, note in list(zip(words, values, notes, strict=True))[:MAX_WORDS]:
        # A word of spaces only gets space marks.
        text = escape(visible(word, spaces=not word.strip(" ")))
        parts.append(
            f'<span style="display:inline-block;margin:1px;padding:0 3px;text-align:center;white-space:pre;'
            f'line-height:1.3;background:{tint(value, largest)}">{text}'
            f'<small style="display:block;opacity:0.8">{escaped(note)}</small></span>'
        )
        if word.endswith("\n"):
            parts.append("<br>")
    more = len(words) - MAX_WORDS
    return f"<div>{separator(words).join(parts)}</div>{lines([f'and {more:,} more']) if more > 0 else ''}"


def tint(value: float, largest: float) -> str:
    """Return the background of a value as translucent CSS colour: blue above zero, orange below, grey if not finite."""
    red, green, blue = rgb(LIGHT.edge if not math.isfinite(value) else LIGHT.neg if value < 0 else LIGHT.pos)
    share = 0.5 if not math.isfinite(value) else abs(value) / largest if largest else 0.0
    return f"rgba({red},{green},{blue},{STRONGEST_TINT * share:.2f})"


def passage(text: str, before: str = "") -> str:
    """Return preformatted text, preceded by its context `before` in a fainter colour."""
    faint = f'<span style="opacity:0.6">{escaped(before, multiline=True)}</span>' if before else ""
    return f'<pre style="white-space:pre-wrap;overflow-wrap:anywhere">{faint}{escaped(text, multiline=True)}</pre>'


def lines(texts: Iterable[str]) -> str:
    """Return one line for each text."""
    return "".join(f"<div>{escaped(text)}</div>" for text in texts)


def folded(title: str, body: str) -> str:
    """Return a part that opens when its title is clicked."""
    return f"<details><summary>{escaped(title)}</summary>{body}</details>"


def _row(kind: str, cells: Sequence[str], sides: Sequence[str]) -> str:
    parts = (
        f'<{kind} style="text-align:{side}">{escaped(cell)}</{kind}>' for cell, side in zip(cells, sides, strict=True)
    )
    return f"<tr>{''.join(parts)}</tr>"
