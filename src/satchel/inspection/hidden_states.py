"""Hidden states of texts: the output of every layer of an encoder at every token.

Shapes: B batch, T time, D width, W words.
"""

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import nn

from satchel.data.batches import group_by_length, pad
from satchel.inspection.subject import Subject, unsupported
from satchel.inspection.trace import HIDDEN
from satchel.models.encoder import Encoder
from satchel.nn.inference import inference
from satchel.nn.sites import recording, sites
from satchel.predictor import Floats, Ids
from satchel.text.words import Word

# Maximum number of tokens in a batch; the states of all layers are in memory at the same time.
BATCH_TOKENS = 1 << 12


class HiddenStates:
    """Hidden states of the encoder of a model; for a translator, of the encoder of the source."""

    def __init__(self, subject: Subject) -> None:
        if subject.network is None:
            raise unsupported(subject, "has no embeddings", "train a network, for example with --model transformer")
        self.encoder, self.tokenizer = source_encoder(subject.network), subject.source_tokenizer
        # A language model encodes a boundary token before the text, a translator one after it.
        self.before, self.after = subject.task == "lm", subject.task == "translate"
        self.context = self.encoder.context
        # Maximum number of tokens of a text; None if there is no limit.
        self.max_tokens = None if self.context is None else max(0, self.context - self.before - self.after)

    @cached_property
    def layers(self) -> tuple[str, ...]:
        """The sites of the hidden states: layer 0 is the embedding, the last one the input of the head."""
        return hidden_layers(self.encoder)

    def framed(self, ids: Ids) -> Ids:
        """Return the ids that are encoded for a text: truncated to the context, with the boundary token."""
        boundary = [self.tokenizer.boundary]
        return np.concatenate([boundary * self.before, ids[: self.max_tokens], boundary * self.after]).astype(np.int64)

    def of_words(self, texts: Sequence[tuple[Ids, Sequence[Word]]]) -> dict[str, Floats]:
        """Return the vectors (W, D) of words of several texts by layer: the mean over the tokens of a word."""
        vectors: dict[str, list[Floats]] = {site: [np.empty(0)] * len(texts) for site in self.layers}
        for number, states in read_states(self.encoder, [ids for ids, _ in texts], self.layers):
            for site, states_TD in states.items():
                vectors[site][number] = mean_by_word(states_TD, texts[number][1])
        return {site: np.concatenate(parts) for site, parts in vectors.items()}


def source_encoder(network: nn.Module) -> Encoder:
    """Return the encoder of the input text; for a translator, that of the source."""
    pair: Any = getattr(network, "pair", None)
    # The layers of a Backpack translator are those of its contextualiser; a decoder-only translator has one encoder.
    owner: Any = network if pair is None else getattr(pair, "contextualiser", pair)
    encoder: Encoder = getattr(owner, "reader", None) or owner.encoder
    return encoder


def hidden_layers(encoder: Encoder) -> tuple[str, ...]:
    """Return the sites of an encoder's hidden states, from the embedding to the input of the head.

    The input of the head is omitted if it equals the output of the last layer.
    """
    names = [name for name in sites(encoder) if any(fnmatchcase(name, pattern) for pattern in HIDDEN)]
    names.sort(key=lambda name: name.endswith("encoded"))
    _, states = next(read_states(encoder, [np.zeros(2, np.int64)], names))
    if len(names) > 1 and np.array_equal(states[names[-1]], states[names[-2]]):
        names.pop()
    return tuple(names)


def read_states(
    encoder: Encoder, texts: Sequence[Ids], layers: Sequence[str]
) -> Iterator[tuple[int, dict[str, Floats]]]:
    """Return the index of each text and its hidden states (T, D) by layer, in the order of length.

    Texts must have at least one token and at most as many as the context.
    """
    device = encoder.embedding.weight.device
    for rows in group_by_length(np.array([len(text) for text in texts], np.int64), BATCH_TOKENS):
        ids_BT, keep_BT = (torch.from_numpy(part).to(device) for part in pad([texts[row] for row in rows], 0))
        # Padding ends a row: a causal encoder does not see it and needs no mask.
        keep = None if encoder.causal or bool(keep_BT.all()) else keep_BT
        with inference(encoder), recording(encoder, *layers) as recorded:
            encoder.encode(ids_BT, keep)
        values = {name: recorded[name][0].cpu().numpy() for name in layers}
        for position, row in enumerate(rows):
            yield int(row), {name: value[position, : len(texts[row])] for name, value in values.items()}


def mean_by_word(states_TD: Floats, words: Sequence[Word]) -> Floats:
    """Return the mean (W, D) over the tokens of each word."""
    means = [states_TD[word.start : word.stop].mean(axis=0) for word in words]
    return np.array(means, states_TD.dtype).reshape(len(words), states_TD.shape[1])
