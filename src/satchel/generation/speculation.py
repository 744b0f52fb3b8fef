"""Speculative decoding: an n-gram model proposes tokens, and the language model verifies several of them at once.

The n-gram model proposes its most probable token, or its draw with the noise of the position. A token is chosen from
the distribution of the language model as without proposals, with the same noise, and a proposal is accepted if it is
equal to that token. So the text is that of plain decoding up to rounding, and has the same distribution.

Speculative decoding is possible for a network that is interpolated with an n-gram model. `is_speculative` is the rule.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from satchel.generation.noise import Noise
from satchel.ngram.tables import Table
from satchel.predictor import Predictor

Mode = Literal["auto", "on", "off"]

# Number of tokens proposed at once: initially, and at most. It follows the number of accepted proposals.
FIRST_PROPOSALS, MAX_PROPOSALS = 3, 8
# Maximum number of continuations that `auto` decodes speculatively: in a larger batch, the additional tokens of a
# verification cost as much as the steps they save.
SPECULATIVE_ROWS = 4
# Minimum temperature of proposals.
LOWEST_TEMPERATURE = 1e-3
# Maximum number of contexts whose next token is stored.
STORED_CONTEXTS = 1 << 16

# State of the n-gram model: the row of the n-gram of each order that ends at the current token.
State = tuple[int, ...]


def draft_table(predictor: Predictor) -> Table | None:
    """Return the n-gram model of a network that is interpolated with one; None for other models."""
    table = getattr(getattr(predictor, "network", None), "ngram", None)
    return table if isinstance(table, Table) and table.order > 1 else None


def is_speculative(modes: Sequence[Mode]) -> bool:
    """Return whether continuations with these modes are decoded speculatively, if there is an n-gram model.

    All rows of a batch are: with `on` for any number of rows, with `auto` for up to SPECULATIVE_ROWS. They are not if
    one of them has the mode `off`.
    """
    if not modes or "off" in modes:
        return False
    return "auto" not in modes or len(modes) <= SPECULATIVE_ROWS


class Drafter:
    """Proposes continuations of texts."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self.context = table.order - 1  # number of tokens that a proposal depends on
        self._next: dict[State, int] = {}  # most probable token of each state
        self.start: State = tuple(table.start(1)[0].tolist())
        self.count = FIRST_PROPOSALS

    def advance(self, state: State, ids: list[int]) -> State:
        """Return the state after more tokens, of which only the last ones matter."""
        for id_ in ids[1 - self._table.order :]:
            state = self._table.advance_one(state, id_)
        return state

    def propose(self, state: State, count: int, noise: Noise | None = None, temperature: float = 1.0) -> list[int]:
        """Return the `count` next tokens of the n-gram model, each given those before it.

        They are the most probable ones, or with noise draws at a temperature.
        """
        proposals: list[int] = []
        for offset in range(count):
            token = self._most_probable(state) if noise is None else self._draw(state, noise, offset, temperature)
            state = self._table.advance_one(state, token)
            proposals.append(token)
        return proposals

    def _most_probable(self, state: State) -> int:
        token = self._next.get(state)
        if token is None:
            token = self._table.most_probable(state)
            if len(self._next) < STORED_CONTEXTS:
                self._next[state] = token
        return token

    def _draw(self, state: State, noise: Noise, offset: int, temperature: float) -> int:
        probabilities_V = self._table.distribution(np.array([state]))[0].astype(np.float32)
        # Relative to the largest one, so that a low temperature does not round all of them to 0.
        probabilities_V /= probabilities_V.max()
        with np.errstate(under="ignore"):
            probabilities_V **= 1 / max(temperature, LOWEST_TEMPERATURE)
        return int((probabilities_V / noise.peek(offset, len(probabilities_V))).argmax())

    def adapt(self, accepted: int, proposed: int) -> None:
        """Change the number of proposals after a verification: one more if all were accepted, else towards those."""
        if accepted == proposed:
            self.count = min(MAX_PROPOSALS, self.count + 1)
        elif accepted < self.count - 1:
            self.count = max(1, self.count - 1)
