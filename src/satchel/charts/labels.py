"""Words beside charts: nothing invisible, nothing that reorders its neighbours, nothing without end.

Words may stand in a text twice: charts place them by number and name them from a list that travels with the data.
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import altair as alt

from satchel.text.display import visible

LONGEST_LABEL = 24
# Of what is told of a cell or a point.
LONGEST_WHOLE = 300
# A letter beside an axis is about this wide, in pixels.
LETTER = 6.4


def label(text: str) -> str:
    """Return a token as it stands beside an axis: spaces can be seen, and what is long is cut."""
    shown = "".join("␣" if unicodedata.category(letter) == "Zs" else letter for letter in visible(text))
    # An accent alone would stand on whatever is before it.
    shown = f"◌{shown}" if shown and unicodedata.category(shown[0]) in ("Mn", "Me") else shown
    return cut(shown, LONGEST_LABEL)


def whole(text: str) -> str:
    """Return a token as it is told under the pointer."""
    return cut(visible(text, spaces=text != text.strip(" ")), LONGEST_WHOLE)


def cut(text: str, longest: int) -> str:
    """Return the text, or its beginning."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


@dataclass(frozen=True)
class Words:
    """What stands beside the places of an axis, and all of it as told under the pointer."""

    shown: list[str]
    whole: list[str]
    # Numbers are read between those that are left out; words are not.
    are_numbers: bool = False

    def __len__(self) -> int:
        return len(self.shown)

    def parameters(self, name: Literal["rows", "columns"]) -> list[alt.Parameter]:
        """Return the lists by which a chart names the places of an axis."""
        return [alt.param(name=name, value=self.shown), alt.param(name=f"whole_{name}", value=self.whole)]


def words(tokens: Sequence[str], block: int = 1) -> Words:
    """Return the names of tokens, or of blocks of tokens, each by its first."""
    if block == 1:
        return Words([label(token) for token in tokens], [whole(token) for token in tokens])
    starts = range(0, len(tokens), block)
    return Words(
        [label(tokens[start]) for start in starts],
        [
            f"{start} to {min(start + block, len(tokens)) - 1}: "
            + cut(" ".join(whole(token) for token in tokens[start : start + block]), LONGEST_WHOLE)
            for start in starts
        ],
    )


def numbers(count: int, block: int = 1) -> Words:
    """Return the names of places that have none."""
    starts = [str(start) for start in range(0, count, block)]
    return Words(starts, starts, are_numbers=True)


def row_axis(names: Words) -> alt.Axis:
    """Return an axis with a name beside each row."""
    return _axis(names, "rows", "height")


def column_axis(names: Words, *, is_upright: bool) -> alt.Axis:
    """Return an axis with a name above each column, upright or on its side."""
    axis = _axis(names, "columns", "width")
    axis.orient = "top"
    axis.labelAngle = 0 if is_upright else -90
    return axis


def _axis(names: Words, list_name: str, extent: str) -> alt.Axis:
    """Return an axis whose type shrinks with its places; when it is too small, names are left out."""
    shrinking = f"max(4, min(size, 0.95 * {extent} / {max(1, len(names))}))"
    return alt.Axis(
        labelExpr=f"{list_name}[datum.value]",
        labelFontSize=alt.ExprRef("size" if names.are_numbers else shrinking),
        labelOverlap="parity" if names.are_numbers else "greedy",
        labelSeparation=8 if names.are_numbers else 0,
        ticks=False,
        domain=False,
        labelPadding=5,
    )


def legend_columns(names: Sequence[str]) -> alt.ExprRef:
    """Return how many columns of names stand side by side below a plot."""
    longest = max((len(name) for name in names), default=1)
    return alt.ExprRef(f"max(1, floor((width + 30) / (3 * size + {0.62 * longest:.2f} * size)))")


def across(names: Words) -> float:
    """Return how wide the widest name is, in pixels."""
    return max((len(name) for name in names.shown), default=0) * LETTER


def titled(title: str, notes: Sequence[str] = (), chosen: str | None = None) -> tuple[alt.Title, list[alt.Parameter]]:
    """Return the title of a chart with notes below it, and what it needs.

    `chosen` is an expression that says what of several is shown; it follows the title.
    """
    below = [visible(note) for note in notes if note] or alt.Undefined
    if chosen is None:
        return alt.Title(visible(title), subtitle=below), []
    lines = alt.param(name="title", value=[visible(title)])
    return alt.Title(alt.ExprRef(f"split(join(title, '|') + '|' + {chosen}, '|')"), subtitle=below), [lines]


def type_size() -> alt.Parameter:
    """Return the size of type, which a theme sets."""
    return alt.param(name="size", value=11)
