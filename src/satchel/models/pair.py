"""The contract of pair models: read a source sequence, then encode a target sequence with attention to the source.

Pair models do not depend on a task: the head that scores target tokens is defined in `satchel.tasks`.
Shapes: B sources, R target rows (several per source in beam search), S source time, T target time, D width.
"""

from abc import ABC, abstractmethod
from typing import Any, Protocol, Self

import torch
from torch import Tensor, nn

from satchel.models.encoder import State
from satchel.models.transformer import Transformer


class PairState(Protocol):
    """State of incremental decoding of the targets."""

    def select(self, rows: Tensor, texts: Tensor | None = None) -> Self:
        """Return the state of the given target rows, in that order; with `texts`, of those sources only.

        Rows of one source are adjacent, and every source has the same number of rows.
        """


class PairModel(nn.Module, ABC):
    """Encodes a target sequence given a source sequence: one vector per target position, to predict the next token."""

    # Whether sources of different lengths can be decoded in one batch.
    takes_padding = True
    # Maximum length of the source and of the target, each with its boundary token.
    context: int

    def __init__(self, width: int, output_width: int) -> None:
        super().__init__()
        self.width, self.output_width = width, output_width

    @property
    @abstractmethod
    def words(self) -> nn.Embedding:
        """The embedding of target tokens."""

    @abstractmethod
    def read(self, source_BS: Tensor, keep_BS: Tensor | None = None) -> Any:
        """Return the memory of encoded sources. `keep_BS` is False for padding, which follows the tokens of a row."""

    @abstractmethod
    def encode(self, target_BT: Tensor, memory: Any) -> Tensor:
        """Return the causal encodings of the targets (B, T, D)."""

    @abstractmethod
    def start(self, memory: Any, rows: int = 1) -> PairState:
        """Return the initial state of decoding, with the given number of target rows per source."""

    @abstractmethod
    def step(self, target_RT: Tensor, state: Any) -> tuple[Tensor, PairState]:
        """Return the encodings of the next target tokens, equal to those of `encode`, and the state after them."""

    def penalty(self, source_BS: Tensor, target_BT: Tensor) -> Tensor | None:
        """Return a regularisation term per target, which training adds to the loss; None if there is none."""
        del source_BS, target_BT
        return None


class DecoderOnly(PairModel):
    """A causal Transformer as a pair model: source and target are one sequence.

    The boundary that ends the source and the one that starts the target are the same token.
    """

    takes_padding = False

    def __init__(self, encoder: Transformer) -> None:
        super().__init__(encoder.width, encoder.width)
        self.encoder = encoder
        self.context = encoder.context // 2

    @property
    def words(self) -> nn.Embedding:
        """The embedding of source and target tokens."""
        return self.encoder.embedding

    def read(self, source_BS: Tensor, keep_BS: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the sources and their lengths without the final boundary."""
        lengths_B = torch.full((len(source_BS),), source_BS.shape[1], device=source_BS.device)
        return source_BS, (lengths_B if keep_BS is None else keep_BS.sum(dim=1)) - 1

    def encode(self, target_BT: Tensor, memory: tuple[Tensor, Tensor]) -> Tensor:
        """Return the encodings of the targets, each preceded by its source."""
        source_BS, lengths_B = memory
        both = torch.cat([source_BS, target_BT], dim=1)
        length = target_BT.shape[1]
        # Index in `both` of each token of the sequence without the source's padding; surplus positions come last.
        positions = torch.arange(int(lengths_B.max()) + length, device=both.device)
        padding_B1 = (source_BS.shape[1] - lengths_B)[:, None]
        index = torch.where(positions < lengths_B[:, None], positions, positions + padding_B1).clamp(
            max=both.shape[1] - 1
        )
        encoded_BJD = self.encoder.encode(both.gather(1, index))
        target_index_BT = lengths_B[:, None] + torch.arange(length, device=both.device)
        return encoded_BJD.gather(1, target_index_BT[..., None].expand(-1, -1, self.width))

    def start(self, memory: tuple[Tensor, Tensor], rows: int = 1) -> "DecoderState":
        """Return the state after the sources, which must have equal lengths."""
        source_BS, lengths_B = memory
        length = int(lengths_B[0])
        assert bool((lengths_B == length).all()), "a decoder-only model decodes sources of equal length"
        state: State = self.encoder.start(len(source_BS))
        if length:
            _, state = self.encoder.step(source_BS[:, :length], state)
        if rows > 1:
            state = state.select(torch.arange(len(source_BS), device=source_BS.device).repeat_interleave(rows))
        return DecoderState(state)

    def step(self, target_RT: Tensor, state: Any) -> tuple[Tensor, "DecoderState"]:
        """Return the encodings of the next target tokens."""
        assert isinstance(state, DecoderState)
        encoded, after = self.encoder.step(target_RT, state.encoder)
        return encoded, DecoderState(after)

    def penalty(self, source_BS: Tensor, target_BT: Tensor) -> Tensor | None:
        """Return the regularisation term of the encoder."""
        return self.encoder.penalty(torch.cat([source_BS, target_BT], dim=1))


class DecoderState:
    """The state of the encoder, which includes the source."""

    def __init__(self, encoder: State) -> None:
        self.encoder = encoder

    def select(self, rows: Tensor, texts: Tensor | None = None) -> "DecoderState":
        """Return the state of the given rows; each row includes its source."""
        del texts
        return DecoderState(self.encoder.select(rows))
