"""BPE-dropout (Provilkov et al., 2020): random segmentations of the same word regularise training.

The original method omits merges while it encodes. Here merges of the encoded ids are undone from the last one back,
which needs no text and depends on the seed and the step only. Shapes: N ids, V vocabulary.
"""

import json

import numpy as np

from satchel.data.batches import Ints
from satchel.errors import SettingsError
from satchel.predictor import Ids
from satchel.text.tokenizer import Tokenizer

# Entry of the table of merges for a token that is not the result of a merge.
UNMERGED = -1


def merge_parts(tokenizer: Tokenizer) -> Ints:
    """Return the (V + 1, 2) ids whose merge gives each id, or UNMERGED; the last row is the boundary."""
    if tokenizer.kind != "bpe":
        raise SettingsError(
            f"training.merge_dropout: the tokenizer is of kind {tokenizer.kind}, which has no merges",
            "use --tokenizer bpe, or training.merge_dropout=0",
        )
    ids = {spelling: id_ for id_, spelling in enumerate(tokenizer.spellings)}
    parts_V2 = np.full((tokenizer.size + 1, 2), UNMERGED, np.int64)
    for merge in json.loads(tokenizer.json)["model"]["merges"]:
        left, right = merge.split(" ") if isinstance(merge, str) else merge
        merged = ids.get(left + right)
        # If several merges give the same token, the first one applies.
        if merged is not None and parts_V2[merged, 0] == UNMERGED:
            parts_V2[merged] = ids[left], ids[right]
    return parts_V2


def bpe_dropout(ids_N: Ids, parts_V2: Ints, rate: float, rng: np.random.Generator) -> Ints:
    """Return the ids with each merge undone with probability `rate`, recursively."""
    ids = np.asarray(ids_N, np.int64)
    # Tokens of the text in the first pass; after that, the parts of tokens split in the previous pass.
    candidates = np.ones(len(ids), bool)
    while candidates.any():
        splits = candidates & (parts_V2[ids, 0] != UNMERGED)
        splits &= rng.random(len(ids)) < rate
        counts = 1 + splits
        positions = np.cumsum(counts) - counts
        expanded = np.repeat(ids, counts)
        expanded[positions[splits]], expanded[positions[splits] + 1] = parts_V2[ids[splits]].T
        candidates = np.repeat(splits, counts)
        ids = expanded
    return ids
