"""Linear layers that are fast in inference.

If the matrix is in oneDNN's blocked layout, a product with few rows, which is limited by memory bandwidth, takes a half
to a fifth of the time. One with many rows takes half the time on AMD processors with AVX-512: MKL, which PyTorch uses
for the ordinary layout, computes with AVX2 there.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from satchel.nn.cache import current_cache

PostOp = Literal["none", "relu", "gelu", "gelu-tanh"]
# Functions of a product, and their arguments for oneDNN, which applies them in the same call: name, scalars, algorithm.
POST_OPS: dict[PostOp, Callable[[Tensor], Tensor]] = {
    "none": lambda x: x,
    "relu": torch.relu,
    "gelu": F.gelu,
    "gelu-tanh": partial(F.gelu, approximate="tanh"),
}
ONEDNN_POST_OPS: dict[PostOp, tuple[str, list[float], str]] = {
    "none": ("none", [], ""),
    "relu": ("relu", [], ""),
    "gelu": ("gelu", [], "none"),
    "gelu-tanh": ("gelu", [], "tanh"),
}
# Minimum number of multiplications by a matrix of at least MIN_MATRIX elements, and by a smaller one, which the
# processor caches in either layout: below, the overhead is larger than the gain.
MIN_MATRIX = 1 << 17
MIN_PRODUCT = 1 << 19
MIN_SMALL_PRODUCT = 1 << 20
# Number of input rows after which a matrix is converted: for fewer, the conversion takes longer than it saves.
ROWS_BEFORE_LAYOUT = 32


@dataclass
class _Layout:
    """A matrix (so that its memory is not reused), the number of rows multiplied by it, and its layout."""

    weight: Tensor
    rows: int = 0
    converted: Tensor | None = None


def product(x: Tensor, weight: Tensor, bias: Tensor | None = None, post: PostOp = "none") -> Tensor:
    """Return post(x W' + b), inside a call with a copy of W in oneDNN's layout."""
    layout = _layout(x, weight)
    if layout is None:
        return POST_OPS[post](F.linear(x, weight, bias))
    result: Tensor = torch.ops.mkldnn._linear_pointwise(x, layout, bias, *ONEDNN_POST_OPS[post])
    return result


def _layout(x: Tensor, weight: Tensor) -> Tensor | None:
    """Return the matrix in oneDNN's layout; None if the ordinary layout is faster or there is no cache."""
    size = weight.numel()
    rows = x.numel() // x.shape[-1]
    if (
        rows * size < (MIN_PRODUCT if size >= MIN_MATRIX else MIN_SMALL_PRODUCT)
        or torch.is_grad_enabled()
        or not _is_supported(x, weight)
        or (cache := current_cache()) is None
    ):
        return None
    key = "layout", weight.data_ptr(), weight.shape
    entry: _Layout | None = cache.get(key)
    if entry is None:
        entry = cache[key] = _Layout(weight)
    entry.rows += rows
    if entry.converted is None and entry.rows > ROWS_BEFORE_LAYOUT:
        entry.converted = torch.ops.mkldnn._reorder_linear_weight(weight)
    return entry.converted


class Linear(nn.Linear):
    """A linear layer that uses `product`."""

    # For type checkers: PyTorch declares that a call returns Any.
    __call__: Callable[..., Tensor]

    def forward(self, x: Tensor, rows: slice | None = None, post: PostOp = "none") -> Tensor:
        """Return the outputs after the post-operation, or with `rows` those of the given rows of the matrix."""
        weight: Tensor = self.weight
        bias: Tensor | None = self.bias
        if rows is not None:
            weight, bias = weight[rows], None if bias is None else bias[rows]
        return product(x, weight, bias, post)


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
