"""Attention: who looks at whom, and what comes of it.

A mask is True where a query may look at a key. Where it may not, the score is -inf and the weight exactly 0;
a query that may look at nothing gets zeros.
Letters: B batch, T time of the queries, S time of the keys, D width, H heads, K head width.
"""

import math
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from satchel.nn.dropout import Dropout
from satchel.nn.kv_cache import AppendBuffer
from satchel.nn.linear import Linear
from satchel.nn.norms import NormKind, make_norm
from satchel.nn.positions import Alibi, Rotary
from satchel.nn.sites import Site

Heads = Literal["canonical", "narrow", "wide"]
Scale = Literal["head", "width", "none"]


# --- masks -------------------------------------------------------------------------------------------


def causal_mask(queries: int, keys: int | None = None) -> Tensor:
    """Return the (T, S) mask under which the last query sees all keys, and each one before it one key fewer."""
    keys = queries if keys is None else keys
    return torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries)


def softmax(scores: Tensor, mask: Tensor | None = None, base: float = math.e) -> Tensor:
    """Return weights that sum to one over the last axis: base ** score, shared out. Rows that see nothing are zero."""
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    if base != math.e:
        scores = scores * math.log(base)
    weights = scores.softmax(dim=-1)
    # 0 / 0 where every score is -inf.
    return weights if mask is None else weights.masked_fill(~mask.any(dim=-1, keepdim=True), 0.0)


# --- scores ------------------------------------------------------------------------------------------


class Dot(nn.Module):
    """Scores a query and a key by their dot product, divided by the square root of a width where one is given."""

    def __init__(self, width: int | None = None) -> None:
        super().__init__()
        self.factor = 1.0 if width is None else 1 / math.sqrt(width)

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Return the (..., T, S) scores."""
        return queries @ keys.transpose(-1, -2) * self.factor


class General(nn.Module):
    """Scores by q W k: the widths of queries and keys may differ."""

    def __init__(self, query_width: int, key_width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(query_width, key_width))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Return the (..., T, S) scores."""
        return queries @ self.weight @ keys.transpose(-1, -2)


class Additive(nn.Module):
    """Scores by v tanh(W q + U k) (Bahdanau et al., 2015)."""

    def __init__(self, query_width: int, key_width: int, hidden: int) -> None:
        super().__init__()
        self.query = nn.Linear(query_width, hidden, bias=False)
        self.key = nn.Linear(key_width, hidden)
        self.out = nn.Linear(hidden, 1, bias=False)

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Return the (..., T, S) scores."""
        both = self.query(queries).unsqueeze(-2) + self.key(keys).unsqueeze(-3)
        scores: Tensor = self.out(both.tanh()).squeeze(-1)
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
    """Return the weighted sums of the values (..., T, D), and the (..., T, S) weights. The usual score is Dot()."""
    weights = softmax((score or Dot())(queries, keys), mask, base)
    return weights @ values, weights


def self_attend(x: Tensor, mask: Tensor | None = None, base: float = math.e) -> tuple[Tensor, Tensor]:
    """Return basic self-attention: every vector is query, key and value, and there are no parameters."""
    return attend(x, x, x, mask, base=base)


# --- many heads --------------------------------------------------------------------------------------


class MultiHead(nn.Module):
    """Attention in several heads, each with its own queries, keys and values; a linear map joins what they found.

    - canonical: each head projects the whole input to its own, smaller space;
    - narrow: each head has its own part of the input and projects that;
    - wide: each head projects the whole input to vectors as wide as the input.

    It is fast (`scaled_dot_product_attention`) as long as nobody watches `scores` or `weights`.
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
        given = key_width is not None and value_width is not None
        if kind != "wide" and width % heads and (kind == "narrow" or not given):
            raise ValueError(f"found {heads} heads for a width of {width}, expected a divisor of it")
        own = width if kind == "wide" else width // heads
        self.width, self.heads, self.kind, self.base = width, heads, kind, base
        self.key_width, self.value_width = key_width or own, value_width or own
        root = {"head": self.key_width**-0.5, "width": width**-0.5, "none": 1.0}[scale]
        self.factor = root * math.log(base) / divisor
        self.dropout = Dropout(dropout)
        self.positions = positions
        self.sizes = [heads * self.key_width, heads * self.key_width, heads * self.value_width]
        # Rows: the queries of all heads, then their keys, then their values. Narrow heads see just their part.
        self.project = Linear(width // heads if kind == "narrow" else width, sum(self.sizes), bias=bias)
        self.out = Linear(heads * self.value_width, width, bias=bias)
        self.query_norm = make_norm(normalise, self.key_width, bias=False) if normalise else None
        self.key_norm = make_norm(normalise, self.key_width, bias=False) if normalise else None
        self.queries, self.keys, self.values = Site(), Site(), Site()
        self.scores, self.weights, self.outputs = Site(), Site(), Site()

    def forward(
        self,
        x_BTD: Tensor,
        memory: "Tensor | KeyValues | None" = None,
        *,
        mask: Tensor | None = None,
        causal: bool = False,
        past: "KeyValues | None" = None,
    ) -> Tensor:
        """Return what each position found (B, T, D): in the memory, or without one in the input itself.

        A memory is (B, S, D) vectors, or what was read of them. `mask` is (T, S), or (B, 1, T, S) where it differs by
        row of the batch; `causal` lets no position see a later one. With `past`, what was read before is seen too,
        and what is read now is added to it.
        """
        start = 0 if past is None else past.length
        if memory is None:
            queries, keys, values = self._by_heads(self._linear(x_BTD).split(self.sizes, dim=-1), start)
        else:
            read = memory if isinstance(memory, KeyValues) else self.read(memory)
            assert read.keys is not None, "a memory is read before it is looked at"
            assert read.values is not None
            # Only the rows that are used: the queries' of one input, the others' of the other.
            queries = self._placed(self._by_head(self._linear(x_BTD, slice(0, self.sizes[0])), self.query_norm), start)
            keys, values = read.keys, read.values
        if past is not None:
            keys, values = past.append(keys, values)
        queries, keys, values = self.queries(queries), self.keys(keys), self.values(values)
        bias = self.positions(queries.shape[-2], keys.shape[-2]) if isinstance(self.positions, Alibi) else None
        if self.scores.is_watched or self.weights.is_watched:
            found = self._visible(queries, keys, values, mask, causal, bias)
        else:
            found = self._fused(queries, keys, values, mask, causal, bias)
        found_BTHV = self.outputs(found).transpose(1, 2)
        joined: Tensor = self.out(found_BTHV.flatten(2))
        return joined

    def read(self, memory_BSD: Tensor) -> "KeyValues":
        """Return the keys and values of a memory: read once, it can be looked at as often as one likes."""
        keys, values = self._linear(memory_BSD, slice(self.sizes[0], None)).split(self.sizes[1:], dim=-1)
        return KeyValues(self._placed(self._by_head(keys, self.key_norm), 0), self._by_head(values))

    def _by_heads(self, parts: tuple[Tensor, ...], start: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, keys and values as (B, H, T, K)."""
        queries, keys, values = parts
        queries, keys = self._by_head(queries, self.query_norm), self._by_head(keys, self.key_norm)
        return self._placed(queries, start), self._placed(keys, start), self._by_head(values)

    def _placed(self, x_BHTK: Tensor, start: int) -> Tensor:
        return self.positions(x_BHTK, start) if isinstance(self.positions, Rotary) else x_BHTK

    def _linear(self, x: Tensor, rows: slice | None = None) -> Tensor:
        if self.kind != "narrow":
            projected: Tensor = self.project(x, rows)
            return projected
        weight: Tensor = self.project.weight
        bias: Tensor | None = self.project.bias
        if rows is not None:
            weight, bias = weight[rows], None if bias is None else bias[rows]
        weights = weight.unflatten(0, (-1, self.heads, self.key_width))
        parts = torch.einsum("bthd,rhkd->btrhk", x.unflatten(-1, (self.heads, -1)), weights).flatten(2)
        return parts if bias is None else parts + bias

    def _by_head(self, x: Tensor, norm: nn.Module | None = None) -> Tensor:
        parts: Tensor = x.unflatten(-1, (self.heads, -1))
        if norm is not None:
            parts = norm(parts)
        return parts.transpose(1, 2)

    def _fused(
        self, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, causal: bool, bias: Tensor | None
    ) -> Tensor:
        if queries.device.type == "cpu" and torch.is_autocast_enabled("cpu"):
            # On a processor, the gradient of torch's attention takes six times as long in bfloat16 as in float32.
            with torch.autocast("cpu", enabled=False):
                return self._fused(queries.float(), keys.float(), values.float(), mask, causal, bias)
        square = queries.shape[-2] == keys.shape[-2]
        alone = causal and queries.shape[-2] == 1  # the last position may see everything
        if mask is None and bias is None and (alone or square or not causal):
            return F.scaled_dot_product_attention(
                queries, keys, values, dropout_p=self.dropout.share, is_causal=causal and not alone, scale=self.factor
            )
        seen = _seen(mask, causal, queries, keys)
        allowed = seen
        if bias is not None:
            allowed = bias if seen is None else bias.masked_fill(~seen, -math.inf)
        # Where a query sees nothing, torch gives zeros too.
        return F.scaled_dot_product_attention(
            queries, keys, values, attn_mask=allowed, dropout_p=self.dropout.share, scale=self.factor
        )

    def _visible(
        self, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, causal: bool, bias: Tensor | None
    ) -> Tensor:
        scores_BHTS = queries @ keys.transpose(-1, -2) * self.factor
        if bias is not None:
            scores_BHTS = scores_BHTS + bias
        scores_BHTS = self.scores(scores_BHTS)
        weights_BHTS = self.weights(softmax(scores_BHTS, _seen(mask, causal, queries, keys)))
        found: Tensor = self.dropout(weights_BHTS) @ values
        return found


def _seen(mask: Tensor | None, causal: bool, queries: Tensor, keys: Tensor) -> Tensor | None:
    """Return which keys each query may look at; None where it is all of them."""
    if not causal:
        return mask
    triangle = causal_mask(queries.shape[-2], keys.shape[-2]).to(queries.device)
    return triangle if mask is None else mask & triangle


class KeyValues:
    """The keys and values of what a layer has read so far."""

    def __init__(self, keys: Tensor | None = None, values: Tensor | None = None) -> None:
        self._keys = None if keys is None else AppendBuffer(keys)
        self._values = None if values is None else AppendBuffer(values)

    @property
    def keys(self) -> Tensor | None:
        return None if self._keys is None else self._keys.values

    @property
    def values(self) -> Tensor | None:
        return None if self._values is None else self._values.values

    @property
    def length(self) -> int:
        return 0 if self._keys is None else self._keys.length

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Return all keys and values, the new ones last."""
        self._keys = AppendBuffer(keys) if self._keys is None else self._keys.add(keys)
        self._values = AppendBuffer(values) if self._values is None else self._values.add(values)
        return self._keys.values, self._values.values

    def select(self, rows: Tensor) -> "KeyValues":
        """Return those of some rows of the batch, in that order."""
        some = KeyValues()
        if self._keys is not None and self._values is not None:
            some._keys, some._values = self._keys.select(rows), self._values.select(rows)
        return some

    def __copy__(self) -> "KeyValues":
        """Return one to which more can be added, and this one stays as it is."""
        same = KeyValues()
        same._keys, same._values = self._keys, self._values
        return same
