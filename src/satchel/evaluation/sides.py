"""Whether pairs are the wrong way round: sources that look like targets, and targets that look like sources."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from satchel.data.batches import Ints
from satchel.predictor import Ids
from satchel.text.tables import TextPair
from satchel.text.tokenizer import Tokenizer

# As many pairs tell.
LOOKED_AT = 500
# In nats per character: less may be chance, and sides that are alike cannot be told apart.
MARGIN = 0.05


@dataclass(frozen=True)
class Side:
    """What the texts of one side are made of: how often each token is there."""

    tokenizer: Tokenizer
    counts_V: Ints

    def nats_per_character(self, texts: Sequence[str]) -> float:
        """Return how unlike this side some texts are."""
        logs_V = np.log((self.counts_V + 0.5) / (self.counts_V + 0.5).sum())
        nats = -sum(float(logs_V[self.tokenizer.encode(text).ids].sum()) for text in texts)
        return nats / max(1, sum(map(len, texts)))


def side_of(ids: Ids, tokenizer: Tokenizer) -> Side:
    """Return the side that some texts' ids are of."""
    return Side(tokenizer, np.bincount(np.asarray(ids, np.int64), minlength=tokenizer.size + 1)[: tokenizer.size])


def look_swapped(pairs: Sequence[TextPair], sources: Side, targets: Side) -> bool:
    """Return whether both texts of some pairs are more like the other side."""
    some = pairs[:LOOKED_AT]
    first, second = [pair.source for pair in some], [pair.target for pair in some]
    return (
        sources.nats_per_character(first) > targets.nats_per_character(first) + MARGIN
        and targets.nats_per_character(second) > sources.nats_per_character(second) + MARGIN
    )
