"""Activation functions in NumPy equal those of PyTorch."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from satchel.nn.blocks import Activation
from satchel.nn.vector_activations import BOUND, activate, normal_distribution

# Errors of the normal distribution function. Those of activations in single precision include several roundings.
TOLERANCES = {"float32": 1e-7, "float64": 1e-12}
ROUNDINGS = {"float32": 1e-7, "float64": 0.0}


def points(dtype: str) -> npt.NDArray[Any]:
    """Return points inside, at and beyond the bounds of the interpolation, and random ones."""
    random = 4 * np.random.default_rng(0).standard_normal(20_000)
    special = [0.0, -0.0, BOUND, -BOUND, BOUND - 1e-9, -BOUND + 1e-9, 30.0, -30.0, 1e4, -1e4]
    return np.concatenate([np.linspace(-12, 12, 40_000), random, special]).astype(dtype)


def expected(x: Tensor, activation: Activation) -> Tensor:
    match activation:
        case "relu":
            return F.relu(x)
        case "squared-relu":
            return F.relu(x).square()
        case "gelu":
            return F.gelu(x)
        case "gelu-tanh":
            return F.gelu(x, approximate="tanh")
        case "swiglu":
            gate, value = x.chunk(2, dim=-1)
            return F.silu(gate) * value


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("activation", ["relu", "squared-relu", "gelu", "gelu-tanh", "swiglu"])
def test_activations_equal_those_of_torch(activation: Activation, dtype: str) -> None:
    x = points(dtype)
    expected_X = expected(torch.from_numpy(x).double(), activation).numpy()
    # The product with x, or of two values, multiplies the error.
    scale = np.maximum(1, np.abs(x)) if activation != "swiglu" else np.maximum(1, np.abs(np.multiply(*np.split(x, 2))))
    activated = activate(x.copy(), activation)
    assert activated.dtype == dtype
    scale = np.maximum(scale, np.abs(expected_X))
    assert (np.abs(activated - expected_X) / scale).max() <= TOLERANCES[dtype] + ROUNDINGS[dtype]


@pytest.mark.parametrize("dtype", TOLERANCES)
def test_the_normal_distribution_is_interpolated_to_the_precision_of_the_type(dtype: str) -> None:
    x = points(dtype)
    exact = torch.special.ndtr(torch.from_numpy(x).double()).numpy()
    assert np.abs(normal_distribution(x) - exact).max() <= TOLERANCES[dtype]


def test_one_vector_equals_a_row_of_a_matrix() -> None:
    x = points("float64")[:3000].reshape(3, 1000)
    for activation in ("gelu", "swiglu"):
        np.testing.assert_array_equal(activate(x[1].copy(), activation), activate(x.copy(), activation)[1])
