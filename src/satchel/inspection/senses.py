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

from satchel.inspection.contributions import weighed
from satchel.models.backpack import Backpack
from satchel.predictor import Floats, Ids

# Words of the vocabulary whose scores are made at once.
WORDS_AT_ONCE = 64
# A sense whose share is this part of an equal share is as good as never used.
HARDLY_USED = 0.1


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
        self._means_ND = backpack.mean_senses()
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


def amounts(backpack: Backpack, text: Ids) -> Floats:
    """Return how much each sense of each word adds to all encodings of a text: (T, N) lengths.

    What a word's sense adds to an encoding is its vector, as much as it counts there.
    """
    device = backpack.embedding.weight.device
    ids = torch.as_tensor(np.asarray(text, np.int64), device=device)
    counts_TN, senses_TND = weighed(backpack, ids, torch.ones(len(ids), device=device))
    found: Floats = (counts_TN * senses_TND.norm(dim=-1)).cpu().numpy()
    return found


class Use:
    """How senses are used in a text: how much of each word's, and where each is used most."""

    def __init__(self, backpack: Backpack, pieces: Sequence[Ids]) -> None:
        self._ids = np.concatenate([np.asarray(piece, np.int64) for piece in pieces])
        self._amounts_TN = np.concatenate([amounts(backpack, piece) for piece in pieces])

    def shares(self, word: Sequence[int]) -> Floats | None:
        """Return the (N,) shares that its senses have in all that a word adds; None where it is not there."""
        places = self.places(word)
        return self._shared(places, len(word)) if len(places) else None

    def _shared(self, places: Ids, length: int) -> Floats:
        used_N = self._of(places, length).sum(axis=0)
        shares: Floats = used_N / max(used_N.sum(), 1e-300)
        return shares

    def _of(self, places: Ids, length: int) -> Floats:
        found: Floats = np.sum([self._amounts_TN[places + offset] for offset in range(length)], axis=0)
        return found

    def places(self, word: Sequence[int]) -> Ids:
        """Return where a word begins."""
        last = len(self._ids) - len(word) + 1
        is_here = np.ones(max(0, last), bool)
        for offset, id_ in enumerate(word):
            is_here &= self._ids[offset : last + offset] == id_
        return np.flatnonzero(is_here)

    def most(self, word: Sequence[int], sense: int, count: int, around: int) -> list[tuple[Ids, Ids, Ids]]:
        """Return the ids before, of and after a word, where one of its senses adds most of what the word adds."""
        places = self.places(word)
        parts_PN = self._of(places, len(word)) if len(places) else np.empty((0, 0))
        shares_P = parts_PN[:, sense] / np.maximum(parts_PN.sum(axis=1), 1e-300) if len(places) else np.empty(0)
        best = places[np.argsort(-shares_P, kind="stable")[:count]]
        return [
            (
                self._ids[max(0, place - around) : place],
                self._ids[place : place + len(word)],
                self._ids[place + len(word) : place + len(word) + around],
            )
            for place in best
        ]


def pieces_of(ids_T: Ids, boundary: int, longest: int, most: int, *, following: int = 0) -> list[Ids]:
    """Return pieces of a text's documents from all over it, as they are read: about `most` tokens at most.

    Each may go on for as many tokens as follow it.
    """
    ids = np.asarray(ids_T, np.int64)
    starts = np.flatnonzero(ids[:-1] == boundary)
    pieces: list[Ids] = [
        ids[begin : min(begin + longest, stop) + following]
        for start, stop in zip(starts, [*starts[1:], len(ids) - 1], strict=True)
        for begin in range(start, stop, longest)
    ]
    return pieces[:: max(1, -(-len(ids) // most))]
