"""Contributions: how much each sense of each word adds to a score of a Backpack. They add up to it exactly.

Letters: T time, S time of what is looked at, N senses, D width, U distinct words, V vocabulary, C classes.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from satchel.models.backpack import Backpack
from satchel.models.encoder import Encoder
from satchel.nn.sites import recording
from satchel.predictor import Floats, Ids
from satchel.tasks.classification import ClassificationNetwork, share
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
    (found,) = along(network.encoder, ids_T, shares_T, direction_D[None], [0.0])
    return found


def of_classes(network: ClassificationNetwork, ids_T: Ids) -> list[Contributions]:
    """Return what adds to the score of each label of a text, which is read in windows if it is longer than one."""
    shares_T = torch.full((len(ids_T),), share(len(ids_T), network.pooling))
    return along(network.encoder, ids_T, shares_T, network.head.weight, network.head.bias.tolist())


def of_tag(network: TaggingNetwork, ids_T: Ids, place: int, tag: int) -> Contributions:
    """Return what adds to the score of a tag at one place of a text."""
    shares_T = torch.zeros(len(ids_T))
    shares_T[place] = 1
    bias = network.head.bias[tag].item()
    (found,) = along(network.encoder, ids_T, shares_T, network.head.weight[tag][None], [bias])
    return found


def along(
    encoder: Encoder, ids_T: Ids, shares_T: Tensor, directions_CD: Tensor, constants: list[float]
) -> list[Contributions]:
    """Return what adds to the score of each direction, in the sum of encodings that have these shares in it."""
    assert isinstance(encoder, Backpack), "only a Backpack's scores are sums over senses"
    device = encoder.embedding.weight.device
    ids = torch.as_tensor(np.asarray(ids_T, np.int64), device=device)
    directions_CD = directions_CD.detach().double()
    shared_CN = (encoder.mean_senses() @ directions_CD.T).T
    # A text without a word has no values.
    nothing_CSN = shared_CN[:, None][:, :0]
    values, centred, shared = [nothing_CSN], [nothing_CSN], torch.zeros_like(shared_CN)
    for window, shares in zip(ids.split(encoder.context), shares_T.to(device).split(encoder.context), strict=True):
        if not len(window):
            continue
        counts_SN, senses_SND = weighed(encoder, window, shares)
        units_CSN = torch.einsum("snd,cd->csn", senses_SND, directions_CD)
        values.append(counts_SN * units_CSN)
        centred.append(counts_SN * (units_CSN - shared_CN[:, None]))
        shared = shared + counts_SN.sum(dim=0) * shared_CN
    parts = zip(torch.cat(values, dim=1), torch.cat(centred, dim=1), shared, constants, strict=True)
    return [Contributions(_array(own), _array(left), _array(same), constant) for own, left, same, constant in parts]


def of_text(network: LanguageNetwork, ids_T: Ids, target: int | None = None, versus: int | None = None) -> Floats:
    """Return what each sense of each word adds at every position of a text no longer than the context: (T, S, N).

    It adds to the score of a token, or of that which follows; above another's, or above the mean of all.
    """
    encoder, outputs_VD = network.encoder, network.head.weight.detach().double()
    assert isinstance(encoder, Backpack), "only a Backpack's scores are sums over senses"
    ids = torch.as_tensor(np.asarray(ids_T, np.int64), device=outputs_VD.device)
    follows_T = ids[1:] if target is None else torch.full_like(ids[1:], target)
    other_D = outputs_VD.mean(dim=0) if versus is None else outputs_VD[versus]
    weights_NTS, senses_SND = looked(encoder, ids[:-1])
    units_TSN = torch.einsum("snd,td->tsn", senses_SND, outputs_VD[follows_T] - other_D)
    return _array(weights_NTS.permute(1, 2, 0) * units_TSN)


def weighed(backpack: Backpack, ids_T: Tensor, shares_T: Tensor) -> tuple[Tensor, Tensor]:
    """Return how much each sense of each word counts (S, N) in a sum of encodings, and these senses (S, N, D)."""
    weights_NTS, senses_SND = looked(backpack, ids_T)
    return torch.einsum("nts,t->sn", weights_NTS, shares_T.double()), senses_SND


def looked(backpack: Backpack, ids_T: Tensor) -> tuple[Tensor, Tensor]:
    """Return how much each sense of each word counts at each position (N, T, S), and these senses (S, N, D)."""
    with torch.inference_mode(), recording(backpack, "senses", "sense_weights") as found:
        backpack.encode(ids_T[None])
    _, where_S = ids_T.unique(return_inverse=True)
    return found["sense_weights"][0][0].double() * backpack.scale, found["senses"][0].double()[where_S]


def _array(tensor: Tensor) -> Floats:
    return np.asarray(tensor.cpu().numpy())
