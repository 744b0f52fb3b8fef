"""The layout of line charts: lines and texts at positions in units of the font size, for pages and slides."""

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

# Size of the plot, and the space around it for labels.
WIDTH, HEIGHT = 24.0, 11.0
LEFT, RIGHT, TOP, BOTTOM = 4.5, 2.0, 1.8, 3.4
TICK = 0.4

Points = Sequence[tuple[float, float]]
Align = Literal["left", "center", "right"]


class Line(NamedTuple):
    """A line through points; `series` is its number, None for an axis, -1 for a mark."""

    points: list[tuple[float, float]]
    series: int | None = None


class Text(NamedTuple):
    """A text at a position."""

    x: float
    y: float
    text: str
    align: Align = "center"
    series: int | None = None


class Plot(NamedTuple):
    """The lines and texts of a line chart."""

    width: float
    height: float
    lines: list[Line]
    texts: list[Text]


def layout(
    series: Sequence[tuple[str, Points]], x_title: str, y_title: str, marks: Sequence[tuple[float, str]], *, log: bool
) -> Plot:
    """Return the lines and texts of a line chart; `marks` are vertical lines, `log` makes both axes logarithmic."""
    xs = [x for _, points in series for x, _ in points]
    ys = [y for _, points in series for _, y in points]
    x_ticks, y_ticks = _ticks(xs, log), _ticks(ys, log)

    def at(x: float, y: float) -> tuple[float, float]:
        right, up = _share(x, x_ticks, log), _share(y, y_ticks, log)
        return LEFT + WIDTH * right, TOP + HEIGHT * (1 - up)

    bottom = TOP + HEIGHT
    lines = [Line([(LEFT, TOP), (LEFT, bottom), (LEFT + WIDTH, bottom)])]
    texts = [
        Text(LEFT + WIDTH / 2, bottom + 2.6, x_title),
        Text(0.2, TOP - 1.1, y_title, "left"),
    ]
    for tick in x_ticks:
        x, _ = at(tick, y_ticks[0])
        lines.append(Line([(x, bottom), (x, bottom + TICK)]))
        texts.append(Text(x, bottom + 1.2, f"{tick:g}"))
    for tick in y_ticks:
        _, y = at(x_ticks[0], tick)
        lines.append(Line([(LEFT - TICK, y), (LEFT, y)]))
        texts.append(Text(LEFT - 2 * TICK, y, f"{tick:g}", "right"))
    for x_value, name in marks:
        x, _ = at(x_value, y_ticks[0])
        lines.append(Line([(x, TOP), (x, bottom)], -1))
        texts.append(Text(x + TICK, bottom - 0.9, name, "left", -1))
    for number, (name, points) in enumerate(series):
        lines.append(Line([at(x, y) for x, y in points], number))
        if len(series) > 1:
            x, y = at(*points[len(points) // 2])
            texts.append(Text(x + 1.0, y + (1.0 if number else -1.0), name, "left" if number else "right", number))
    return Plot(LEFT + WIDTH + RIGHT, TOP + HEIGHT + BOTTOM, lines, texts)


def _share(value: float, ticks: Sequence[float], log: bool) -> float:
    """Return the position of a value between the first and the last tick, from 0 to 1."""
    first, last, value = (math.log(each) if log else each for each in (ticks[0], ticks[-1], value))
    return (value - first) / (last - first)


def _ticks(values: Sequence[float], log: bool) -> list[float]:
    """Return about five round numbers that cover the values; powers of ten or of four on a logarithmic axis."""
    low, high = min(values), max(values)
    if log:
        base = 10 if high / low > 100 else 4 if high / low > 16 else 2
        first, last = (round_to(math.log(value, base)) for value, round_to in ((low, math.floor), (high, math.ceil)))
        return [float(base) ** power for power in range(first, max(last, first + 1) + 1)]
    span = high - min(low, 0) or 1.0
    step = next(
        size
        for size in (factor * 10**power for power in range(-9, 12) for factor in (1, 2, 2.5, 5))
        if span / size <= 5.5
    )
    return [step * place for place in range(math.floor(min(low, 0) / step), math.ceil(high / step) + 1)]
