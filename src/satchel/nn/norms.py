"""Norms: vectors brought to one length."""

from typing import Literal

from torch import nn

NormKind = Literal["layer", "rms"]


def make_norm(kind: NormKind, width: int, bias: bool = True) -> nn.Module:
    """Return a norm over vectors of this width. On processors torch is several times quicker with `layer`."""
    return nn.RMSNorm(width, eps=1e-6) if kind == "rms" else nn.LayerNorm(width, bias=bias)
