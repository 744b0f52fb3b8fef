"""Labels of axes and tooltips.

A token can occur twice in a text: charts place tokens by position and look labels up in a list, a chart parameter.
"""

import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import altair as alt

from satchel.charts.positions import with_positions
from satchel.charts.themes import Theme
from satchel.text.display import visible

# Maximum number of characters of an axis label and of a tooltip.
LONGEST_LABEL = 24
LONGEST_TOOLTIP = 300
# Widths of characters of DejaVu Sans, relative to the font size; other fonts are narrower.
NARROW, WIDE = "ijlrtfI.,:;|!'()[]{} ", "mwMW@%"


def label(text: str) -> str:
    """Return a token as axis label: spaces as marks, long tokens cut."""
    marked = "".join("␣" if unicodedata.category(letter) == "Zs" else letter for letter in visible(text))
    # A combining character needs a base, or it would combine with the previous label.
    marked = f"◌{marked}" if marked and unicodedata.category(marked[0]) in ("Mn", "Me") else marked
    return cut(marked, LONGEST_LABEL)


def full_text(text: str) -> str:
    """Return a token as text of a tooltip."""
    return cut(visible(text, spaces=text != text.strip(" ")), LONGEST_TOOLTIP)


def cut(text: str, length: int) -> str:
    """Return the text, cut to a length with an ellipsis."""
    return text if len(text) <= length else f"{text[: length - 1]}…"


@dataclass(frozen=True)
class Labels:
    """Labels along an axis, and the same in full for tooltips."""

    short: list[str]
    full: list[str]
    # Labels are 0, 1, 2 ...: some can be left out when space is short.
    are_numbers: bool = False

    def __len__(self) -> int:
        return len(self.short)

    def with_row(self, name: str) -> "Labels":
        """Return the labels followed by one more."""
        return Labels([*self.short, name], [*self.full, name], self.are_numbers)

    def parameters(self, axis: Literal["rows", "columns"]) -> list[alt.Parameter]:
        """Return the labels as chart parameters, `rows` and `full_rows`."""
        return [alt.param(name=axis, value=self.short), alt.param(name=f"full_{axis}", value=self.full)]

    def width(self, font_size: float) -> float:
        """Return the estimated width of the longest label, in pixels."""
        return max((text_width(name, font_size) for name in self.short), default=0.0)

    def x(self, theme: Theme, cell: float, title: str | None = None, orient: Literal["top", "bottom"] = "top") -> alt.X:
        """Return the encoding of the field `column`, with labels rotated if wider than a cell."""
        is_upright = self.are_numbers or self.width(theme.font_size) <= cell
        axis = self._axis("columns", theme, cell, is_upright, orient)
        return alt.X("column:O", title=title, axis=axis, scale=alt.Scale(domain=list(range(len(self)))))

    def y(self, theme: Theme, cell: float, title: str | None = None) -> alt.Y:
        """Return the encoding of the field `row`, with labels on the left."""
        axis = self._axis("rows", theme, cell, True, "left")
        return alt.Y("row:O", title=title, axis=axis, scale=alt.Scale(domain=list(range(len(self)))))

    def _axis(
        self,
        name: Literal["rows", "columns"],
        theme: Theme,
        cell: float,
        is_upright: bool,
        orient: Literal["left", "top", "bottom"],
    ) -> alt.Axis:
        """Return the axis; labels shrink with the cells (`cell` pixels), and overlapping ones are left out."""
        # Rotated labels omit the space mark, which would be illegible.
        expression = f"{name}[datum.value]" if is_upright else f"replace({name}[datum.value], /^␣(?=.)/, '')"
        return alt.Axis(
            labelExpr=expression,
            labelFontSize=theme.font_size if self.are_numbers else max(7.0, min(theme.font_size, 0.95 * cell)),
            labelOverlap="parity" if self.are_numbers else "greedy",
            labelSeparation=8 if self.are_numbers else 0,
            orient=orient,
            labelAngle=0 if is_upright else -90,
            labelPadding=5,
            ticks=False,
            domain=False,
        )


def token_labels(tokens: Sequence[str], block: int = 1) -> Labels:
    """Return the labels of tokens, or of blocks of tokens, named by their first token."""
    names = with_positions([label(token) for token in tokens])
    if block == 1:
        return Labels(names, with_positions([full_text(token) for token in tokens]))
    starts = range(0, len(tokens), block)
    full = [
        f"{start} to {min(start + block, len(tokens)) - 1}: "
        + cut(" ".join(full_text(token) for token in tokens[start : start + block]), LONGEST_TOOLTIP)
        for start in starts
    ]
    return Labels([names[start] for start in starts], full)


def name_labels(names: Sequence[str], length: int = LONGEST_LABEL) -> Labels:
    """Return the labels of layers, methods or runs."""
    full = [visible(name) for name in names]
    return Labels([cut(name, length) for name in full], [cut(name, LONGEST_TOOLTIP) for name in full])


def number_labels(count: int, step: int = 1) -> Labels:
    """Return the labels 0, step, 2 step ... below `count`."""
    numbers = [str(number) for number in range(0, count, step)]
    return Labels(numbers, numbers, are_numbers=True)


def signed_number(value: float) -> str:
    """Return a number with sign and three decimals; zero has no sign, and values that are not finite no text."""
    text = f"{value:+.3f}".replace("-", "\u2212") if math.isfinite(value) else ""
    return "0.000" if text[1:] == "0.000" else text


def text_width(text: str, font_size: float) -> float:
    """Return the estimated width of a text, in the unit of the font size."""
    return font_size * sum(map(_character_width, text))


def _character_width(character: str) -> float:
    if unicodedata.east_asian_width(character) in "WF":
        return 1.05
    return 0.36 if character in NARROW else 0.95 if character in WIDE else 0.74 if character.isupper() else 0.63


def legend_columns(names: Sequence[str], width: float, theme: Theme) -> int:
    """Return the number of columns of a legend below a plot of this width."""
    longest = max((text_width(name, theme.font_size) for name in names), default=0.0)
    return max(1, int((width + 30) / (2.4 * theme.font_size + longest)))
