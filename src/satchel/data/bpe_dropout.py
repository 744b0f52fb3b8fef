"""Pieces of words that fall apart again, by chance: who has seen a word in several ways knows what it is made of.

Byte pair encoding makes a long piece of two shorter ones. In training a share of these merges is left out, so that
the same word comes as other pieces each time (after Provilkov et al., 2020, who leave merges out from the first one
on; here it is from the last one back, which needs no text, and depends on the seed and the step alone).
Letters: N ids, V vocabulary.
"""

import json

import numpy as np

from satchel.data.batches import Ints
from satchel.errors import SettingsError
from satchel.predictor import Ids
from satchel.text.tokenizer import Tokenizer

WHOLE = -1


def merged_of(tokenizer: Tokenizer) -> Ints:
    """Return the (V + 1, 2) ids that each id was merged of, WHOLE where it was not; the last one is the boundary."""
    if tokenizer.kind != "bpe":
        raise SettingsError(
            f"training.merge_dropout: the tokenizer is {tokenizer.kind}, which merges nothing", "take bpe, or leave it"
        )
    ids = {spelling: id_ for id_, spelling in enumerate(tokenizer.spellings)}
    parts = np.full((tokenizer.size + 1, 2), WHOLE, np.int64)
    for merge in json.loads(tokenizer.json)["model"]["merges"]:
        left, right = merge.split(" ") if isinstance(merge, str) else merge
        made = ids.get(left + right)
        # Of several ways to the same piece the first one is taken.
        if made is not None and parts[made, 0] == WHOLE:
            parts[made] = ids[left], ids[right]
    return parts


def bpe_dropout(ids_N: Ids, parts_V2: Ints, share: float, chance: np.random.Generator) -> Ints:
    """Return the ids, of whose merges a share is undone; what falls apart may fall apart further."""
    found = np.asarray(ids_N, np.int64)
    may_split = np.ones(len(found), bool)
    while may_split.any():
        splits = may_split & (parts_V2[found, 0] != WHOLE)
        splits &= chance.random(len(found)) < share
        counts = 1 + splits
        places = np.cumsum(counts) - counts
        following = np.repeat(found, counts)
        following[places[splits]], following[places[splits] + 1] = parts_V2[found[splits]].T
        may_split = np.repeat(splits, counts)
        found = following
    return found
