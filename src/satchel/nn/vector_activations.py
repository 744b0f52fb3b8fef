"""Activation functions of NumPy arrays.

They equal PyTorch's, without its threads: a change between the threads of NumPy's BLAS and those of PyTorch takes
milliseconds on a machine with few cores.
"""

import math
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from satchel.nn.blocks import Activation

Floats = npt.NDArray[np.floating[Any]]

# The normal distribution function is interpolated up to this bound on either side; beyond it, the function is 0 or 1 to
# double precision.
BOUND = 9
# Points per unit of the interpolation: linear in single precision, cubic in double precision. The errors are below 1e-7
# and 1e-12.
LINEAR_POINTS, CUBIC_POINTS = 1024, 256


def activate(x: Floats, activation: Activation) -> Floats:
    """Return the activations of x; x may be overwritten."""
    match activation:
        case "relu":
            return np.maximum(x, 0, out=x)
        case "squared-relu":
            np.maximum(x, 0, out=x)
            return np.multiply(x, x, out=x)
        case "gelu":
            return np.multiply(x, normal_distribution(x), out=x)
        case "gelu-tanh":
            inner = x * x
            inner *= 0.044715
            inner += 1
            inner *= x
            inner *= math.sqrt(2 / math.pi)
            np.tanh(inner, out=inner)
            inner += 1
            inner *= 0.5
            return np.multiply(x, inner, out=x)
        case "swiglu":
            gate, value = np.split(x, 2, axis=-1)
            # The logistic function as a hyperbolic tangent, which does not overflow.
            activated: Floats = gate * (0.5 * np.tanh(0.5 * gate) + 0.5) * value
            return activated


def normal_distribution(x: Floats) -> Floats:
    """Return the distribution function of the standard normal distribution, by interpolation."""
    points_per_unit, coefficients = _coefficients(x.dtype.char)
    scaled = np.maximum(x, -BOUND)
    np.minimum(scaled, BOUND, out=scaled)
    scaled *= points_per_unit
    floors = np.floor(scaled)
    scaled -= floors
    points = floors.astype(np.intp)
    points += BOUND * points_per_unit
    values: Floats = coefficients[0].take(points)
    for coefficient in coefficients[1:]:
        values *= scaled
        values += coefficient.take(points)
    return values


@cache
def _coefficients(dtype: str) -> tuple[int, Floats]:
    """Return the number of points per unit, and the coefficients of the polynomial after each, highest degree first."""
    is_single = np.dtype(dtype).itemsize == 4
    per_unit = LINEAR_POINTS if is_single else CUBIC_POINTS
    points = np.arange(-BOUND * per_unit, BOUND * per_unit + 2) / per_unit
    values = np.array([0.5 * math.erfc(-point / math.sqrt(2)) for point in points])
    low, high = values[:-1], values[1:]
    if is_single:
        return per_unit, np.stack([high - low, low]).astype(dtype)
    # Hermite interpolation: the derivative is the normal density.
    slopes = np.exp(-0.5 * points**2) / math.sqrt(2 * math.pi) / per_unit
    low_slope, high_slope = slopes[:-1], slopes[1:]
    square = 3 * (high - low) - 2 * low_slope - high_slope
    cubic = 2 * (low - high) + low_slope + high_slope
    return per_unit, np.stack([cubic, square, low_slope, low])
