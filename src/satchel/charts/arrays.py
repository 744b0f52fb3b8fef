"""Arrays for charts: shape checks, rounding, and pooling of large matrices.

Shapes: T rows, S columns.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.floating[Any]]
# Significant digits of the largest value of an array in a chart.
DIGITS = 5
# Maximum number of rows and columns of a heat map; larger matrices are pooled.
MAX_CELLS = 160
# Number of keys above which colours follow the square root of attention weights, which are small, and the quantile of
# the largest weights of the rows at which the colour scale ends.
MANY_KEYS = 40
SCALE_QUANTILE = 0.9


def to_array(values: npt.ArrayLike) -> Numbers:
    """Return values as an array, also those of a tensor that requires gradients or has a type unknown to NumPy."""
    tensor: Any = values
    if hasattr(tensor, "detach"):  # a tensor of PyTorch, which charts do not import
        tensor = tensor.detach().cpu()
        return np.asarray(tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor)
    return np.asarray(values)


def matrix(values: npt.ArrayLike, rows: int | None = None, columns: int | None = None) -> Numbers:
    """Return the values as (T, S) array; raise ValueError if the shape differs from (rows, columns)."""
    array = to_array(values)
    array = array if array.dtype == np.float32 else array.astype(np.float64)
    if array.size == 0:
        array = array.reshape(rows or 0, columns or 0)
    expected = (array.shape[0] if rows is None else rows, array.shape[-1] if columns is None else columns)
    if array.shape != expected:
        raise ValueError(f"values have shape {array.shape}, expected {expected}: one row and column per label")
    return array


def rounded(values: npt.ArrayLike) -> Any:
    """Return nested lists (or a number), rounded to DIGITS digits of the largest; None where not finite."""
    array = to_array(values).astype(np.float64)
    largest = largest_magnitude(array)
    decimals = DIGITS - 1 - math.floor(math.log10(largest)) if largest else 0
    near = np.asarray(np.round(array, max(-300, min(300, decimals))))  # limits of the exponent of a double
    objects = near.astype(object)
    objects[~np.isfinite(near)] = None
    return objects.tolist()


def largest_magnitude(values: npt.ArrayLike) -> float:
    """Return the largest magnitude of the finite values, 0 if there are none."""
    array = to_array(values)
    finite = np.abs(array[np.isfinite(array)])
    return float(finite.max()) if finite.size else 0.0


def largest_weight(weights: Numbers) -> float:
    """Return the attention weight at the end of a colour scale.

    It is the largest weight without the first row of a causal map, whose only weight is 1. With many rows it is the
    SCALE_QUANTILE of the largest weights of the rows, because the first rows of a causal map have few keys.
    """
    rows = np.where(np.isfinite(weights), np.abs(weights), 0.0).max(axis=1, initial=0.0)
    if is_causal(weights):
        rows = rows[1:]
    if not rows.size:
        return 0.0
    return float(np.quantile(rows, SCALE_QUANTILE) if len(weights) > MANY_KEYS else rows.max())


def scale_note(weights: Numbers) -> str:
    """Return a note on the weights beyond the end of the colour scale; empty if there are none."""
    if len(weights) > MANY_KEYS:
        return f"the colour scale ends at the {SCALE_QUANTILE:.0%} quantile of the largest weights of the rows"
    return "the first row, whose only weight is 1, is not counted in the colour scale" if is_causal(weights) else ""


def is_causal(weights: Numbers) -> bool:
    """Return whether the first of several queries attends to a single key, as in causal attention."""
    return len(weights) > 1 and np.count_nonzero(weights[0]) == 1


def block_size(count: int, limit: int = MAX_CELLS) -> int:
    """Return the smallest block size that divides `count` items into at most `limit` blocks."""
    return max(1, math.ceil(count / limit))


def pooled(values: Numbers, limit: int = MAX_CELLS, *, signed: bool = False) -> Numbers:
    """Return the maximum of each block (signed: the value of largest magnitude), at most (limit, limit) values."""
    height, width = block_size(values.shape[0], limit), block_size(values.shape[1], limit)
    if height == width == 1:
        return values
    highest = _reduced(np.fmax, values, height, width)
    if not signed:
        return highest
    lowest = _reduced(np.fmin, values, height, width)
    return np.where(-lowest > highest, lowest, highest)


def _reduced(function: np.ufunc, values: Numbers, height: int, width: int) -> Numbers:
    strips = function.reduceat(values, np.arange(0, values.shape[0], height), axis=0)
    result: Numbers = function.reduceat(strips, np.arange(0, values.shape[1], width), axis=1)
    return result


def pooling_note(rows: Sequence[object], columns: Sequence[object], limit: int = MAX_CELLS) -> str:
    """Return a note about the blocks of a pooled matrix; empty if it is not pooled."""
    height, width = block_size(len(rows), limit), block_size(len(columns), limit)
    if height == width == 1:
        return ""
    return f"{len(rows):,} x {len(columns):,} values; each cell shows the maximum of a block of {height} x {width}"
