"""Speculative decoding: an n-gram model proposes tokens, and the language model verifies several of them at once.

The proposals are the most probable tokens of the n-gram model. A token is chosen from the distribution of the language
model as without proposals, and a proposal is accepted if it is equal to that token. So the distribution of the text is
that of plain decoding, and with the same random numbers the text is the same up to rounding.
"""

from collections.abc import Sequence

from satchel.ngram.tables import Table
from satchel.predictor import Predictor

# Number of tokens proposed at once: initially, and at most. It follows the number of accepted proposals.
FIRST_PROPOSALS, MAX_PROPOSALS = 4, 8
# Maximum number of contexts whose next token is stored.
STORED_CONTEXTS = 1 << 16


def draft_table(predictor: Predictor) -> Table | None:
    """Return the n-gram model of a network that is interpolated with one; None for other models."""
    table = getattr(getattr(predictor, "network", None), "ngram", None)
    return table if isinstance(table, Table) and table.order > 1 else None


class Drafter:
    """Proposes continuations of texts."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self.context = table.order - 1  # number of tokens that a proposal depends on
        self._next: dict[tuple[int, ...], int] = {}
        self.count = FIRST_PROPOSALS

    def propose(self, ids: Sequence[int], count: int) -> list[int]:
        """Return the `count` most probable next tokens after these ids, each given those before it."""
        context = tuple(ids[-self.context :])
        proposals: list[int] = []
        for _ in range(count):
            token = self._next.get(context)
            if token is None:
                token = self._table.most_probable(context)
                if len(self._next) < STORED_CONTEXTS:
                    self._next[context] = token
            proposals.append(token)
            context = (*context, token)[-self.context :]
        return proposals

    def adapt(self, accepted: int, proposed: int) -> None:
        """Change the number of proposals after a verification: one more if all were accepted, else towards those."""
        if accepted == proposed:
            self.count = min(MAX_PROPOSALS, self.count + 1)
        elif accepted < self.count - 1:
            self.count = max(1, self.count - 1)
