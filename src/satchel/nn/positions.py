"""Position encodings: vectors added to embeddings (learned, sinusoidal), or changes of attention (rotary, ALiBi).

Shapes: B batch, T time, S key time, D width, H heads, K head width.
"""

import math
from typing import Any, Literal

import torch
from torch import Tensor, nn

Positions = Literal["none", "learned", "sinusoidal", "rotary", "alibi"]
# Wavelengths of sinusoidal and rotary encodings grow geometrically from 2 pi to 2 pi times this base.
WAVELENGTH_BASE = 10_000.0


def sinusoids(length: int, width: int) -> Tensor:
    """Return sinusoidal position encodings (T, D) (Vaswani et al., 2017): sines at even, cosines at odd indices."""
    theta = angles(length, width)
    return torch.stack([theta.sin(), theta.cos()], dim=-1).flatten(1)[:, :width].float()


def angles(length: int, width: int) -> Tensor:
    """Return the angle (T, D / 2) of each position and pair of dimensions."""
    pairs = torch.arange(0, width, 2, dtype=torch.float64)
    return torch.arange(length, dtype=torch.float64)[:, None] / WAVELENGTH_BASE ** (pairs / width)


class Learned(nn.Module):
    """A learned vector for each of the first `context` positions."""

    def __init__(self, context: int, width: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(context, width)

    def forward(self, start: int, length: int) -> Tensor:
        """Return the vectors (T, D) of `length` positions from `start`."""
        return self.embedding.weight[start : start + length]


class Sinusoidal(nn.Module):
    """Sinusoidal position encodings of any length."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width
        self._table = torch.empty(0, width)

    def forward(self, start: int, length: int) -> Tensor:
        """Return the vectors (T, D) of `length` positions from `start`."""
        if start + length > len(self._table):
            self._table = sinusoids(2 * (start + length), self.width)
        return self._table[start : start + length]


class Rotary(nn.Module):
    """Rotary position embeddings (Su et al., 2021): rotate queries and keys by angles proportional to the position.

    Dimension i is paired with dimension i + K / 2. Scores depend on the distance of positions only.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        if width % 2:
            raise ValueError(f"found a head width of {width}, expected an even one for rotary positions")
        self.width = width
        # Cosines and sines of all positions, (T, 2, K / 2).
        self._rotations = torch.empty(0, 2, width // 2)

    def forward(self, x_BHTK: Tensor, start: int) -> Tensor:
        """Return the rotated vectors; the first one is at position `start`."""
        length = x_BHTK.shape[-2]
        is_compatible = (self._rotations.dtype, self._rotations.device) == (x_BHTK.dtype, x_BHTK.device)
        if start + length > len(self._rotations) or not is_compatible:
            theta = angles(2 * (start + length), self.width)
            with torch.inference_mode(False):  # the table is also used in training
                self._rotations = torch.stack([theta.cos(), theta.sin()], dim=1).to(
                    x_BHTK.device, x_BHTK.dtype, copy=True
                )
        cos, sin = self._rotations[start : start + length].unbind(1)
        rotated: Tensor = _Rotate.apply(x_BHTK, cos, sin)  # type: ignore[no-untyped-call]
        return rotated


class _Rotate(torch.autograd.Function):
    """Rotation of pairs of dimensions. Its gradient is the rotation by the negative angle, without saved inputs."""

    @staticmethod
    def forward(context: Any, x_BHTK: Tensor, cos_TK: Tensor, sin_TK: Tensor) -> Tensor:
        context.save_for_backward(cos_TK, sin_TK)
        return _rotate(x_BHTK, cos_TK, sin_TK)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        cos_TK, sin_TK = context.saved_tensors
        return _rotate(gradients[0], cos_TK, -sin_TK), None, None


def _rotate(x_BHTK: Tensor, cos_TK: Tensor, sin_TK: Tensor) -> Tensor:
    first, second = x_BHTK.chunk(2, dim=-1)
    rotated = torch.empty_like(x_BHTK)
    left, right = rotated.chunk(2, dim=-1)
    torch.mul(first, cos_TK, out=left).addcmul_(second, sin_TK, value=-1)
    torch.mul(second, cos_TK, out=right).addcmul_(first, sin_TK)
    return rotated


class Alibi(nn.Module):
    """Attention with linear biases (Press et al., 2022): subtract a multiple of the distance from each score."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.register_buffer("slopes_H", torch.tensor(alibi_slopes(heads)), persistent=False)
        self.slopes_H: Tensor

    def forward(self, queries: int, keys: int) -> Tensor:
        """Return the biases (H, T, S); the last query is at the last key."""
        positions_T = torch.arange(keys - queries, keys, device=self.slopes_H.device)
        distances_TS = (positions_T[:, None] - torch.arange(keys, device=self.slopes_H.device)).abs()
        return -self.slopes_H[:, None, None] * distances_TS


def alibi_slopes(heads: int) -> list[float]:
    """Return the published slope of each head: a geometric series for a power of two, else with slopes between."""
    power = 2 ** math.floor(math.log2(heads))
    slopes = [2 ** (-8 * (head + 1) / power) for head in range(power)]
    between = [2 ** (-4 * (2 * head + 1) / power) for head in range(heads - power)]
    return slopes + between
