"""Protocols of trained models: `Predictor` (language models) and `Labeller` (classifiers), in NumPy.

Evaluation, generation and interpolation use only these protocols, so n-gram models, networks and mixtures need no
special cases. A sequence of ids starts with the boundary id, and each document is followed by the boundary id.
Shapes: B batch, T tokens, V vocabulary, E examples, C classes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from satchel.errors import NonFiniteError
from satchel.text.windows import Reading

Ids = npt.NDArray[np.integer[Any]]
Floats = npt.NDArray[np.float64]


def checked(logprobs: Floats) -> Floats:
    """Return the log-probabilities of a network; raise NonFiniteError if it computed values that are not finite."""
    if np.isnan(logprobs).any():
        raise NonFiniteError(
            "the network computes values that are not finite: its parameters are damaged, or its training diverged",
            "train it again, with a lower training.learning_rate if it diverged",
        )
    return logprobs


@dataclass(frozen=True)
class Scores:
    """Log-probability of each token after the first, with optional per-token annotations.

    `notes` maps names to arrays of the same length; an n-gram model stores the back-off order under `order`.
    """

    logprobs: Floats
    notes: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)


class Predictor(Protocol):
    """A language model over V ids."""

    @property
    def vocabulary(self) -> int:
        """Vocabulary size V, including the boundary id."""

    @property
    def context(self) -> str:
        """Description of the context used to predict a token, for reports."""

    def score(self, ids_T: Ids) -> Scores:
        """Return the scores of the T - 1 tokens after the first."""

    def start(self, batch: int) -> Any:
        """Return the initial state."""

    def step(self, ids_BT: Ids, state: Any) -> tuple[Floats, Any]:
        """Return the (B, V) next-token log-probabilities after these ids, and the new state."""


class Labeller(Protocol):
    """A classifier over C classes."""

    def label(self, ids_T: Ids) -> Floats:
        """Return the (E, C) class log-probabilities of E texts, each followed by the boundary id."""

    def reading(self, length: int) -> Reading:
        """Return how a text of `length` tokens is read: at once, or in windows."""
