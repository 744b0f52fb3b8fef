"""Positions: what tells a network where a word stands.

Some are vectors that are added to the words' (`none`, `learned`, `sinusoidal`); some change how attention
compares two words (`rotary`, `alibi`). Letters: T time, S time of the keys, D width, H heads, K head width.
"""

import math
from typing import Any, Literal

import torch
from torch import Tensor, nn

Positions = Literal["none", "learned", "sinusoidal", "rotary", "alibi"]
LONGEST_WAVE = 10_000.0


def sinusoids(length: int, width: int) -> Tensor:
    """Return the (T, D) encodings of Vaswani et al.: sines and cosines in turn, of ever longer waves."""
    pairs = torch.arange(0, width, 2, dtype=torch.float64)
    angles = torch.arange(length, dtype=torch.float64)[:, None] / LONGEST_WAVE ** (pairs / width)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[:, :width].float()


class Learned(nn.Module):
    """A vector for each of the first `context` positions, learned like those of words."""

    def __init__(self, context: int, width: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(context, width)

    def forward(self, start: int, length: int) -> Tensor:
        """Return the (T, D) vectors of the positions from `start`."""
        return self.embedding.weight[start : start + length]


class Sinusoidal(nn.Module):
    """Vectors that nobody learns, for any position."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width
        self._table = torch.empty(0, width)

    def forward(self, start: int, length: int) -> Tensor:
        """Return the (T, D) vectors of the positions from `start`."""
        if start + length > len(self._table):
            self._table = sinusoids(2 * (start + length), self.width)
        return self._table[start : start + length]


class Rotary(nn.Module):
    """Turns queries and keys by an angle that grows with their position, so that scores depend on distance."""

    def __init__(self, width: int) -> None:
        super().__init__()
        if width % 2:
            raise ValueError(f"found a head width of {width}, expected an even one for rotary positions")
        self.width = width
        self._turns = torch.empty(0, 2, width // 2)

    def forward(self, x_BHTK: Tensor, start: int) -> Tensor:
        """Return the vectors turned, the first by the angle of position `start`."""
        length = x_BHTK.shape[-2]
        is_like = (self._turns.dtype, self._turns.device) == (x_BHTK.dtype, x_BHTK.device)
        if start + length > len(self._turns) or not is_like:
            angles = torch.arange(2 * (start + length), dtype=torch.float64)[:, None] / LONGEST_WAVE ** (
                torch.arange(0, self.width, 2, dtype=torch.float64) / self.width
            )
            with torch.inference_mode(False):  # made while answering, it is of use in training too
                self._turns = torch.stack([angles.cos(), angles.sin()], dim=1).to(
                    x_BHTK.device, x_BHTK.dtype, copy=True
                )
        cos, sin = self._turns[start : start + length].unbind(1)
        turned: Tensor = _Turn.apply(x_BHTK, cos, sin)  # type: ignore[no-untyped-call]
        return turned


class _Turn(torch.autograd.Function):
    """Turns the pairs of a vector's halves by angles; the way back is the same turn the other way round."""

    @staticmethod
    def forward(context: Any, x_BHTK: Tensor, cos_TK: Tensor, sin_TK: Tensor) -> Tensor:
        context.save_for_backward(cos_TK, sin_TK)
        return _turned(x_BHTK, cos_TK, sin_TK)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        cos_TK, sin_TK = context.saved_tensors
        return _turned(gradients[0], cos_TK, -sin_TK), None, None


def _turned(x_BHTK: Tensor, cos_TK: Tensor, sin_TK: Tensor) -> Tensor:
    first, second = x_BHTK.chunk(2, dim=-1)
    turned = torch.empty_like(x_BHTK)
    left, right = turned.chunk(2, dim=-1)
    torch.mul(first, cos_TK, out=left).addcmul_(second, sin_TK, value=-1)
    torch.mul(second, cos_TK, out=right).addcmul_(first, sin_TK)
    return turned


class Alibi(nn.Module):
    """Takes from each score what its distance costs, at a rate that differs by head (Press et al., 2022)."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.register_buffer("slopes_H", torch.tensor(alibi_slopes(heads)), persistent=False)
        self.slopes_H: Tensor

    def forward(self, queries: int, keys: int) -> Tensor:
        """Return the (H, T, S) costs; the last query stands at the last key."""
        places_T = torch.arange(keys - queries, keys, device=self.slopes_H.device)
        distances_TS = (places_T[:, None] - torch.arange(keys, device=self.slopes_H.device)).abs()
        return -self.slopes_H[:, None, None] * distances_TS


def alibi_slopes(heads: int) -> list[float]:
    """Return the slope of each head: a falling series of powers of two, with those between where heads are no power."""
    whole = 2 ** math.floor(math.log2(heads))
    slopes = [2 ** (-8 * (head + 1) / whole) for head in range(whole)]
    between = [2 ** (-4 * (2 * head + 1) / whole) for head in range(heads - whole)]
    return slopes + between
