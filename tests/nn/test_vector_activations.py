"""Activation functions of NumPy arrays equal those of PyTorch."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from satchel.nn.blocks import Activation
from satchel.nn.vector_activations import SINGLE_THREADED, activate


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


@pytest.mark.parametrize("shape", [(40,), (1, 40), (3, 40), (2, SINGLE_THREADED)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("activation", ["relu", "squared-relu", "gelu", "gelu-tanh", "swiglu"])
def test_activations_equal_those_of_torch(activation: Activation, dtype: str, shape: tuple[int, ...]) -> None:
    x = (4 * np.random.default_rng(0).standard_normal(shape)).astype(dtype)
    activated = activate(x.copy(), activation)
    torch.testing.assert_close(torch.from_numpy(activated), expected(torch.from_numpy(x), activation))
