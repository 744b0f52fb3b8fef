"""Linear layers that are fast for few input rows.

The product of few rows with a large matrix is limited by memory bandwidth. It takes a half to a fifth of the time
if the matrix is in oneDNN's blocked layout.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

# Maximum number of input rows: the layout gains little for more.
MAX_ROWS = 1024
# Minimum number of elements of the matrix, and of multiplications: below, the overhead is larger than the gain.
MIN_MATRIX = 1 << 17
MIN_PRODUCT = 1 << 19


class Product(nn.Module):
    """x W^T + b, in evaluation mode with a cached copy of W in oneDNN's layout where that is faster.

    A cached layout is dropped when the version of its matrix changes, and when the mode switches: fused optimizers do
    not update versions.
    """

    # For type checkers: PyTorch declares that a call returns Any.
    __call__: Callable[..., Tensor]

    def __init__(self) -> None:
        super().__init__()
        # By address and shape of a matrix: its version, the matrix (so that its memory is not reused), its layout.
        self._layouts: dict[tuple[int, torch.Size], tuple[int, Tensor, Tensor]] = {}

    def forward(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        """Return `torch.nn.functional.linear(x, weight, bias)`."""
        if not self._is_faster(x, weight):
            return F.linear(x, weight, bias)
        product: Tensor = torch.ops.mkldnn._linear_pointwise(x, self._layout(weight), bias, "none", [], "")
        return product

    def _is_faster(self, x: Tensor, weight: Tensor) -> bool:
        size = weight.numel()
        if size < MIN_MATRIX or self.training or torch.is_grad_enabled():
            return False
        rows = x.numel() // x.shape[-1]
        return rows <= MAX_ROWS and rows * size >= MIN_PRODUCT and _is_supported(x, weight)

    def _layout(self, weight: Tensor) -> Tensor:
        key, version = (weight.data_ptr(), weight.shape), weight._version
        entry = self._layouts.get(key)
        if entry is None or entry[0] != version:
            entry = version, weight.detach(), torch.ops.mkldnn._reorder_linear_weight(weight)
            self._layouts[key] = entry
        return entry[2]

    def train(self, mode: bool = True) -> "Product":
        """Switch between training and evaluation mode; a switch clears the cache."""
        if mode != self.training:
            self._layouts.clear()
        return super().train(mode)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Product":
        """Return a product with an empty cache: oneDNN tensors cannot be copied."""
        copied = memo[id(self)] = Product()
        return copied.train(self.training)


class Linear(nn.Linear):
    """A linear layer that uses `Product`."""

    # For type checkers: PyTorch declares that a call returns Any.
    __call__: Callable[..., Tensor]

    def __init__(self, inputs: int, outputs: int, bias: bool = True) -> None:
        super().__init__(inputs, outputs, bias)
        self.product = Product()

    def forward(self, x: Tensor, rows: slice | None = None) -> Tensor:
        """Return the outputs, or with `rows` those of the given rows of the matrix."""
        weight: Tensor = self.weight
        bias: Tensor | None = self.bias
        if rows is not None:
            weight, bias = weight[rows], None if bias is None else bias[rows]
        return self.product(x, weight, bias)


def _is_supported(x: Tensor, weight: Tensor) -> bool:
    """Return whether oneDNN can multiply the tensors: float32 on a CPU, outside of autocast and compilation."""
    return (
        x.dtype == weight.dtype == torch.float32
        and x.device.type == weight.device.type == "cpu"
        and bool(torch.backends.mkldnn.is_available() and torch.backends.mkldnn.enabled)
        and not weight.is_inference()
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
    )
