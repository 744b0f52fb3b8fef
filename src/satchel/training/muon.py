"""Muon optimizer (Jordan et al., 2024): momentum, orthogonalised by a Newton-Schulz iteration, for inner matrices.

The iteration computes in the precision of the training: bfloat16 where it is native, else float32. The implementation
in torch always uses bfloat16, which most CPUs emulate. In float32 the five polynomials are those of Jordan et al. In
bfloat16 they differ by step, as in Polar Express (Amsel et al., 2025): each is the odd polynomial of degree 5 that maps
the interval of the singular values after the previous one closest to 1, and four reach what five equal ones do.
Shapes: N matrices of one shape, R rows, C columns.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

MOMENTUM = 0.95
# Coefficients of x, x^3 and x^5 in each iteration. Singular values from 0.003 to 1 are mapped to 0.68 to 1.2 in float32
# and to 0.79 to 1.21 in bfloat16. The first three polynomials of bfloat16 tolerate singular values 1 % above their
# interval, which occur by rounding.
POLYNOMIALS = {
    torch.float32: ((3.4445, -4.7750, 2.0315),) * 5,
    torch.bfloat16: (
        (8.3007, -24.0375, 17.4661),
        (4.0059, -2.9253, 0.5424),
        (3.4840, -2.5614, 0.5024),
        (2.5153, -1.8615, 0.4425),
    ),
}
# Ratio of columns to rows from which the iterations are computed on R x R matrices only.
LONG = 3
# Iterations between two products with x. In bfloat16, rounding makes eigenvalues of x x^T near 0 negative, and further
# iterations of the R x R matrices alone would amplify them; x x^T is computed again before.
BFLOAT16_STAGE = 2

Polynomial = tuple[float, float, float]


def orthogonalise(matrices_NRC: Tensor) -> Tensor:
    """Return matrices with the same singular vectors and singular values near 1."""
    is_tall = matrices_NRC.shape[1] > matrices_NRC.shape[2]
    x_NRC = matrices_NRC.mT if is_tall else matrices_NRC
    x_NRC = x_NRC / x_NRC.norm(dim=(1, 2), keepdim=True).clamp(min=1e-7)
    if x_NRC.shape[2] >= LONG * x_NRC.shape[1]:
        polynomials = POLYNOMIALS[x_NRC.dtype]
        size = BFLOAT16_STAGE if x_NRC.dtype == torch.bfloat16 else len(polynomials)
        for start in range(0, len(polynomials), size):
            factors_NRR = _iterate_factors(x_NRC, polynomials[start : start + size])
            # The product of the transposes is contiguous in the layout of the parameters.
            x_NRC = (x_NRC.mT @ factors_NRR.mT).mT if is_tall else factors_NRR @ x_NRC
    else:
        x_NRC = _iterate(x_NRC)
    return x_NRC.mT if is_tall else x_NRC


def _iterate(x_NRC: Tensor) -> Tensor:
    """Return the result of all iterations."""
    # Results are written to buffers, because the allocation of large tensors takes time.
    gram_NRR, powers_NRR = x_NRC.new_empty(2, len(x_NRC), x_NRC.shape[1], x_NRC.shape[1])
    next_NRC = torch.empty_like(x_NRC)
    for first, third, fifth in POLYNOMIALS[x_NRC.dtype]:
        torch.bmm(x_NRC, x_NRC.mT, out=gram_NRR)
        torch.baddbmm(gram_NRR, gram_NRR, gram_NRR, beta=third, alpha=fifth, out=powers_NRR)
        torch.baddbmm(x_NRC, powers_NRR, x_NRC, beta=first, out=next_NRC)
        x_NRC, next_NRC = next_NRC, x_NRC
    return x_NRC


def _iterate_factors(x_NRC: Tensor, polynomials: Sequence[Polynomial]) -> Tensor:
    """Return the R x R matrix by which the iterations multiply long x from the left, computed from x x^T."""
    gram_NRR = x_NRC @ x_NRC.mT
    factor_NRR, buffer_NRR = torch.empty_like(gram_NRR), torch.empty_like(gram_NRR)
    product_NRR = _factor(gram_NRR, polynomials[0], factor_NRR).clone()
    for polynomial in polynomials[1:]:
        torch.bmm(factor_NRR, gram_NRR, out=buffer_NRR)
        torch.bmm(factor_NRR, buffer_NRR, out=gram_NRR)
        torch.bmm(_factor(gram_NRR, polynomial, factor_NRR), product_NRR, out=buffer_NRR)
        product_NRR, buffer_NRR = buffer_NRR, product_NRR
    return product_NRR


def _factor(gram_NRR: Tensor, polynomial: Polynomial, out_NRR: Tensor) -> Tensor:
    """Return first I + third G + fifth G^2, by which one iteration multiplies, in the memory of `out_NRR`."""
    first, third, fifth = polynomial
    torch.baddbmm(gram_NRR, gram_NRR, gram_NRR, beta=third, alpha=fifth, out=out_NRR)
    out_NRR.diagonal(dim1=1, dim2=2).add_(first)
    return out_NRR


class Muon(torch.optim.Optimizer):
    """Updates matrices by their orthogonalised momentum. Matrices of the same shape are processed as a batch."""

    def __init__(
        self, matrices: Iterable[nn.Parameter], lr: float, weight_decay: float, dtype: torch.dtype = torch.float32
    ) -> None:
        super().__init__(matrices, {"lr": lr, "weight_decay": weight_decay})
        self._dtype = dtype  # of the Newton-Schulz iteration

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Update all matrices that have a gradient."""
        assert closure is None
        for group in self.param_groups:
            by_shape: dict[torch.Size, list[Tensor]] = {}
            for matrix in group["params"]:
                if matrix.grad is not None:
                    by_shape.setdefault(matrix.shape, []).append(matrix)
            for shape, matrices in by_shape.items():
                rate = group["lr"] * max(1.0, shape[0] / shape[1]) ** 0.5
                updates = orthogonalise(self._momentum(matrices).to(self._dtype)).float()
                torch._foreach_mul_(matrices, 1 - group["lr"] * group["weight_decay"])
                torch._foreach_add_(matrices, list(updates), alpha=-rate)

    def _momentum(self, matrices: list[Tensor]) -> Tensor:
        """Update the momentum of matrices of one shape and return their Nesterov look-ahead (N, R, C)."""
        gradients = [matrix.grad for matrix in matrices if matrix.grad is not None]
        for matrix in matrices:
            if "momentum" not in self.state[matrix]:
                self.state[matrix]["momentum"] = torch.zeros_like(matrix)
        momenta = [self.state[matrix]["momentum"] for matrix in matrices]
        torch._foreach_mul_(momenta, MOMENTUM)
        torch._foreach_add_(momenta, gradients)
        ahead_NRC = torch.stack(momenta).mul_(MOMENTUM)
        torch._foreach_add_(list(ahead_NRC), gradients)
        return ahead_NRC
