"""Detection of swapped source and target texts in a translation data set, with unigram models."""

from collections.abc import Sequence

import numpy as np

from satchel.predictor import Ids
from satchel.text.tables import TextPair
from satchel.text.tokenizer import Tokenizer

# Number of pairs that are compared.
MAX_PAIRS = 500
# Minimum difference in nats per character; smaller ones may be chance, or both languages are too similar.
MARGIN = 0.05


class UnigramModel:
    """Unigram model of the source texts or of the target texts, with add-0.5 smoothing."""

    def __init__(self, ids: Ids, tokenizer: Tokenizer) -> None:
        counts_V = np.bincount(np.asarray(ids, np.int64), minlength=tokenizer.size + 1)[: tokenizer.size] + 0.5
        self._logprobs_V, self._tokenizer = np.log(counts_V / counts_V.sum()), tokenizer

    def nats_per_character(self, texts: Sequence[str]) -> float:
        """Return the negative log-likelihood of texts per character."""
        nats = -sum(float(self._logprobs_V[self._tokenizer.encode(text).ids].sum()) for text in texts)
        return nats / max(1, sum(map(len, texts)))


def look_swapped(pairs: Sequence[TextPair], source_model: UnigramModel, target_model: UnigramModel) -> bool:
    """Return whether the sources fit the target model better than the source model, and the targets vice versa."""
    sources = [pair.source for pair in pairs[:MAX_PAIRS]]
    targets = [pair.target for pair in pairs[:MAX_PAIRS]]
    return (
        source_model.nats_per_character(sources) > target_model.nats_per_character(sources) + MARGIN
        and target_model.nats_per_character(targets) > source_model.nats_per_character(targets) + MARGIN
    )
