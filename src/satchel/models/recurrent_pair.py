"""Recurrent encoder-decoder (Sutskever et al., 2014), with attention (Bahdanau et al., 2015; Luong et al., 2015).

Shapes: B sources, R target rows, S source time, T target time, D width.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from satchel.models.pair import PairModel
from satchel.models.recurrent import Recurrent, RecurrentSettings
from satchel.models.settings import PAIR_CONTEXT, SHARED
from satchel.nn.attention import Additive, Dot, General, softmax
from satchel.nn.dropout import Dropout
from satchel.nn.recurrence import LayerState, RecurrentLayer
from satchel.nn.sites import Site

Score = Literal["none", "dot", "general", "additive"]


class RecurrentPairSettings(RecurrentSettings):
    """Settings of a recurrent encoder-decoder."""

    attention: Score = Field(
        "general", description="Attention score: dot, general or additive; none: use the summary of the source instead"
    )
    query: Literal["current", "previous"] = Field(
        "current", description="Decoder state used as attention query: current (Luong) or previous (Bahdanau)"
    )
    summary: Literal["last", "mean", "max"] = Field(
        "last", description="Summary of the encoder states that initialises the decoder"
    )
    shared: bool = SHARED
    context: int = PAIR_CONTEXT


@dataclass(frozen=True)
class RecurrentMemory:
    """The encoder states of the sources, their padding mask, and their summary."""

    states_BSD: Tensor
    keep_BS: Tensor
    summary_BD: Tensor

    def select(self, texts: Tensor) -> "RecurrentMemory":
        """Return the memory of the given sources."""
        return RecurrentMemory(self.states_BSD[texts], self.keep_BS[texts], self.summary_BD[texts])


@dataclass(frozen=True)
class RecurrentPairState:
    """The hidden state of every decoder layer, the last output of the decoder, and the memory of the sources."""

    layers: list[LayerState]
    last_R1D: Tensor
    memory: RecurrentMemory

    def select(self, rows: Tensor, texts: Tensor | None = None) -> "RecurrentPairState":
        """Return the state of the given target rows; with `texts`, of those sources only."""
        layers = [tuple(part[:, rows] for part in layer) for layer in self.layers]
        memory = self.memory if texts is None else self.memory.select(texts)
        return RecurrentPairState(layers, self.last_R1D[rows], memory)


class RecurrentPair(PairModel):
    """A bidirectional recurrent encoder (`reader`) and a recurrent decoder.

    An encoding is the decoder state concatenated with the attention output, or without attention with the summary of
    the source, whose size does not depend on the source's length.
    """

    def __init__(self, settings: RecurrentPairSettings, source_vocabulary: int, vocabulary: int) -> None:
        width = settings.width
        super().__init__(width, 2 * width)
        self.settings = settings
        self.context = settings.context
        self.reader = Recurrent(settings, source_vocabulary, causal=False)
        self.embedding = self.reader.embedding if settings.shared else _embedding(vocabulary, width)
        # With the previous state as query, the attention output is an input of the first layer.
        attends_first = settings.query == "previous"
        self.layers = nn.ModuleList(
            RecurrentLayer(
                settings.kind,
                2 * width if attends_first and layer == 0 else width,
                width,
                nonlinearity=settings.nonlinearity,
            )
            for layer in range(settings.layers)
        )
        self.parts = 2 if settings.kind == "lstm" else 1
        self.begin = nn.Linear(width, settings.layers * self.parts * width)
        self.score = _score(settings.attention, width)
        self.dropout = Dropout(settings.dropout)
        self.alignment, self.encoded = Site(), Site()

    @property
    def words(self) -> nn.Embedding:
        """The embedding of target tokens."""
        return self.embedding

    def read(self, source_BS: Tensor, keep_BS: Tensor | None = None) -> RecurrentMemory:
        """Return the encoder states of the sources and their summary."""
        states_BSD = self.reader.encode(source_BS, keep_BS)
        keep_BS = torch.ones_like(source_BS, dtype=torch.bool) if keep_BS is None else keep_BS
        return RecurrentMemory(states_BSD, keep_BS, self._summary(states_BSD, keep_BS))

    def _summary(self, states_BSD: Tensor, keep_BS: Tensor) -> Tensor:
        """Return the summary (B, D) of the encoder states."""
        kept = keep_BS[..., None]
        match self.settings.summary:
            case "mean":
                return (states_BSD * kept).sum(dim=1) / kept.sum(dim=1).clamp(min=1)
            case "max":
                return states_BSD.masked_fill(~kept, -torch.inf).amax(dim=1)
            case "last":
                # The forward direction ends at the last token, the backward direction at the first.
                half = self.width // 2
                last_B = keep_BS.sum(dim=1).clamp(min=1) - 1
                rows = torch.arange(len(last_B), device=last_B.device)
                return torch.cat([states_BSD[rows, last_B, :half], states_BSD[:, 0, half:]], dim=-1)

    def start(self, memory: RecurrentMemory, rows: int = 1) -> RecurrentPairState:
        """Return the initial decoder state, a learned function of the summary."""
        begin_BX = self.begin(memory.summary_BD).tanh().repeat_interleave(rows, dim=0)
        parts = begin_BX.chunk(self.settings.layers * self.parts, dim=-1)
        layers = [
            tuple(part[None] for part in parts[layer * self.parts : (layer + 1) * self.parts])
            for layer in range(self.settings.layers)
        ]
        return RecurrentPairState(layers, layers[-1][0].transpose(0, 1), memory)

    def encode(self, target_BT: Tensor, memory: RecurrentMemory) -> Tensor:
        """Return the decoder states and attention outputs, concatenated (B, T, 2 D)."""
        return self.step(target_BT, self.start(memory))[0]

    def step(self, target_RT: Tensor, state: Any) -> tuple[Tensor, RecurrentPairState]:
        """Return the encodings of the next target tokens and the state after them."""
        assert isinstance(state, RecurrentPairState)
        x_RTD = self.dropout(self.embedding(target_RT))
        if self.settings.query == "current":
            states_RTD, state = self._run_layers(x_RTD, state)
            attended_RTD = self._attend(states_RTD, state.memory)
        else:
            outputs, states = [], []
            for x_R1D in x_RTD.split(1, dim=1):
                outputs.append(self._attend(state.last_R1D, state.memory))
                state_R1D, state = self._run_layers(torch.cat([x_R1D, outputs[-1]], dim=-1), state)
                states.append(state_R1D)
            states_RTD, attended_RTD = torch.cat(states, dim=1), torch.cat(outputs, dim=1)
        return self.encoded(self.dropout(torch.cat([states_RTD, attended_RTD], dim=-1))), state

    def _run_layers(self, x_RTD: Tensor, state: RecurrentPairState) -> tuple[Tensor, RecurrentPairState]:
        following = []
        for number, (layer, before) in enumerate(zip(self.layers, state.layers, strict=True)):
            x_RTD, after = layer(self.dropout(x_RTD) if number else x_RTD, None, before)
            following.append(after)
        return x_RTD, replace(state, layers=following, last_R1D=x_RTD[:, -1:])

    def _attend(self, queries_RTD: Tensor, memory: RecurrentMemory) -> Tensor:
        """Return the attention output for each query; without attention, the summary."""
        rows, length, width = queries_RTD.shape
        if self.score is None:
            summary_B1D = memory.summary_BD[:, None]
            return summary_B1D.repeat_interleave(rows // len(summary_B1D), dim=0).expand(-1, length, -1)
        # The target rows of a source are queries to the same keys.
        queries = queries_RTD.reshape(len(memory.states_BSD), -1, width)
        weights = softmax(self.score(queries, memory.states_BSD), memory.keep_BS[:, None])
        weights_RTS = self.alignment(weights.reshape(rows, length, -1))
        attended: Tensor = weights_RTS.reshape(weights.shape) @ memory.states_BSD
        return attended.reshape(rows, length, width)


def _embedding(vocabulary: int, width: int) -> nn.Embedding:
    embedding = nn.Embedding(vocabulary, width)
    nn.init.normal_(embedding.weight, std=0.02)
    return embedding


def _score(kind: Score, width: int) -> nn.Module | None:
    match kind:
        case "dot":
            return Dot()
        case "general":
            return General(width, width)
        case "additive":
            return Additive(width, width, width)
        case "none":
            return None
