"""Charts made of characters: heat maps, tinted text, curves and scatter plots for a terminal.

Every value is also legible without colour. Shapes: R rows, C columns.
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from satchel.charts.palette import LIGHT, interpolated
from satchel.charts.positions import with_positions
from satchel.text.display import separator, visible

if TYPE_CHECKING:
    from rich.text import Text

# Shades by magnitude. Negative values use dots, so that the sign is legible without colour.
POSITIVE_SHADES = " ░▒▓█"
NEGATIVE_SHADES = " ⠂⠒⠶⠿"
BARS = "▁▂▃▄▅▆▇█"
# Maximum length of a row label and of a column label, in characters.
ROW_LABEL, COLUMN_LABEL = 18, 10
# Minimum width of a chart, in columns of the terminal.
MINIMUM_WIDTH = 20
# Words below this share of the largest magnitude are not tinted.
FAINTEST_TINT = 0.1


def terminal_width() -> int:
    """Return the number of columns of the terminal (80 without one)."""
    from rich.console import Console

    return Console().width


def heatmap(
    rows: Sequence[str], columns: Sequence[str], values_RC: Any, *, signed: bool = False, largest: float | None = None
) -> "Text":
    """Return a matrix as shades, with row labels on the left and vertical column labels on top.

    Values from `largest` on, by default the largest magnitude, have the darkest shade. Columns that do not fit continue
    below.
    """
    from rich.cells import cell_len
    from rich.text import Text

    largest = largest or _largest_magnitude(value for row in values_RC for value in row)
    labels = with_positions([_label(name, ROW_LABEL) for name in rows])
    side = max(map(cell_len, labels), default=0)
    cell = 2 if 2 * len(columns) + side + 1 <= terminal_width() else 1
    per_part = max(MINIMUM_WIDTH, terminal_width() - side - 1) // cell
    column_labels = with_positions([_label(name, COLUMN_LABEL) for name in columns])
    lines = []
    for start in range(0, len(columns), per_part):
        part = slice(start, start + per_part)
        heads = column_labels[part]
        height = max(map(len, heads), default=0)
        lines += [Text()] * (start > 0)
        for line in range(height):
            letters = "".join((head.rjust(height)[line] + " ")[:cell] for head in heads)
            lines.append(Text(" " * (side + 1) + letters.rstrip()))
        for label, row in zip(labels, values_RC, strict=True):
            drawn = Text(" " * (side - cell_len(label)) + label + " ")
            for value in row[part]:
                drawn.append(*_shade(float(value), largest, signed, cell))
            lines.append(drawn)
    return Text("\n").join(lines)


def strip(words: Sequence[str], values: Sequence[float], notes: Sequence[str]) -> "Text":
    """Return words tinted by value, with a note below each, in as many lines as needed."""
    from rich.cells import cell_len
    from rich.text import Text

    largest = _largest_magnitude(values)
    lines: list[tuple[Text, Text]] = []
    for word, value, note in zip(words, values, notes, strict=True):
        label = _label(word, ROW_LABEL)
        width = max(cell_len(label), len(note)) + 1
        if not lines or len(lines[-1][1]) + width > terminal_width():
            lines.append((Text(), Text()))
        upper, lower = lines[-1]
        upper.append(label, _tint(float(value), largest))
        upper.append(" " * (width - cell_len(label)))
        lower.append(f"{note:<{width}}", "dim")
    return Text("\n").join(line for pair in lines for line in pair)


def tinted_text(words: Sequence[str], values: Sequence[float]) -> "Text":
    """Return running text, each word tinted by its value."""
    from rich.text import Text

    largest = _largest_magnitude(values)
    tinted = (Text(visible(word), _tint(float(value), largest)) for word, value in zip(words, values, strict=True))
    return Text(separator(words)).join(tinted)


def curve(points: Sequence[tuple[float, float]], name: str) -> str:
    """Return a curve as a line of bars, with its first, last and lowest value below; empty without finite values."""
    finite = [(x, y) for x, y in points if math.isfinite(y)]
    if not finite:
        return ""
    room = max(MINIMUM_WIDTH, min(100, terminal_width() - 4))
    values = [y for _, y in finite]
    low, high = min(values), max(values)
    sampled = values if len(values) <= room else [values[number * len(values) // room] for number in range(room)]
    bars = "".join(BARS[round((value - low) / ((high - low) or 1) * (len(BARS) - 1))] for value in sampled)
    lowest, at = min((y, x) for x, y in finite)
    (first_x, first), (last_x, last) = points[0], points[-1]
    if len(points) == 1:
        return f"  {name}: {first:.4f} at {first_x:g}"
    return f"  {bars}\n  {name}: {first:.4f} at {first_x:g}, {last:.4f} at {last_x:g}; lowest {lowest:.4f} at {at:g}"


def scatter(points: Sequence[tuple[str, float, float]], height: int = 24) -> str:
    """Return words at their (x, y) positions; words that would overlap an earlier one are counted below."""
    width = max(MINIMUM_WIDTH, min(110, terminal_width() - 1))
    xs, ys = [x for _, x, _ in points], [y for _, _, y in points]
    left, x_range = min(xs), (max(xs) - min(xs)) or 1
    top, y_range = max(ys), (max(ys) - min(ys)) or 1
    grid = [[" "] * width for _ in range(height)]
    hidden = 0
    for word, x, y in points:
        label = _label(word.strip() or word, ROW_LABEL)
        row = grid[round((top - y) / y_range * (height - 1))]
        start = round((x - left) / x_range * max(0, width - len(label) - 1))
        if any(letter != " " for letter in row[max(0, start - 1) : start + len(label) + 1]):
            hidden += 1
        else:
            row[start : start + len(label)] = label
    lines = ["".join(row).rstrip() for row in grid]
    return "\n".join([*lines, *([f"({hidden} overlapping labels not shown)"] if hidden else [])])


def _label(name: str, length: int) -> str:
    label = visible(name, spaces=True)
    return label if len(label) <= length else f"{label[: length - 1]}…"


def _largest_magnitude(values: Any) -> float:
    return max((abs(float(value)) for value in values if math.isfinite(value)), default=0.0) or 1.0


def _shade(value: float, largest: float, signed: bool, width: int) -> tuple[str, str]:
    """Return the characters of a cell and their style."""
    if not math.isfinite(value):
        return "?" * width, "dim"
    shades = NEGATIVE_SHADES if signed and value < 0 else POSITIVE_SHADES
    # Rounded up: a small value other than zero stays visible.
    level = math.ceil(abs(value) / largest * (len(shades) - 1) - 0.25)
    style = "" if value == 0 else LIGHT.neg if value < 0 else LIGHT.pos
    return shades[min(len(shades) - 1, level)] * width, style


def _tint(value: float, largest: float) -> str:
    """Return the style of a word: dark text on a background that is stronger the larger the magnitude."""
    share = abs(value) / largest if math.isfinite(value) else 0.0
    if share < FAINTEST_TINT:
        return ""
    arm = [LIGHT.sequential[0], *LIGHT.negative] if value < 0 else LIGHT.sequential
    return f"{LIGHT.ink} on {interpolated(arm[: LIGHT.cell_steps + 1], share)}"
