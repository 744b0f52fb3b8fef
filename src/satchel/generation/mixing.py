"""Linear interpolation of predictors, itself a predictor. Shapes: P parts, B batch, T tokens, V vocabulary."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from satchel.errors import DataError
from satchel.predictor import CombinedDecoder, Floats, Ids, Logits, Predictor, Scores

MAX_ITERATIONS = 1000
TOLERANCE = 1e-10  # nats per token


@dataclass(frozen=True)
class Mix:
    """Weighted sum of the probabilities of its parts. Implements Predictor."""

    parts: tuple[Predictor, ...]
    weights: Floats
    names: tuple[str, ...]

    @property
    def vocabulary(self) -> int:
        return self.parts[0].vocabulary

    @property
    def context(self) -> str:
        return "; ".join(f"{name}: {part.context}" for name, part in zip(self.names, self.parts, strict=True))

    def score(self, ids_T: Ids, *, ends: bool = True) -> Scores:
        """Return the scores; the notes hold each part's share of the probability of each token."""
        logprobs_PT = self._weighted(part_logprobs(self.parts, ids_T, ends=ends))
        logprobs_T = np.logaddexp.reduce(logprobs_PT, axis=0)
        # If all parts give probability 0, all shares are 0.
        with np.errstate(invalid="ignore"):
            shares_PT = np.nan_to_num(np.exp(logprobs_PT - logprobs_T), nan=0.0)
        return Scores(logprobs_T, dict(zip(self.names, shares_PT, strict=True)))

    def decoder(self) -> CombinedDecoder:
        """Return a decoder without rows."""
        return CombinedDecoder(tuple(part.decoder() for part in self.parts), self._mixture)

    def _mixture(self, probabilities: list[Logits]) -> Logits:
        """Return the weighted sum of the probabilities of the parts."""
        mixture: Logits = self.weights[0] * probabilities[0].astype(np.float64)
        for weight, part in zip(self.weights[1:], probabilities[1:], strict=True):
            mixture += weight * part
        return mixture

    def _weighted(self, logprobs: Floats) -> Floats:
        with np.errstate(divide="ignore"):
            return logprobs + np.log(self.weights).reshape(-1, *[1] * (logprobs.ndim - 1))


def part_logprobs(parts: Sequence[Predictor], ids_T: Ids, *, ends: bool = True) -> Floats:
    """Return the (P, T - 1) log-probabilities of the tokens under each part."""
    return np.stack([part.score(ids_T, ends=ends).logprobs for part in parts])


def learn_weights(logprobs_PT: Floats) -> tuple[Floats, list[float]]:
    """Return the maximum-likelihood weights, and the loss in nats per token after each iteration.

    Expectation-maximisation: each iteration sets a part's weight to its mean posterior share of the tokens, which
    never increases the loss.
    """
    parts, tokens = logprobs_PT.shape
    highest_T = logprobs_PT.max(axis=0)
    if not np.isfinite(highest_T).all():
        count = int(np.isneginf(highest_T).sum())
        raise DataError(
            f"{count} tokens have probability 0 under every model",
            "add a smoothed model to the mixture, or use another text",
        )
    # Relative to the best part, to avoid underflow.
    ratios_PT = np.exp(logprobs_PT - highest_T)
    weights = np.full(parts, 1 / parts)
    losses: list[float] = []
    for _ in range(MAX_ITERATIONS):
        mixed_T = weights @ ratios_PT
        losses.append(-float((np.log(mixed_T) + highest_T).sum()) / tokens)
        if len(losses) > 1 and losses[-2] - losses[-1] < TOLERANCE:
            break
        weights = weights * (ratios_PT @ (1 / mixed_T)) / tokens
        weights /= weights.sum()
    return weights, losses
