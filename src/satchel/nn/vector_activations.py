"""Activation functions of NumPy arrays, computed without PyTorch's threads.

A change between the threads of NumPy's BLAS and those of PyTorch takes milliseconds on a machine with few cores.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F

from satchel.nn.blocks import Activation

Floats = npt.NDArray[np.floating[Any]]

# Maximum number of elements for which PyTorch computes these functions with a single thread.
SINGLE_THREADED = 1 << 14


def activate(x: Floats, activation: Activation) -> Floats:
    """Return the activations of one or more vectors x, which may be overwritten."""
    match activation:
        case "relu":
            return np.maximum(x, 0, out=x)
        case "squared-relu":
            np.maximum(x, 0, out=x)
            return np.multiply(x, x, out=x)
    if x.size > SINGLE_THREADED and x.ndim > 1:
        return np.stack([activate(row, activation) for row in x])
    tensor = torch.from_numpy(x)
    if activation == "swiglu":
        gate, value = tensor.chunk(2, dim=-1)
        activated = F.silu(gate).mul_(value)
    else:
        activated = F.gelu(tensor, approximate="tanh" if activation == "gelu-tanh" else "none")
    values: Floats = activated.numpy()
    return values
