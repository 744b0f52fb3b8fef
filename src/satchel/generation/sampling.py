"""Choosing the next token from a distribution. Letters: B batch, V ids."""

from collections.abc import Sequence

import numpy as np
from pydantic import Field

from satchel.config import Settings
from satchel.predictor import Floats


class Sampling(Settings):
    """How a continuation is drawn; the same for every model."""

    tokens: int = Field(100, ge=1, le=1_000_000, description="the most tokens to add")
    temperature: float = Field(1.0, ge=0, le=100, description="below 1 sharper, above 1 flatter, 0 greedy")
    top_k: int | None = Field(None, ge=1, description="only the k most likely tokens")
    top_p: float | None = Field(None, gt=0, le=1, description="only the most likely tokens that reach this mass")
    min_p: float | None = Field(None, ge=0, le=1, description="only tokens this likely, relative to the likeliest")
    greedy: bool = Field(False, description="always the likeliest token")
    stop: tuple[str, ...] = Field((), description="end where one of these texts appears")
    samples: int = Field(1, ge=1, le=1000, description="how many continuations")
    seed: int = Field(0, ge=0, lt=1 << 63, description="what the draws depend on")


def choose(logprobs_BV: Floats, sampling: Sampling, generators: Sequence[np.random.Generator]) -> list[int]:
    """Return one token per row, drawn with that row's own generator."""
    if sampling.greedy or sampling.temperature == 0:
        return [int(token) for token in logprobs_BV.argmax(axis=1)]
    chances_BV = _softmax(logprobs_BV / sampling.temperature)
    if sampling.top_k is not None and sampling.top_k < chances_BV.shape[1]:
        _keep_best(chances_BV, sampling.top_k)
    if sampling.top_p is not None and sampling.top_p < 1:
        _keep_mass(chances_BV, sampling.top_p)
    if sampling.min_p:
        chances_BV[chances_BV < sampling.min_p * chances_BV.max(axis=1, keepdims=True)] = 0
    sums_BV = chances_BV.cumsum(axis=1)
    draws = [generator.random() for generator in generators]
    # The first id whose sum is above the draw has a chance above zero.
    return [
        int(np.searchsorted(sums, draw * sums[-1], side="right")) for sums, draw in zip(sums_BV, draws, strict=True)
    ]


def _softmax(scores_BV: Floats) -> Floats:
    weights: Floats = np.exp(scores_BV - scores_BV.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    return weights


def _keep_best(chances_BV: Floats, k: int) -> None:
    """Set all but the k largest of each row to zero; of equals at the edge, the first ids stay."""
    for chances in chances_BV:
        edge = np.partition(chances, -k)[-k]
        above = int((chances > edge).sum())
        at_edge = np.flatnonzero(chances == edge)
        chances[chances < edge] = 0
        chances[at_edge[k - above :]] = 0


def _keep_mass(chances_BV: Floats, mass: float) -> None:
    """Keep, of each row, the largest chances until they reach the mass."""
    order_BV = np.argsort(-chances_BV, axis=1, kind="stable")
    for chances, order in zip(chances_BV, order_BV, strict=True):
        sums = chances[order].cumsum()
        kept = int(np.searchsorted(sums, mass * sums[-1])) + 1
        chances[order[kept:]] = 0
