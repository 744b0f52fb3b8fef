"""Mixing predictors: an ensemble is a predictor too. Letters: P parts, B batch, T tokens, V ids."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from satchel.errors import DataError
from satchel.predictor import Floats, Ids, Predictor, Scores

MOST_ROUNDS = 1000
SMALLEST_GAIN = 1e-10  # nats per token


@dataclass(frozen=True)
class Mix:
    """Adds the probabilities of its parts, each times its weight."""

    parts: tuple[Predictor, ...]
    weights: Floats
    names: tuple[str, ...]

    @property
    def vocabulary(self) -> int:
        return self.parts[0].vocabulary

    @property
    def context(self) -> str:
        return "; ".join(f"{name}: {part.context}" for name, part in zip(self.names, self.parts, strict=True))

    def score(self, ids_T: Ids) -> Scores:
        """Return the scores; the notes say which share of each token's probability came from each part."""
        logprobs_PT = self._weighted(part_logprobs(self.parts, ids_T))
        logprobs_T = np.logaddexp.reduce(logprobs_PT, axis=0)
        # Where no part has an answer, none has a share.
        with np.errstate(invalid="ignore"):
            shares_PT = np.nan_to_num(np.exp(logprobs_PT - logprobs_T), nan=0.0)
        return Scores(logprobs_T, dict(zip(self.names, shares_PT, strict=True)))

    def start(self, batch: int) -> tuple[Any, ...]:
        """Return the states of the parts."""
        return tuple(part.start(batch) for part in self.parts)

    def step(self, ids_BT: Ids, state: tuple[Any, ...]) -> tuple[Floats, tuple[Any, ...]]:
        """Return the (B, V) log-probabilities of what follows, and the states of the parts there."""
        steps = [part.step(ids_BT, each) for part, each in zip(self.parts, state, strict=True)]
        logprobs_BV: Floats = np.logaddexp.reduce(self._weighted(np.stack([logprobs for logprobs, _ in steps])), axis=0)
        return logprobs_BV, tuple(following for _, following in steps)

    def _weighted(self, logprobs: Floats) -> Floats:
        with np.errstate(divide="ignore"):
            return logprobs + np.log(self.weights).reshape(-1, *[1] * (logprobs.ndim - 1))


def part_logprobs(parts: Sequence[Predictor], ids_T: Ids) -> Floats:
    """Return the (P, T-1) log-probabilities that each part gives each token."""
    return np.stack([part.score(ids_T).logprobs for part in parts])


def learn_weights(logprobs_PT: Floats) -> tuple[Floats, list[float]]:
    """Return the weights under which a text is likeliest, and the nats per token after each round.

    Each round gives every part the share of the tokens that the weights so far ascribe to it
    (expectation-maximisation), which never makes the text less likely.
    """
    parts, tokens = logprobs_PT.shape
    highest_T = logprobs_PT.max(axis=0)
    if not np.isfinite(highest_T).all():
        count = int(np.isneginf(highest_T).sum())
        raise DataError(
            f"found {count} tokens that no part gives any probability",
            "add a smoothed model to the mix, or take other text",
        )
    # Relative to the best part, so that long odds do not vanish.
    likely_PT = np.exp(logprobs_PT - highest_T)
    weights = np.full(parts, 1 / parts)
    costs: list[float] = []
    for _ in range(MOST_ROUNDS):
        mixed_T = weights @ likely_PT
        costs.append(-float((np.log(mixed_T) + highest_T).sum()) / tokens)
        if len(costs) > 1 and costs[-2] - costs[-1] < SMALLEST_GAIN:
            break
        weights = weights * (likely_PT @ (1 / mixed_T)) / tokens
        weights /= weights.sum()
    return weights, costs
