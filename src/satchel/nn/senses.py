"""Senses: what a word may mean, wherever it stands; and how much each of them counts where it does.

Letters: B batch, T time, S time of what is looked at, D width, N senses, K width of a sense's queries and keys,
U distinct words, X senses of all words.
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from satchel.nn.attention import causal_mask, softmax
from satchel.nn.blocks import FeedForward
from satchel.nn.linear import Linear

# Positions whose weights are there at once: none of them needs what comes after the last.
POSITIONS_AT_ONCE = 64


class SenseNetwork(nn.Module):
    """Makes the senses of a word of its vector: the same network for all words (Hewitt et al., 2023).

    As published, the first norm's output is added to the word itself: their block mixes nothing between positions.
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
        """Return the (..., N, D) senses of words with these (..., D) vectors."""
        x = x + self.first_norm(x)
        x = x + self.block(self.second_norm(x))
        hidden = F.gelu(self.widen(self.last_norm(x)), approximate="tanh")
        senses: Tensor = self.spread(hidden).unflatten(-1, (self.senses, self.width))
        return senses


class SenseAttention(nn.Module):
    """How much each sense of each word counts at each position: one softmax per sense over the words that are seen.

    With `nearness`, the score of a word is that much less for each word between it and the position: what is near
    counts more, unless the text says otherwise.
    """

    def __init__(self, width: int, senses: int, *, nearness: float = 0.0) -> None:
        super().__init__()
        self.width, self.senses, self.key_width = width, senses, max(1, width // senses)
        self.nearness = nearness
        self.factor = 1 / math.sqrt(self.key_width)
        # Rows: the queries of all senses, then their keys.
        self.project = Linear(width, 2 * senses * self.key_width)
        nn.init.normal_(self.project.weight, std=0.02)
        nn.init.zeros_(self.project.bias)

    def queries_and_keys(self, x_BTD: Tensor) -> tuple[Tensor, Tensor]:
        """Return both, each (B, N, T, K)."""
        both = self.project(x_BTD).unflatten(-1, (2, self.senses, self.key_width)).permute(2, 0, 3, 1, 4)
        return both[0], both[1]

    def forward(self, queries_BNTK: Tensor, keys_BNSK: Tensor, mask: Tensor | None) -> Tensor:
        """Return the (B, N, T, S) weights; those of a query that may see nothing are zero."""
        scores_BNTS = queries_BNTK @ keys_BNSK.transpose(-1, -2) * self.factor
        if self.nearness:
            positions, words = scores_BNTS.shape[-2:]
            scores_BNTS = scores_BNTS - self.nearness * distances(positions, words, scores_BNTS.device)
        return softmax(scores_BNTS, mask)


def weighted_sum(weights_BNTS: Tensor, senses_BSND: Tensor) -> Tensor:
    """Return the (B, T, D) sums of all senses of all words, each as much as it counts: one product."""
    weights_BTX = weights_BNTS.permute(0, 2, 3, 1).flatten(2)
    return weights_BTX @ senses_BSND.flatten(1, 2)


def weighted_sum_in_blocks(
    attention: SenseAttention, queries_BNTK: Tensor, keys_BNSK: Tensor, senses_BSND: Tensor
) -> Tensor:
    """Return the same for a causal text, some positions at a time: what comes after them is not even looked at."""
    queries_BNTK, keys_BNSK = (part.to(senses_BSND.dtype) for part in (queries_BNTK, keys_BNSK))
    sums: Tensor = _WeightedSumInBlocks.apply(  # type: ignore[no-untyped-call]
        queries_BNTK * attention.factor, keys_BNSK, senses_BSND.flatten(1, 2), attention.nearness
    )
    return sums


class _WeightedSumInBlocks(torch.autograd.Function):
    """Weights and sums of blocks of positions. Going back, gradients are added up in place, and nothing is padded."""

    @staticmethod
    def forward(context: Any, queries_BNTK: Tensor, keys_BNSK: Tensor, senses_BXD: Tensor, nearness: float) -> Tensor:
        senses, length = queries_BNTK.shape[1], queries_BNTK.shape[2]
        blocks, sums = [], []
        with torch.autocast(senses_BXD.device.type, enabled=False):
            for start in range(0, length, POSITIONS_AT_ONCE):
                stop = min(start + POSITIONS_AT_ONCE, length)
                scores_BNTS = queries_BNTK[:, :, start:stop] @ keys_BNSK[:, :, :stop].transpose(-1, -2)
                if nearness:
                    scores_BNTS -= nearness * distances(stop - start, stop, scores_BNTS.device)
                unseen = ~causal_mask(stop - start).to(scores_BNTS.device)
                scores_BNTS[..., start:].masked_fill_(unseen, -math.inf)
                weights_BTX = scores_BNTS.softmax(dim=-1).permute(0, 2, 3, 1).flatten(2)
                sums.append(weights_BTX @ senses_BXD[:, : stop * senses])
                blocks.append(weights_BTX)
        context.save_for_backward(queries_BNTK, keys_BNSK, senses_BXD, *blocks)
        return torch.cat(sums, dim=1)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (sums_BTD,) = gradients
        queries_BNTK, keys_BNSK, senses_BXD, *blocks = context.saved_tensors
        count = queries_BNTK.shape[1]
        of_queries, of_keys, of_senses = (torch.empty_like(part) for part in (queries_BNTK, keys_BNSK, senses_BXD))
        with torch.autocast(senses_BXD.device.type, enabled=False):
            # The last block sees all: it is the first to be added.
            for number, weights_BTX in reversed(list(enumerate(blocks))):
                start = number * POSITIONS_AT_ONCE
                stop, seen = start + weights_BTX.shape[1], weights_BTX.shape[2]
                own_BTD, is_first = sums_BTD[:, start:stop], number == len(blocks) - 1
                of_weights_BTX = own_BTD @ senses_BXD[:, :seen].transpose(-1, -2)
                of_senses[:, :seen].baddbmm_(weights_BTX.transpose(-1, -2), own_BTD, beta=0 if is_first else 1)
                # The gradient of a softmax over the words, sense by sense.
                weights, of_weights = (part.unflatten(-1, (-1, count)) for part in (weights_BTX, of_weights_BTX))
                of_scores_BTSN = torch._softmax_backward_data(of_weights, weights, 2, weights.dtype)
                of_scores_BNTS = of_scores_BTSN.permute(0, 3, 1, 2).contiguous()
                torch.matmul(of_scores_BNTS, keys_BNSK[:, :, :stop], out=of_queries[:, :, start:stop])
                added = of_scores_BNTS.transpose(-1, -2) @ queries_BNTK[:, :, start:stop]
                if is_first:
                    of_keys.copy_(added)
                else:
                    of_keys[:, :, :stop] += added
        return of_queries, of_keys, of_senses, None


def distances(positions: int, words: int, device: torch.device) -> Tensor:
    """Return how far each of so many words is from each of the last positions among them: (T, S)."""
    places = torch.arange(words, device=device)
    return (places[words - positions :, None] - places).abs()


def visible_mask(queries: int, keys: int, keep_BS: Tensor | None, *, causal: bool) -> Tensor | None:
    """Return which words each position sees, (T, S) or (B, 1, T or 1, S); None where it is all of them."""
    seen = causal_mask(queries, keys) if causal else None
    if keep_BS is None:
        return seen
    kept = keep_BS[:, None, None, :]
    return kept if seen is None else kept & seen.to(kept.device)
