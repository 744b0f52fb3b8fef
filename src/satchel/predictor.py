"""What every model is to those who use it: something that scores and continues ids, or labels texts of them.

Evaluation, generation and mixing talk to this and to nothing else, so that an n-gram, a network
and a mix of both are no special case anywhere. It speaks NumPy; networks convert at their edge.
A text of ids begins with the boundary id, and each document is followed by another one.
Letters: B batch, T tokens, V ids, E examples, C classes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.integer[Any]]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Scores:
    """The log-probability of each token after the first, and what else the model can say of each answer.

    `notes` holds arrays of the same length by name: `order` says which order of an n-gram answered.
    """

    logprobs: Floats
    notes: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)


class Predictor(Protocol):
    """A language model over V ids."""

    @property
    def vocabulary(self) -> int:
        """V, the boundary included."""

    @property
    def context(self) -> str:
        """How much of what came before a token is used to predict it, in words."""

    def score(self, ids_T: Ids) -> Scores:
        """Return the scores of a text's T-1 tokens after its first."""

    def start(self, batch: int) -> Any:
        """Return the state before anything was read."""

    def step(self, ids_BT: Ids, state: Any) -> tuple[Floats, Any]:
        """Return the (B, V) log-probabilities of what follows these ids, and the state there."""


class Labeller(Protocol):
    """A classifier over C classes."""

    def label(self, ids_T: Ids) -> Floats:
        """Return the (E, C) log-probabilities of the classes of E texts, each followed by a boundary."""
