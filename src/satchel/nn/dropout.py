"""Dropout with masks from random bytes, which are faster to draw than the floats of `torch.nn.Dropout`."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

# Number of values of a byte: dropout rates are multiples of 1 / 256.
BYTE_VALUES = 256


class Dropout(nn.Module):
    """Sets a fraction of the activations to zero in training and scales up the others."""

    # For type checkers: PyTorch declares that a call returns Any.
    __call__: Callable[..., Tensor]

    def __init__(self, rate: float) -> None:
        super().__init__()
        # Bytes below the threshold drop an activation; at most 255 of 256 do.
        self.threshold = min(round(rate * BYTE_VALUES), BYTE_VALUES - 1)
        self.is_on = True

    @property
    def rate(self) -> float:
        """The current dropout rate: 0 in evaluation mode or if switched off."""
        return self.threshold / BYTE_VALUES if self.training and self.is_on else 0.0

    def forward(self, x: Tensor) -> Tensor:
        """Return the activations after dropout."""
        if not self.rate:
            return x
        keep = _random_bytes(x) >= self.threshold
        kept: Tensor = _Masked.apply(x, keep, 1 / (1 - self.rate))  # type: ignore[no-untyped-call]
        return kept


def switch_dropout(network: nn.Module, is_on: bool) -> None:
    """Switch all dropout of a network on or off."""
    for module in network.modules():
        if isinstance(module, Dropout):
            module.is_on = is_on


def _random_bytes(x: Tensor) -> Tensor:
    """Return a random byte for each element; each random integer gives eight."""
    integers = torch.empty(-(-x.numel() // 8), dtype=torch.int64, device=x.device)
    integers.random_(torch.iinfo(torch.int64).min, None)
    return integers.view(torch.uint8)[: x.numel()].view(x.shape)


class _Masked(torch.autograd.Function):
    """x * mask * factor, whose gradient is mask * factor. The saved mask takes a byte per element instead of four."""

    @staticmethod
    def forward(context: Any, x: Tensor, keep: Tensor, factor: float) -> Tensor:
        context.save_for_backward(keep)
        context.factor = factor
        return keep.to(x.dtype).mul_(factor).mul_(x)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (keep,) = context.saved_tensors
        gradient: Tensor = keep.to(gradients[0].dtype).mul_(context.factor).mul_(gradients[0])
        return gradient, None, None
