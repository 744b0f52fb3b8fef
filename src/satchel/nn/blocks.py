"""Blocks: attention and a feed-forward net, each with a residual and a norm around it.

Letters: B batch, T time, D width.
"""

from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from satchel.nn.attention import KeyValues, MultiHead
from satchel.nn.dropout import Dropout
from satchel.nn.linear import Linear
from satchel.nn.norms import NormKind, make_norm
from satchel.nn.sites import Site

Norm = Literal["pre", "post", "none"]
Activation = Literal["relu", "gelu", "gelu-tanh", "squared-relu", "swiglu"]


class FeedForward(nn.Module):
    """A net of one hidden layer that sees each position by itself. `swiglu` has a gate beside the hidden layer."""

    def __init__(
        self, width: int, hidden: int, activation: Activation = "gelu", *, bias: bool = True, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.activation = activation
        self.widen = Linear(width, 2 * hidden if activation == "swiglu" else hidden, bias=bias)
        self.narrow = Linear(hidden, width, bias=bias)
        self.dropout = Dropout(dropout)
        self.hidden = Site()

    def forward(self, x_BTD: Tensor) -> Tensor:
        """Return as many vectors of the same width."""
        found: Tensor = self.dropout(self.narrow(self.hidden(self._activate(self.widen(x_BTD)))))
        return found

    def _activate(self, x: Tensor) -> Tensor:
        match self.activation:
            case "relu":
                return x.relu()
            case "gelu":
                return F.gelu(x)
            case "gelu-tanh":
                return F.gelu(x, approximate="tanh")
            case "squared-relu":
                squared: Tensor = _SquaredRelu.apply(x)  # type: ignore[no-untyped-call]
                return squared
            case "swiglu":
                gate, value = x.chunk(2, dim=-1)
                return F.silu(gate) * value


class _SquaredRelu(torch.autograd.Function):
    """The square of what is above zero. One tensor is kept for the way back, and passed over once: torch takes two."""

    @staticmethod
    def forward(context: Any, x: Tensor) -> Tensor:
        above = x.relu()
        context.save_for_backward(above)
        return above * above

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(context: Any, *gradients: Tensor) -> Tensor:
        (above,) = context.saved_tensors
        found: Tensor = (gradients[0] * above).mul_(2)
        return found


class Block(nn.Module):
    """Lets positions look at each other, then thinks about each; what comes in is added to what comes out.

    With `cross`, positions also look at a memory, after they have looked at each other. Several rows may share a row
    of it: those of one text stand together.

    The norm stands before each part (`pre`), after the sum (`post`, as the Transformer was first described), or
    nowhere; `residual=False` leaves the sums out, which is there to show what they are for.
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
        self.place, self.residual = norm, residual
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
        """Return as many vectors, each of which has looked at those the mask allows, and at the memory."""
        pre = self.place == "pre"
        found = self.attention(self.attention_norm(x_BTD) if pre else x_BTD, mask=mask, causal=causal, past=past)
        x_BTD = self._joined(x_BTD, self.dropout(found))
        x_BTD = self.attended(x_BTD if pre else self.attention_norm(x_BTD))
        if self.cross is not None and memory is not None:
            found = self._looked_up(self.cross_norm(x_BTD) if pre else x_BTD, memory, memory_mask)
            x_BTD = self._joined(x_BTD, self.dropout(found))
            x_BTD = x_BTD if pre else self.cross_norm(x_BTD)
        found = self.feedforward(self.feedforward_norm(x_BTD) if pre else x_BTD)
        x_BTD = self._joined(x_BTD, found)
        result: Tensor = self.output(x_BTD if pre else self.feedforward_norm(x_BTD))
        return result

    def _looked_up(self, x_BTD: Tensor, memory: KeyValues, mask: Tensor | None) -> Tensor:
        assert self.cross is not None
        assert memory.keys is not None
        # What is looked up does not depend on who else looks: rows of one text are queries of one memory.
        shared: Tensor = self.cross(x_BTD.reshape(len(memory.keys), -1, x_BTD.shape[-1]), memory, mask=mask)
        return shared.view_as(x_BTD)

    def _joined(self, x: Tensor, found: Tensor) -> Tensor:
        return x + found if self.residual else found
