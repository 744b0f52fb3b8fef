"""The contract of encoders: token ids to one context-dependent vector per position.

Encoders do not depend on a task: heads and objectives are defined in `satchel.tasks`.
Shapes: B batch, T time, D width, V vocabulary.
"""

from abc import ABC, abstractmethod
from typing import Protocol, Self

import torch
from torch import Tensor, nn

from satchel.nn.sites import Site

# Standard deviation of initial embeddings in causal recurrent and window encoders. With 0.02, their small activations
# carry little information about the token, and for hundreds of steps only the unigram frequencies are learned.
EMBEDDING_STD = 0.3


class State(Protocol):
    """State of incremental decoding, such as a KV cache or the hidden state of a recurrent network."""

    def select(self, rows: Tensor) -> Self:
        """Return the state of the given rows of the batch, in that order."""


class Contextualiser(nn.Module, ABC):
    """Maps a sequence of vectors to a sequence of vectors of the same length, so that contextualisers stack.

    Causal contextualisers also support incremental decoding by `start` and `step_vectors`.
    """

    # Maximum sequence length; None if there is none.
    context: int | None = None

    def __init__(self, width: int, *, causal: bool) -> None:
        super().__init__()
        self.width, self.causal = width, causal

    @abstractmethod
    def contextualise(self, x_BTD: Tensor, keep_BT: Tensor | None = None) -> Tensor:
        """Return the outputs (B, T, D). `keep_BT` is False for padding, which follows the tokens of a row."""

    def forward(self, x_BTD: Tensor, keep_BT: Tensor | None = None) -> Tensor:
        """Return `contextualise(x_BTD, keep_BT)`."""
        return self.contextualise(x_BTD, keep_BT)

    def start(self, batch: int) -> State:
        """Return the initial state of incremental decoding."""
        raise NotImplementedError(f"{type(self).__name__} does not support incremental decoding")

    def step_vectors(self, x_BTD: Tensor, state: State) -> tuple[Tensor, State]:
        """Return the outputs for the next vectors, equal to those of `contextualise` on all of them, and the state."""
        raise NotImplementedError(f"{type(self).__name__} does not support incremental decoding from vectors")


class Encoder(Contextualiser):
    """Maps token ids to one context-dependent vector per position: the contextualised embeddings.

    Calling an encoder encodes ids; `contextualise` is the part after the embedding.
    """

    def __init__(self, vocabulary: int, width: int, *, causal: bool) -> None:
        super().__init__(width, causal=causal)
        self.embedding = nn.Embedding(vocabulary, width)
        nn.init.normal_(self.embedding.weight, std=0.02)
        self.embedded, self.encoded = Site(), Site()

    def embed(self, ids_BT: Tensor) -> Tensor:
        """Return the embeddings (B, T, D)."""
        return self.embedded(self.embedding(ids_BT))

    def encode(self, ids_BT: Tensor, keep_BT: Tensor | None = None) -> Tensor:
        """Return the encodings (B, T, D). `keep_BT` is False for padding, which follows the tokens of a row."""
        return self.encoded(self.contextualise(self.embed(ids_BT), keep_BT))

    def penalty(self, ids_BT: Tensor) -> Tensor | None:
        """Return a regularisation term per target, which training adds to the loss; None if there is none."""
        del ids_BT
        return None

    def forward(self, ids_BT: Tensor, keep_BT: Tensor | None = None) -> Tensor:
        """Return `encode(ids_BT, keep_BT)`."""
        return self.encode(ids_BT, keep_BT)


class CausalEncoder(Encoder):
    """An encoder with incremental decoding: `step` on new tokens equals `encode` on the whole sequence.

    With `causal=False` it attends in both directions, for tagging and classification, and cannot `step`.
    A subclass defines `start` and either `step_vectors` or `step`.
    """

    @abstractmethod
    def start(self, batch: int) -> State:
        """Return the initial state of incremental decoding."""

    def step(self, ids_BT: Tensor, state: State) -> tuple[Tensor, State]:
        """Return the encodings of the next tokens and the state after them."""
        assert self.causal, "incremental decoding needs a causal encoder"
        encoded, state = self.step_vectors(self.embed(ids_BT), state)
        return self.encoded(encoded), state


def prefix_counts(keep_BT: Tensor | None, x_BTD: Tensor) -> Tensor:
    """Return the number of non-padding positions up to and including each position, (B, T, 1), at least 1."""
    if keep_BT is None:
        counts = torch.arange(1, x_BTD.shape[1] + 1, device=x_BTD.device, dtype=x_BTD.dtype)
        return counts[None, :, None]
    return keep_BT.to(x_BTD.dtype).cumsum(dim=1).clamp(min=1)[..., None]


def discard_embedding_draws(width: int, times: int = 1) -> None:
    """Advance the random generator by the draws that initialise an embedding of one token.

    A contextualiser without an embedding gets the same initial weights from a seed as one in a version of Satchel
    that built and dropped such an embedding.
    """
    for _ in range(times):
        torch.empty(1, width).normal_()
