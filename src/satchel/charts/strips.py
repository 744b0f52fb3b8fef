"""Strips: a text as it is read, line by line, each token on a ground whose colour is a number."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import altair as alt
import numpy as np
import numpy.typing as npt

from satchel.charts.figures import Figure
from satchel.charts.grids import NO_NUMBER, Colours
from satchel.charts.labels import cut, label, titled, type_size, whole
from satchel.charts.numbers import Numbers, largest_of, rounded
from satchel.charts.themes import FIXED_FONT
from satchel.text.display import visible

# Of the text, in pixels, where nobody asks for another width.
WIDTH = 720
# A letter of a fixed font is this wide, in its height.
LETTER = 0.602
LONGEST_TOKEN = 40
MOST_TOKENS = 3000


def surprise_strip(tokens: Sequence[str], bits: npt.ArrayLike, title: str = "How surprising each token is") -> Figure:
    """Return the text with each token tinted by how many bits it costs; a token that was impossible is grey."""
    values = np.asarray(bits, dtype=np.float64)
    told = [f"{cost:.3f} bits" if np.isfinite(cost) else "impossible" for cost in values]
    colour = Colours("bits", largest_of(values)).encoding(alt.Legend(orient="bottom", direction="horizontal"))
    return _strip(tokens, values, told, title, colour)


def order_strip(
    tokens: Sequence[str], orders: npt.ArrayLike, title: str = "How many tokens the answer was counted from"
) -> Figure:
    """Return the text with each token tinted by the order of the n-gram that answered."""
    values = np.asarray(orders, dtype=np.float64)
    found = sorted({int(order) for order in values})
    colour = alt.Color(
        "value:Q",
        title="order",
        # The lowest is tinted, too.
        scale=alt.Scale(domain=[0, max([1, *found])], range="ramp", interpolate="rgb"),
        legend=alt.Legend(type="symbol", symbolType="square", orient="bottom", direction="horizontal", values=found),
    )
    return _strip(tokens, values, [f"order {order:.0f}" for order in values], title, colour)


@dataclass(frozen=True)
class _Place:
    """Where a token stands: its line, how far in, how wide, in letters; and how far in its text is."""

    line: int
    start: int
    width: int
    text: str
    indent: int


def _strip(tokens: Sequence[str], values: Numbers, told: Sequence[str], title: str, colour: alt.Color) -> Figure:
    if not len(tokens) == len(values) == len(told):
        raise ValueError(f"found {len(values)} numbers for {len(tokens)} tokens, expected as many")
    note = f"the first {MOST_TOKENS:,} of {len(tokens):,} tokens" if len(tokens) > MOST_TOKENS else ""
    tokens, numbers = tokens[:MOST_TOKENS], rounded(values[:MOST_TOKENS])
    heading, _ = titled(title, [note])

    def draw(factor: float, size: float) -> alt.TopLevelMixin:
        letter = LETTER * (size + 2)
        places = _placed(tokens, max(8, int(factor * WIDTH / letter)))
        records = [
            {
                "line": place.line,
                "left": round(place.start * letter, 1),
                "right": round((place.start + place.width) * letter, 1),
                "at": round((place.start + place.indent) * letter, 1),
                "text": place.text,
                "whole": whole(token),
                "value": value,
                "told": said,
            }
            for place, token, value, said in zip(places, tokens, numbers, told, strict=False)
        ]
        lines = max((place.line for place in places), default=0) + 1
        base = alt.Chart({"values": records}).encode(
            y=alt.Y("line:O", axis=None, scale=alt.Scale(domain=list(range(lines)), paddingInner=0.12)),
            tooltip=[alt.Tooltip("whole:N", title="token"), alt.Tooltip("told:N", title="here")],
        )
        extent = alt.Scale(domain=[0, factor * WIDTH], nice=False, zero=True)
        is_grey = "datum.value === null"
        grounds = base.mark_rect(aria=False, invalid=None, style="border", strokeWidth=0.5).encode(
            x=alt.X("left:Q", axis=None, scale=extent),
            x2=alt.X2(field="right"),
            color=alt.condition(is_grey, alt.value(NO_NUMBER), colour),
        )
        texts = base.mark_text(
            aria=False, invalid=None, align="left", baseline="middle", font=FIXED_FONT, fontSize=size + 2
        ).encode(
            x=alt.X("at:Q", axis=None, scale=extent),
            text="text:N",
            color=alt.condition(
                "datum.value === null || luminance(scale('color', datum.value)) < 0.35",
                alt.value("#ffffff"),
                alt.value("#111820"),
            ),
        )
        chart = alt.layer(grounds, texts).properties(
            width=factor * WIDTH, height=alt.Step(1.9 * (size + 2)), title=heading, description=visible(title)
        )
        drawn: alt.TopLevelMixin = chart.add_params(type_size())
        return drawn

    return Figure(draw(1.0, 11), draw)


def _placed(tokens: Sequence[str], letters: int) -> list[_Place]:
    """Return where each token stands in lines of so many letters; a line ends after a token that ends it."""
    places, line, start = [], 0, 0
    for token in tokens:
        # A space inside is a space; a token that is nothing else, or an accent alone, would not be seen.
        is_seen = token.strip() and not unicodedata.combining(token[0])
        text = cut(visible(token) if is_seen else label(token), min(LONGEST_TOKEN, letters))
        trimmed = text.lstrip(" ")
        width = max(1, columns(text))
        if start and start + width > letters:
            line, start = line + 1, 0
        places.append(_Place(line, start, width, trimmed, columns(text) - columns(trimmed)))
        start += width
        if token.endswith("\n"):
            line, start = line + 1, 0
    return places


def columns(text: str) -> int:
    """Return how many letters of a fixed font a text takes."""
    return sum(
        0 if unicodedata.combining(letter) else 2 if unicodedata.east_asian_width(letter) in "WF" else 1
        for letter in text
    )
