"""Muon: momentum whose directions all count alike (Jordan et al., 2024), for the matrices inside a network.

torch has one too. It computes in bfloat16, which most processors do not have: there this one is several times quicker.
Letters: N matrices of one shape, R rows, C columns.
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

MOMENTUM = 0.95
# Five rounds of this polynomial take all singular values to near one.
ROUNDS = 5
FIRST, THIRD, FIFTH = 3.4445, -4.7750, 2.0315
LONG = 3  # times as long as wide


def orthogonal(matrices_NRC: Tensor) -> Tensor:
    """Return matrices with the same directions, the singular values of which are all about one."""
    is_tall = matrices_NRC.shape[1] > matrices_NRC.shape[2]
    x_NRC = matrices_NRC.mT if is_tall else matrices_NRC
    x_NRC = x_NRC / x_NRC.norm(dim=(1, 2), keepdim=True).clamp(min=1e-7)
    gram_NRR = x_NRC @ x_NRC.mT
    if x_NRC.shape[2] >= LONG * x_NRC.shape[1]:
        # All rounds multiply from the left: of long matrices, multiply what they multiply by first.
        turns_NRR = _turn(gram_NRR)
        turn_NRR = turns_NRR
        for _ in range(ROUNDS - 1):
            gram_NRR = turn_NRR @ (turn_NRR @ gram_NRR)
            turn_NRR = _turn(gram_NRR)
            turns_NRR = turn_NRR @ turns_NRR
        turned_NRC: Tensor = turns_NRR @ x_NRC
        return turned_NRC.mT if is_tall else turned_NRC
    for place in range(ROUNDS):
        gram_NRR = x_NRC @ x_NRC.mT if place else gram_NRR
        mixed_NRR = torch.baddbmm(gram_NRR, gram_NRR, gram_NRR, beta=THIRD, alpha=FIFTH)
        x_NRC = torch.baddbmm(x_NRC, mixed_NRR, x_NRC, beta=FIRST)
    return x_NRC.mT if is_tall else x_NRC


def _turn(gram_NRR: Tensor) -> Tensor:
    """Return what one round multiplies by."""
    turn_NRR = torch.baddbmm(gram_NRR, gram_NRR, gram_NRR, beta=THIRD, alpha=FIFTH)
    turn_NRR.diagonal(dim1=1, dim2=2).add_(FIRST)
    return turn_NRR


class Muon(torch.optim.Optimizer):
    """Steps of one size in every direction. Matrices of one shape are worked on together."""

    def __init__(self, matrices: Iterable[nn.Parameter], lr: float, weight_decay: float) -> None:
        super().__init__(matrices, {"lr": lr, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Update the matrices that have a gradient."""
        assert closure is None
        for group in self.param_groups:
            by_shape: dict[torch.Size, list[Tensor]] = {}
            for matrix in group["params"]:
                if matrix.grad is not None:
                    by_shape.setdefault(matrix.shape, []).append(matrix)
            for shape, matrices in by_shape.items():
                size = group["lr"] * max(1.0, shape[0] / shape[1]) ** 0.5
                changes = list(orthogonal(torch.stack([self._momentum(matrix) for matrix in matrices])))
                torch._foreach_mul_(matrices, 1 - group["lr"] * group["weight_decay"])
                torch._foreach_add_(matrices, changes, alpha=-size)

    def _momentum(self, matrix: Tensor) -> Tensor:
        """Return where the gradients have been going, a step ahead."""
        assert matrix.grad is not None
        if "momentum" not in self.state[matrix]:
            self.state[matrix]["momentum"] = torch.zeros_like(matrix)
        momentum: Tensor = self.state[matrix]["momentum"]
        momentum.mul_(MOMENTUM).add_(matrix.grad)
        return matrix.grad + MOMENTUM * momentum
