"""Lessons as one picture for a slide: the matrices of the steps, as SVG.

Steps stand on cards, and the cards in rows, or in columns, of the length that makes the text largest on a slide.
"""

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape

from satchel.lessons.steps import Matrix, Step, format_cell
from satchel.lessons.tints import on_white, tints
from satchel.text.display import visible

FONT = "Helvetica, Arial, 'Liberation Sans', sans-serif"
SIZE = 16  # of letters in cells; other sizes are near it
BOLD = 1.15  # how much wider a title is than other text
CELL = 30  # a cell's height
GAP = 24  # between matrices, and inside of a card
BETWEEN = 16  # between cards
WIDEST = 720  # a step with many matrices puts some below others
NARROWEST = 300  # a card has room for its title
SLIDE = (16, 9)

DARK, SOFT, LINE = "#1a1a1a", "#555555", "#d0d0d0"


@dataclass
class Box:
    """Something drawn: how much room it takes, and the elements, with their places from its own corner."""

    width: float = 0
    height: float = 0
    elements: list[str] = field(default_factory=list)

    def write(self, text: str, x: float, y: float, *, size: int = SIZE, colour: str = DARK, more: str = "") -> None:
        """Add a text whose foot is at y."""
        place = f'x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}"'
        self.elements.append(f"<text {place}{more}>{escape(text)}</text>")

    def put(self, other: "Box", x: float, y: float) -> None:
        """Add another box."""
        self.elements += [f'<g transform="translate({x:.1f} {y:.1f})">', *other.elements, "</g>"]


def svg(steps: Sequence[Step], title: str = "") -> str:
    """Return the matrices of some steps as a picture that stands by itself."""
    cards = [_contents(step) for step in steps if step.matrices]
    arranged = [_arranged(cards, limit, down) for down in (False, True) for limit in _limits(cards, down)]
    body = min(arranged, key=lambda each: each.shrinks).box
    top = 64 if title else BETWEEN
    width, height = body.width + 2 * BETWEEN, body.height + top + BETWEEN
    picture = Box()
    if title:
        picture.write(_text(title), BETWEEN + 4, 42, size=26, more=' font-weight="bold"')
        width = max(width, text_width(_text(title), 26 * BOLD) + 2 * BETWEEN + 8)
    picture.put(body, BETWEEN, top)
    drawn = "\n".join(picture.elements)
    name = f"<title>{escape(_text(title))}</title>\n" if title else ""
    return f"""<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" \
viewBox="0 0 {width:.0f} {height:.0f}" font-family="{FONT}" role="img">
{name}<rect width="100%" height="100%" fill="#ffffff"/>
{drawn}
</svg>
"""


@dataclass
class _Arranged:
    """Cards in rows or columns, and how much they have to shrink to be on a slide."""

    box: Box
    shrinks: float


def _limits(cards: Sequence[Box], down: bool) -> range:
    """Return how long lines of cards might be: from as long as one card to all in one line."""
    sizes = [card.height if down else card.width for card in cards]
    return range(int(max(sizes, default=0)) + 1, int(sum(sizes)) + BETWEEN * len(sizes) + 20, 20)


def _arranged(cards: Sequence[Box], limit: float, down: bool) -> _Arranged:
    """Return the cards in lines no longer than the limit: rows, or columns. Cards fill their line, and its breadth."""

    def length(card: Box) -> float:
        return card.height if down else card.width

    def breadth(card: Box) -> float:
        return card.width if down else card.height

    lines = _lines(cards, limit, BETWEEN, length)
    longest = max((_together(line, BETWEEN, length) for line in lines), default=0)
    body, across = Box(), 0.0
    for line in lines:
        broad = max(map(breadth, line))
        spare = (longest - _together(line, BETWEEN, length)) / len(line)
        along = 0.0
        for card in line:
            long = length(card) + spare
            (x, y), (width, height) = ((across, along), (broad, long)) if down else ((along, across), (long, broad))
            frame = f'width="{width:.1f}" height="{height:.1f}" rx="8" fill="none" stroke="{LINE}"'
            body.put(Box(elements=[f"<rect {frame}/>", *card.elements]), x, y)
            along += long + BETWEEN
        across += broad + BETWEEN
    across -= BETWEEN if lines else 0
    body.width, body.height = (across, longest) if down else (longest, across)
    # Rows are what people read: columns have to be worth it.
    shrinks = max(body.width / SLIDE[0], body.height / SLIDE[1]) * (1.1 if down else 1)
    return _Arranged(body, shrinks)


def _contents(step: Step) -> Box:
    """Return what stands on the card of a step: its title, and its matrices beside or below one another."""
    rows = _lines([_figure(matrix) for matrix in step.matrices], WIDEST, GAP, _width)
    widest = max(_together(row, GAP, _width) for row in rows)
    title = _wrapped(_text(step.title), max(widest, NARROWEST), 17 * BOLD)
    card = Box(max([widest, *(text_width(line, 17 * BOLD) for line in title)]) + 2 * GAP, GAP - 4)
    for line in title:
        card.write(line, GAP, card.height + 15, size=17, more=' font-weight="bold"')
        card.height += 22
    for row in rows:
        x = float(GAP)
        card.height += 10
        for figure in row:
            card.put(figure, x, card.height)
            x += figure.width + GAP
        card.height += max(figure.height for figure in row)
    card.height += GAP - 4
    return card


def _figure(matrix: Matrix) -> Box:
    """Return a matrix: its name, the words above its columns and beside its rows, its cells."""
    cells = [[_text(format_cell(cell)) for cell in row] for row in matrix.values]
    heads, words = list(map(_text, matrix.columns)), list(map(_text, matrix.rows))
    columns = [
        max(text_width(text, SIZE) for text in column) + 18
        for column in zip(*cells, *[heads] * bool(heads), strict=True)
    ]
    columns = [max(column, 34.0) for column in columns]
    side = max((text_width(word, SIZE) for word in words), default=0) + 10 * bool(words)
    name = _text(matrix.name)
    figure = Box(max(side + sum(columns), side + text_width(name, 15)))
    if name:
        figure.write(name, side, 17, size=15, colour=SOFT, more=' font-style="italic"')
        figure.height += 26
    starts = [side + sum(columns[:place]) for place in range(len(columns))]
    if heads:
        for head, x, width in zip(heads, starts, columns, strict=True):
            figure.write(head, x + width / 2, figure.height + 16, colour=SOFT, more=' text-anchor="middle"')
        figure.height += 24
    for place, (row, colours) in enumerate(zip(cells, tints(matrix), strict=True)):
        if words:
            figure.write(words[place], side - 10, figure.height + 21, colour=SOFT, more=' text-anchor="end"')
        for text, tint, x, width in zip(row, colours, starts, columns, strict=True):
            corner = f'x="{x:.1f}" y="{figure.height:.1f}" width="{width:.1f}" height="{CELL}"'
            figure.elements.append(f'<rect {corner} fill="{on_white(tint)}" stroke="{LINE}"/>')
            figure.write(text, x + width / 2, figure.height + 21, more=' text-anchor="middle"')
        figure.height += CELL
    figure.height += 4
    return figure


def _width(box: Box) -> float:
    return box.width


def _lines(boxes: Sequence[Box], limit: float, gap: float, length: Callable[[Box], float]) -> list[list[Box]]:
    """Return the boxes in lines no longer than the limit, unless one box is."""
    lines: list[list[Box]] = []
    for box in boxes:
        if lines and _together([*lines[-1], box], gap, length) <= limit:
            lines[-1].append(box)
        else:
            lines.append([box])
    return lines


def _together(line: Sequence[Box], gap: float, length: Callable[[Box], float]) -> float:
    return sum(map(length, line)) + gap * (len(line) - 1)


def _wrapped(text: str, limit: float, size: float) -> list[str]:
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and text_width(longer, size) > limit:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


def text_width(text: str, size: float) -> float:
    """Return about how wide a text is. Nobody knows which font it will have: better too wide than too narrow."""
    return size * sum(map(_character_width, text))


def _character_width(character: str) -> float:
    if unicodedata.east_asian_width(character) in "WF":
        return 1.05
    if character in "ijlrtfI.,:;|!'()[]{} ":
        return 0.36
    if character in "mwMW@%" or character.isupper():
        return 0.84 if character in "mwMW@%" else 0.72
    return 0.6


def _text(text: str) -> str:
    return visible(text)
