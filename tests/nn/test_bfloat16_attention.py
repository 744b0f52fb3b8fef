"""Attention in bfloat16 for training on CPUs."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from satchel.nn import bfloat16_attention
from satchel.nn.attention import MultiHead


def results(outputs: Tensor, inputs: list[Tensor], gradient: Tensor) -> list[Tensor]:
    """Return outputs and the gradients of the inputs."""
    return [outputs.float(), *(each.float() for each in torch.autograd.grad(outputs, inputs, gradient))]


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(("length", "widths"), [(1, (8, 8)), (128, (16, 16)), (300, (16, 8))])
def test_outputs_and_gradients_equal_those_of_float32_up_to_rounding(
    length: int, widths: tuple[int, int], causal: bool
) -> None:
    torch.manual_seed(length)
    shapes = [(2, 3, length, width) for width in (widths[0], *widths)]
    # Values that bfloat16 represents exactly.
    inputs = [torch.randn(shape).bfloat16().float().requires_grad_() for shape in shapes]
    gradient = torch.randn(2, 3, length, widths[1]).bfloat16()
    queries, keys, values = inputs
    exact = F.scaled_dot_product_attention(queries, keys, values, is_causal=causal, scale=0.3)
    rounded = bfloat16_attention.attend(queries, keys, values, 0.3, causal=causal)
    assert rounded.dtype == torch.bfloat16
    expected = results(exact, inputs, gradient.float())
    for result, reference in zip(results(rounded, inputs, gradient), expected, strict=True):
        assert (result - reference).norm() <= 0.01 * reference.norm() + 1e-6


def test_keys_of_another_length_are_attended_without_mask() -> None:
    queries, keys, values = (torch.randn(2, 1, length, 8).bfloat16() for length in (150, 5, 5))
    outputs = bfloat16_attention.attend(queries, keys, values, 0.5, causal=False)
    expected = F.scaled_dot_product_attention(queries.float(), keys.float(), values.float(), scale=0.5)
    torch.testing.assert_close(outputs.float(), expected, atol=0.02, rtol=0.02)
    assert not bfloat16_attention.is_supported(queries, keys, causal=True)


@pytest.mark.parametrize("causal", [True, False])
def test_multi_head_attention_uses_it_under_autocast(causal: bool) -> None:
    torch.manual_seed(0)
    attention = MultiHead(32, 2)
    dtypes = []
    attention.outputs.register_forward_hook(lambda _module, inputs, _output: dtypes.append(inputs[0].dtype))
    x, mask = torch.randn(2, 40, 32), torch.ones(40, 40, dtype=torch.bool)
    expected = attention(x, causal=causal)
    with torch.autocast("cpu", torch.bfloat16):
        outputs = attention(x, causal=causal)
        attention(x, mask=mask, causal=causal)
        attention(x.expand(2, 40, 32).repeat(1, 30, 1), causal=causal)
    assert (outputs - expected).norm() <= 0.02 * expected.norm()
    # With a mask, and above the maximum length, in float32.
    assert dtypes == [torch.float32, torch.bfloat16, torch.float32, torch.float32]
