"""Speculative decoding: an n-gram model proposes tokens, and the language model verifies several of them at once.

The proposals are the most probable tokens of the n-gram model. A token is chosen from the distribution of the language
model as without proposals, and a proposal is accepted if it is equal to that token. So the distribution of the text is
that of plain decoding, and with the same random numbers the text is the same up to rounding.

Speculative decoding is possible for a network that is interpolated with an n-gram model. `is_speculative` is the rule.
"""

from collections.abc import Sequence
from typing import Literal

from satchel.ngram.tables import Table
from satchel.predictor import Predictor

Mode = Literal["auto", "on", "off"]

# Number of tokens proposed at once: initially, and at most. It follows the number of accepted proposals.
FIRST_PROPOSALS, MAX_PROPOSALS = 3, 8
# Maximum number of continuations that `auto` decodes speculatively: in a larger batch, the additional tokens of a
# verification cost as much as the steps they save.
SPECULATIVE_ROWS = 4
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
        self._next: dict[State, tuple[int, State]] = {}
        self.start: State = tuple(table.start(1)[0].tolist())
        self.count = FIRST_PROPOSALS

    def advance(self, state: State, ids: list[int]) -> State:
        """Return the state after more tokens, of which only the last ones matter."""
        for id_ in ids[1 - self._table.order :]:
            state = self._table.advance_one(state, id_)
        return state

    def propose(self, state: State, count: int) -> list[int]:
        """Return the `count` most probable next tokens, each given those before it."""
        proposals: list[int] = []
        for _ in range(count):
            following = self._next.get(state)
            if following is None:
                token = self._table.most_probable(state)
                following = token, self._table.advance_one(state, token)
                if len(self._next) < STORED_CONTEXTS:
                    self._next[state] = following
            token, state = following
            proposals.append(token)
        return proposals

    def adapt(self, accepted: int, proposed: int) -> None:
        """Change the number of proposals after a verification: one more if all were accepted, else towards those."""
        if accepted == proposed:
            self.count = min(MAX_PROPOSALS, self.count + 1)
        elif accepted < self.count - 1:
            self.count = max(1, self.count - 1)
