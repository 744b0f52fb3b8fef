"""Attribution: how much each token adds to a score of any network, by approximations that need no senses.

All of them ask the same: what does a token's vector do to the score that another in its place would not? The other is
the mean of all word vectors, or each of some words' in turn. They ask it of the vectors, so they hold for every encoder
that makes something of vectors.
Letters: T time, D width, N vectors to put in a place, R rows read at once, K steps.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from satchel.errors import SettingsError
from satchel.inspection import contributions
from satchel.models.backpack import Backpack
from satchel.models.encoder import Encoder
from satchel.nn.inference import evaluation_mode
from satchel.nn.senses import SenseNetwork
from satchel.predictor import Floats, Ids
from satchel.tasks.classification import ClassificationNetwork, share
from satchel.tasks.language import LanguageNetwork
from satchel.tasks.tagging import TaggingNetwork

Method = Literal["occlusion", "gradient", "integrated"]
METHODS: tuple[Method, ...] = get_args(Method)
# What is put in the place of a token: the mean of all word vectors; or some words drawn from the vocabulary, in turn.
Instead = Literal["mean", "words"]
INSTEADS: tuple[Instead, ...] = get_args(Instead)
WORDS_DRAWN = 16

# Integrated gradients begin with so many steps, and take twice as many until the gap is small, or until they are too
# many, from all vectors together.
FIRST_STEPS = 8
MOST_STEPS = 1024
# A gap is small if it is this share of what is to be shared out, or this of all that is added and taken away.
SMALL = 0.01
SMALL_OF_ALL = 0.001
# Vectors that a network makes something of at once.
VECTORS_AT_ONCE = 1 << 11
# What is computed on two ways differs by rounding; by more, it is not the same thing.
SAME = 1e-3


@dataclass(frozen=True)
class Asked:
    """A score of a text: the sum of its encodings, each with its share, along a direction; and what the head adds."""

    encoder: Encoder
    ids_T: Tensor
    shares_T: Tensor
    direction_D: Tensor
    constant: float

    def of_vectors(self, x_RTD: Tensor) -> Tensor:
        """Return the score of each row of vectors, in double precision."""
        # A position without a share has no part in it, whatever it holds.
        has_share = self.shares_T.nonzero().flatten()
        encoded_RTD = self.encoded(x_RTD)[:, has_share].double()
        return torch.einsum("rtd,t->rd", encoded_RTD, self.shares_T[has_share]) @ self.direction_D + self.constant

    def encoded(self, x_RTD: Tensor) -> Tensor:
        """Return what the encoder makes of rows of vectors. Long texts are read in windows of its context."""
        parts = x_RTD.split(self._window, dim=1)
        return torch.cat([self.encoder.encoded(self.encoder.contextualise(part)) for part in parts], dim=1)

    def encoded_words(self) -> Tensor:
        """Return what it makes of the words themselves."""
        return torch.cat([self.encoder.encode(part) for part in self.ids_T[None].split(self._window, dim=1)], dim=1)

    @property
    def _window(self) -> int:
        return self.encoder.context or len(self.ids_T)


def next_token(network: LanguageNetwork, ids_T: Ids, target: int, versus: int | None = None) -> Asked:
    """Return the score of one token after a text no longer than the context; or how far it is above another's."""
    return _asked(network.encoder, ids_T, _at(len(ids_T), -1), network.head.weight, None, target, versus)


def label(network: ClassificationNetwork, ids_T: Ids, target: int, versus: int | None = None) -> Asked:
    """Return the score of a label of a text; or how far it is above another's."""
    shares_T = torch.full((len(ids_T),), share(len(ids_T), network.pooling), dtype=torch.float64)
    return _asked(network.encoder, ids_T, shares_T, network.head.weight, network.head.bias, target, versus)


def tag(network: TaggingNetwork, ids_T: Ids, place: int, target: int, versus: int | None = None) -> Asked:
    """Return the score of a tag at one place of a text; or how far it is above another's."""
    return _asked(
        network.encoder, ids_T, _at(len(ids_T), place), network.head.weight, network.head.bias, target, versus
    )


def _at(length: int, place: int) -> Tensor:
    shares_T = torch.zeros(length, dtype=torch.float64)
    shares_T[place] = 1
    return shares_T


def _asked(
    encoder: Encoder,
    ids_T: Ids,
    shares_T: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    target: int,
    versus: int | None,
) -> Asked:
    rows = weight.detach().double()
    constants = rows.new_zeros(len(rows)) if bias is None else bias.detach().double()
    direction_D, constant = rows[target], constants[target]
    if versus is not None:
        direction_D, constant = direction_D - rows[versus], constant - constants[versus]
    ids = torch.as_tensor(np.asarray(ids_T, np.int64), device=weight.device)
    return Asked(encoder, ids, shares_T.to(weight.device), direction_D, constant.item())


@dataclass(frozen=True)
class Attributions:
    """What each token adds to a score by one method: (T,) values.

    `baseline` is the score with another vector in every place, and `score - baseline` what there is to share out.
    """

    method: Method
    values: Floats
    score: float
    baseline: float
    steps: int | None = None  # of integrated gradients

    @property
    def gap(self) -> float:
        """How much more the values add up to than there is to share out."""
        return float(self.values.sum()) - (self.score - self.baseline)

    @property
    def is_complete(self) -> bool:
        """Whether the gap is small."""
        allowed = max(SMALL * abs(self.score - self.baseline), SMALL_OF_ALL * float(np.abs(self.values).sum()))
        return abs(self.gap) <= allowed


def attribute(
    asked: Asked, method: Method = "integrated", *, instead: Instead = "mean", steps: int | None = None
) -> Attributions:
    """Return what each token adds to a score.

    `occlusion` puts another vector in the place of one token after another: what the score loses is the token's.
    `gradient` is the score's slope at the text, times how far each vector is from the other. `integrated` is the same
    with the mean of the slopes on the way there from the other vector in every place (Gauss-Legendre): its values add
    up but for the error of the sum, and without `steps` it takes as many as make that small, within reason.
    """
    with _answering(asked.encoder):
        x_TD, others_ND = _vectors(asked), _others(asked.encoder, instead)
        with torch.no_grad():
            score = asked.of_vectors(x_TD[None]).item()
            baseline = np.mean([asked.of_vectors(other_D.expand(1, *x_TD.shape)).item() for other_D in others_ND])
        if method == "occlusion":
            return Attributions(method, _occluded(asked, x_TD, others_ND), score, float(baseline))
        if method == "gradient":
            slopes_T = _sloped(asked, x_TD, others_ND.mean(dim=0, keepdim=True), np.ones(1), np.ones(1))
            return Attributions(method, slopes_T, score, float(baseline))
        tried = steps or FIRST_STEPS
        while True:
            values_T = _sloped(asked, x_TD, others_ND, *_points(tried))
            found = Attributions(method, values_T, score, float(baseline), tried)
            if steps or found.is_complete or 2 * tried * len(others_ND) > MOST_STEPS:
                return found
            tried *= 2


def exact(asked: Asked) -> contributions.Contributions:
    """Return what the senses of each token of a Backpack add to a score: nothing of it is approximated."""
    ids_T, directions_CD = asked.ids_T.cpu().numpy(), asked.direction_D[None]
    with _answering(asked.encoder):
        (found,) = contributions.along(asked.encoder, ids_T, asked.shares_T, directions_CD, [asked.constant])
    return found


def check_vectors(asked: Asked) -> None:
    """Raise an error if the encoder cannot be asked about vectors, or makes something else of them than of words."""
    encoder = asked.encoder
    if isinstance(encoder, Backpack) and not isinstance(encoder.sense_network, SenseNetwork):
        raise SettingsError(
            "the senses of this Backpack stand in a table: they belong to words, and vectors have none",
            "look at its contributions, which are exact; or train one with model.sense_source=network",
        )
    remedy = "its contextualise must make of the vectors of words what its encode makes of the words"
    with _answering(encoder), torch.no_grad():
        x_TD = _vectors(asked)
        own_RTD = asked.encoded_words()
        try:
            apart = (asked.encoded(x_TD[None]) - own_RTD).abs().max()
        except (AssertionError, NotImplementedError) as error:
            raise SettingsError(f"{type(encoder).__name__} makes nothing of vectors: {error}", remedy) from error
    if apart > SAME * own_RTD.abs().max():
        raise SettingsError(f"{type(encoder).__name__} makes something else of vectors than of their words", remedy)


# --- how they are computed -----------------------------------------------------------------------------


def _vectors(asked: Asked) -> Tensor:
    """Return the vectors of a text (T, D)."""
    with torch.no_grad():
        return asked.encoder.embed(asked.ids_T[None])[0]


def _others(encoder: Encoder, instead: Instead) -> Tensor:
    """Return what is put in the place of tokens: (N, D), one vector or several. The same words are drawn always."""
    table_VD = encoder.embedding.weight.detach()
    if instead == "mean":
        return table_VD.double().mean(dim=0, keepdim=True).to(table_VD)
    drawn = torch.randperm(len(table_VD), generator=torch.Generator().manual_seed(0))[:WORDS_DRAWN]
    return table_VD[drawn.to(table_VD.device)]


def _occluded(asked: Asked, x_TD: Tensor, others_ND: Tensor) -> Floats:
    """Return what the score loses on average where one vector after another is another."""
    places = torch.arange(len(x_TD), device=x_TD.device).repeat_interleave(len(others_ND))
    others = others_ND.repeat(len(x_TD), 1)
    lost, whole = [], x_TD.new_empty(0)
    rows = _rows_at_once(x_TD)
    with torch.no_grad():
        for places_R, others_RD in zip(places.split(rows), others.split(rows), strict=True):
            x_RTD = x_TD.repeat(len(places_R), 1, 1)
            if len(whole) != len(places_R):
                # Rows of one batch may be rounded each its own way: a row is compared with itself.
                whole = asked.of_vectors(x_RTD)
            x_RTD[torch.arange(len(places_R)), places_R] = others_RD
            lost.append(whole - asked.of_vectors(x_RTD))
    return np.asarray(torch.cat(lost).view(len(x_TD), -1).mean(dim=1).cpu().numpy())


def _sloped(asked: Asked, x_TD: Tensor, others_ND: Tensor, points_K: Floats, weights_K: Floats) -> Floats:
    """Return the score's slope, averaged over points on the way to each vector, times how far it is to go there.

    All of the way is 1. Where there are several vectors to come from, it is the mean over them.
    """
    count, steps = len(others_ND), len(points_K)
    points, weights = (torch.as_tensor(each, device=x_TD.device).repeat(count) for each in (points_K, weights_K))
    others = others_ND.repeat_interleave(steps, dim=0)
    values_T = torch.zeros(len(x_TD), dtype=torch.float64, device=x_TD.device)
    for part in torch.arange(count * steps).split(_rows_at_once(x_TD)):
        others_R1D, points_R11 = others[part, None], points[part, None, None].to(x_TD)
        far_RTD = x_TD - others_R1D
        x_RTD = (others_R1D + points_R11 * far_RTD).requires_grad_()
        (slopes_RTD,) = torch.autograd.grad(asked.of_vectors(x_RTD).sum(), x_RTD)
        values_T += torch.einsum("r,rtd,rtd->t", weights[part] / count, slopes_RTD.double(), far_RTD.double())
    return np.asarray(values_T.cpu().numpy())


def _rows_at_once(x_TD: Tensor) -> int:
    return max(1, VECTORS_AT_ONCE // len(x_TD))


@cache
def _points(steps: int) -> tuple[Floats, Floats]:
    """Return where on the way from 0 to 1 to look, and how much each point counts: exact for polynomials."""
    points, weights = np.polynomial.legendre.leggauss(steps)
    return (points + 1) / 2, weights / 2


@contextlib.contextmanager
def _answering(encoder: Encoder) -> Iterator[None]:
    """Run the block with the encoder in evaluation mode and with gradients."""
    # cuDNN's recurrent layers have a backward pass in training mode only.
    with (
        evaluation_mode(encoder),
        torch.inference_mode(False),
        torch.enable_grad(),
        torch.backends.cudnn.flags(enabled=False),
    ):
        yield
