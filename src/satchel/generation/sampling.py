"""Sampling the next token from a distribution. Shapes: B batch, V vocabulary."""

from collections.abc import Sequence

import numpy as np
from pydantic import Field

from satchel.config import Settings
from satchel.predictor import Floats


class Sampling(Settings):
    """Sampling settings, shared by all models."""

    tokens: int = Field(100, ge=1, le=1_000_000, description="maximum number of tokens to generate")
    temperature: float = Field(1.0, ge=0, le=100, description="softmax temperature; 0 is greedy decoding")
    top_k: int | None = Field(None, ge=1, description="sample from the k most probable tokens only")
    top_p: float | None = Field(None, gt=0, le=1, description="sample from the smallest set with this probability mass")
    min_p: float | None = Field(None, ge=0, le=1, description="minimum probability relative to the most probable token")
    greedy: bool = Field(False, description="always choose the most probable token")
    stop: tuple[str, ...] = Field((), description="stop strings: generation ends before the first of them")
    samples: int = Field(1, ge=1, le=1000, description="number of continuations")
    seed: int = Field(0, ge=0, lt=1 << 63, description="random seed")


def choose(logprobs_BV: Floats, sampling: Sampling, generators: Sequence[np.random.Generator]) -> list[int]:
    """Return one token per row, sampled with the row's random generator."""
    if sampling.greedy or sampling.temperature == 0:
        return [int(token) for token in logprobs_BV.argmax(axis=1)]
    scores_BV = logprobs_BV / sampling.temperature
    probabilities_BV: Floats = np.exp(scores_BV - scores_BV.max(axis=1, keepdims=True))
    probabilities_BV /= probabilities_BV.sum(axis=1, keepdims=True)
    if sampling.top_k is not None and sampling.top_k < probabilities_BV.shape[1]:
        _keep_top_k(probabilities_BV, sampling.top_k)
    if sampling.top_p is not None and sampling.top_p < 1:
        _keep_top_p(probabilities_BV, sampling.top_p)
    if sampling.min_p:
        probabilities_BV[probabilities_BV < sampling.min_p * probabilities_BV.max(axis=1, keepdims=True)] = 0
    sums_BV = probabilities_BV.cumsum(axis=1)
    draws = [generator.random() for generator in generators]
    # side="right": the chosen id always has a non-zero probability.
    return [
        int(np.searchsorted(sums, draw * sums[-1], side="right")) for sums, draw in zip(sums_BV, draws, strict=True)
    ]


def _keep_top_k(probabilities_BV: Floats, k: int) -> None:
    """Set all but the k largest values of each row to zero; ties are resolved in favour of smaller ids."""
    for probabilities in probabilities_BV:
        threshold = np.partition(probabilities, -k)[-k]
        above = int((probabilities > threshold).sum())
        ties = np.flatnonzero(probabilities == threshold)
        probabilities[probabilities < threshold] = 0
        probabilities[ties[k - above :]] = 0


def _keep_top_p(probabilities_BV: Floats, mass: float) -> None:
    """Keep the largest probabilities of each row until their sum reaches `mass`; set the others to zero."""
    order_BV = np.argsort(-probabilities_BV, axis=1, kind="stable")
    for probabilities, order in zip(probabilities_BV, order_BV, strict=True):
        sums = probabilities[order].cumsum()
        kept = int(np.searchsorted(sums, mass * sums[-1])) + 1
        probabilities[order[kept:]] = 0
