"""Sense vectors of tokens, their weights in context, and their weighted sums.

Shapes: B batch, T time, S source time, D width, N senses, K width of a sense's queries and keys, U unique tokens,
X (position, sense) pairs.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from satchel.nn.attention import causal_mask, softmax
from satchel.nn.blocks import FeedForward
from satchel.nn.linear import Linear

# Number of query positions whose sense weights are in memory at once.
BLOCK_LENGTH = 64


class SenseNetwork(nn.Module):
    """Computes the sense vectors of a token from its embedding (Hewitt et al., 2023).

    As in the published code, the first sublayer adds the normed embedding itself, where a Transformer block would add
    the output of its attention.
    """

    def __init__(self, width: int, senses: int, *, hidden: int | None = None) -> None:
        super().__init__()
        self.width, self.senses = width, senses
        self.first_norm, self.second_norm, self.last_norm = (nn.LayerNorm(width) for _ in range(3))
        self.block = FeedForward(width, hidden or 4 * width, "gelu-tanh")
        self.widen = Linear(width, hidden or 4 * width)
        self.spread = Linear(hidden or 4 * width, senses * width)
        for name, parameter in self.named_parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, x: Tensor) -> Tensor:
        """Return the sense vectors (..., N, D) of tokens with embeddings (..., D)."""
        x = x + self.first_norm(x)
        x = x + self.block(self.second_norm(x))
        hidden = F.gelu(self.widen(self.last_norm(x)), approximate="tanh")
        senses: Tensor = self.spread(hidden).unflatten(-1, (self.senses, self.width))
        return senses


class SenseAttention(nn.Module):
    """Computes sense weights: for each sense, a softmax over the visible positions.

    With `nearness`, each position of distance subtracts that constant from the score.
    """

    def __init__(self, width: int, senses: int, *, nearness: float = 0.0) -> None:
        super().__init__()
        self.width, self.senses, self.key_width = width, senses, max(1, width // senses)
        self.nearness = nearness
        self.factor = 1 / math.sqrt(self.key_width)
        # Rows: the queries of all senses, then the keys of all senses.
        self.project = Linear(width, 2 * senses * self.key_width)
        nn.init.normal_(self.project.weight, std=0.02)
        nn.init.zeros_(self.project.bias)

    def queries_and_keys(self, x_BTD: Tensor) -> tuple[Tensor, Tensor]:
        """Return queries and keys, each (B, N, T, K)."""
        both = self.project(x_BTD).unflatten(-1, (2, self.senses, self.key_width)).permute(2, 0, 3, 1, 4)
        return both[0], both[1]

    def forward(self, queries_BNTK: Tensor, keys_BNSK: Tensor, mask: Tensor | None) -> Tensor:
        """Return the sense weights (B, N, T, S); zeros for a query whose keys are all masked."""
        scores_BNTS = queries_BNTK @ keys_BNSK.transpose(-1, -2) * self.factor
        if self.nearness:
            queries, keys = scores_BNTS.shape[-2:]
            scores_BNTS = scores_BNTS - self.nearness * distances(queries, keys, scores_BNTS.device)
        return softmax(scores_BNTS, mask)


def gather_senses(senses_UND: Tensor, rows: Tensor) -> Tensor:
    """Return the sense vectors (..., N, D) at the given rows (...)."""
    vectors = senses_UND.flatten(1)
    gather: Callable[[Tensor, Tensor], Tensor] = _Gather.apply if vectors.dtype == torch.bfloat16 else _embed
    gathered: Tensor = gather(vectors, rows).unflatten(-1, senses_UND.shape[1:])
    return gathered


def _embed(vectors: Tensor, rows: Tensor) -> Tensor:
    return F.embedding(rows, vectors)


class _Gather(torch.autograd.Function):
    """Rows of a bfloat16 matrix. The gradients of a row, one per occurrence of its token, are summed in float32."""

    @staticmethod
    def forward(context: Any, vectors: Tensor, rows: Tensor) -> Tensor:
        context.save_for_backward(rows)
        context.count = len(vectors)
        return F.embedding(rows, vectors)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (rows,) = context.saved_tensors
        sums = torch.ops.aten.embedding_dense_backward(gradients[0].float(), rows, context.count, -1, False)
        return sums.to(gradients[0].dtype), None


def weighted_sum(weights_BNTS: Tensor, senses_BSND: Tensor) -> Tensor:
    """Return the sums (B, T, D) of sense vectors over positions and senses, as one matrix product."""
    weights_BTX = weights_BNTS.permute(0, 2, 3, 1).flatten(2)
    return weights_BTX @ senses_BSND.flatten(1, 2)


def weighted_sum_in_blocks(
    attention: SenseAttention, queries_BNTK: Tensor, keys_BNSK: Tensor, senses_BSND: Tensor
) -> Tensor:
    """Return the causal weighted sums (B, T, D), computed for a block of query positions at a time.

    A block skips the keys after its last position, and backward stores no padded gradients of slices.
    """
    queries_BNTK, keys_BNSK = (part.to(senses_BSND.dtype) for part in (queries_BNTK, keys_BNSK))
    sums: Tensor = _WeightedSumInBlocks.apply(  # type: ignore[no-untyped-call]
        queries_BNTK * attention.factor, keys_BNSK, senses_BSND.flatten(1, 2), attention.nearness
    )
    return sums


class _WeightedSumInBlocks(torch.autograd.Function):
    """Causal sense attention with a hand-written backward pass.

    Forward, for the query positions t of a block and each sense n, with the scaling folded into the queries q:

        z[t,n,s] = q[t,n] . k[s,n] - nearness * |t - s|     for s <= t, else -inf
        a[t,n,s] = softmax over s of z[t,n,s]
        o[t]     = sum over s, n of a[t,n,s] C[s,n]

    Backward, with g[t] = dL/do[t]:

        dL/dC[s,n]   = sum over t of a[t,n,s] g[t]
        dL/da[t,n,s] = g[t] . C[s,n]
        dL/dz[t,n,s] = a[t,n,s] (dL/da[t,n,s] - sum over r of a[t,n,r] dL/da[t,n,r])     (softmax)
        dL/dq[t,n]   = sum over s of dL/dz[t,n,s] k[s,n]
        dL/dk[s,n]   = sum over t of dL/dz[t,n,s] q[t,n]

    Masked positions have a = 0, hence dL/dz = 0. The nearness term is constant. The sums over t are accumulated over
    the blocks in place. The pairs (s, n) form the axis X, so that the sums over s and n are single matrix products.
    """

    @staticmethod
    def forward(context: Any, queries_BNTK: Tensor, keys_BNSK: Tensor, senses_BXD: Tensor, nearness: float) -> Tensor:
        senses, length = queries_BNTK.shape[1], queries_BNTK.shape[2]
        blocks, sums = [], []
        with torch.autocast(senses_BXD.device.type, enabled=False):
            for start in range(0, length, BLOCK_LENGTH):
                stop = min(start + BLOCK_LENGTH, length)
                scores_BNTS = queries_BNTK[:, :, start:stop] @ keys_BNSK[:, :, :stop].transpose(-1, -2)
                if nearness:
                    scores_BNTS -= nearness * distances(stop - start, stop, scores_BNTS.device)
                # Keys before the block are visible to all of its queries.
                masked = ~causal_mask(stop - start).to(scores_BNTS.device)
                scores_BNTS[..., start:].masked_fill_(masked, -math.inf)
                weights_BTX = scores_BNTS.softmax(dim=-1).permute(0, 2, 3, 1).flatten(2)
                sums.append(weights_BTX @ senses_BXD[:, : stop * senses])
                blocks.append(weights_BTX)
        context.save_for_backward(queries_BNTK, keys_BNSK, senses_BXD, *blocks)
        return torch.cat(sums, dim=1)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (sums_grad_BTD,) = gradients
        queries_BNTK, keys_BNSK, senses_BXD, *blocks = context.saved_tensors
        count = queries_BNTK.shape[1]
        queries_grad, keys_grad, senses_grad = (
            torch.empty_like(part) for part in (queries_BNTK, keys_BNSK, senses_BXD)
        )
        with torch.autocast(senses_BXD.device.type, enabled=False):
            # The last block covers all keys, so it comes first and initialises the accumulated gradients.
            for number, weights_BTX in reversed(list(enumerate(blocks))):
                start = number * BLOCK_LENGTH
                stop, pairs = start + weights_BTX.shape[1], weights_BTX.shape[2]
                grad_BTD, is_first = sums_grad_BTD[:, start:stop], number == len(blocks) - 1
                # dL/da and dL/dC
                weights_grad_BTX = grad_BTD @ senses_BXD[:, :pairs].transpose(-1, -2)
                senses_grad[:, :pairs].baddbmm_(weights_BTX.transpose(-1, -2), grad_BTD, beta=0 if is_first else 1)
                # dL/dz
                weights_BTSN, weights_grad_BTSN = (
                    part.unflatten(-1, (-1, count)) for part in (weights_BTX, weights_grad_BTX)
                )
                scores_grad_BTSN = torch._softmax_backward_data(weights_grad_BTSN, weights_BTSN, 2, weights_BTSN.dtype)
                scores_grad_BNTS = scores_grad_BTSN.permute(0, 3, 1, 2).contiguous()
                # dL/dq and dL/dk
                torch.matmul(scores_grad_BNTS, keys_BNSK[:, :, :stop], out=queries_grad[:, :, start:stop])
                block_keys_grad = scores_grad_BNTS.transpose(-1, -2) @ queries_BNTK[:, :, start:stop]
                if is_first:
                    keys_grad.copy_(block_keys_grad)
                else:
                    keys_grad[:, :, :stop] += block_keys_grad
        return queries_grad, keys_grad, senses_grad, None


def distances(queries: int, keys: int, device: torch.device) -> Tensor:
    """Return the distance (T, S) between each query and key position; the last query is at the last key."""
    positions_S = torch.arange(keys, device=device)
    return (positions_S[keys - queries :, None] - positions_S).abs()


def visible_mask(queries: int, keys: int, keep_BS: Tensor | None, *, causal: bool) -> Tensor | None:
    """Return the mask of keys visible to each query, (T, S) or (B, 1, T or 1, S); None if all are."""
    visible = causal_mask(queries, keys) if causal else None
    if keep_BS is None:
        return visible
    kept = keep_BS[:, None, None, :]
    return kept if visible is None else kept & visible.to(kept.device)
