"""Probes: how much a linear map can read off vectors, beside what it could learn by heart.

The control (Hewitt and Liang, 2019) is the same map, fitted to tags that belong to words by chance. What it gets right
it has learned word by word; what a probe gets right beyond that is in the vectors (selectivity).

Letters: N words, D width, C tags.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from satchel.data.batches import Ints, seeded_rng
from satchel.predictor import Floats

# How often the weights are changed at most; and how much large weights are held against the map, as one word's worth.
STEPS = 100
PENALTY = 1.0

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class LayerProbe:
    """What can be read off one layer: the share of held-out words whose tag is found, and that of the control."""

    layer: int
    site: str
    accuracy: float
    control: float

    @property
    def selectivity(self) -> float:
        """How much more is found than can be learned by heart."""
        return self.accuracy - self.control


@dataclass(frozen=True)
class Baselines:
    """What needs no network: the tag most words have, and the tag that each word mostly has."""

    majority: float
    by_word: float


def baselines(words: Sequence[str], tags_N: Ints, held_N: Bools) -> Baselines:
    """Return the share of held-out words whose tag is found by counting those that are not held out."""
    counts: dict[str, dict[int, int]] = {}
    for word, tag in zip(np.array(words, object)[~held_N], tags_N[~held_N].tolist(), strict=True):
        own = counts.setdefault(word, {})
        own[tag] = own.get(tag, 0) + 1
    majority = int(np.bincount(tags_N[~held_N]).argmax())
    mostly = {word: max(sorted(own), key=own.__getitem__) for word, own in counts.items()}
    found_N = np.array([mostly.get(word, majority) for word in np.array(words, object)[held_N]], np.int64)
    asked_N = tags_N[held_N]
    return Baselines(float((asked_N == majority).mean()), float((asked_N == found_N).mean()))


def control_tags(words: Sequence[str], tags_N: Ints, seed: int) -> Ints:
    """Return tags that each word has by chance, always the same, as often as words have them in all."""
    chance = seeded_rng("control", seed)
    drawn = {word: tags_N[chance.integers(0, len(tags_N))] for word in sorted(set(words))}
    return np.array([drawn[word] for word in words], np.int64)


def accuracy(vectors_ND: Floats, tags_N: Ints, held_N: Bools) -> float:
    """Return the share of held-out words whose tag a linear map finds that was fitted to the others."""
    inputs_ND = torch.from_numpy(_scaled(vectors_ND, held_N))
    classes, own_N = np.unique(tags_N[~held_N], return_inverse=True)
    weights_DC, bias_C = _fitted(inputs_ND[torch.from_numpy(~held_N)], torch.from_numpy(own_N), len(classes))
    scores_NC = inputs_ND[torch.from_numpy(held_N)] @ weights_DC + bias_C
    return float((classes[scores_NC.argmax(dim=1).numpy()] == tags_N[held_N]).mean())


def _scaled(vectors_ND: Floats, held_N: Bools) -> Floats:
    """Return vectors whose numbers have mean 0 and spread 1: so the same penalty means the same at every layer."""
    exact = np.asarray(vectors_ND, np.float64)
    seen = exact[~held_N]
    spread = seen.std(axis=0)
    scaled: Floats = (exact - seen.mean(axis=0)) / np.where(spread > 1e-12, spread, 1.0)
    return scaled


def _fitted(inputs_ND: Tensor, classes_N: Tensor, classes: int) -> tuple[Tensor, Tensor]:
    """Return the weights and the bias of a softmax over classes. They begin as nothing: chance has no part in it."""
    weights_DC = torch.zeros(inputs_ND.shape[1], classes, dtype=torch.float64, requires_grad=True)
    bias_C = torch.zeros(classes, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS(
        [weights_DC, bias_C], max_iter=STEPS, history_size=10, tolerance_grad=1e-5, line_search_fn="strong_wolfe"
    )

    def loss() -> Tensor:
        optimizer.zero_grad()
        wrong = F.cross_entropy(inputs_ND @ weights_DC + bias_C, classes_N)
        found = wrong + PENALTY / (2 * len(inputs_ND)) * weights_DC.square().sum()
        found.backward()
        return found

    with torch.enable_grad():
        optimizer.step(loss)
    return weights_DC.detach(), bias_C.detach()


def probed(
    layers: dict[str, Floats], words: Sequence[str], tags_N: Ints, held_N: Bools, seed: int
) -> tuple[LayerProbe, ...]:
    """Return what can be read off each layer's (N, D) vectors of words."""
    chance_N = control_tags(words, tags_N, seed)
    return tuple(
        LayerProbe(number, site, accuracy(vectors_ND, tags_N, held_N), accuracy(vectors_ND, chance_N, held_N))
        for number, (site, vectors_ND) in enumerate(layers.items())
    )
