"""Layer normalisation."""

from typing import Literal

from torch import nn

NormKind = Literal["layer", "rms"]


def make_norm(kind: NormKind, width: int, bias: bool = True) -> nn.Module:
    """Return LayerNorm (`layer`) or RMSNorm (`rms`). On CPUs, PyTorch's LayerNorm is several times as fast."""
    return nn.RMSNorm(width, eps=1e-6) if kind == "rms" else nn.LayerNorm(width, bias=bias)
