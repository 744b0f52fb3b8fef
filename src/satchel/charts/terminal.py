"""Pictures made of letters: maps, strips and curves in a terminal, with colours where it has them and without.

Letters: R rows, C columns.
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

# From nothing to the most; what takes away is dotted, so that it can be told apart without colours.
ADDS = " ░▒▓█"
TAKES = " ⠂⠒⠶⠿"
BARS = "▁▂▃▄▅▆▇█"
# The same blue and orange as in pictures.
BLUE, ORANGE = (0, 114, 178), (213, 94, 0)
# The longest name beside a row, and the longest above a column.
ROW_NAME, COLUMN_NAME = 18, 10
# A picture narrower than this says nothing.
NARROWEST = 20


def console() -> "Console":
    """Return what prints: it knows the width, and whether there may be colours."""
    from rich.console import Console

    return Console(highlight=False)


def shortened(name: str, length: int) -> str:
    """Return a name that is seen whole, or its beginning."""
    from satchel.text.display import visible

    shown = visible(name, spaces=True)
    return shown if len(shown) <= length else f"{shown[: length - 1]}…"


def draw_map(rows: Sequence[str], columns: Sequence[str], values_RC: Any, *, signed: bool = False) -> None:
    """Print a table of numbers as shades, words beside its rows and, letter under letter, above its columns.

    Where there are more columns than fit, they come in parts, one below the other.
    """
    from rich.text import Text

    printer = console()
    largest = _largest(values_RC)
    names = [shortened(name, ROW_NAME) for name in rows]
    side = max(map(_width, names), default=0)
    each = 2 if 2 * len(columns) + side + 1 <= printer.width else 1
    fitting = max(NARROWEST, printer.width - side - 1) // each
    for start in range(0, len(columns), fitting):
        part = slice(start, start + fitting)
        above = [shortened(name, COLUMN_NAME) for name in columns[part]]
        height = max(map(len, above), default=0)
        for line in range(height):
            letters = "".join((name.rjust(height)[line] + " ")[:each] for name in above)
            printer.print(Text(" " * (side + 1) + letters.rstrip()), soft_wrap=True)
        for name, row in zip(names, values_RC, strict=True):
            drawn = Text(" " * (side - _width(name)) + name + " ")
            for value in row[part]:
                drawn.append(_cell(float(value), largest, signed) * each, _colour(float(value)))
            printer.print(drawn, soft_wrap=True)
        if start + fitting < len(columns):
            printer.print()


def draw_strip(words: Sequence[str], values: Sequence[float], notes: Sequence[str]) -> None:
    """Print words with something below each, as many in a line as fit; the larger the value, the stronger the tint."""
    from rich.text import Text

    printer = console()
    largest = _largest([values])
    upper, lower = Text(), Text()
    for word, value, note in zip(words, values, notes, strict=True):
        shown = shortened(word, ROW_NAME)
        width = max(_width(shown), len(note)) + 1
        if len(lower) and len(lower) + width > printer.width:
            printer.print(upper, soft_wrap=True)
            printer.print(lower, soft_wrap=True)
            upper, lower = Text(), Text()
        upper.append(shown, _tint(float(value), largest))
        upper.append(" " * (width - _width(shown)))
        lower.append(f"{note:<{width}}", "dim")
    printer.print(upper, soft_wrap=True)
    printer.print(lower, soft_wrap=True)


def draw_curve(points: Sequence[tuple[float, float]], name: str) -> None:
    """Print a curve as a line of bars, with where it begins, its lowest point and where it ends."""
    printer = console()
    values = [value for _, value in points if math.isfinite(value)]
    if not values:
        return
    room = max(NARROWEST, min(100, printer.width - 4))
    shown = values if len(values) <= room else [values[number * len(values) // room] for number in range(room)]
    low, high = min(values), max(values)
    line = "".join(BARS[round((value - low) / ((high - low) or 1) * (len(BARS) - 1))] for value in shown)
    printer.print(f"  {line}")
    best = min((value, place) for place, value in points if math.isfinite(value))
    first, last = points[0], points[-1]
    printer.print(
        f"  {name}: {first[1]:.4f} at {first[0]:g}, {last[1]:.4f} at {last[0]:g}; lowest {best[0]:.4f} at {best[1]:g}",
        soft_wrap=True,
    )


def draw_points(points: Sequence[tuple[str, float, float]], height: int = 24) -> None:
    """Print words where they stand on a map of two directions; a word that would hide another is left out."""
    printer = console()
    width = max(NARROWEST, min(110, printer.width - 1))
    across, down = [x for _, x, _ in points], [y for _, _, y in points]
    left, right, low, high = min(across), max(across), min(down), max(down)
    grid = [[" "] * width for _ in range(height)]
    hidden = 0
    for word, x, y in points:
        shown = shortened(word.strip() or word, ROW_NAME)
        row = round((high - y) / ((high - low) or 1) * (height - 1))
        place = round((x - left) / ((right - left) or 1) * max(0, width - len(shown) - 1))
        if any(letter != " " for letter in grid[row][max(0, place - 1) : place + len(shown) + 1]):
            hidden += 1
            continue
        grid[row][place : place + len(shown)] = shown
    for line in grid:
        printer.print("".join(line).rstrip(), soft_wrap=True, markup=False)
    if hidden:
        printer.print(f"({hidden} that would stand over others are left out)", style="dim")


def _largest(values_RC: Any) -> float:
    return max((abs(float(value)) for row in values_RC for value in row if math.isfinite(value)), default=0.0) or 1.0


def _cell(value: float, largest: float, signed: bool) -> str:
    if not math.isfinite(value):
        return "?"
    shades = TAKES if signed and value < 0 else ADDS
    share = abs(value) / largest
    # The faintest shade says that there is something.
    return shades[min(len(shades) - 1, math.ceil(share * (len(shades) - 1) - 0.25))]


def _colour(value: float) -> str:
    if not math.isfinite(value):
        return "dim"
    red, green, blue = ORANGE if value < 0 else BLUE
    return f"rgb({red},{green},{blue})" if abs(value) > 0 else ""


def _tint(value: float, largest: float) -> str:
    """Return a background as strong as a value is large."""
    if not math.isfinite(value):
        return ""
    share = min(1.0, abs(value) / largest)
    if share < 0.1:
        return ""
    base = ORANGE if value < 0 else BLUE
    red, green, blue = (round(255 + (part - 255) * share) for part in base)
    return f"{'black' if share < 0.6 else 'white'} on rgb({red},{green},{blue})"


def _width(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    from rich.cells import cell_len

    return cell_len(text)
