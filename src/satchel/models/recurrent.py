"""Recurrent encoders: rnn, gru and lstm, in one direction or both."""

from dataclasses import dataclass
from typing import Literal

from pydantic import Field
from torch import Tensor, nn

from satchel.models.encoder import EMBEDDING_STD, CausalEncoder, State
from satchel.models.settings import ModelSettings
from satchel.nn.dropout import Dropout
from satchel.nn.recurrence import LayerState, RecurrentLayer


class RecurrentSettings(ModelSettings):
    """A recurrent network."""

    kind: Literal["rnn", "gru", "lstm"] = Field("lstm", description="the cell")
    width: int = Field(256, ge=1, description="of all vectors")
    layers: int = Field(1, ge=1, le=64, description="one above the other")
    nonlinearity: Literal["tanh", "relu"] = Field("tanh", description="of the rnn cell")
    dropout: float = Field(0.0, ge=0, lt=1, description="the share of numbers that are left out in training")


@dataclass
class RecurrentState:
    """The state of every layer."""

    layers: list[LayerState]

    def select(self, rows: Tensor) -> "RecurrentState":
        """Return the state of some rows."""
        return RecurrentState([tuple(part[:, rows] for part in layer) for layer in self.layers])


class Recurrent(CausalEncoder):
    """Layers of cells that read from left to right; where the task may look ahead, also from right to left."""

    def __init__(self, settings: RecurrentSettings, vocabulary: int, *, causal: bool) -> None:
        super().__init__(vocabulary, settings.width, causal=causal)
        self.layers = nn.ModuleList(
            RecurrentLayer(
                settings.kind,
                settings.width,
                settings.width,
                bidirectional=not causal,
                nonlinearity=settings.nonlinearity,
            )
            for _ in range(settings.layers)
        )
        self.dropout = Dropout(settings.dropout)
        if causal:
            nn.init.normal_(self.embedding.weight, std=EMBEDDING_STD)

    def contextualise(self, x_BTD: Tensor, keep_BT: Tensor | None = None) -> Tensor:
        """Return the states of the last layer over time."""
        for layer in self.layers:
            x_BTD, _ = layer(self.dropout(x_BTD), keep_BT)
        return x_BTD

    def start(self, batch: int) -> RecurrentState:
        """Return the state of nothing read."""
        return RecurrentState([layer.start(batch) for layer in self.layers if isinstance(layer, RecurrentLayer)])

    def step_vectors(self, x_BTD: Tensor, state: State) -> tuple[Tensor, RecurrentState]:
        """Return the encodings of the next vectors."""
        assert isinstance(state, RecurrentState)
        following = []
        for layer, before in zip(self.layers, state.layers, strict=True):
            x_BTD, after = layer(self.dropout(x_BTD), None, before)
            following.append(after)
        return x_BTD, RecurrentState(following)
