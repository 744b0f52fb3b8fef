"""Contributions: how much each sense of each word adds to a score of a Backpack. They add up to it exactly.

Letters: T time, S time of what is looked at, N senses, D width, U distinct words.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from satchel.models.backpack import Backpack
from satchel.models.contract import Encoder
from satchel.nn.sites import recording
from satchel.predictor import Floats, Ids
from satchel.tasks.classification import ClassificationNetwork
from satchel.tasks.language import LanguageNetwork
from satchel.tasks.tagging import TaggingNetwork


@dataclass(frozen=True)
class Contributions:
    """What each sense of each word adds to a score: (S, N) values, which add up to it with `constant`.

    `centred` has what is left of them without what all words share of a sense, which is the same in any context and
    stands in `shared`, by sense. Centred values, `shared` and `constant` add up to the score too.
    """

    values: Floats
    centred: Floats
    shared: Floats
    constant: float = 0.0  # what the head adds itself

    @property
    def score(self) -> float:
        return float(self.values.sum()) + self.constant


def of_next(network: LanguageNetwork, ids_T: Ids, target: int, versus: int | None = None) -> Contributions:
    """Return what adds to the score of one token after a text; or to how far it is above another's."""
    direction_D = network.head.weight[target]
    if versus is not None:
        direction_D = direction_D - network.head.weight[versus]
    shares_T = torch.zeros(len(ids_T))
    shares_T[-1] = 1
    return _added(network.encoder, ids_T, shares_T, direction_D)


def of_class(network: ClassificationNetwork, ids_T: Ids, label: int) -> Contributions:
    """Return what adds to the score of a label of a text. A text longer than the context is read in windows of it."""
    shares_T = torch.full((len(ids_T),), 1 / max(1, len(ids_T)))
    return _added(network.encoder, ids_T, shares_T, network.head.weight[label], network.head.bias[label].item())


def of_tag(network: TaggingNetwork, ids_T: Ids, place: int, tag: int) -> Contributions:
    """Return what adds to the score of a tag at one place of a text."""
    shares_T = torch.zeros(len(ids_T))
    shares_T[place] = 1
    return _added(network.encoder, ids_T, shares_T, network.head.weight[tag], network.head.bias[tag].item())


def _added(encoder: Encoder, ids_T: Ids, shares_T: Tensor, direction_D: Tensor, constant: float = 0.0) -> Contributions:
    """Return what adds to the score of a direction, in the sum of encodings that have these shares in it."""
    assert isinstance(encoder, Backpack), "only a Backpack's scores are sums over senses"
    device = encoder.embedding.weight.device
    ids = torch.as_tensor(np.asarray(ids_T, np.int64), device=device)
    direction_D = direction_D.detach().double()
    shared_N = mean_senses(encoder) @ direction_D
    values, centred, shared = [], [], torch.zeros_like(shared_N)
    for window, shares in zip(ids.split(encoder.context), shares_T.to(device).split(encoder.context), strict=True):
        counts_SN, senses_SND = weighed(encoder, window, shares)
        units_SN = senses_SND @ direction_D
        values.append(counts_SN * units_SN)
        centred.append(counts_SN * (units_SN - shared_N))
        shared = shared + counts_SN.sum(dim=0) * shared_N
    return Contributions(_array(torch.cat(values)), _array(torch.cat(centred)), _array(shared), constant)


def weighed(backpack: Backpack, ids_T: Tensor, shares_T: Tensor) -> tuple[Tensor, Tensor]:
    """Return how much each sense of each word counts (S, N) in a sum of encodings, and these senses (S, N, D)."""
    with torch.inference_mode(), recording(backpack, "senses", "sense_weights") as found:
        backpack.encode(ids_T[None])
    _, where_S = ids_T.unique(return_inverse=True)
    weights_NTS = found["sense_weights"][0][0].double() * backpack.scale
    counts_SN = torch.einsum("nts,t->sn", weights_NTS, shares_T.double())
    return counts_SN, found["senses"][0].double()[where_S]


def mean_senses(backpack: Backpack) -> Tensor:
    """Return the (N, D) mean over all words of each sense."""
    words = torch.arange(backpack.embedding.num_embeddings, device=backpack.embedding.weight.device)
    total = torch.zeros(backpack.settings.senses, backpack.width, dtype=torch.float64, device=words.device)
    with torch.inference_mode():
        for part in words.split(1024):
            total += backpack.lookup(part).double().sum(dim=0)
    return total / len(words)


def _array(tensor: Tensor) -> Floats:
    return np.asarray(tensor.cpu().numpy())
