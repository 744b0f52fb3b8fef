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

# The normal distribution function is interpolated between points of this distance, up to the bound on either side;
# beyond it, the function is 0 or 1 to double precision. The error of the cubic interpolation is below 1e-12.
STEPS_PER_UNIT = 256
BOUND = 9


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
    """Return the distribution function of the standard normal distribution, by cubic Hermite interpolation."""
    scaled = (np.clip(x, -BOUND, BOUND) + BOUND) * STEPS_PER_UNIT
    points = scaled.astype(np.intp)
    scaled -= points
    cubic, square, linear, constant = _coefficients(x.dtype.char)[:, points]
    cubic *= scaled
    cubic += square
    cubic *= scaled
    cubic += linear
    cubic *= scaled
    cubic += constant
    return cubic


@cache
def _coefficients(dtype: str) -> Floats:
    """Return the coefficients of the cubic polynomial that follows each point, the one of the highest degree first."""
    points = np.arange(-BOUND * STEPS_PER_UNIT, BOUND * STEPS_PER_UNIT + 2) / STEPS_PER_UNIT
    values = np.array([0.5 * math.erfc(-point / math.sqrt(2)) for point in points])
    slopes = np.exp(-0.5 * points**2) / math.sqrt(2 * math.pi) / STEPS_PER_UNIT
    low, high, low_slope, high_slope = values[:-1], values[1:], slopes[:-1], slopes[1:]
    square = 3 * (high - low) - 2 * low_slope - high_slope
    cubic = 2 * (low - high) + low_slope + high_slope
    return np.stack([cubic, square, low_slope, low]).astype(dtype)
