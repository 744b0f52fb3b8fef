"""Linear maps that answer a few rows quickly.

The usual product of few rows with a large matrix waits for the matrix to be read, in an order that suits no processor.
Laid out once as oneDNN likes it, the same product takes a half to a fifth of the time.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

# More rows than this gain little; so do small matrices, and small products: asking takes longer than the answer.
FEW_ROWS = 1024
LARGE_MATRIX = 1 << 17
LARGE_PRODUCT = 1 << 19


class Product(nn.Module):
    """x W + b for rows of weights W, which are laid out anew where nothing is learned and it is worth it.

    That weights change is seen by their version. Fused optimizers do not tell, so nothing is kept while one learns.
    """

    def __init__(self) -> None:
        super().__init__()
        # By where a matrix is: its version, itself (so that no other can come to be there), and its layout.
        self._laid_out: dict[tuple[int, torch.Size], tuple[int, Tensor, Tensor]] = {}

    def forward(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        """Return the same as `torch.nn.functional.linear`."""
        if not self._is_worth_it(x, weight):
            return F.linear(x, weight, bias)
        found: Tensor = torch.ops.mkldnn._linear_pointwise(x, self._layout(weight), bias, "none", [], "")
        return found

    def _is_worth_it(self, x: Tensor, weight: Tensor) -> bool:
        size = weight.numel()
        if size < LARGE_MATRIX or self.training or torch.is_grad_enabled():
            return False
        rows = x.numel() // x.shape[-1]
        return rows <= FEW_ROWS and rows * size >= LARGE_PRODUCT and _can_be_laid_out(x, weight)

    def _layout(self, weight: Tensor) -> Tensor:
        place, version = (weight.data_ptr(), weight.shape), weight._version
        found = self._laid_out.get(place)
        if found is None or found[0] != version:
            found = version, weight.detach(), torch.ops.mkldnn._reorder_linear_weight(weight)
            self._laid_out[place] = found
        return found[2]

    def train(self, mode: bool = True) -> "Product":
        """Make it ready to learn, or to answer: what was laid out before may not be true any more."""
        if mode != self.training:
            self._laid_out.clear()
        return super().train(mode)

    def __deepcopy__(self, known: dict[int, Any]) -> "Product":
        """Return a product with an empty cache: oneDNN tensors cannot be copied."""
        copied = known[id(self)] = Product()
        return copied.train(self.training)


class Linear(nn.Linear):
    """A linear map whose product is quick for a few rows too."""

    def __init__(self, inputs: int, outputs: int, bias: bool = True) -> None:
        super().__init__(inputs, outputs, bias)
        self.product = Product()

    def forward(self, x: Tensor, rows: slice | None = None) -> Tensor:
        """Return all outputs, or some of them."""
        weight: Tensor = self.weight
        bias: Tensor | None = self.bias
        if rows is not None:
            weight, bias = weight[rows], None if bias is None else bias[rows]
        found: Tensor = self.product(x, weight, bias)
        return found


def _can_be_laid_out(x: Tensor, weight: Tensor) -> bool:
    return (
        x.dtype == weight.dtype == torch.float32
        and x.device.type == weight.device.type == "cpu"
        and bool(torch.backends.mkldnn.is_available() and torch.backends.mkldnn.enabled)
        and not weight.is_inference()
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
    )
