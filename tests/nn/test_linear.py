"""Products with oneDNN layouts equal those of PyTorch, also after the weights change."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from satchel.nn import linear
from satchel.nn.linear import Linear

WIDTH, OUTPUTS = 300, 900  # more than MIN_MATRIX elements


@pytest.fixture
def large() -> Linear:
    torch.manual_seed(0)
    return Linear(WIDTH, OUTPUTS).eval()


def answer(module: nn.Module, x: torch.Tensor) -> torch.Tensor:
    with torch.inference_mode():
        outputs: torch.Tensor = module(x)
        return outputs


def expected(module: Linear, x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return F.linear(x, module.weight, module.bias)


def is_laid_out(module: Linear) -> bool:
    return bool(module.product._layouts)


@pytest.mark.parametrize("shape", [(4,), (1, 8), (2, 3, 4), (linear.MAX_ROWS + 1,)])
def test_the_product_equals_that_of_torch_for_few_and_many_rows(large: Linear, shape: tuple[int, ...]) -> None:
    x = torch.randn(*shape, WIDTH)
    torch.testing.assert_close(answer(large, x), expected(large, x), rtol=1e-5, atol=1e-5)
    assert is_laid_out(large) == (x.numel() // WIDTH <= linear.MAX_ROWS)


def test_a_slice_of_rows_gives_the_same_outputs(large: Linear) -> None:
    x = torch.randn(4, WIDTH)
    whole = answer(large, x)
    for rows in (slice(0, 600), slice(300, None)):
        with torch.inference_mode():
            torch.testing.assert_close(large(x, rows), whole[:, rows], rtol=1e-5, atol=1e-5)


def test_small_matrices_gradients_and_float64_use_torch(large: Linear) -> None:
    x = torch.randn(4, WIDTH)
    small = Linear(30, 90).eval()
    answer(small, torch.randn(4, 30))
    large(x).sum().backward()
    answer(large.double(), x.double())
    assert not is_laid_out(small)
    assert not is_laid_out(large)
    assert large.weight.grad is not None


def test_the_layout_is_updated_after_an_in_place_change(large: Linear) -> None:
    x = torch.randn(4, WIDTH)
    answer(large, x)
    with torch.no_grad():
        large.weight.mul_(2)
    torch.testing.assert_close(answer(large, x), expected(large, x), rtol=1e-5, atol=1e-5)


def test_the_layout_is_updated_after_the_parameter_is_replaced(large: Linear) -> None:
    x = torch.randn(4, WIDTH)
    for _ in range(5):
        answer(large, x)
        large.weight = nn.Parameter(torch.randn(OUTPUTS, WIDTH))  # may reuse the memory of the previous one
        torch.testing.assert_close(answer(large, x), expected(large, x), rtol=1e-5, atol=1e-4)


def test_the_layout_is_updated_after_a_step_of_a_fused_optimizer(large: Linear) -> None:
    x = torch.randn(4, WIDTH)
    answer(large, x)
    optimizer = torch.optim.AdamW(large.parameters(), lr=0.1, fused=True)
    large.train()
    large(x).square().sum().backward()
    optimizer.step()
    large.eval()
    torch.testing.assert_close(answer(large, x), expected(large, x), rtol=1e-5, atol=1e-5)


def test_a_copy_does_not_share_layouts(large: Linear) -> None:
    x = torch.randn(4, WIDTH)
    before = answer(large, x)
    other = copy.deepcopy(large)
    with torch.no_grad():
        other.weight.zero_()
        assert other.bias is not None
        other.bias.zero_()
    assert not answer(other, x).any()
    torch.testing.assert_close(answer(large, x), before, rtol=0, atol=0)
