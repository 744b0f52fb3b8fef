"""Deep averaging networks: a feed-forward network on the mean of the embeddings (Iyyer et al., 2015).

Shapes: B batch, T time, D width.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from satchel.models.encoder import CausalEncoder, State, prefix_counts
from satchel.models.settings import DROPOUT, LARGEST_WIDTH, MOST_LAYERS, ModelSettings
from satchel.nn.dropout import Dropout

# Id of the token before the first one, in bigrams.
START = -1


class DanSettings(ModelSettings):
    """Settings of a deep averaging network."""

    kind: Literal["dan"] = Field("dan", description="Feed-forward network on the mean of the embeddings")
    width: int = Field(128, ge=1, le=LARGEST_WIDTH, description="Size of embeddings and hidden layers")
    layers: int = Field(2, ge=0, le=MOST_LAYERS, description="Number of hidden layers after the mean")
    average: Literal["mean", "root"] = Field(
        "mean", description="Divide the sum of the embeddings by their number (mean) or its square root (root)"
    )
    bigrams: int = Field(0, ge=0, le=1 << 26, description="Number of hashed bigram embeddings; 0: no bigrams")
    dropout: float = DROPOUT
    word_dropout: float = Field(0.0, ge=0, lt=1, description="Fraction of tokens dropped in training")


@dataclass
class DanState:
    """The sum of the embeddings so far, their number, and the last id."""

    total_BD: Tensor
    count: int
    last_B: Tensor

    def select(self, rows: Tensor) -> "DanState":
        """Return the state of the given rows."""
        return DanState(self.total_BD[rows], self.count, self.last_B[rows])


class Dan(CausalEncoder):
    """Feed-forward network on the mean of the embeddings: up to each position if causal, else of the whole text.

    Without `bigrams` the output does not depend on the order of tokens. With `bigrams`, the embedding of a hashed
    bigram is added to that of its second token; bigrams with the same hash share an embedding.
    """

    def __init__(self, settings: DanSettings, vocabulary: int, *, causal: bool) -> None:
        super().__init__(vocabulary, settings.width, causal=causal)
        self.pairs = nn.Embedding(settings.bigrams, settings.width) if settings.bigrams else None
        if self.pairs is not None:
            nn.init.zeros_(self.pairs.weight)
        self.layers = nn.ModuleList(nn.Linear(settings.width, settings.width) for _ in range(settings.layers))
        self.dropout = Dropout(settings.dropout)
        self.word_dropout = Dropout(settings.word_dropout)
        self.power = 1.0 if settings.average == "mean" else 0.5

    def embed(self, ids_BT: Tensor) -> Tensor:
        """Return the embeddings (B, T, D), with those of bigrams added."""
        return self._embed(ids_BT, ids_BT.new_full((len(ids_BT),), START))

    def _embed(self, ids_BT: Tensor, previous_B: Tensor) -> Tensor:
        vectors = self.embedding(ids_BT)
        if self.pairs is not None:
            previous_BT = torch.cat([previous_B[:, None], ids_BT[:, :-1]], dim=1)
            vectors = vectors + self.pairs(_bigram_hash(previous_BT, ids_BT, self.pairs.num_embeddings))
        return self.embedded(vectors)

    def contextualise(self, x_BTD: Tensor, keep_BT: Tensor | None = None) -> Tensor:
        """Return the output of the network for the mean at each position."""
        if rate := self.word_dropout.rate:
            kept_BT = torch.rand(x_BTD.shape[:2], device=x_BTD.device) >= rate
            keep_BT = kept_BT if keep_BT is None else keep_BT & kept_BT
        if keep_BT is not None:
            x_BTD = x_BTD * keep_BT[..., None]
        counts_BT1 = prefix_counts(keep_BT, x_BTD)
        if self.causal:
            return self._feed_forward(x_BTD.cumsum(dim=1) / counts_BT1**self.power)
        return self._feed_forward(x_BTD.sum(dim=1, keepdim=True) / counts_BT1[:, -1:] ** self.power).expand_as(x_BTD)

    def _feed_forward(self, x: Tensor) -> Tensor:
        x = self.dropout(x)
        for layer in self.layers:
            x = self.dropout(layer(x).relu())
        return x

    def start(self, batch: int) -> DanState:
        """Return the state before the first token."""
        weight = self.embedding.weight
        return DanState(weight.new_zeros(batch, self.width), 0, torch.full((batch,), START, device=weight.device))

    def step(self, ids_BT: Tensor, state: State) -> tuple[Tensor, DanState]:
        """Return the encodings of the next tokens and the state after them."""
        assert self.causal, "incremental decoding needs a causal encoder"
        assert isinstance(state, DanState)
        encoded, following = self.step_vectors(self._embed(ids_BT, state.last_B), state)
        return self.encoded(encoded), DanState(following.total_BD, following.count, ids_BT[:, -1])

    def step_vectors(self, x_BTD: Tensor, state: State) -> tuple[Tensor, DanState]:
        """Return the outputs at the next positions and the state after them, with the last id unchanged."""
        assert isinstance(state, DanState)
        sums_BTD = state.total_BD[:, None] + x_BTD.cumsum(dim=1)
        counts_T = torch.arange(1, x_BTD.shape[1] + 1, device=x_BTD.device, dtype=x_BTD.dtype) + state.count
        following = DanState(sums_BTD[:, -1], state.count + x_BTD.shape[1], state.last_B)
        return self._feed_forward(sums_BTD / counts_T[None, :, None] ** self.power), following


def _bigram_hash(previous_BT: Tensor, ids_BT: Tensor, size: int) -> Tensor:
    """Return a hash in [0, size) of each bigram."""
    mixed = ((previous_BT + 2) * 0x9E3779B1 + ids_BT) * 0x85EBCA6B & 0x7FFFFFFFFFFF
    hashes: Tensor = (mixed ^ (mixed >> 23)) % size
    return hashes
