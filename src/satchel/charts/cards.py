"""Cards: numbered matrices of several steps on one slide.

The layout is computed here in units of the font size; the chart only draws rectangles and texts at positions.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import altair as alt

from satchel.charts.figures import Figure
from satchel.charts.labels import text_width
from satchel.charts.palette import Palette, interpolated
from satchel.charts.themes import Theme
from satchel.text.display import visible

# Lengths in units of the font size: cell height, least cell width, space beside a text in a cell, distance between
# matrices and from the border of a card, distance between cards.
CELL, MIN_CELL, PADDING, GAP, BETWEEN = 1.9, 2.1, 0.55, 1.5, 1.0
# Height of the title of a card, of the name of a matrix, and of its column labels.
TITLE, NAME, HEAD = 1.4, 1.6, 1.5
# Matrices of a card continue below at this width; a title has at least the second width before it is wrapped.
MAX_WIDTH, MIN_TITLE = 45.0, 24.0
# Bold text is wider than regular text by this factor.
BOLD = 1.15
SLIDE = (16, 9)
# Style of each kind of text; the colour is a role of the palette.
TEXTS: dict[str, dict[str, Any]] = {
    "title": {"align": "left", "fontWeight": "bold", "color": "ink"},
    "name": {"align": "left", "fontStyle": "italic", "color": "ink2"},
    "head": {"align": "center", "color": "ink2"},
    "label": {"align": "right", "color": "ink2"},
    "cell": {"align": "center", "color": "cell_ink"},
}


@dataclass(frozen=True)
class CardMatrix:
    """A matrix of texts with optional row and column labels.

    `shares` are the values divided by the largest magnitude, from -1 to 1, and colour the cells; None has no colour.
    """

    name: str
    texts: Sequence[Sequence[str]]
    shares: Sequence[Sequence[float | None]]
    rows: Sequence[str] = ()
    columns: Sequence[str] = ()


@dataclass(frozen=True)
class Card:
    """The title and the matrices of one step."""

    title: str
    matrices: Sequence[CardMatrix]


@dataclass
class _Box:
    """Size of a part of the slide, and its rectangles and texts with positions relative to its upper left corner."""

    width: float = 0
    height: float = 0
    rectangles: list[dict[str, Any]] = field(default_factory=list)
    texts: list[dict[str, Any]] = field(default_factory=list)

    def rectangle(self, x: float, y: float, width: float, height: float, share: float | None) -> None:
        self.rectangles.append({"x": x, "y": y, "x2": x + width, "y2": y + height, "share": share})

    def write(self, kind: str, text: str, x: float, y: float) -> None:
        """Add a text with its vertical centre at y."""
        self.texts.append({"kind": kind, "text": text, "x": x, "y": y})

    def put(self, other: "_Box", x: float, y: float) -> None:
        """Add the contents of another box at a position."""
        self.rectangles += [_moved(each, x, y) for each in other.rectangles]
        self.texts += [_moved(each, x, y) for each in other.texts]


def card_slide(cards: Sequence[Card], title: str) -> Figure:
    """Return the cards in rows, with the line breaks that give the largest text on a 16:9 slide."""
    boxes = [_card(card) for card in cards]
    widths = [box.width for box in boxes]
    limits = range(int(max(widths, default=0)) + 1, int(sum(widths) + BETWEEN * len(widths)) + 2)
    slide = min((_slide(_lines(boxes, limit, BETWEEN)) for limit in limits), key=_aspect, default=_Box())

    def draw(theme: Theme, stretch: float) -> alt.TopLevelMixin:
        size, palette = theme.font_size * stretch, theme.palette
        rectangles = [{"fill": _fill(each.pop("share"), palette), **each} for each in _scaled(slide.rectangles, size)]
        texts = _scaled(slide.texts, size)
        across = alt.Scale(domain=[0, slide.width * size], nice=False, zero=False)
        down = alt.Scale(domain=[0, slide.height * size], nice=False, zero=False, reverse=True)
        position = {"x": alt.X("x:Q", axis=None, scale=across), "y": alt.Y("y:Q", axis=None, scale=down)}
        layers = [
            alt.Chart({"values": rectangles})
            .mark_rect(stroke=palette.rule2, aria=False)
            .encode(x2="x2:Q", y2="y2:Q", color=alt.Color("fill:N", scale=None), **position)
        ]
        for kind, style in TEXTS.items():
            mark = {**style, "color": getattr(palette, style["color"])}
            layers.append(
                alt.Chart({"values": texts})
                .transform_filter(f"datum.kind === '{kind}'")
                .mark_text(baseline="middle", fontSize=size, **mark)
                .encode(text="text:N", **position)
            )
        return alt.layer(*layers).properties(width=slide.width * size, height=slide.height * size)

    return Figure(draw, title)


def _slide(lines: Sequence[Sequence[_Box]]) -> _Box:
    """Return cards in rows; the cards of a row share its free width and have its height."""
    slide = _Box(max((_length(line, BETWEEN) for line in lines), default=0.0))
    for line in lines:
        height = max(box.height for box in line)
        spare = (slide.width - _length(line, BETWEEN)) / len(line)
        x = 0.0
        for box in line:
            slide.rectangle(x, slide.height, box.width + spare, height, None)
            slide.put(box, x, slide.height)
            x += box.width + spare + BETWEEN
        slide.height += height + BETWEEN
    slide.height -= BETWEEN
    return slide


def _aspect(slide: _Box) -> float:
    """Return the size of the slide relative to a 16:9 slide: the smaller, the larger its text appears."""
    return max(slide.width / SLIDE[0], slide.height / SLIDE[1])


def _card(card: Card) -> _Box:
    """Return the title and the matrices of a step."""
    rows = _lines([_matrix(matrix) for matrix in card.matrices], MAX_WIDTH, GAP)
    inner = max((_length(row, GAP) for row in rows), default=0.0)
    title = _wrapped(visible(card.title), max(inner, MIN_TITLE))
    box = _Box(max([inner, *(BOLD * text_width(line, 1) for line in title)]) + 2 * GAP, GAP)
    for line in title:
        box.write("title", line, GAP, box.height + TITLE / 2)
        box.height += TITLE
    for row in rows:
        x = GAP
        box.height += GAP / 2
        for matrix in row:
            box.put(matrix, x, box.height)
            x += matrix.width + GAP
        box.height += max(matrix.height for matrix in row)
    box.height += GAP
    return box


def _matrix(matrix: CardMatrix) -> _Box:
    """Return a matrix: its name, labels and cells."""
    texts = [[visible(text) for text in row] for row in matrix.texts]
    heads, labels = [*map(visible, matrix.columns)], [*map(visible, matrix.rows)]
    columns = [
        max(MIN_CELL, *(text_width(text, 1) + 2 * PADDING for text in column))
        for column in zip(*texts, *[heads] * bool(heads), strict=True)
    ]
    side = max((text_width(label, 1) + PADDING for label in labels), default=0.0)
    centres = [side + sum(columns[:place]) + width / 2 for place, width in enumerate(columns)]
    box = _Box(side + max(sum(columns), text_width(visible(matrix.name), 1)))
    if matrix.name:
        box.write("name", visible(matrix.name), side, NAME / 2)
        box.height += NAME
    if heads:
        for head, x in zip(heads, centres, strict=True):
            box.write("head", head, x, box.height + HEAD / 2)
        box.height += HEAD
    for place, (row, shares) in enumerate(zip(texts, matrix.shares, strict=True)):
        if labels:
            box.write("label", labels[place], side - PADDING, box.height + CELL / 2)
        for text, share, x, width in zip(row, shares, centres, columns, strict=True):
            box.rectangle(x - width / 2, box.height, width, CELL, share)
            box.write("cell", text, x, box.height + CELL / 2)
        box.height += CELL
    return box


def _lines(boxes: Sequence[_Box], limit: float, gap: float) -> list[list[_Box]]:
    """Return the boxes in lines that are at most `limit` wide, or contain a single box."""
    lines: list[list[_Box]] = []
    for box in boxes:
        if lines and _length([*lines[-1], box], gap) <= limit:
            lines[-1].append(box)
        else:
            lines.append([box])
    return lines


def _length(line: Sequence[_Box], gap: float) -> float:
    return sum(box.width for box in line) + gap * (len(line) - 1)


def _wrapped(text: str, limit: float) -> list[str]:
    """Return a bold text in lines of at most `limit`."""
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and BOLD * text_width(longer, 1) > limit:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


def _moved(part: dict[str, Any], x: float, y: float) -> dict[str, Any]:
    shift = {"x": x, "x2": x, "y": y, "y2": y}
    return {key: value + shift[key] if key in shift else value for key, value in part.items()}


def _scaled(parts: Sequence[dict[str, Any]], size: float) -> list[dict[str, Any]]:
    positions = ("x", "x2", "y", "y2")
    return [{key: round(part[key] * size, 1) if key in positions else part[key] for key in part} for part in parts]


def _fill(share: float | None, palette: Palette) -> str:
    """Return the colour of a cell; values that are not finite have a share of nan and are grey."""
    if share is None:
        return palette.paper
    if share != share:
        return palette.rule2
    return interpolated(palette.scale(palette.cell_steps, signed=True), (1 + share) / 2)
