"""Feed-forward network over a window of embeddings (Bengio et al., 2003).

Shapes: B batch, T time, D width.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from satchel.models.encoder import EMBEDDING_STD, CausalEncoder, State
from satchel.models.settings import DROPOUT, LARGEST_WIDTH, MOST_LAYERS, ModelSettings
from satchel.nn.dropout import Dropout


class WindowSettings(ModelSettings):
    """Settings of a feed-forward network over a window."""

    kind: Literal["window"] = Field("window", description="Feed-forward network over neighbouring embeddings")
    width: int = Field(128, ge=1, le=LARGEST_WIDTH, description="Size of embeddings and hidden layers")
    window: int = Field(
        4, ge=1, le=1024, description="lm: number of tokens in the window; tag, classify: number on each side"
    )
    layers: int = Field(1, ge=1, le=MOST_LAYERS, description="Number of hidden layers")
    dropout: float = DROPOUT


@dataclass
class WindowState:
    """The embeddings of the last tokens; zeros before the first token."""

    last_BTD: Tensor

    def select(self, rows: Tensor) -> "WindowState":
        """Return the state of the given rows."""
        return WindowState(self.last_BTD[rows])


class Window(CausalEncoder):
    """Feed-forward network over the concatenated embeddings of a window, with zeros outside of the text.

    A causal window ends at the position; otherwise the position is in the middle.
    """

    def __init__(self, settings: WindowSettings, vocabulary: int, *, causal: bool) -> None:
        super().__init__(vocabulary, settings.width, causal=causal)
        self.before = settings.window - 1 if causal else settings.window
        self.after = 0 if causal else settings.window
        inputs = (self.before + 1 + self.after) * settings.width
        widths = [inputs, *[settings.width] * settings.layers]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))
        self.dropout = Dropout(settings.dropout)
        if causal:
            nn.init.normal_(self.embedding.weight, std=EMBEDDING_STD)

    def contextualise(self, x_BTD: Tensor, keep_BT: Tensor | None = None) -> Tensor:
        """Return the output of the network for the window of each position."""
        if keep_BT is not None:
            x_BTD = x_BTD * keep_BT[..., None]
        return self._feed_forward(F.pad(x_BTD, (0, 0, self.before, self.after)))

    def _feed_forward(self, x_BTD: Tensor) -> Tensor:
        """Return the output for each complete window."""
        x: Tensor = x_BTD.unfold(1, self.before + 1 + self.after, 1).transpose(2, 3).flatten(2)
        for layer in self.layers:
            x = self.dropout(layer(x).relu())
        return x

    def start(self, batch: int) -> WindowState:
        """Return zeros for the positions before the first token."""
        return WindowState(self.embedding.weight.new_zeros(batch, self.before, self.width))

    def step_vectors(self, x_BTD: Tensor, state: State) -> tuple[Tensor, WindowState]:
        """Return the outputs at the next positions and the state after them."""
        assert isinstance(state, WindowState)
        all_BTD = torch.cat([state.last_BTD, x_BTD], dim=1)
        return self._feed_forward(all_BTD), WindowState(all_BTD[:, all_BTD.shape[1] - self.before :])
