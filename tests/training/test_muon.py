"""Muon: bits of the direct formula in float32, and orthogonal results in bfloat16."""

import pytest
import torch
from torch import Tensor, nn

from satchel.training.muon import MOMENTUM, POLYNOMIALS, Muon, orthogonalise

SHAPES = [(3, 24, 24), (2, 16, 64), (2, 64, 16), (2, 32, 48)]


def matrices(shape: tuple[int, int, int], rank: int) -> Tensor:
    """Return random matrices of a rank, in float64."""
    count, rows, columns = shape
    generator = torch.Generator().manual_seed(0)
    left, right = (
        torch.randn(count, *part, generator=generator, dtype=torch.float64) for part in ((rows, rank), (rank, columns))
    )
    return left @ right


def reference(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the result of the polynomials first x + third (x x^T) x + fifth (x x^T)^2 x of a dtype, in float64."""
    x = x / x.norm(dim=(1, 2), keepdim=True)
    for first, third, fifth in POLYNOMIALS[dtype]:
        gram = x @ x.mT
        x = first * x + third * gram @ x + fifth * gram @ gram @ x
    return x


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("rank", [4, 64])
def test_float32_gives_the_result_of_the_polynomial(shape: tuple[int, int, int], rank: int) -> None:
    x = matrices(shape, rank)
    result, expected = orthogonalise(x.float()).double(), reference(x, torch.float32)
    torch.testing.assert_close(result, expected, rtol=0, atol=1e-5 if rank > 4 else 1e-4)


@pytest.mark.parametrize(("dtype", "least"), [(torch.float32, 0.68), (torch.bfloat16, 0.78)])
def test_the_polynomials_map_singular_values_near_1(dtype: torch.dtype, least: float) -> None:
    values = torch.logspace(-2.52, 0, 10_000, dtype=torch.float64)
    for first, third, fifth in POLYNOMIALS[dtype]:
        values = first * values + third * values**3 + fifth * values**5
    assert values.min() > least
    assert values.max() < 1.22


@pytest.mark.parametrize("shape", SHAPES)
def test_bfloat16_orthogonalises(shape: tuple[int, int, int]) -> None:
    result = orthogonalise(matrices(shape, 64).bfloat16())
    assert result.dtype == torch.bfloat16
    values, expected = (
        torch.linalg.svdvals(each.double()) for each in (result, reference(matrices(shape, 64), torch.bfloat16))
    )
    torch.testing.assert_close(values, expected, rtol=0, atol=0.2)
    assert values.max() < 1.3
    # Random square matrices have singular values near 0, which stay small.
    assert values.min() > 0.4 or shape[1] == shape[2]


@pytest.mark.parametrize("shape", [(1, 128, 512), (1, 512, 128)])
def test_bfloat16_is_stable_for_matrices_of_low_rank(shape: tuple[int, int, int]) -> None:
    x = matrices(shape, 8)
    result, expected = orthogonalise(x.bfloat16()).double(), reference(x, torch.bfloat16)
    assert torch.linalg.svdvals(result).max() < 1.3
    assert torch.cosine_similarity(result.flatten(), expected.flatten(), dim=0) > 0.9


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_parameters_and_momentum_are_float32(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    matrix = nn.Parameter(torch.randn(8, 32, generator=generator))
    before, rate, decay = matrix.detach().clone(), 0.02, 0.1
    optimizer = Muon([matrix], rate, decay, dtype)
    momentum = torch.zeros(8, 32)
    expected = before.clone()
    for _ in range(3):
        matrix.grad = torch.randn(8, 32, generator=generator)
        momentum = MOMENTUM * momentum + matrix.grad
        ahead = matrix.grad + MOMENTUM * momentum
        expected = (1 - rate * decay) * expected - rate * reference(ahead[None].double(), dtype)[0].float()
        optimizer.step()
    assert matrix.dtype == optimizer.state[matrix]["momentum"].dtype == torch.float32
    torch.testing.assert_close(optimizer.state[matrix]["momentum"], momentum, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(matrix.detach(), expected, rtol=0, atol=1e-5 if dtype == torch.float32 else 1e-2)
