"""Metrics of the senses of a Backpack during training: entropy, use, ablation cost, cosine similarity and rank.

Shapes: N senses, T time, S source time, D width, U unique tokens.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from satchel.inspection.contributions import record_senses
from satchel.models.backpack import Backpack

# Singular values of the senses of a token below this fraction of the largest one do not count for the rank.
MIN_SINGULAR_VALUE = 0.01


class ScoredText(NamedTuple):
    """Ids of a text, at most as many as the context, and its loss.

    `loss` returns the summed loss in nats, given the encodings (T, D); `targets` is the number of summands.
    """

    ids: Tensor
    loss: Callable[[Tensor], Tensor]
    targets: int


@dataclass(frozen=True)
class SenseMetrics:
    """Metrics by sense, and means over tokens.

    By sense: the entropy of its weights in nats, its share of the length of all vectors that are added to encodings
    (`use`), and the increase of the loss per target without it. `cosine` is the mean cosine similarity of two senses of
    a token, and `rank` the mean rank of the senses of a token.
    """

    entropy: tuple[float, ...]
    use: tuple[float, ...]
    cost_without: tuple[float, ...]
    cosine: float
    rank: float


def sense_metrics(backpack: Backpack, texts: Sequence[ScoredText]) -> SenseMetrics:
    """Return the metrics of the senses of a Backpack on texts."""
    sums = [_sums(backpack, text) for text in texts]
    entropy_N, amounts_N, costs_N = (torch.stack(parts).sum(dim=0) for parts in zip(*sums, strict=True))
    positions, targets = sum(len(text.ids) for text in texts), sum(text.targets for text in texts)
    cosine, rank = _similarity(backpack, torch.cat([text.ids for text in texts]).unique())
    return SenseMetrics(
        tuple((entropy_N / positions).tolist()),
        tuple((amounts_N / amounts_N.sum()).tolist()),
        tuple((costs_N / max(1, targets)).tolist()),
        cosine,
        rank,
    )


def _sums(backpack: Backpack, text: ScoredText) -> tuple[Tensor, Tensor, Tensor]:
    """Return sums over positions by sense (N,): entropies, lengths of added vectors, and ablation costs."""
    weights_NTS, senses_SND = (part.float() for part in record_senses(backpack, text.ids))
    entropy_N = -torch.special.xlogy(weights_NTS / backpack.scale, weights_NTS / backpack.scale).sum(dim=(1, 2))
    amounts_N = torch.einsum("nts,sn->n", weights_NTS, senses_SND.norm(dim=-1))
    with torch.inference_mode():
        by_sense_NTD = torch.einsum("nts,snd->ntd", weights_NTS, senses_SND)
        encoded_TD = by_sense_NTD.sum(dim=0)
        losses_N = torch.stack([text.loss(encoded_TD - sense_TD) for sense_TD in by_sense_NTD])
        return entropy_N, amounts_N, losses_N - text.loss(encoded_TD)


def _similarity(backpack: Backpack, ids_U: Tensor) -> tuple[float, float]:
    """Return the mean cosine similarity of two senses of a token, and the mean rank of the senses of a token."""
    with torch.inference_mode():
        senses_UND = backpack.lookup(ids_U).double()
    unit_UND = F.normalize(senses_UND, dim=-1)
    cosines_UNN = unit_UND @ unit_UND.transpose(-1, -2)
    senses = senses_UND.shape[1]
    means_U = (cosines_UNN.sum(dim=(1, 2)) - senses) / max(1, senses * (senses - 1))
    values_UN = torch.linalg.svdvals(senses_UND)
    ranks_U = (values_UN > MIN_SINGULAR_VALUE * values_UN[:, :1]).sum(dim=1)
    return float(means_U.mean()), float(ranks_U.double().mean())
