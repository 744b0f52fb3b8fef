"""Layers for inference: functions of parameters without modules, sites and gradients.

Each computes the same as its module. A step of decoding calls dozens of them on one row, where the overhead of
module calls would exceed the arithmetic. Shapes: I input width, O output width.
"""

import math
import warnings
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from satchel.nn.linear import MIN_MATRIX, ONEDNN_POST_OPS, POST_OPS, ROWS_BEFORE_LAYOUT, PostOp

Floats = npt.NDArray[np.floating[Any]]
DecodingPrecision = Literal["float32", "bfloat16", "int8"]
# Minimum number of elements of a matrix whose product with a vector OpenBLAS computes with several threads, and the
# share of it from which a matrix is padded: two threads save more than the additional rows cost.
THREADED_ELEMENTS = 460_800
PADDED_SHARE = 0.75


class InferenceLinear:
    """The product with a matrix (O, I), followed by a post-operation or the addition of a residual.

    Products of several rows use a copy of the matrix in oneDNN's layout, that of one row (`vector`) NumPy's BLAS: with
    a single row, both read the matrix at the speed of the memory, but NumPy has a smaller overhead. `rows` also uses
    NumPy for a small matrix, because a change between the threads of NumPy and PyTorch takes longer than the product.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        self.weight = weight.detach()
        self.bias = None if bias is None else bias.detach()
        self._array: Floats = _threaded(self.weight.numpy())
        self._bias_array: Floats | None = None if self.bias is None else self.bias.numpy()
        # Memory of the product with one vector; the rows beyond those of the matrix are padding.
        self._product: Floats = np.empty(len(self._array), self._array.dtype)
        self._output = self._product[: len(self.weight)]
        self._rows = 0
        self._layout: Tensor | None = None
        self._has_layout = weight.dtype == torch.float32 and weight.numel() >= MIN_MATRIX and _has_onednn()

    def vector(self, x_I: Floats) -> Floats:
        """Return the product with one vector. The array is used again by the next call."""
        np.dot(self._array, x_I, out=self._product)
        if self._bias_array is not None:
            np.add(self._output, self._bias_array, out=self._output)
        return self._output

    def rows(self, x_TI: Floats) -> Floats:
        """Return the products (T, O) with one or more vectors. With one, the array is used again by the next call."""
        if len(x_TI) == 1:
            return self.vector(x_TI[0])[None]
        if not self._has_layout:
            small: Floats = x_TI.dot(self._array[: len(self.weight)].T)
            return small if self._bias_array is None else np.add(small, self._bias_array, out=small)
        products: Floats = self(torch.from_numpy(x_TI)).numpy()
        return products

    def __call__(self, x: Tensor, post: PostOp = "none", residual: Tensor | None = None) -> Tensor:
        """Return post(x W' + b), or with a residual its sum with x W' + b."""
        if not self._uses_layout(x):
            product = F.linear(x, self.weight, self.bias)
            return POST_OPS[post](product) if residual is None else product.add_(residual)
        if residual is None:
            result: Tensor = torch.ops.mkldnn._linear_pointwise(x, self._layout, self.bias, *ONEDNN_POST_OPS[post])
        else:
            result = torch.ops.mkldnn._linear_pointwise.binary(x, residual, self._layout, self.bias, "add")
        return result

    def _uses_layout(self, x: Tensor) -> bool:
        self._rows += x.numel() // x.shape[-1]
        if self._layout is None and self._has_layout and self._rows > ROWS_BEFORE_LAYOUT:
            self._layout = torch.ops.mkldnn._reorder_linear_weight(self.weight)
        return self._layout is not None


def _threaded(matrix_OI: Floats) -> Floats:
    """Return the matrix, with rows of zeros if its size is just below that of products with several threads."""
    rows = -(-THREADED_ELEMENTS // matrix_OI.shape[1])
    if not PADDED_SHARE * rows <= len(matrix_OI) < rows:
        return matrix_OI
    padded: Floats = np.zeros((rows, matrix_OI.shape[1]), matrix_OI.dtype)
    padded[: len(matrix_OI)] = matrix_OI
    return padded


class LowPrecisionLinear:
    """The product with a matrix in int8 or bfloat16; inputs and outputs are float32.

    In int8, each row of the matrix and each input vector has a scale, so that the rows of a batch are independent.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, precision: DecodingPrecision) -> None:
        weight, bias = weight.detach().float(), None if bias is None else bias.detach().float()
        self._precision = precision
        if precision == "int8":
            scales_O = weight.abs().amax(dim=1).clamp(min=torch.finfo(torch.float32).tiny) / 127
            with warnings.catch_warnings():
                # PyTorch announces that quantised tensors move to another package.
                warnings.simplefilter("ignore")
                zeros_O = torch.zeros(len(weight), dtype=torch.long)
                quantised = torch.quantize_per_channel(weight, scales_O.double(), zeros_O, 0, torch.qint8)
                self._packed = torch.ops.quantized.linear_prepack(quantised, None)
            # PyTorch derives the scale of the inputs from the range of all rows: this row makes it [-1, 1].
            self._range_row = torch.zeros(weight.shape[1])
            self._range_row[0], self._range_row[-1] = -1, 1
        else:
            self._weight = weight.bfloat16()
        self._bias = bias

    def __call__(self, x: Tensor, post: PostOp = "none", residual: Tensor | None = None) -> Tensor:
        """Return post(x W' + b), or with a residual its sum with x W' + b."""
        product = (
            self._quantised_product(x) if self._precision == "int8" else F.linear(x.bfloat16(), self._weight).float()
        )
        if self._bias is not None:
            product += self._bias
        return POST_OPS[post](product) if residual is None else product.add_(residual)

    def _quantised_product(self, x: Tensor) -> Tensor:
        rows_RI = x.reshape(-1, x.shape[-1])
        scales_R1 = rows_RI.abs().amax(dim=1, keepdim=True).clamp_(min=torch.finfo(torch.float32).tiny)
        inputs_RI = torch.cat([rows_RI / scales_R1, self._range_row[None]])
        product_RO: Tensor = torch.ops.quantized.linear_dynamic(inputs_RI, self._packed, False)[:-1]
        return product_RO.mul_(scales_R1).view(*x.shape[:-1], -1)

    def vector(self, x_I: Floats) -> Floats:
        """Return the product with one vector."""
        product: Floats = self.rows(x_I[None])[0]
        return product

    def rows(self, x_TI: Floats) -> Floats:
        """Return the products (T, O) with one or more vectors."""
        products: Floats = self(torch.from_numpy(x_TI)).numpy()
        return products


class Products:
    """Makes the products with the matrices of a network in one precision; float32 keeps that of the matrices.

    A matrix is converted to int8 or bfloat16 once. After a change of the parameters, new Products are needed.
    """

    def __init__(self, precision: DecodingPrecision = "float32") -> None:
        self.precision: DecodingPrecision = precision
        # By the address of the matrix, which is kept so that its memory is not used again.
        self._converted: dict[int, tuple[Tensor, LowPrecisionLinear]] = {}

    def linear(self, weight: Tensor, bias: Tensor | None = None) -> InferenceLinear | LowPrecisionLinear:
        """Return the product with a matrix."""
        if self.precision == "float32":
            return InferenceLinear(weight, bias)
        if weight.data_ptr() not in self._converted:
            self._converted[weight.data_ptr()] = weight, LowPrecisionLinear(weight, bias, self.precision)
        return self._converted[weight.data_ptr()][1]


class InferenceNorm:
    """LayerNorm or RMSNorm, without its learned factors unless `scaled`; of other modules, the identity."""

    def __init__(self, module: nn.Module | None, *, scaled: bool = True) -> None:
        kinds = {nn.LayerNorm: "layer", nn.RMSNorm: "rms"}
        self._kind = next((kind for norm, kind in kinds.items() if isinstance(module, norm)), None)
        if isinstance(module, nn.LayerNorm | nn.RMSNorm):
            (self._width,) = module.normalized_shape
            weight = module.weight.detach()
            self._eps = torch.finfo(weight.dtype).eps if module.eps is None else module.eps
            bias = getattr(module, "bias", None)
            self._weight = weight if scaled else None
            self._bias = bias.detach() if scaled and bias is not None else None
            self._weight_array, self._bias_array = (
                None if part is None else part.numpy() for part in (self._weight, self._bias)
            )
            self._mean_W = np.full(self._width, 1 / self._width, weight.numpy().dtype)

    def __call__(self, x: Tensor) -> Tensor:
        """Return the normalised vectors (..., W)."""
        match self._kind:
            case "layer":
                return torch.layer_norm(x, (self._width,), self._weight, self._bias, self._eps, False)
            case "rms":
                return torch.rms_norm(x, (self._width,), self._weight, self._eps)
        return x

    def vector(self, x_W: Floats, out_W: Floats) -> Floats:
        """Write the normalised vector to `out_W` and return it."""
        if self._kind is None:
            return x_W
        if self._kind == "layer":
            np.subtract(x_W, x_W.dot(self._mean_W), out=out_W)
            x_W = out_W
        factor = 1 / math.sqrt(x_W.dot(x_W) / self._width + self._eps)
        np.multiply(x_W, x_W.dtype.type(factor), out=out_W)
        if self._weight_array is not None:
            np.multiply(out_W, self._weight_array, out=out_W)
        if self._bias_array is not None:
            np.add(out_W, self._bias_array, out=out_W)
        return out_W

    def rows(self, x_TW: Floats, out_TW: Floats) -> Floats:
        """Write the normalised vectors to `out_TW` and return them."""
        if self._kind is None:
            return x_TW
        if len(x_TW) == 1:  # with fewer operations on arrays
            self.vector(x_TW[0], out_TW[0])
            return out_TW
        out_TW[:] = x_TW
        self.unit_vectors(out_TW)
        if self._weight_array is not None:
            out_TW *= self._weight_array
        if self._bias_array is not None:
            out_TW += self._bias_array
        return out_TW

    def unit_vectors(self, x: Floats) -> None:
        """Normalise vectors (..., W) in place, without the learned factors."""
        if self._kind == "layer":
            x -= x.dot(self._mean_W)[..., None]
        variances = (x * x).dot(self._mean_W)
        variances += self._eps
        np.sqrt(variances, out=variances)
        x /= variances[..., None]


def _has_onednn() -> bool:
    return bool(torch.backends.mkldnn.is_available() and torch.backends.mkldnn.enabled)
