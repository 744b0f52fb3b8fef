"""Senses: what each sense of a word promotes and suppresses, how alike words are in it, and how much it is used.

What all words share of a sense says nothing about any of them: it is taken away before anything is compared.

Letters: V vocabulary, N senses, D width, W words, T tokens of a word or a text, K words shown.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from satchel.looking.contributions import mean_senses, weighed
from satchel.models.backpack import Backpack
from satchel.predictor import Floats, Ids

# Words of the vocabulary whose scores are made at once.
WORDS_AT_ONCE = 64


@dataclass(frozen=True)
class Promoted:
    """A sense: the tokens it makes likelier and those it makes less likely, most first, and by how much."""

    promotes: tuple[tuple[int, float], ...]
    suppresses: tuple[tuple[int, float], ...]
    coherence: float  # how alike the promoted tokens are to each other, from -1 to 1


class SenseView:
    """The senses of a Backpack language model, centred."""

    def __init__(self, backpack: Backpack, outputs_VD: Tensor) -> None:
        self.backpack = backpack
        self._means_ND = mean_senses(backpack)
        outputs = outputs_VD.detach().double()
        # A constant added to all scores changes no probability.
        self._outputs_VD = outputs - outputs.mean(dim=0)

    def of_word(self, ids_T: Sequence[int]) -> Tensor:
        """Return the (N, D) senses of a word; of several tokens, as much of each as counts at the last of them."""
        ids = torch.tensor(ids_T, device=self._means_ND.device)
        if len(ids_T) == 1:
            with torch.inference_mode():
                return self.backpack.lookup(ids)[0].double() - self._means_ND
        shares_T = torch.zeros(len(ids_T), device=ids.device)
        shares_T[-1] = 1
        counts_TN, senses_TND = weighed(self.backpack, ids, shares_T)
        shares_TN = counts_TN / counts_TN.sum(dim=0).clamp(min=1e-12)
        return torch.einsum("tn,tnd->nd", shares_TN, senses_TND) - self._means_ND

    def promoted(self, senses_ND: Tensor, top: int) -> list[Promoted]:
        """Return what each sense of a word promotes and suppresses."""
        scores_NV = senses_ND @ self._outputs_VD.T
        return [self._promoted(scores_V, min(top, len(scores_V))) for scores_V in scores_NV]

    def _promoted(self, scores_V: Tensor, top: int) -> Promoted:
        high, low = scores_V.topk(top), scores_V.topk(top, largest=False)
        vectors_KD = F.normalize(self._outputs_VD[high.indices], dim=-1)
        alike = vectors_KD @ vectors_KD.T
        pairs = max(1, top * (top - 1))
        return Promoted(
            tuple(zip(high.indices.tolist(), high.values.tolist(), strict=True)),
            tuple(zip(low.indices.tolist(), low.values.tolist(), strict=True)),
            float((alike.sum() - alike.diagonal().sum()) / pairs),
        )

    def nearest(self, senses_ND: Tensor, top: int, excluded: Sequence[int]) -> tuple[Floats, Ids]:
        """Return, for each sense of a word, how alike the likest tokens are in it (N, K), and which they are."""
        own_ND = F.normalize(senses_ND, dim=-1)
        words = torch.arange(self.backpack.embedding.num_embeddings, device=own_ND.device)
        parts = []
        with torch.inference_mode():
            for part in words.split(WORDS_AT_ONCE):
                centred = F.normalize(self.backpack.lookup(part).double() - self._means_ND, dim=-1)
                parts.append(torch.einsum("wnd,nd->nw", centred, own_ND))
        alike_NV = torch.cat(parts, dim=1)
        alike_NV[:, list(excluded)] = -torch.inf
        best = alike_NV.topk(min(top, alike_NV.shape[1] - len(excluded)), dim=-1)
        return best.values.cpu().numpy(), best.indices.cpu().numpy()


@dataclass(frozen=True)
class Similarity:
    """How alike two words are: by each sense, by the least alike, by all side by side, and by any two senses."""

    by_sense: tuple[float, ...]
    least: float
    joined: float
    any_pair: float


def similarity(a_ND: Tensor, b_ND: Tensor) -> Similarity:
    """Return how alike two words are by their senses: cosines."""
    first, second = F.normalize(a_ND, dim=-1), F.normalize(b_ND, dim=-1)
    by_sense = (first * second).sum(dim=-1)
    joined = F.cosine_similarity(a_ND.flatten(), b_ND.flatten(), dim=0)
    return Similarity(tuple(by_sense.tolist()), float(by_sense.min()), float(joined), float((first @ second.T).max()))


def use_of_senses(backpack: Backpack, texts: Sequence[Ids], words: int) -> Floats:
    """Return how much each sense of each word is used in texts: (V, N) sums of the lengths of what it adds.

    What a word's sense adds to an encoding is its vector, as much as it counts there.
    """
    used_VN = np.zeros((words, backpack.settings.senses))
    device = backpack.embedding.weight.device
    for text in texts:
        ids = torch.as_tensor(np.asarray(text, np.int64), device=device)
        counts_TN, senses_TND = weighed(backpack, ids, torch.ones(len(ids), device=device))
        amounts_TN = (counts_TN * senses_TND.norm(dim=-1)).cpu().numpy()
        np.add.at(used_VN, np.asarray(text), amounts_TN)
    return used_VN
