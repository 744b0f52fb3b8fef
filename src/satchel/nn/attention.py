"""Attention: scores, softmax with masks, and multi-head attention.

A mask is True where a query may attend to a key, or, as in PyTorch, of floating point and added to the scores. Masked
scores are -inf and masked weights exactly 0; the output of a query whose keys are all masked is zero.
Shapes: B batch, T query time, S key time, D width, H heads, K head width.
"""

import math
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from satchel.nn import bfloat16_attention
from satchel.nn.dropout import Dropout
from satchel.nn.kv_cache import KeyValues
from satchel.nn.linear import Linear
from satchel.nn.norms import NormKind, make_norm
from satchel.nn.positions import Alibi, Rotary
from satchel.nn.sites import Site

Heads = Literal["canonical", "narrow", "wide"]
Scale = Literal["head", "width", "none"]


# --- masks -------------------------------------------------------------------------------------------


def causal_mask(queries: int, keys: int | None = None) -> Tensor:
    """Return the causal mask (T, S), in which the last query is at the last key."""
    keys = queries if keys is None else keys
    return torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries)


def softmax(scores: Tensor, mask: Tensor | None = None, base: float = math.e) -> Tensor:
    """Return base**score, normalised over the last axis; zeros in rows that are all masked."""
    mask, bias = split_mask(mask)
    if bias is not None:
        scores = scores + bias
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    if base != math.e:
        scores = scores * math.log(base)
    weights = scores.softmax(dim=-1)
    # The softmax of a row of -inf is NaN.
    return weights if mask is None else weights.masked_fill(~mask.any(dim=-1, keepdim=True), 0.0)


def split_mask(mask: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
    """Return a mask as booleans, and the values that a mask of floating point adds to the scores."""
    if mask is None or mask.dtype == torch.bool:
        return mask, None
    if not mask.is_floating_point():
        raise ValueError(f"found a mask of {mask.dtype}, expected bool (True: may attend) or floating point (added)")
    return mask > -math.inf, mask


# --- scores ------------------------------------------------------------------------------------------


class Dot(nn.Module):
    """Scores a query q and a key k by q . k, or with `width` by q . k / sqrt(width)."""

    def __init__(self, width: int | None = None) -> None:
        super().__init__()
        self.factor = 1.0 if width is None else 1 / math.sqrt(width)

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Return the scores (..., T, S)."""
        return queries @ keys.transpose(-1, -2) * self.factor


class General(nn.Module):
    """Scores a query q and a key k, which may have different widths, by q W k (Luong et al., 2015)."""

    def __init__(self, query_width: int, key_width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(query_width, key_width))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Return the scores (..., T, S)."""
        return queries @ self.weight @ keys.transpose(-1, -2)


class Additive(nn.Module):
    """Scores a query q and a key k by v . tanh(W q + U k + b) (Bahdanau et al., 2015)."""

    def __init__(self, query_width: int, key_width: int, hidden: int) -> None:
        super().__init__()
        self.query = nn.Linear(query_width, hidden, bias=False)
        self.key = nn.Linear(key_width, hidden)
        self.out = nn.Linear(hidden, 1, bias=False)

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Return the scores (..., T, S)."""
        hidden = self.query(queries).unsqueeze(-2) + self.key(keys).unsqueeze(-3)
        scores: Tensor = self.out(hidden.tanh()).squeeze(-1)
        return scores


def attend(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    mask: Tensor | None = None,
    *,
    score: nn.Module | None = None,
    base: float = math.e,
) -> tuple[Tensor, Tensor]:
    """Return the weighted sums of the values (..., T, D) and the weights (..., T, S). The default score is Dot()."""
    weights = softmax((score or Dot())(queries, keys), mask, base)
    return weights @ values, weights


def self_attend(x: Tensor, mask: Tensor | None = None, base: float = math.e) -> tuple[Tensor, Tensor]:
    """Return the outputs and weights of self-attention without parameters: queries, keys and values are the inputs."""
    return attend(x, x, x, mask, base=base)


# --- multi-head attention ----------------------------------------------------------------------------


class MultiHead(nn.Module):
    """Multi-head attention.

    - canonical: each head projects the whole input to width / heads dimensions;
    - narrow: each head projects its own slice of the input;
    - wide: each head projects the whole input to width dimensions.

    The implementation is fused (`scaled_dot_product_attention`), or explicit if `scores` or `weights` has a hook.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        kind: Heads = "canonical",
        key_width: int | None = None,
        value_width: int | None = None,
        scale: Scale = "head",
        divisor: float = 1.0,
        base: float = math.e,
        bias: bool = True,
        normalise: NormKind | None = None,
        dropout: float = 0.0,
        positions: Rotary | Alibi | None = None,
    ) -> None:
        super().__init__()
        has_widths = key_width is not None and value_width is not None
        if kind != "wide" and width % heads and (kind == "narrow" or not has_widths):
            raise ValueError(f"found {heads} heads for a width of {width}, expected a divisor of the width")
        default_width = width if kind == "wide" else width // heads
        self.width, self.heads, self.kind, self.base = width, heads, kind, base
        self.key_width, self.value_width = key_width or default_width, value_width or default_width
        root = {"head": self.key_width**-0.5, "width": width**-0.5, "none": 1.0}[scale]
        self.factor = root * math.log(base) / divisor
        self.dropout = Dropout(dropout)
        self.positions = positions
        self.sizes = [heads * self.key_width, heads * self.key_width, heads * self.value_width]
        # Rows: the queries of all heads, then the keys, then the values. Narrow heads read width / heads inputs.
        self.project = Linear(width // heads if kind == "narrow" else width, sum(self.sizes), bias=bias)
        self.out = Linear(heads * self.value_width, width, bias=bias)
        self.query_norm = make_norm(normalise, self.key_width, bias=False) if normalise else None
        self.key_norm = make_norm(normalise, self.key_width, bias=False) if normalise else None
        self.queries, self.keys, self.values = Site(), Site(), Site()
        self.scores, self.weights, self.outputs = Site(), Site(), Site()

    def forward(
        self,
        x_BTD: Tensor,
        memory: Tensor | KeyValues | None = None,
        *,
        mask: Tensor | None = None,
        causal: bool = False,
        past: KeyValues | None = None,
    ) -> Tensor:
        """Return the output (B, T, D) of self-attention, or with `memory` of cross-attention.

        A memory is a tensor (B, S, D), or its keys and values. `mask` is (T, S) or (B, 1, T, S), of booleans or added
        to the scores. `past` is a KV cache: the keys and values of the new positions are appended to it.
        """
        start = 0 if past is None else past.length
        if memory is None:
            queries, keys, values = self._linear(x_BTD).split(self.sizes, dim=-1)
            queries = self._rotate(self._split_heads(queries, self.query_norm), start)
            keys = self._rotate(self._split_heads(keys, self.key_norm), start)
            values = self._split_heads(values)
        else:
            key_values = memory if isinstance(memory, KeyValues) else self.read(memory)
            assert key_values.keys is not None, "the memory is empty"
            assert key_values.values is not None
            queries = self._linear(x_BTD, slice(0, self.sizes[0]))
            queries = self._rotate(self._split_heads(queries, self.query_norm), start)
            keys, values = key_values.keys, key_values.values
        if past is not None:
            keys, values = past.append(keys, values)
        queries, keys, values = self.queries(queries), self.keys(keys), self.values(values)
        mask, bias = split_mask(mask)
        if bias is not None:
            bias = bias.to(queries.dtype)
        if isinstance(self.positions, Alibi):
            alibi = self.positions(queries.shape[-2], keys.shape[-2])
            bias = alibi if bias is None else alibi + bias
        attention = self._explicit if self.scores.is_hooked or self.weights.is_hooked else self._fused
        outputs_BHTV = self.outputs(attention(queries, keys, values, mask, causal, bias))
        return self.out(outputs_BHTV.transpose(1, 2).flatten(2))

    def read(self, memory_BSD: Tensor) -> KeyValues:
        """Return the keys and values of a memory, to attend to it repeatedly."""
        keys, values = self._linear(memory_BSD, slice(self.sizes[0], None)).split(self.sizes[1:], dim=-1)
        return KeyValues(self._rotate(self._split_heads(keys, self.key_norm), 0), self._split_heads(values))

    def _rotate(self, x_BHTK: Tensor, start: int) -> Tensor:
        return self.positions(x_BHTK, start) if isinstance(self.positions, Rotary) else x_BHTK

    def _linear(self, x: Tensor, rows: slice | None = None) -> Tensor:
        """Return queries, keys and values of all heads, or the given rows of them."""
        if self.kind != "narrow":
            return self.project(x, rows)
        weight: Tensor = self.project.weight
        bias: Tensor | None = self.project.bias
        if rows is not None:
            weight, bias = weight[rows], None if bias is None else bias[rows]
        weights = weight.unflatten(0, (-1, self.heads, self.key_width))
        outputs = torch.einsum("bthd,rhkd->btrhk", x.unflatten(-1, (self.heads, -1)), weights).flatten(2)
        return outputs if bias is None else outputs + bias

    def _split_heads(self, x: Tensor, norm: nn.Module | None = None) -> Tensor:
        """Return (B, H, T, K)."""
        heads: Tensor = x.unflatten(-1, (self.heads, -1))
        if norm is not None:
            heads = norm(heads)
        return heads.transpose(1, 2)

    def _fused(
        self, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, causal: bool, bias: Tensor | None
    ) -> Tensor:
        if queries.device.type == "cpu" and torch.is_autocast_enabled("cpu"):
            is_plain = mask is None and bias is None and not self.dropout.rate
            if is_plain and bfloat16_attention.is_supported(queries, keys, causal):
                return bfloat16_attention.attend(queries, keys, values, self.factor, causal=causal)
            # On CPUs the backward pass of `scaled_dot_product_attention` is slower in bfloat16 than in float32.
            with torch.autocast("cpu", enabled=False):
                return self._fused(queries.float(), keys.float(), values.float(), mask, causal, bias)
        is_square = queries.shape[-2] == keys.shape[-2]
        is_last = causal and queries.shape[-2] == 1  # the last position may attend to all keys
        if mask is None and bias is None and (is_last or is_square or not causal):
            return F.scaled_dot_product_attention(
                queries, keys, values, dropout_p=self.dropout.rate, is_causal=causal and not is_last, scale=self.factor
            )
        combined = _combine_masks(mask, causal, queries, keys)
        if bias is not None:
            bias = bias.to(queries.dtype)
            combined = bias if combined is None else bias.masked_fill(~combined, -math.inf)
        # As in `softmax`, the output of a query whose keys are all masked is zero.
        return F.scaled_dot_product_attention(
            queries, keys, values, attn_mask=combined, dropout_p=self.dropout.rate, scale=self.factor
        )

    def _explicit(
        self, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, causal: bool, bias: Tensor | None
    ) -> Tensor:
        scores_BHTS = queries @ keys.transpose(-1, -2) * self.factor
        if bias is not None:
            scores_BHTS = scores_BHTS + bias
        scores_BHTS = self.scores(scores_BHTS)
        weights_BHTS = self.weights(softmax(scores_BHTS, _combine_masks(mask, causal, queries, keys)))
        return self.dropout(weights_BHTS) @ values


def _combine_masks(mask: Tensor | None, causal: bool, queries: Tensor, keys: Tensor) -> Tensor | None:
    """Return the conjunction of the mask and the causal mask; None if nothing is masked."""
    if not causal:
        return mask
    triangle = causal_mask(queries.shape[-2], keys.shape[-2]).to(queries.device)
    return triangle if mask is None else mask & triangle
