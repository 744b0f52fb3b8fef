"""Transformer blocks: attention and a feed-forward network, each with a residual connection and a norm.

Shapes: B batch, T time, D width.
"""

from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from satchel.nn.attention import MultiHead
from satchel.nn.dropout import Dropout
from satchel.nn.kv_cache import KeyValues
from satchel.nn.linear import Linear
from satchel.nn.norms import NormKind, make_norm
from satchel.nn.sites import Site

Norm = Literal["pre", "post", "none"]
Activation = Literal["relu", "gelu", "gelu-tanh", "squared-relu", "swiglu"]


class FeedForward(nn.Module):
    """A position-wise network with one hidden layer."""

    def __init__(
        self, width: int, hidden: int, activation: Activation = "gelu", *, bias: bool = True, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.activation = activation
        # SwiGLU computes a gate beside the hidden layer.
        self.widen = Linear(width, 2 * hidden if activation == "swiglu" else hidden, bias=bias)
        self.narrow = Linear(hidden, width, bias=bias)
        self.dropout = Dropout(dropout)
        self.hidden = Site()

    def forward(self, x_BTD: Tensor) -> Tensor:
        """Return the outputs (B, T, D)."""
        return self.dropout(self.narrow(self.hidden(self._hidden(x_BTD))))

    def _hidden(self, x_BTD: Tensor) -> Tensor:
        """Return the hidden layer after the activation function."""
        match self.activation:
            case "squared-relu":
                squared: Tensor = _SquaredRelu.apply(self.widen(x_BTD))  # type: ignore[no-untyped-call]
                return squared
            case "swiglu":
                gate, value = self.widen(x_BTD).chunk(2, dim=-1)
                return F.silu(gate) * value
            case post:
                return self.widen(x_BTD, post=post)


class _SquaredRelu(torch.autograd.Function):
    """relu(x)**2, with gradient 2 relu(x). One tensor is saved and read by backward; PyTorch would save two."""

    @staticmethod
    def forward(context: Any, x: Tensor) -> Tensor:
        positive = x.relu()
        context.save_for_backward(positive)
        return positive * positive

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(context: Any, *gradients: Tensor) -> Tensor:
        (positive,) = context.saved_tensors
        gradient: Tensor = (gradients[0] * positive).mul_(2)
        return gradient


class Block(nn.Module):
    """A Transformer block: self-attention, optional cross-attention, and a feed-forward network.

    `norm` is before each sublayer (`pre`), after the residual sum (`post`, Vaswani et al., 2017) or absent (`none`).
    Several rows of the batch may share a row of the memory; they are adjacent.
    """

    def __init__(
        self,
        attention: MultiHead,
        feedforward: FeedForward,
        *,
        norm: Norm = "pre",
        norm_kind: NormKind = "layer",
        residual: bool = True,
        dropout: float = 0.0,
        bias: bool = True,
        cross: MultiHead | None = None,
    ) -> None:
        super().__init__()
        self.attention, self.feedforward, self.cross = attention, feedforward, cross
        self.is_pre_norm, self.residual = norm == "pre", residual
        has_norm = norm != "none"
        self.attention_norm = make_norm(norm_kind, attention.width, bias) if has_norm else nn.Identity()
        self.cross_norm = make_norm(norm_kind, attention.width, bias) if has_norm and cross else nn.Identity()
        self.feedforward_norm = make_norm(norm_kind, attention.width, bias) if has_norm else nn.Identity()
        self.dropout = Dropout(dropout)
        self.attended, self.output = Site(), Site()

    def forward(
        self,
        x_BTD: Tensor,
        *,
        mask: Tensor | None = None,
        causal: bool = False,
        past: KeyValues | None = None,
        memory: KeyValues | None = None,
        memory_mask: Tensor | None = None,
    ) -> Tensor:
        """Return the outputs (B, T, D). `past` is the KV cache of self-attention."""
        pre = self.is_pre_norm
        update = self.attention(self.attention_norm(x_BTD) if pre else x_BTD, mask=mask, causal=causal, past=past)
        x_BTD = self._add(x_BTD, self.dropout(update))
        x_BTD = self.attended(x_BTD if pre else self.attention_norm(x_BTD))
        if self.cross is not None and memory is not None:
            update = self._cross_attend(self.cross_norm(x_BTD) if pre else x_BTD, memory, memory_mask)
            x_BTD = self._add(x_BTD, self.dropout(update))
            x_BTD = x_BTD if pre else self.cross_norm(x_BTD)
        x_BTD = self._add(x_BTD, self.feedforward(self.feedforward_norm(x_BTD) if pre else x_BTD))
        return self.output(x_BTD if pre else self.feedforward_norm(x_BTD))

    def _cross_attend(self, x_BTD: Tensor, memory: KeyValues, mask: Tensor | None) -> Tensor:
        assert self.cross is not None
        assert memory.keys is not None
        # Queries of a memory are independent: those of all rows that share it form one row.
        outputs: Tensor = self.cross(x_BTD.reshape(len(memory.keys), -1, x_BTD.shape[-1]), memory, mask=mask)
        return outputs.view_as(x_BTD)

    def _add(self, x: Tensor, update: Tensor) -> Tensor:
        return x + update if self.residual else update
