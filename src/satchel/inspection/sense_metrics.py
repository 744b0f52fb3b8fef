"""How senses fare while they are learned: how sharp they are, how much they add, how alike, and what each is worth.

Letters: N senses, T time, S time of what is looked at, D width.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from satchel.inspection.contributions import record_senses
from satchel.models.backpack import Backpack

# A singular value of a word's senses this many times smaller than the largest adds nothing to their rank.
SMALLEST = 0.01


class Read(NamedTuple):
    """A text no longer than the context, what its (T, D) encodings cost in nats, and for how many answers."""

    ids: Tensor
    cost: Callable[[Tensor], Tensor]
    answers: int


@dataclass(frozen=True)
class SenseHealth:
    """By sense: the entropy of its weights in nats, its share in all that is added, and what a text costs without it.

    `cosine` is how alike two senses of a word are, and `rank` how many of them differ, in the mean over words.
    """

    entropy: tuple[float, ...]
    use: tuple[float, ...]
    cost_without: tuple[float, ...]  # in nats for each answer: a token, a tag, a label
    cosine: float
    rank: float


def sense_health(backpack: Backpack, texts: Sequence[Read]) -> SenseHealth:
    """Return how the senses of a Backpack fare where these texts are read; it has to be ready to answer."""
    found = [_measured(backpack, text) for text in texts]
    cosine, rank = _alike(backpack, torch.cat([text.ids for text in texts]).unique())
    positions, answers = sum(len(text.ids) for text in texts), sum(text.answers for text in texts)
    entropy, amounts, costs = (torch.stack(sums).sum(dim=0) for sums in zip(*found, strict=True))
    return SenseHealth(
        tuple((entropy / positions).tolist()),
        tuple((amounts / amounts.sum()).tolist()),
        tuple((costs / max(1, answers)).tolist()),
        cosine,
        rank,
    )


def _measured(backpack: Backpack, text: Read) -> tuple[Tensor, Tensor, Tensor]:
    """Return sums over positions, by sense: of entropies, of the lengths of what is added, and of what it is worth."""
    weights_NTS, senses_SND = (part.float() for part in record_senses(backpack, text.ids))
    entropy_N = -torch.special.xlogy(weights_NTS / backpack.scale, weights_NTS / backpack.scale).sum(dim=(1, 2))
    amounts_N = torch.einsum("nts,sn->n", weights_NTS, senses_SND.norm(dim=-1))
    with torch.inference_mode():
        parts_NTD = torch.einsum("nts,snd->ntd", weights_NTS, senses_SND)
        all_TD = parts_NTD.sum(dim=0)
        without_N = torch.stack([text.cost(all_TD - own_TD) for own_TD in parts_NTD])
        return entropy_N, amounts_N, without_N - text.cost(all_TD)


def _alike(backpack: Backpack, ids: Tensor) -> tuple[float, float]:
    with torch.inference_mode():
        senses_WND = backpack.lookup(ids).double()
    unit_WND = F.normalize(senses_WND, dim=-1)
    cosines_WNN = unit_WND @ unit_WND.transpose(-1, -2)
    senses = senses_WND.shape[1]
    between = (cosines_WNN.sum(dim=(1, 2)) - senses) / max(1, senses * (senses - 1))
    values_WN = torch.linalg.svdvals(senses_WND)
    rank_W = (values_WN > SMALLEST * values_WN[:, :1]).sum(dim=1)
    return float(between.mean()), float(rank_W.double().mean())
