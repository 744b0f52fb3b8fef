"""Attention in bfloat16 with its backward pass, from batched matrix products, for training on CPUs.

On CPUs `scaled_dot_product_attention` is no faster in bfloat16 than in float32, and its backward pass is slower; the
batched products of oneDNN are several times as fast. Queries are processed in blocks: the keys after a block are masked
by the causal mask and are not computed. The softmax is computed in float32 internally, and gradients of keys and
values are summed over the blocks in float32. The weights are kept for the backward pass.
Shapes: N batch times heads, T query time, S key time, K head width.
"""

import math
from typing import Any

import torch
from torch import Tensor

BLOCK = 128
# Maximum number of weights per head: above, the memory for the weights is large.
MAX_WEIGHTS = 1 << 20


def is_supported(queries: Tensor, keys: Tensor, causal: bool) -> bool:
    """Return whether `attend` supports the shapes: the mask is causal for as many queries as keys, or there is none."""
    times = queries.shape[-2], keys.shape[-2]
    return times[0] * times[1] <= MAX_WEIGHTS and (times[0] == times[1] or not causal)


def attend(queries_BHTK: Tensor, keys_BHSK: Tensor, values_BHSV: Tensor, factor: float, *, causal: bool) -> Tensor:
    """Return the outputs (B, H, T, V) of attention in bfloat16; the scores are multiplied by the factor."""
    inputs = (each.bfloat16().flatten(0, 1).contiguous() for each in (queries_BHTK, keys_BHSK, values_BHSV))
    outputs_NTV: Tensor = _Attention.apply(*inputs, factor, causal)  # type: ignore[no-untyped-call]
    return outputs_NTV.view(*queries_BHTK.shape[:2], *outputs_NTV.shape[1:])


class _Attention(torch.autograd.Function):
    """softmax(factor * q k^T) v for contiguous tensors."""

    @staticmethod
    def forward(context: Any, queries: Tensor, keys: Tensor, values: Tensor, factor: float, causal: bool) -> Tensor:
        outputs = queries.new_empty(*queries.shape[:2], values.shape[2])
        weights: list[Tensor] = []
        scalar = queries.new_empty(())  # multiplied by 0
        for start, end, last in _blocks(queries, keys, causal):
            scores = torch.baddbmm(scalar, queries[:, start:end], keys[:, :last].mT, beta=0, alpha=factor)
            if causal:
                after = torch.ones(end - start, end - start, dtype=torch.bool).triu_(1)
                scores[:, :, start:].masked_fill_(after, -math.inf)
            weights.append(scores.softmax(dim=-1))
            outputs[:, start:end] = weights[-1] @ values[:, :last]
        context.save_for_backward(queries, keys, values, *weights)
        context.factor, context.causal = factor, causal
        return outputs

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        queries, keys, values, *weights = context.saved_tensors
        gradient_NTV = gradients[0].contiguous()
        by_queries = torch.empty_like(queries)
        # Transposed, so that the large matrices of weights are not.
        by_keys_NKS, by_values_NVS = (
            each.new_zeros(each.shape[0], each.shape[2], each.shape[1], dtype=torch.float32) for each in (keys, values)
        )
        for (start, end, last), block in zip(_blocks(queries, keys, context.causal), weights, strict=True):
            gradient = gradient_NTV[:, start:end]
            by_weights = gradient @ values[:, :last].mT
            by_scores = torch._softmax_backward_data(by_weights, block, -1, block.dtype)
            torch.bmm(by_scores, keys[:, :last], out=by_queries[:, start:end])
            by_keys_NKS[:, :, :last] += queries[:, start:end].mT @ by_scores
            by_values_NVS[:, :, :last] += gradient.mT @ block
        by_keys, by_values = by_keys_NKS.mul_(context.factor).mT, by_values_NVS.mT
        return by_queries.mul_(context.factor), by_keys.to(keys.dtype), by_values.to(values.dtype), None, None


def _blocks(queries: Tensor, keys: Tensor, causal: bool) -> list[tuple[int, int, int]]:
    """Return first query, end of the queries and end of the keys of each block."""
    length = queries.shape[1]
    return [
        (start, min(start + BLOCK, length), min(start + BLOCK, length) if causal else keys.shape[1])
        for start in range(0, length, BLOCK)
    ]
