"""Dropout that can be switched off for a while, of random bytes: torch takes longer over its random numbers."""

from typing import Any

import torch
from torch import Tensor, nn

# The values of a byte: shares are rounded to so many parts.
PARTS = 256


class Dropout(nn.Module):
    """Leaves out a share of the numbers in training, and scales the others up by as much as that takes away."""

    def __init__(self, share: float) -> None:
        super().__init__()
        # Never all of them.
        self.parts = min(round(share * PARTS), PARTS - 1)
        self.is_on = True

    @property
    def share(self) -> float:
        """What is left out at the moment."""
        return self.parts / PARTS if self.training and self.is_on else 0.0

    def forward(self, x: Tensor) -> Tensor:
        """Return the numbers that stay, scaled, and zeros."""
        if not self.share:
            return x
        keep = _random_bytes(x) >= self.parts
        kept: Tensor = _Masked.apply(x, keep, 1 / (1 - self.share))  # type: ignore[no-untyped-call]
        return kept


def switch_dropout(network: nn.Module, is_on: bool) -> None:
    """Switch all dropout of a network on or off."""
    for module in network.modules():
        if isinstance(module, Dropout):
            module.is_on = is_on


def _random_bytes(x: Tensor) -> Tensor:
    """Return as many random bytes as there are numbers: eight from each draw."""
    draws = torch.empty(-(-x.numel() // 8), dtype=torch.int64, device=x.device)
    draws.random_(torch.iinfo(torch.int64).min, None)
    return draws.view(torch.uint8)[: x.numel()].view(x.shape)


class _Masked(torch.autograd.Function):
    """Numbers times a mask and a factor. A byte for each is kept for the way back: torch keeps four."""

    @staticmethod
    def forward(context: Any, x: Tensor, keep: Tensor, factor: float) -> Tensor:
        context.save_for_backward(keep)
        context.factor = factor
        return keep.to(x.dtype).mul_(factor).mul_(x)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (keep,) = context.saved_tensors
        found: Tensor = keep.to(gradients[0].dtype).mul_(context.factor).mul_(gradients[0])
        return found, None, None
