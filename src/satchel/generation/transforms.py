"""Transforms of next-token logits, and filters of next-token probabilities. All work on one row.

A transform changes an array of logits in place, given the tokens before: those of the prompt and those generated. A
filter sets the probabilities of excluded tokens to zero. Both compose as lists (see `Sampler`). Shapes: V vocabulary.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from satchel.predictor import Ids, Logits

Probabilities = npt.NDArray[np.floating[Any]]


@dataclass
class History:
    """The ids of a prompt and those generated after it, with the number of occurrences of each generated id."""

    prompt: Ids
    generated: list[int] = field(default_factory=list)
    counts: dict[int, int] = field(default_factory=dict)

    def append(self, id_: int) -> None:
        """Add a generated id."""
        self.generated.append(id_)
        self.counts[id_] = self.counts.get(id_, 0) + 1

    def ids(self) -> list[int]:
        """Return all ids."""
        return [*self.prompt.tolist(), *self.generated]

    def last(self, count: int) -> list[int]:
        """Return the last ids, at most `count`."""
        missing = max(0, count - len(self.generated))
        before: list[int] = self.prompt[max(0, len(self.prompt) - missing) :].tolist()
        return [*before, *self.generated[max(0, len(self.generated) - count) :]]


class Transform(Protocol):
    """Changes logits in place."""

    def __call__(self, logits_V: Logits, history: History) -> None:
        """Change the logits of the token after the history."""


class Filter(Protocol):
    """Excludes tokens from sampling."""

    def __call__(self, probabilities_V: Probabilities) -> None:
        """Set the probabilities of excluded tokens to zero; the sum of the others need not be 1."""


# --- transforms --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Exclude:
    """Excludes ids, such as that of the unknown token."""

    ids: Sequence[int]

    def __call__(self, logits_V: Logits, history: History) -> None:
        logits_V[list(self.ids)] = -np.inf


@dataclass(frozen=True)
class LogitBias:
    """Adds a constant to the logits of some ids."""

    biases: Mapping[int, float]

    def __call__(self, logits_V: Logits, history: History) -> None:
        logits_V[list(self.biases)] += np.array(list(self.biases.values()), logits_V.dtype)


@dataclass(frozen=True)
class RepetitionPenalty:
    """Divides positive and multiplies negative logits of the ids of prompt and continuation (Keskar et al., 2019)."""

    penalty: float

    def __call__(self, logits_V: Logits, history: History) -> None:
        ids = np.unique(np.array(history.ids(), np.int64))
        values = logits_V[ids]
        logits_V[ids] = np.where(values > 0, values / self.penalty, values * self.penalty)


@dataclass(frozen=True)
class OccurrencePenalty:
    """Subtracts `presence` from the logit of every generated id, and `frequency` for each of its occurrences."""

    presence: float
    frequency: float

    def __call__(self, logits_V: Logits, history: History) -> None:
        if history.counts:
            counts = np.array(list(history.counts.values()), logits_V.dtype)
            logits_V[list(history.counts)] -= self.presence + self.frequency * counts


@dataclass(frozen=True)
class NoRepeatNgram:
    """Excludes ids that would complete an n-gram of prompt and continuation a second time, unless no others remain."""

    order: int

    def __call__(self, logits_V: Logits, history: History) -> None:
        ids = np.array(history.ids(), np.int64)
        if len(ids) < self.order:
            return
        windows = np.lib.stride_tricks.sliding_window_view(ids, self.order)
        context = ids[len(ids) - self.order + 1 :]
        repeated = windows[(windows[:, :-1] == context).all(axis=1), -1]
        values = logits_V[repeated]
        logits_V[repeated] = -np.inf
        if np.isneginf(logits_V.max()):
            logits_V[repeated] = values


# --- filters -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TopK:
    """Keeps the k most probable tokens; ties are resolved in favour of smaller ids."""

    k: int

    def __call__(self, probabilities_V: Probabilities) -> None:
        if self.k >= len(probabilities_V):
            return
        threshold = np.partition(probabilities_V, -self.k)[-self.k]
        above = int((probabilities_V > threshold).sum())
        ties = np.flatnonzero(probabilities_V == threshold)
        probabilities_V[probabilities_V < threshold] = 0
        probabilities_V[ties[self.k - above :]] = 0


@dataclass(frozen=True)
class TopP:
    """Keeps the smallest set of the most probable tokens whose probabilities sum to p (Holtzman et al., 2020)."""

    p: float

    def __call__(self, probabilities_V: Probabilities) -> None:
        total = probabilities_V.sum(dtype=np.float64)
        # Tokens below (1 - p) / V together have less than 1 - p: only the others are sorted.
        candidates = np.flatnonzero(probabilities_V >= (1 - self.p) * total / len(probabilities_V))
        _keep_until(probabilities_V, candidates, -probabilities_V[candidates], self.p * total)


@dataclass(frozen=True)
class MinP:
    """Keeps tokens with at least p times the probability of the most probable one."""

    p: float

    def __call__(self, probabilities_V: Probabilities) -> None:
        probabilities_V[probabilities_V < self.p * probabilities_V.max()] = 0


@dataclass(frozen=True)
class Typical:
    """Keeps the tokens whose surprisal is closest to the entropy, until they sum to p (Meister et al., 2023)."""

    p: float

    def __call__(self, probabilities_V: Probabilities) -> None:
        candidates = np.flatnonzero(probabilities_V)
        values = probabilities_V[candidates] / probabilities_V[candidates].sum(dtype=np.float64)
        surprisals = -np.log(values)
        distances = np.abs(surprisals - (values * surprisals).sum())
        _keep_until(probabilities_V, candidates, distances, self.p * probabilities_V.sum(dtype=np.float64))


def _keep_until(probabilities_V: Probabilities, candidates: Ids, keys: Probabilities, mass: float) -> None:
    """Keep the candidates with the smallest keys until their probabilities sum to the mass, at least one."""
    order = candidates[np.argsort(keys, kind="stable")]
    count = int(np.searchsorted(probabilities_V[order].cumsum(dtype=np.float64), mass)) + 1
    kept = order[:count]
    values = probabilities_V[kept]
    probabilities_V[:] = 0
    probabilities_V[kept] = values
