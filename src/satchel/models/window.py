"""Feed-forward networks over a window: position-sensitive, and blind to what lies outside."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from satchel.models.encoder import EMBEDDING_STD, CausalEncoder, State
from satchel.models.settings import ModelSettings
from satchel.nn.dropout import Dropout


class WindowSettings(ModelSettings):
    """A feed-forward network over the last words, or over those around."""

    kind: Literal["window"] = Field("window", description="a feed-forward net over neighbouring embeddings")
    width: int = Field(128, ge=1, description="of all vectors")
    window: int = Field(4, ge=1, le=1024, description="words seen: the last so many, or so many on each side")
    layers: int = Field(1, ge=1, description="hidden layers")
    dropout: float = Field(0.0, ge=0, lt=1, description="the share of numbers that are left out in training")


@dataclass
class WindowState:
    """The last vectors read; zeros where nothing was."""

    last_BTD: Tensor

    def select(self, rows: Tensor) -> "WindowState":
        """Return the state of some rows."""
        return WindowState(self.last_BTD[rows])


class Window(CausalEncoder):
    """Neighbouring vectors side by side, through a feed-forward net. Outside of the text there are zeros."""

    def __init__(self, settings: WindowSettings, vocabulary: int, *, causal: bool) -> None:
        super().__init__(vocabulary, settings.width, causal=causal)
        self.before = settings.window - 1 if causal else settings.window
        self.after = 0 if causal else settings.window
        seen = (self.before + 1 + self.after) * settings.width
        widths = [seen, *[settings.width] * settings.layers]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))
        self.dropout = Dropout(settings.dropout)
        if causal:
            nn.init.normal_(self.embedding.weight, std=EMBEDDING_STD)

    def contextualise(self, x_BTD: Tensor, keep_BT: Tensor | None = None) -> Tensor:
        """Return what the net makes of each window."""
        if keep_BT is not None:
            x_BTD = x_BTD * keep_BT[..., None]
        return self._feed_forward(F.pad(x_BTD, (0, 0, self.before, self.after)))

    def _feed_forward(self, x_BTD: Tensor) -> Tensor:
        """Return a vector for each whole window."""
        x: Tensor = x_BTD.unfold(1, self.before + 1 + self.after, 1).transpose(2, 3).flatten(2)
        for layer in self.layers:
            x = self.dropout(layer(x).relu())
        return x

    def start(self, batch: int) -> WindowState:
        """Return the state of nothing read."""
        return WindowState(self.embedding.weight.new_zeros(batch, self.before, self.width))

    def step_vectors(self, x_BTD: Tensor, state: State) -> tuple[Tensor, WindowState]:
        """Return the encodings of the next vectors."""
        assert isinstance(state, WindowState)
        all_BTD = torch.cat([state.last_BTD, x_BTD], dim=1)
        return self._feed_forward(all_BTD), WindowState(all_BTD[:, all_BTD.shape[1] - self.before :])
