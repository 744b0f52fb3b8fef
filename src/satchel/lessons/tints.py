"""Which colour a number of a matrix has: blue above zero, orange below it, more of it the larger the number is.

Zero has none. What is told by colour is also told by the number, and the two colours differ for people of any colour
vision (Okabe and Ito).
"""

import math

from satchel.lessons.steps import Cell, Matrix

INK = "#0072B2"
OTHER = "#D55E00"
# Of a score that is -inf: what is forbidden is neither large nor small.
FORBIDDEN = "#808080"
# The share of colour that the largest number gets: text is read on it, be it dark on white or light on black.
STRONGEST = 0.6

Tint = tuple[str, float]


def tints(matrix: Matrix) -> list[list[Tint]]:
    """Return the colour of each cell, and its share of what is seen; the rest is the background."""
    sizes = [_size(cell) for row in matrix.values for cell in row]
    finite = [size for size in sizes if size is not None and math.isfinite(size)]
    # One number has none to compare with. With words among them, or as a list of records with names for the columns
    # only, numbers are of several kinds.
    is_list = bool(matrix.columns) and not matrix.rows and len(matrix.values) > 1
    is_matrix = None not in sizes and len(sizes) > 1 and not is_list
    largest = max(finite, default=0.0) if is_matrix else 0.0
    return [[_tint(cell, largest) if is_matrix else (INK, 0.0) for cell in row] for row in matrix.values]


def _size(cell: Cell) -> float | None:
    return None if isinstance(cell, str) else abs(float(cell))


def _tint(cell: Cell, largest: float) -> Tint:
    number = float(cell)
    if not math.isfinite(number):
        return FORBIDDEN, STRONGEST / 2
    return OTHER if number < 0 else INK, STRONGEST * abs(number) / largest if largest else 0.0


def red_green_blue(colour: str) -> tuple[int, int, int]:
    """Return the parts of a colour, from 0 to 255."""
    red, green, blue = bytes.fromhex(colour.removeprefix("#"))
    return red, green, blue


def on_white(tint: Tint) -> str:
    """Return the colour that a tint makes of white."""
    colour, share = tint
    mixed = (round(255 + (part - 255) * share) for part in red_green_blue(colour))
    return "#" + bytes(mixed).hex()
