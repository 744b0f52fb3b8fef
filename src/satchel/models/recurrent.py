"""Recurrent encoders: RNN, GRU and LSTM, unidirectional if causal and bidirectional otherwise.

Shapes: B batch, T time, D width.
"""

from dataclasses import dataclass
from typing import Literal

from pydantic import Field
from torch import Tensor, nn

from satchel.models.encoder import EMBEDDING_STD, CausalEncoder, Contextualiser, State, discard_embedding_draws
from satchel.models.settings import DROPOUT, LARGEST_WIDTH, ModelSettings
from satchel.nn.dropout import Dropout
from satchel.nn.recurrence import LayerState, RecurrentLayer


class RecurrentSettings(ModelSettings):
    """Settings of a recurrent network."""

    kind: Literal["rnn", "gru", "lstm"] = Field("lstm", description="Type of the recurrent cell")
    width: int = Field(256, ge=1, le=LARGEST_WIDTH, description="Size of embeddings and hidden states")
    layers: int = Field(1, ge=1, le=64, description="Number of stacked recurrent layers")
    nonlinearity: Literal["tanh", "relu"] = Field("tanh", description="Activation function of the rnn cell")
    dropout: float = DROPOUT


@dataclass
class RecurrentState:
    """The hidden state of every layer."""

    layers: list[LayerState]

    def select(self, rows: Tensor) -> "RecurrentState":
        """Return the state of the given rows."""
        return RecurrentState([tuple(part[:, rows] for part in layer) for layer in self.layers])


class RecurrentContextualiser(Contextualiser):
    """Stacked recurrent layers; bidirectional unless causal."""

    def __init__(self, settings: RecurrentSettings, *, causal: bool) -> None:
        super().__init__(settings.width, causal=causal)
        discard_embedding_draws(settings.width, times=2)
        self._add_layers(settings)
        if causal:
            discard_embedding_draws(settings.width)

    def _add_layers(self, settings: RecurrentSettings) -> None:
        self.layers = nn.ModuleList(
            RecurrentLayer(
                settings.kind,
                settings.width,
                settings.width,
                bidirectional=not self.causal,
                nonlinearity=settings.nonlinearity,
            )
            for _ in range(settings.layers)
        )
        self.dropout = Dropout(settings.dropout)

    def contextualise(self, x_BTD: Tensor, keep_BT: Tensor | None = None) -> Tensor:
        """Return the hidden states of the last layer."""
        for layer in self.layers:
            x_BTD, _ = layer(self.dropout(x_BTD), keep_BT)
        return x_BTD

    def start(self, batch: int) -> RecurrentState:
        """Return zero hidden states."""
        return RecurrentState([layer.start(batch) for layer in self.layers if isinstance(layer, RecurrentLayer)])

    def step_vectors(self, x_BTD: Tensor, state: State) -> tuple[Tensor, RecurrentState]:
        """Return the hidden states of the last layer at the next positions, and the state after them."""
        assert isinstance(state, RecurrentState)
        following = []
        for layer, before in zip(self.layers, state.layers, strict=True):
            x_BTD, after = layer(self.dropout(x_BTD), None, before)
            following.append(after)
        return x_BTD, RecurrentState(following)


class Recurrent(RecurrentContextualiser, CausalEncoder):
    """A recurrent network on token embeddings."""

    def __init__(self, settings: RecurrentSettings, vocabulary: int, *, causal: bool) -> None:
        CausalEncoder.__init__(self, vocabulary, settings.width, causal=causal)
        self._add_layers(settings)
        if causal:
            nn.init.normal_(self.embedding.weight, std=EMBEDDING_STD)
