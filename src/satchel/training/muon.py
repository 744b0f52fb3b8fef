"""Muon optimizer (Jordan et al., 2024): momentum, orthogonalised by a Newton-Schulz iteration, for inner matrices.

The implementation in torch computes in bfloat16, which most CPUs emulate; this one uses the precision of the
parameters and is several times faster there. Shapes: N matrices of one shape, R rows, C columns.
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

MOMENTUM = 0.95
# Iterations of the polynomial FIRST x + THIRD x^3 + FIFTH x^5, which maps singular values towards 1.
ITERATIONS = 5
FIRST, THIRD, FIFTH = 3.4445, -4.7750, 2.0315
# Ratio of columns to rows from which the iterations are computed on R x R matrices only.
LONG = 3


def orthogonalise(matrices_NRC: Tensor) -> Tensor:
    """Return matrices with the same singular vectors and singular values near 1."""
    is_tall = matrices_NRC.shape[1] > matrices_NRC.shape[2]
    x_NRC = matrices_NRC.mT if is_tall else matrices_NRC
    x_NRC = x_NRC / x_NRC.norm(dim=(1, 2), keepdim=True).clamp(min=1e-7)
    gram_NRR = x_NRC @ x_NRC.mT
    if x_NRC.shape[2] >= LONG * x_NRC.shape[1]:
        # Every iteration multiplies x by an R x R factor from the left: for long x, first multiply the factors.
        product_NRR = factor_NRR = _factor(gram_NRR)
        for _ in range(ITERATIONS - 1):
            gram_NRR = factor_NRR @ (factor_NRR @ gram_NRR)
            factor_NRR = _factor(gram_NRR)
            product_NRR = factor_NRR @ product_NRR
        result_NRC: Tensor = product_NRR @ x_NRC
        return result_NRC.mT if is_tall else result_NRC
    for iteration in range(ITERATIONS):
        gram_NRR = x_NRC @ x_NRC.mT if iteration else gram_NRR
        powers_NRR = torch.baddbmm(gram_NRR, gram_NRR, gram_NRR, beta=THIRD, alpha=FIFTH)
        x_NRC = torch.baddbmm(x_NRC, powers_NRR, x_NRC, beta=FIRST)
    return x_NRC.mT if is_tall else x_NRC


def _factor(gram_NRR: Tensor) -> Tensor:
    """Return FIRST I + THIRD G + FIFTH G^2, by which one iteration multiplies."""
    factor_NRR = torch.baddbmm(gram_NRR, gram_NRR, gram_NRR, beta=THIRD, alpha=FIFTH)
    factor_NRR.diagonal(dim1=1, dim2=2).add_(FIRST)
    return factor_NRR


class Muon(torch.optim.Optimizer):
    """Updates matrices by their orthogonalised momentum. Matrices of the same shape are processed as a batch."""

    def __init__(self, matrices: Iterable[nn.Parameter], lr: float, weight_decay: float) -> None:
        super().__init__(matrices, {"lr": lr, "weight_decay": weight_decay})

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
                updates = list(orthogonalise(torch.stack([self._momentum(matrix) for matrix in matrices])))
                torch._foreach_mul_(matrices, 1 - group["lr"] * group["weight_decay"])
                torch._foreach_add_(matrices, updates, alpha=-rate)

    def _momentum(self, matrix: Tensor) -> Tensor:
        """Update the momentum of a matrix and return its Nesterov look-ahead."""
        assert matrix.grad is not None
        if "momentum" not in self.state[matrix]:
            self.state[matrix]["momentum"] = torch.zeros_like(matrix)
        momentum: Tensor = self.state[matrix]["momentum"]
        momentum.mul_(MOMENTUM).add_(matrix.grad)
        return matrix.grad + MOMENTUM * momentum
