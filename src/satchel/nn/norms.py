"""Layer normalisation."""

from typing import Literal

from torch import Tensor, nn

NormKind = Literal["layer", "rms"]


class RMSNorm(nn.RMSNorm):
    """RMSNorm in the dtype of its weight. PyTorch's computes a bfloat16 input in bfloat16, its LayerNorm in float32."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the normalised vectors."""
        return super().forward(x.to(self.weight.dtype))


def make_norm(kind: NormKind, width: int, bias: bool = True) -> nn.Module:
    """Return LayerNorm (`layer`) or RMSNorm (`rms`). On CPUs, PyTorch's LayerNorm is several times as fast."""
    return RMSNorm(width, eps=1e-6) if kind == "rms" else nn.LayerNorm(width, bias=bias)
