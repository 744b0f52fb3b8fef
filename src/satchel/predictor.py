"""Protocols of trained models: `Predictor` (language models) and `Labeller` (classifiers), in NumPy.

Evaluation, generation and interpolation use only these protocols, so n-gram models, networks and mixtures need no
special cases. A sequence of ids starts with the boundary id, and each document is followed by the boundary id.
Shapes: B batch, T tokens, V vocabulary, E examples, C classes.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from satchel.errors import NonFiniteError
from satchel.text.windows import Reading

Ids = npt.NDArray[np.integer[Any]]
Floats = npt.NDArray[np.float64]
# Scores of the next token: logits of a network, or probabilities of n-gram models and mixtures.
Logits = npt.NDArray[np.floating[Any]]
LogitsType = TypeVar("LogitsType", Floats, Logits)
# Number of positions whose distributions over the vocabulary are computed together.
POSITIONS_AT_ONCE = 64


def checked(logits: LogitsType) -> LogitsType:
    """Return the logits or log-probabilities of a network; raise NonFiniteError if one is NaN or infinity."""
    # The maximum is NaN if a value is: this needs no array of flags, and is computed for every generated token.
    if logits.size and not np.maximum.reduce(logits, axis=None) < np.inf:
        raise NonFiniteError(
            "the network computes values that are not finite: its parameters are damaged, or its training diverged",
            "train it again, with a lower training.learning_rate if it diverged",
        )
    return logits


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

    def score(self, ids_T: Ids, *, ends: bool = True) -> Scores:
        """Return the scores of the T - 1 tokens after the first.

        Without `ends`, the boundary after a document is not predicted, and its log-probability is 0: each document is
        scored like a stream.
        """

    def decoder(self) -> "Decoder":
        """Return a decoder without rows."""


class Decoder(Protocol):
    """Incremental prediction for a batch of rows that may have different lengths.

    Past the context window of a network, each row slides by itself: the last half of the window is encoded again.
    """

    @property
    def rows(self) -> int:
        """Number of rows."""

    @property
    def room(self) -> int | None:
        """Number of tokens that can be appended to every row before a window slides; None without a limit."""

    @property
    def gives_probabilities(self) -> bool:
        """Whether the returned scores of the next tokens are probabilities; otherwise they are logits."""

    def join(self, prompts: Sequence[Ids]) -> Logits:
        """Append one row per prompt, which starts with the boundary; return the (rows, V) scores after each prompt."""

    def step(self, ids_B: Ids) -> Logits:
        """Append one token to every row; return the (B, V) scores after it."""

    def extend(self, ids_BT: Ids) -> Logits:
        """Append T tokens to every row; return the (B, T, V) scores after each of them."""

    def rewind(self, counts_B: Ids) -> None:
        """Remove the last `counts_B[i]` tokens of row i, at most those of the directly preceding `extend`."""

    def keep(self, rows: Ids) -> None:
        """Keep these rows, in this order. A row may be repeated; rows left out are removed."""


def log_probabilities(decoder: Decoder, scores: Logits) -> Floats:
    """Return the log-probabilities of the scores of a decoder, in double precision."""
    values: Floats = scores.astype(np.float64, copy=False)
    if decoder.gives_probabilities:
        with np.errstate(divide="ignore"):
            logprobs: Floats = np.log(values)
        return logprobs
    values = values - values.max(axis=-1, keepdims=True)
    values -= np.log(np.exp(values).sum(axis=-1, keepdims=True))
    return values


def position_logprobs(predictor: Predictor, ids_T: Ids) -> Iterator[Floats]:
    """Yield the log-probabilities (V) of the token after each token but the last of a document.

    The document starts with the boundary.
    """
    if len(ids_T) < 2:
        return
    decoder = predictor.decoder()
    yield log_probabilities(decoder, decoder.join([ids_T[:1]]))[0]
    for start in range(1, len(ids_T) - 1, POSITIONS_AT_ONCE):
        ids_BT = ids_T[None, start : min(start + POSITIONS_AT_ONCE, len(ids_T) - 1)]
        yield from log_probabilities(decoder, decoder.extend(ids_BT))[0]


def probabilities(decoder: Decoder, scores: Logits) -> Logits:
    """Return the probabilities of the scores of a decoder, in the precision of the scores."""
    if decoder.gives_probabilities:
        return scores
    values: Logits = scores - scores.max(axis=-1, keepdims=True)
    np.exp(values, out=values)
    values /= values.sum(axis=-1, keepdims=True)
    return values


@dataclass(frozen=True)
class CombinedDecoder:
    """Implements Decoder for a combination of language models.

    `combine` maps the probabilities of the parts, arrays of equal shape, to those of the combination.
    """

    parts: tuple[Decoder, ...]
    combine: Callable[[list[Logits]], Logits]
    gives_probabilities = True

    @property
    def rows(self) -> int:
        return self.parts[0].rows

    @property
    def room(self) -> int | None:
        return min((part.room for part in self.parts if part.room is not None), default=None)

    def join(self, prompts: Sequence[Ids]) -> Logits:
        return self.combine([probabilities(part, part.join(prompts)) for part in self.parts])

    def step(self, ids_B: Ids) -> Logits:
        return self.combine([probabilities(part, part.step(ids_B)) for part in self.parts])

    def extend(self, ids_BT: Ids) -> Logits:
        return self.combine([probabilities(part, part.extend(ids_BT)) for part in self.parts])

    def rewind(self, counts_B: Ids) -> None:
        for part in self.parts:
            part.rewind(counts_B)

    def keep(self, rows: Ids) -> None:
        for part in self.parts:
            part.keep(rows)


class Labeller(Protocol):
    """A classifier over C classes."""

    def label(self, ids_T: Ids) -> Floats:
        """Return the (E, C) class log-probabilities of E texts, each followed by the boundary id."""

    def reading(self, length: int) -> Reading:
        """Return how a text of `length` tokens is read: at once, or in windows."""
