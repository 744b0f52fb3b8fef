"""Numbers on their way into a chart: no more digits than are seen, no more cells than fit, nothing that is not finite.

Letters: T rows, S columns.
"""

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from satchel.charts.labels import Words, words

Numbers = npt.NDArray[np.floating[Any]]
DIGITS = 5
# More rows or columns than these are told apart by no eye; a text of 120 tokens is shown as it is.
MOST_CELLS = 160


def matrix(values: npt.ArrayLike, rows: int | None = None, columns: int | None = None) -> Numbers:
    """Return the (T, S) numbers; refuse others than there are words for."""
    found: Numbers = np.asarray(values)
    found = found if found.dtype == np.float32 else found.astype(np.float64)
    if found.size == 0:
        found = found.reshape(rows or 0, columns or 0)
    expected = (found.shape[0] if rows is None else rows, found.shape[-1] if columns is None else columns)
    if found.shape != expected:
        raise ValueError(f"found numbers of shape {found.shape}, expected {expected}: a row and a column for each word")
    return found


def rounded(values: npt.ArrayLike) -> Any:
    """Return numbers as lists (one number as itself), to five digits of the largest; None where one is not finite."""
    found = np.asarray(values, dtype=np.float64)
    largest = largest_of(found)
    places = DIGITS - 1 - math.floor(math.log10(largest)) if largest else 0
    near = np.asarray(np.round(found, max(-300, min(300, places))))  # beyond these a double has no digits
    told = near.astype(object)
    told[~np.isfinite(near)] = None
    return told.tolist()


def largest_of(values: Numbers) -> float:
    """Return the largest magnitude of those that are finite, 0 where there is none."""
    finite = np.abs(values[np.isfinite(values)])
    return float(finite.max()) if finite.size else 0.0


def pooled(values: Numbers, most: int, *, signed: bool = False) -> tuple[Numbers, int, int]:
    """Return at most (most, most) numbers, each the largest of a block (signed: either way), and the block's sides."""
    down, along = block(values.shape[0], most), block(values.shape[1], most)
    if down == along == 1:
        return values, 1, 1
    highest = _reduced(np.fmax, values, down, along)
    if not signed:
        return highest, down, along
    lowest = _reduced(np.fmin, values, down, along)
    return np.where(-lowest > highest, lowest, highest), down, along


def block(count: int, most: int) -> int:
    """Return how many of `count` have to share a cell so that there are at most `most`."""
    return max(1, math.ceil(count / most))


def _reduced(larger: np.ufunc, values: Numbers, down: int, along: int) -> Numbers:
    strips = larger.reduceat(values, np.arange(0, values.shape[0], down), axis=0)
    found: Numbers = larger.reduceat(strips, np.arange(0, values.shape[1], along), axis=1)
    return found


def pooled_words(rows: Sequence[str], columns: Sequence[str], most: int = MOST_CELLS) -> tuple[Words, Words, str]:
    """Return the names of the rows and columns of a pooled map, and a note that says so where it is pooled."""
    down, along = block(len(rows), most), block(len(columns), most)
    return words(rows, down), words(columns, along), pooling_note(len(rows), len(columns), down, along)


def pooling_note(rows: int, columns: int, down: int, along: int, what: str = "largest") -> str:
    """Return what has to be said of a map whose cells are blocks; nothing where they are not."""
    if down == along == 1:
        return ""
    return f"{rows:,} x {columns:,} numbers: each cell is the {what} of a block of {down} x {along}"


def format_of(signed: bool) -> Literal["+.4~g", ".4~g"]:
    """Return how a number is told under the pointer."""
    return "+.4~g" if signed else ".4~g"
