"""What every pair model is: it reads a source, and then encodes a target against what it read.

As with encoders, no pair model knows what its vectors are for: the head that scores words is another thing (tasks).
Letters: B texts of a batch, R rows that are written (several for each text), S time of the source, T time of the
target, D width.
"""

from abc import ABC, abstractmethod
from typing import Any, Protocol, Self

import torch
from torch import Tensor, nn

from satchel.models.encoder import State
from satchel.models.transformer import Transformer


class PairState(Protocol):
    """What a pair model has kept of what it read and wrote."""

    def select(self, rows: Tensor, texts: Tensor | None = None) -> Self:
        """Return the state of some rows, in that order; and where `texts` says so, of these texts alone.

        The rows of a text stand together, and every text has as many.
        """


class Pair(nn.Module, ABC):
    """Reads a source text, and encodes a target text against it: one vector for what follows each of its words."""

    # Whether texts of unequal length can be written together.
    takes_padding = True
    # The longest source, and the longest target, each with its boundary.
    context: int

    def __init__(self, width: int, output_width: int) -> None:
        super().__init__()
        self.width, self.output_width = width, output_width

    @property
    @abstractmethod
    def words(self) -> nn.Embedding:
        """The vectors of target words."""

    @abstractmethod
    def read(self, source_BS: Tensor, keep_BS: Tensor | None = None) -> Any:
        """Return what was read. `keep_BS` is False on padding, which comes last in its row."""

    @abstractmethod
    def encode(self, target_BT: Tensor, memory: Any) -> Tensor:
        """Return the (B, T, D) encodings of a target: none of them knows what comes later."""

    @abstractmethod
    def start(self, memory: Any, rows: int = 1) -> PairState:
        """Return the state before anything was written, of so many rows for each text."""

    @abstractmethod
    def step(self, target_RT: Tensor, state: Any) -> tuple[Tensor, PairState]:
        """Return the encodings of the next words, and the state after them: the same as `encode` gives the whole."""

    def penalty(self, source_BS: Tensor, target_BT: Tensor) -> Tensor | None:
        """Return what is held against the model beside its mistakes, for each of them; None where nothing is."""
        del source_BS, target_BT
        return None


class DecoderOnly(Pair):
    """A causal Transformer as a pair model: the target goes on where the source ended, as one text.

    The last token of a source and the first one of a target are the same boundary: it stands there once.
    """

    takes_padding = False

    def __init__(self, encoder: Transformer) -> None:
        super().__init__(encoder.width, encoder.width)
        self.encoder = encoder
        self.context = encoder.context // 2

    @property
    def words(self) -> nn.Embedding:
        """The vectors of all words."""
        return self.encoder.embedding

    def read(self, source_BS: Tensor, keep_BS: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the source itself, and how long each text is without its end."""
        lengths_B = torch.full((len(source_BS),), source_BS.shape[1], device=source_BS.device)
        return source_BS, (lengths_B if keep_BS is None else keep_BS.sum(dim=1)) - 1

    def encode(self, target_BT: Tensor, memory: tuple[Tensor, Tensor]) -> Tensor:
        """Return the encodings of the targets, each read after its source."""
        source_BS, lengths_B = memory
        joined = torch.cat([source_BS, target_BT], dim=1)
        length = target_BT.shape[1]
        # Where in the two, side by side, each place of the joined text is found; what is left over comes last.
        places = torch.arange(int(lengths_B.max()) + length, device=joined.device)
        skipped_B1 = (source_BS.shape[1] - lengths_B)[:, None]
        found = torch.where(places < lengths_B[:, None], places, places + skipped_B1).clamp(max=joined.shape[1] - 1)
        encoded_BJD = self.encoder.encode(joined.gather(1, found))
        own_BT = lengths_B[:, None] + torch.arange(length, device=joined.device)
        return encoded_BJD.gather(1, own_BT[..., None].expand(-1, -1, self.width))

    def start(self, memory: tuple[Tensor, Tensor], rows: int = 1) -> "DecoderState":
        """Return the state after the sources, which have to be equally long."""
        source_BS, lengths_B = memory
        length = int(lengths_B[0])
        assert bool((lengths_B == length).all()), "only sources of the same length are written together"
        state: State = self.encoder.start(len(source_BS))
        if length:
            _, state = self.encoder.step(source_BS[:, :length], state)
        if rows > 1:
            state = state.select(torch.arange(len(source_BS), device=source_BS.device).repeat_interleave(rows))
        return DecoderState(state)

    def step(self, target_RT: Tensor, state: Any) -> tuple[Tensor, "DecoderState"]:
        """Return the encodings of the next words."""
        assert isinstance(state, DecoderState)
        encoded, after = self.encoder.step(target_RT, state.encoder)
        return encoded, DecoderState(after)

    def penalty(self, source_BS: Tensor, target_BT: Tensor) -> Tensor | None:
        """Return what is held against the encoder."""
        return self.encoder.penalty(torch.cat([source_BS, target_BT], dim=1))


class DecoderState:
    """An encoder's state, in which the source is part of what was read."""

    def __init__(self, encoder: State) -> None:
        self.encoder = encoder

    def select(self, rows: Tensor, texts: Tensor | None = None) -> "DecoderState":
        """Return the state of some rows: each has its own source."""
        del texts
        return DecoderState(self.encoder.select(rows))
