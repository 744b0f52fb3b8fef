"""What every encoder is: `encode` turns ids into one context-sensitive vector per position.

No encoder knows what its vectors are for: heads and objectives are other things (tasks).
Letters: B batch, T time, D width, V vocabulary.
"""

from abc import ABC, abstractmethod
from typing import Protocol, Self

import torch
from torch import Tensor, nn

from satchel.nn.sites import Site


class State(Protocol):
    """What a causal encoder has kept of what it read."""

    def select(self, rows: Tensor) -> Self:
        """Return the state of some rows of the batch, in that order."""


# How large numbers of words' vectors are at first, where what is made of them is between -1 and 1 or thereabouts, and
# words are what is told: with smaller ones nothing but how frequent words are is learned for hundreds of updates.
EMBEDDING_STD = 0.3


class Encoder(nn.Module, ABC):
    """Turns token ids into one context-sensitive vector per position."""

    def __init__(self, vocabulary: int, width: int, *, causal: bool) -> None:
        super().__init__()
        self.width = width
        self.causal = causal
        self.embedding = nn.Embedding(vocabulary, width)
        nn.init.normal_(self.embedding.weight, std=0.02)
        self.embedded, self.encoded = Site(), Site()

    def embed(self, ids_BT: Tensor) -> Tensor:
        """Return the (B, T, D) vectors of the words themselves."""
        vectors: Tensor = self.embedded(self.embedding(ids_BT))
        return vectors

    @abstractmethod
    def contextualise(self, x_BTD: Tensor, keep_BT: Tensor | None = None) -> Tensor:
        """Return as many vectors as came in, each of which knows its context; so encoders stack.

        `keep_BT` is False on padding, which comes last in its row.
        """

    def encode(self, ids_BT: Tensor, keep_BT: Tensor | None = None) -> Tensor:
        """Return the (B, T, D) encodings of a batch of ids."""
        encoded: Tensor = self.encoded(self.contextualise(self.embed(ids_BT), keep_BT))
        return encoded

    def penalty(self, ids_BT: Tensor) -> Tensor | None:
        """Return what is held against the encoder beside its mistakes, for each of them; None where nothing is."""
        del ids_BT
        return None

    def forward(self, ids_BT: Tensor, keep_BT: Tensor | None = None) -> Tensor:
        """Return the encodings: what torch calls a module."""
        return self.encode(ids_BT, keep_BT)


class CausalEncoder(Encoder):
    """An encoder that can go on: `step` on the next tokens equals `encode` on the whole.

    It may also be made not causal, for tasks that see the whole text; then it cannot go on.
    """

    @abstractmethod
    def start(self, batch: int) -> State:
        """Return the state before anything was read."""

    @abstractmethod
    def step_vectors(self, x_BTD: Tensor, state: State) -> tuple[Tensor, State]:
        """Return the encodings of the next vectors, and the state after them."""

    def step(self, ids_BT: Tensor, state: State) -> tuple[Tensor, State]:
        """Return the encodings of the next tokens, and the state after them."""
        assert self.causal, "an encoder that sees what comes later cannot go on"
        encoded, state = self.step_vectors(self.embed(ids_BT), state)
        return self.encoded(encoded), state


def prefix_counts(keep_BT: Tensor | None, x_BTD: Tensor) -> Tensor:
    """Return the (B, T, 1) numbers of positions up to each one, itself included, that are not padding."""
    if keep_BT is None:
        counts = torch.arange(1, x_BTD.shape[1] + 1, device=x_BTD.device, dtype=x_BTD.dtype)
        return counts[None, :, None]
    return keep_BT.to(x_BTD.dtype).cumsum(dim=1).clamp(min=1)[..., None]
