"""Products with oneDNN layouts equal those of PyTorch, also after the weights change."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from satchel.nn import linear
from satchel.nn.cache import Cache
from satchel.nn.inference import inference
from satchel.nn.linear import Linear

WIDTH, OUTPUTS = 300, 900  # more than MIN_MATRIX elements


@pytest.fixture
def large() -> Linear:
    torch.manual_seed(0)
    return Linear(WIDTH, OUTPUTS).eval()


def answer(module: nn.Module, x: torch.Tensor, cache: Cache | None = None) -> torch.Tensor:
    """Return the outputs of the second of two products of one call; the first converts the matrix."""
    cache = {} if cache is None else cache
    with inference(module, cache):
        module(x.new_ones(linear.ROWS_BEFORE_LAYOUT, x.shape[-1]))
        outputs: torch.Tensor = module(x)
        return outputs


def expected(module: Linear, x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return F.linear(x, module.weight, module.bias)


def is_laid_out(cache: Cache) -> bool:
    return any(entry.converted is not None for entry in cache.values())


@pytest.mark.parametrize("shape", [(4,), (1, 8), (2, 3, 4), (2000,)])
def test_the_product_equals_that_of_torch_for_few_and_many_rows(large: Linear, shape: tuple[int, ...]) -> None:
    x, cache = torch.randn(*shape, WIDTH), Cache()
    torch.testing.assert_close(answer(large, x, cache), expected(large, x), rtol=1e-5, atol=1e-5)
    assert is_laid_out(cache)


@pytest.mark.parametrize("post", linear.POST_OPS)
@pytest.mark.parametrize("rows", [1, 40])
def test_a_post_operation_is_applied_in_either_layout(large: Linear, post: linear.PostOp, rows: int) -> None:
    x, cache = torch.randn(rows, WIDTH), Cache()
    with inference(large, cache):
        outputs = large(x, post=post)
        outputs_of_layout = large(torch.cat([x, x.new_ones(linear.ROWS_BEFORE_LAYOUT, WIDTH)]), post=post)[:rows]
    assert is_laid_out(cache)
    values = linear.POST_OPS[post](expected(large, x))
    torch.testing.assert_close(outputs, values, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(outputs_of_layout, values, rtol=1e-5, atol=1e-5)


def test_a_slice_of_rows_gives_the_same_outputs(large: Linear) -> None:
    x = torch.randn(4, WIDTH)
    whole = answer(large, x)
    for rows in (slice(0, 600), slice(300, None)):
        with inference(large):
            for _ in range(linear.ROWS_BEFORE_LAYOUT):
                torch.testing.assert_close(large(x, rows), whole[:, rows], rtol=1e-5, atol=1e-5)


def test_small_products_gradients_and_float64_use_torch(large: Linear) -> None:
    x, cache = torch.randn(4, WIDTH), Cache()
    answer(Linear(30, 90).eval(), torch.randn(4, 30), cache)
    large(x).sum().backward()
    answer(large.double(), x.double(), cache)
    assert not is_laid_out(cache)
    assert large.weight.grad is not None


def test_a_small_matrix_is_converted_for_many_rows() -> None:
    small, cache = Linear(30, 90).eval(), Cache()
    x = torch.randn(500, 30)
    torch.testing.assert_close(answer(small, x, cache), expected(small, x), rtol=1e-5, atol=1e-5)
    assert is_laid_out(cache)


def test_a_matrix_is_converted_only_if_a_call_multiplies_many_rows_by_it(large: Linear) -> None:
    cache = Cache()
    with inference(large, cache):
        for count in range(1, linear.ROWS_BEFORE_LAYOUT + 3):
            large(torch.randn(2, WIDTH))
            assert is_laid_out(cache) == (2 * count > linear.ROWS_BEFORE_LAYOUT)


def test_a_module_stores_nothing_between_calls(large: Linear) -> None:
    x, before = torch.randn(4, WIDTH), dict(vars(large))
    answer(large, x)
    assert vars(large) == before
    large.weight.data.mul_(2)  # does not change the version of the parameter
    torch.testing.assert_close(answer(large, x), expected(large, x), rtol=1e-5, atol=1e-5)
