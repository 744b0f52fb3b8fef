"""Deep averaging networks: the mean of the words, then a feed-forward net (Iyyer et al., 2015)."""

from dataclasses import dataclass
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from satchel.models.encoder import CausalEncoder, State, prefix_counts
from satchel.models.settings import ModelSettings
from satchel.nn.dropout import Dropout

# What stands before the first word.
NOTHING = -1


class DanSettings(ModelSettings):
    """A deep averaging network."""

    kind: Literal["dan"] = Field("dan", description="the mean of the embeddings, then a feed-forward net")
    width: int = Field(128, ge=1, description="of all vectors")
    layers: int = Field(2, ge=0, description="hidden layers after the mean")
    average: Literal["mean", "root"] = Field(
        "mean", description="the sum of the words over their number, or over its root: then long texts say more"
    )
    bigrams: int = Field(0, ge=0, le=1 << 26, description="pairs of words have vectors too: how many; 0 for none")
    dropout: float = Field(0.0, ge=0, lt=1, description="the share of numbers that are left out in training")
    word_dropout: float = Field(0.0, ge=0, lt=1, description="the share of words that are left out in training")


@dataclass
class DanState:
    """The sum of the vectors read so far, how many they are, and the last word."""

    total_BD: Tensor
    count: int
    last_B: Tensor

    def select(self, rows: Tensor) -> "DanState":
        """Return the state of some rows."""
        return DanState(self.total_BD[rows], self.count, self.last_B[rows])


class Dan(CausalEncoder):
    """The mean of what came before, itself included, through a feed-forward net; or of everything, if not causal.

    It does not know the order of the words: that is what it is there to show. With `bigrams` it knows of each word
    which one stood before it: every pair has a vector that is added to the word's own. Pairs share vectors by chance
    where there are more of them than vectors.
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
        """Return the (B, T, D) vectors of the words, and of the pairs they end."""
        return self._embed(ids_BT, ids_BT.new_full((len(ids_BT),), NOTHING))

    def _embed(self, ids_BT: Tensor, before_B: Tensor) -> Tensor:
        vectors = self.embedding(ids_BT)
        if self.pairs is not None:
            before_BT = torch.cat([before_B[:, None], ids_BT[:, :-1]], dim=1)
            vectors = vectors + self.pairs(_places(before_BT, ids_BT, self.pairs.num_embeddings))
        embedded: Tensor = self.embedded(vectors)
        return embedded

    def contextualise(self, x_BTD: Tensor, keep_BT: Tensor | None = None) -> Tensor:
        """Return the mean up to each position, or of the whole row at each, through the net."""
        if share := self.word_dropout.share:
            stay_BT = torch.rand(x_BTD.shape[:2], device=x_BTD.device) >= share
            keep_BT = stay_BT if keep_BT is None else keep_BT & stay_BT
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
        """Return the state of nothing read."""
        weight = self.embedding.weight
        return DanState(weight.new_zeros(batch, self.width), 0, torch.full((batch,), NOTHING, device=weight.device))

    def step(self, ids_BT: Tensor, state: State) -> tuple[Tensor, DanState]:
        """Return the encodings of the next tokens, and the state after them."""
        assert self.causal, "an encoder that sees what comes later cannot go on"
        assert isinstance(state, DanState)
        encoded, following = self.step_vectors(self._embed(ids_BT, state.last_B), state)
        return self.encoded(encoded), DanState(following.total_BD, following.count, ids_BT[:, -1])

    def step_vectors(self, x_BTD: Tensor, state: State) -> tuple[Tensor, DanState]:
        """Return the encodings of the next vectors."""
        assert isinstance(state, DanState)
        sums_BTD = state.total_BD[:, None] + x_BTD.cumsum(dim=1)
        counts_T = torch.arange(1, x_BTD.shape[1] + 1, device=x_BTD.device, dtype=x_BTD.dtype) + state.count
        following = DanState(sums_BTD[:, -1], state.count + x_BTD.shape[1], state.last_B)
        return self._feed_forward(sums_BTD / counts_T[None, :, None] ** self.power), following


def _places(before_BT: Tensor, ids_BT: Tensor, count: int) -> Tensor:
    """Return which of `count` vectors each pair has: the same always, and as good as by chance."""
    mixed = ((before_BT + 2) * 0x9E3779B1 + ids_BT) * 0x85EBCA6B & 0x7FFFFFFFFFFF
    places: Tensor = (mixed ^ (mixed >> 23)) % count
    return places
