"""Layers for inference equal their modules."""

import itertools

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from satchel.nn.inference_layers import (
    PADDED_SHARE,
    THREADED_ELEMENTS,
    InferenceLinear,
    InferenceNorm,
    LowPrecisionLinear,
)
from satchel.nn.linear import ROWS_BEFORE_LAYOUT

# Below and above the size from which oneDNN's layout is used, and of the matrices that are padded with rows.
INPUTS = 512
ROWS = -(-THREADED_ELEMENTS // INPUTS)
OUTPUTS = [16, 300, int(PADDED_SHARE * ROWS) - 1, int(PADDED_SHARE * ROWS) + 1, ROWS - 1, ROWS, ROWS + 1]
TOLERANCES = {torch.float32: 1e-5, torch.float64: 1e-12}


def linear(outputs: int, dtype: torch.dtype, *, bias: bool) -> nn.Linear:
    torch.manual_seed(outputs)
    return nn.Linear(INPUTS, outputs, bias=bias, dtype=dtype).requires_grad_(False)


@pytest.mark.parametrize("outputs", OUTPUTS)
@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("bias", [True, False])
def test_products_with_one_or_more_vectors_equal_those_of_the_module(
    outputs: int, dtype: torch.dtype, bias: bool
) -> None:
    module = linear(outputs, dtype, bias=bias)
    layer, tolerance = InferenceLinear(module.weight, module.bias), TOLERANCES[dtype]
    x = torch.randn(3, INPUTS, dtype=dtype)
    expected = module(x)
    for _ in range(ROWS_BEFORE_LAYOUT // len(x) + 2):
        torch.testing.assert_close(layer(x), expected, rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(layer.rows(x.numpy()), expected.numpy(), rtol=tolerance, atol=tolerance)
    for x_I, expected_O in zip(x, expected, strict=True):
        product_O = layer.vector(x_I.numpy())
        assert product_O.shape == (outputs,)
        np.testing.assert_allclose(product_O, expected_O.numpy(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("outputs", [16, 300])
@pytest.mark.parametrize("dtype", TOLERANCES)
def test_post_operations_and_residuals_equal_separate_operations(outputs: int, dtype: torch.dtype) -> None:
    module, tolerance = linear(outputs, dtype, bias=True), TOLERANCES[dtype]
    layer, x = InferenceLinear(module.weight, module.bias), torch.randn(2, 3, INPUTS, dtype=dtype)
    product = module(x)
    residual = torch.randn_like(product)
    for _ in range(ROWS_BEFORE_LAYOUT // 6 + 1):
        torch.testing.assert_close(layer(x, residual=residual), product + residual, rtol=tolerance, atol=tolerance)
        torch.testing.assert_close(layer(x, "relu"), F.relu(product), rtol=tolerance, atol=tolerance)
        torch.testing.assert_close(layer(x, "gelu"), F.gelu(product), rtol=tolerance, atol=tolerance)
        expected = F.gelu(product, approximate="tanh")
        torch.testing.assert_close(layer(x, "gelu-tanh"), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", TOLERANCES)
def test_norms_equal_their_modules(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x = 3 + 2 * torch.randn(4, 24, dtype=dtype)
    modules = [nn.LayerNorm(24), nn.LayerNorm(24, bias=False), nn.LayerNorm(24, eps=0.1), nn.RMSNorm(24)]
    for module, scaled in itertools.product(modules, [True, False]):
        module = module.to(dtype).requires_grad_(False)
        nn.init.normal_(module.get_parameter("weight"))
        if getattr(module, "bias", None) is not None:
            nn.init.normal_(module.get_parameter("bias"))
        layer, tolerance = InferenceNorm(module, scaled=scaled), TOLERANCES[dtype]
        bare = type(module)(24, eps=module.eps, elementwise_affine=False, dtype=dtype)
        expected = module(x) if scaled else bare(x)
        torch.testing.assert_close(layer(x), expected, rtol=tolerance, atol=tolerance)
        for x_W, expected_W in zip(x.numpy(), expected.numpy(), strict=True):
            before = x_W.copy()
            np.testing.assert_allclose(
                layer.vector(x_W, np.empty_like(x_W)), expected_W, rtol=tolerance, atol=tolerance
            )
            np.testing.assert_array_equal(x_W, before)


def test_rows_of_an_int8_product_are_independent_and_close_to_float32() -> None:
    torch.manual_seed(0)
    weight, bias, x = (
        torch.randn(40, 32),
        torch.randn(40),
        torch.randn(5, 32) * torch.tensor([[0.01], [1.0], [5.0], [1.0], [1.0]]),
    )
    layer = LowPrecisionLinear(weight, bias, "int8")
    together = layer(x)
    for row in range(5):
        torch.testing.assert_close(layer(x[row, None])[0], together[row], rtol=0, atol=0)
    scale = (x.norm(dim=1, keepdim=True) * weight.norm(dim=1)).numpy()
    assert np.abs((together - torch.nn.functional.linear(x, weight, bias)).numpy() / scale).max() < 0.01
    np.testing.assert_array_equal(layer.rows(x.numpy()), together.numpy())
