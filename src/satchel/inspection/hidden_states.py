"""Hidden states of many texts: what an encoder made of every token, layer by layer.

Letters: B batch, T time, D width, W words.
"""

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

import numpy as np
import torch
from torch import nn

from satchel.data.batches import group_by_length, pad
from satchel.inspection.trace import HIDDEN
from satchel.models.backpack_pair import BackpackPair
from satchel.models.encoder import Encoder
from satchel.models.pair import DecoderOnly
from satchel.nn.inference import inference
from satchel.nn.sites import recording, sites
from satchel.predictor import Floats, Ids
from satchel.tasks.translation import TranslationNetwork

# Tokens read at once: all layers of them are there together.
TOKENS_AT_ONCE = 1 << 12
# What the head gets comes last.
LAST = "encoded"

# The first and one past the last of some tokens.
Span = tuple[int, int]


def reader_of(network: nn.Module) -> Encoder:
    """Return the encoder that reads texts; of a translator, the one that reads sources."""
    if not isinstance(network, TranslationNetwork):
        encoder: Encoder = network.get_submodule("encoder")  # type: ignore[assignment]
        return encoder
    pair = network.pair
    inner = pair.contextualiser if isinstance(pair, BackpackPair) else pair
    reader: Encoder = inner.get_submodule("encoder" if isinstance(pair, DecoderOnly) else "reader")  # type: ignore[assignment]
    return reader


def layers_of(encoder: Encoder) -> tuple[str, ...]:
    """Return the sites of an encoder's hidden states, from the words themselves to what a head gets.

    Where that is just what the last layer said, it is named once.
    """
    names = [name for name in sites(encoder) if any(fnmatchcase(name, pattern) for pattern in HIDDEN)]
    names.sort(key=lambda name: name.endswith(LAST))
    _, found = next(read_states(encoder, [np.zeros(2, np.int64)], names))
    if len(names) > 1 and np.array_equal(found[names[-1]], found[names[-2]]):
        names.pop()
    return tuple(names)


def read_states(
    encoder: Encoder, pieces: Sequence[Ids], layers: Sequence[str]
) -> Iterator[tuple[int, dict[str, Floats]]]:
    """Return the number of each piece and its hidden states (T, D) by layer; the shortest pieces come first.

    Pieces are no longer than the encoder's context, and none is empty.
    """
    device = encoder.embedding.weight.device
    for rows in group_by_length(np.array([len(piece) for piece in pieces], np.int64), TOKENS_AT_ONCE):
        ids_BT, keep_BT = (torch.from_numpy(part).to(device) for part in pad([pieces[row] for row in rows], 0))
        # What is causal never sees what fills a row up.
        keep = None if encoder.causal or bool(keep_BT.all()) else keep_BT
        with inference(encoder), recording(encoder, *layers) as found:
            encoder.encode(ids_BT, keep)
        values = {name: found[name][0].cpu().numpy() for name in layers}
        for place, row in enumerate(rows):
            yield int(row), {name: value[place, : len(pieces[row])] for name, value in values.items()}


def of_words(states_TD: Floats, spans: Sequence[Span]) -> Floats:
    """Return the (W, D) vectors of words in a text: the mean over the tokens of each."""
    return np.array([states_TD[start:stop].mean(axis=0) for start, stop in spans]).reshape(len(spans), -1)
