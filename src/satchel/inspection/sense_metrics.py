"""Metrics of the senses of a Backpack during training: entropy, share, ablation cost, similarity and rank.

Shapes: N senses, T time, S source time, D width, W unique tokens.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from satchel.inspection.contributions import record_senses
from satchel.models.backpack import Backpack

# Singular values of the senses of a token below this fraction of the largest do not count in their rank.
MIN_SINGULAR_VALUE = 0.01


class Read(NamedTuple):
    """A text up to the context length, the loss of its encodings (T, D) in nats, and the number of its targets."""

    ids: Tensor
    cost: Callable[[Tensor], Tensor]
    answers: int


@dataclass(frozen=True)
class SenseHealth:
    """Metrics by sense: entropy of its weights in nats, share of the summed vector lengths, and ablation cost.

    `cost_without` is the increase of the loss without the sense. `cosine` is the mean cosine similarity of two senses
    of a token, and `rank` the mean rank of the senses of a token.
    """

    entropy: tuple[float, ...]
    use: tuple[float, ...]
    cost_without: tuple[float, ...]  # in nats per target: a token, a tag or a label
    cosine: float
    rank: float


def sense_health(backpack: Backpack, texts: Sequence[Read]) -> SenseHealth:
    """Return the metrics of the senses of a Backpack on texts. The Backpack is in evaluation mode."""
    sums = [_sums(backpack, text) for text in texts]
    cosine, rank = _cosine_and_rank(backpack, torch.cat([text.ids for text in texts]).unique())
    positions, answers = sum(len(text.ids) for text in texts), sum(text.answers for text in texts)
    entropy, amounts, costs = (torch.stack(parts).sum(dim=0) for parts in zip(*sums, strict=True))
    return SenseHealth(
        tuple((entropy / positions).tolist()),
        tuple((amounts / amounts.sum()).tolist()),
        tuple((costs / max(1, answers)).tolist()),
        cosine,
        rank,
    )


def _sums(backpack: Backpack, text: Read) -> tuple[Tensor, Tensor, Tensor]:
    """Return sums over positions by sense: entropy, length of the added vectors, and loss increase without it."""
    weights_NTS, senses_SND = (part.float() for part in record_senses(backpack, text.ids))
    entropy_N = -torch.special.xlogy(weights_NTS / backpack.scale, weights_NTS / backpack.scale).sum(dim=(1, 2))
    amounts_N = torch.einsum("nts,sn->n", weights_NTS, senses_SND.norm(dim=-1))
    with torch.inference_mode():
        parts_NTD = torch.einsum("nts,snd->ntd", weights_NTS, senses_SND)
        all_TD = parts_NTD.sum(dim=0)
        without_N = torch.stack([text.cost(all_TD - part_TD) for part_TD in parts_NTD])
        return entropy_N, amounts_N, without_N - text.cost(all_TD)


def _cosine_and_rank(backpack: Backpack, ids: Tensor) -> tuple[float, float]:
    """Return the mean cosine similarity of two senses of a token, and the mean rank of its senses."""
    with torch.inference_mode():
        senses_WND = backpack.lookup(ids).double()
    unit_WND = F.normalize(senses_WND, dim=-1)
    cosines_WNN = unit_WND @ unit_WND.transpose(-1, -2)
    senses = senses_WND.shape[1]
    between = (cosines_WNN.sum(dim=(1, 2)) - senses) / max(1, senses * (senses - 1))
    values_WN = torch.linalg.svdvals(senses_WND)
    rank_W = (values_WN > MIN_SINGULAR_VALUE * values_WN[:, :1]).sum(dim=1)
    return float(between.mean()), float(rank_W.double().mean())
