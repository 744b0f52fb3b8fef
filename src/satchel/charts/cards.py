"""Cards: matrices with numbers, one card per step of a computation, on one slide.

The layout is computed here, in units of the font size; the chart draws boxes and texts at the resulting positions.
"""

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import altair as alt

from satchel.charts.figures import Figure
from satchel.charts.labels import text_width
from satchel.charts.palette import Palette, interpolated
from satchel.charts.plots import Plot
from satchel.charts.themes import Theme
from satchel.text.display import visible

# Height and minimum width of a cell, and the space on each side of its text.
CELL, MIN_CELL, PADDING = 1.9, 2.1, 0.55
# Space between matrices and along the border of a card, and space between cards.
GAP, CARD_GAP = 1.5, 1.0
# Height of a line of a title, of the name of a matrix, and of its column labels.
TITLE, NAME, HEAD = 1.4, 1.6, 1.5
# Width from which matrices of a card continue below, and minimum width from which its title is wrapped.
MAX_WIDTH, MIN_TITLE = 45.0, 24.0
# Width of bold text, relative to regular text.
BOLD = 1.15
SLIDE = (16, 9)
# Style of each kind of text; the colour is a role of the palette.
TEXTS: dict[str, dict[str, Any]] = {
    "title": {"align": "left", "fontWeight": "bold", "color": "ink"},
    "name": {"align": "left", "fontStyle": "italic", "color": "ink2"},
    "head": {"align": "center", "color": "ink2"},
    "label": {"align": "right", "color": "ink2"},
    "note": {"align": "left", "color": "ink2"},
    "cell": {"align": "center", "color": "cell_ink"},
}


@dataclass(frozen=True)
class CardMatrix:
    """A matrix of texts with optional row and column labels.

    `shares` are the values divided by the largest magnitude, which colour the cells; nan is grey, None has no colour.
    """

    name: str
    texts: Sequence[Sequence[str]]
    shares: Sequence[Sequence[float | None]]
    rows: Sequence[str] = ()
    columns: Sequence[str] = ()


@dataclass(frozen=True)
class CardPlot:
    """A line chart with a name."""

    name: str
    plot: Plot


@dataclass(frozen=True)
class Card:
    """The title, the matrices and the line charts of one step."""

    title: str
    matrices: Sequence[CardMatrix | CardPlot]


@dataclass
class _Block:
    """A part of the slide: its size, and its boxes and texts at positions relative to its upper left corner."""

    width: float = 0
    height: float = 0
    parts: list[dict[str, Any]] = field(default_factory=list)

    def write(self, kind: str, text: str, x: float, height: float) -> None:
        """Add a text in a line of this height below the block."""
        self.parts.append({"kind": kind, "text": text, "x": x, "y": self.height + height / 2})

    def box(self, x: float, width: float, height: float, share: float | None = None) -> None:
        """Add a box below the block."""
        self.parts.append({"kind": "box", "x": x, "y": self.height, "width": width, "height": height, "share": share})

    def add(self, block: "_Block", x: float) -> None:
        """Add the parts of another block below this one."""
        self.parts += [{**part, "x": part["x"] + x, "y": part["y"] + self.height} for part in block.parts]


def card_slide(cards: Sequence[Card], title: str) -> Figure:
    """Return the cards in rows, with the line breaks that give the largest text on a 16:9 slide."""
    blocks = [_card(card) for card in cards]
    limits = range(
        math.ceil(max((block.width for block in blocks), default=1)), math.ceil(_length(blocks, CARD_GAP)) + 1
    )
    slides = [_slide(_lines(blocks, limit, CARD_GAP)) for limit in limits]
    slide = min(slides, key=lambda slide: max(slide.width / SLIDE[0], slide.height / SLIDE[1]), default=_Block())

    def draw(theme: Theme, stretch: float) -> alt.TopLevelMixin:
        size, palette = theme.font_size * stretch, theme.palette
        boxes = [
            {
                "fill": _fill(part["share"], palette),
                **{key: round(part[key] * size, 1) for key in ("x", "y")},
                "x2": round((part["x"] + part["width"]) * size, 1),
                "y2": round((part["y"] + part["height"]) * size, 1),
            }
            for part in slide.parts
            if part["kind"] == "box"
        ]
        position = {
            "x": alt.X("x:Q", axis=None, scale=alt.Scale(domain=[0, slide.width * size], nice=False)),
            "y": alt.Y("y:Q", axis=None, scale=alt.Scale(domain=[0, slide.height * size], nice=False, reverse=True)),
        }
        layers = [
            alt.Chart({"values": boxes})
            .mark_rect(stroke=palette.rule2, aria=False)
            .encode(x2="x2:Q", y2="y2:Q", color=alt.Color("fill:N", scale=None), **position)
        ]
        if any(part["kind"] == "line" for part in slide.parts):
            layers.append(_line_layer(slide.parts, size, palette, position))
        for kind, style in TEXTS.items():
            texts = [
                {"text": part["text"], "x": round(part["x"] * size, 1), "y": round(part["y"] * size, 1)}
                for part in slide.parts
                if part["kind"] == kind
            ]
            mark: dict[str, Any] = {**style, "color": getattr(palette, style["color"]), "fontSize": size}
            chart = alt.Chart({"values": texts}).mark_text(baseline="middle", **mark)
            layers.append(chart.encode(text="text:N", **position))
        return alt.layer(*layers).properties(width=slide.width * size, height=slide.height * size)

    return Figure(draw, title)


def _slide(lines: Sequence[Sequence[_Block]]) -> _Block:
    """Return cards in rows; the cards of a row share its free width and have its height."""
    slide = _Block(max(_length(line, CARD_GAP) for line in lines))
    for line in lines:
        height = max(block.height for block in line)
        spare = (slide.width - _length(line, CARD_GAP)) / len(line)
        x = 0.0
        for block in line:
            slide.box(x, block.width + spare, height)
            slide.add(block, x)
            x += block.width + spare + CARD_GAP
        slide.height += height + CARD_GAP
    slide.height -= CARD_GAP
    return slide


def _card(card: Card) -> _Block:
    """Return the title, the matrices and the line charts of a step."""
    blocks = [_plot(each) if isinstance(each, CardPlot) else _matrix(each) for each in card.matrices]
    rows = _lines(blocks, MAX_WIDTH, GAP)
    inner = max((_length(row, GAP) for row in rows), default=0.0)
    title = textwrap.wrap(visible(card.title), int(max(inner, MIN_TITLE) / BOLD / text_width("n", 1)))
    block = _Block(max([inner, *(BOLD * text_width(line, 1) for line in title)]) + 2 * GAP, GAP)
    for line in title:
        block.write("title", line, GAP, TITLE)
        block.height += TITLE
    for row in rows:
        block.height += GAP / 2
        x = GAP
        for matrix in row:
            block.add(matrix, x)
            x += matrix.width + GAP
        block.height += max(matrix.height for matrix in row)
    block.height += GAP
    return block


def _matrix(matrix: CardMatrix) -> _Block:
    """Return a matrix: its name, labels and cells."""
    texts = [[visible(text) for text in row] for row in matrix.texts]
    heads, labels = [*map(visible, matrix.columns)], [*map(visible, matrix.rows)]
    widths = [
        max(MIN_CELL, *(text_width(text, 1) + 2 * PADDING for text in column))
        for column in zip(*texts, *[heads] * bool(heads), strict=True)
    ]
    side = max((text_width(label, 1) + PADDING for label in labels), default=0.0)
    starts = [side + sum(widths[:place]) for place in range(len(widths))]
    block = _Block(side + max(sum(widths), text_width(visible(matrix.name), 1)))
    if matrix.name:
        block.write("name", visible(matrix.name), side, NAME)
        block.height += NAME
    if heads:
        for head, x, width in zip(heads, starts, widths, strict=True):
            block.write("head", head, x + width / 2, HEAD)
        block.height += HEAD
    for place, (row, shares) in enumerate(zip(texts, matrix.shares, strict=True)):
        if labels:
            block.write("label", labels[place], side - PADDING, CELL)
        for text, share, x, width in zip(row, shares, starts, widths, strict=True):
            block.box(x, width, CELL, share)
            block.write("cell", text, x + width / 2, CELL)
        block.height += CELL
    return block


def _plot(named: CardPlot) -> _Block:
    """Return a line chart: its name, lines and texts."""
    plot = named.plot
    block = _Block(plot.width)
    block.write("name", visible(named.name), 0, NAME)
    block.height += NAME
    for line in plot.lines:
        series = -2 if line.series is None else line.series
        points = [(x, y + block.height) for x, y in line.points]
        block.parts.append({"kind": "line", "x": 0.0, "y": 0.0, "series": series, "points": points})
    kinds = {"left": "note", "center": "head", "right": "label"}
    for text in plot.texts:
        kind = kinds[text.align]
        block.parts.append({"kind": kind, "text": visible(text.text), "x": text.x, "y": text.y + block.height})
    block.height += plot.height
    return block


def _line_layer(parts: Sequence[dict[str, Any]], size: float, palette: Palette, position: dict[str, Any]) -> alt.Chart:
    """Return the lines of all line charts; axes are thin, marks and the second series are dashed."""
    lines = [part for part in parts if part["kind"] == "line"]
    rows = [
        {
            "line": number,
            "order": order,
            "x": round((x + part["x"]) * size, 1),
            "y": round((y + part["y"]) * size, 1),
            "colour": {-2: palette.ink2, -1: palette.ink2, 1: palette.neg}.get(part["series"], palette.pos),
            "dashed": part["series"] in (-1, 1),
        }
        for number, part in enumerate(lines)
        for order, (x, y) in enumerate(part["points"])
    ]
    dashes = alt.StrokeDash("dashed:N", scale=alt.Scale(domain=[False, True], range=[[1, 0], [4, 3]]), legend=None)
    chart: alt.Chart = alt.Chart({"values": rows}).mark_line(strokeWidth=size / 10, aria=False)
    colour = alt.Color("colour:N", scale=None)
    encoded: alt.Chart = chart.encode(detail="line:N", order="order:Q", color=colour, strokeDash=dashes, **position)
    return encoded


def _lines(blocks: Sequence[_Block], limit: float, gap: float) -> list[list[_Block]]:
    """Return the blocks in lines that are at most `limit` wide, or contain a single block."""
    lines: list[list[_Block]] = []
    for block in blocks:
        if lines and _length([*lines[-1], block], gap) <= limit:
            lines[-1].append(block)
        else:
            lines.append([block])
    return lines


def _length(line: Sequence[_Block], gap: float) -> float:
    return sum(block.width for block in line) + gap * (len(line) - 1)


def _fill(share: float | None, palette: Palette) -> str:
    """Return the colour of a cell."""
    if share is None:
        return palette.paper
    if math.isnan(share):
        return palette.rule2
    return interpolated(palette.scale(palette.cell_steps, signed=True), (1 + share) / 2)
