"""Deep averaging networks: the mean of the words, then a feed-forward net (Iyyer et al., 2015)."""

from dataclasses import dataclass
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from satchel.config import Settings
from satchel.models.contract import CausalEncoder, State, places_before


class DanSettings(Settings):
    """A deep averaging network."""

    kind: Literal["dan"] = Field("dan", description="the mean of the embeddings, then a feed-forward net")
    width: int = Field(128, ge=1, description="of all vectors")
    layers: int = Field(2, ge=0, description="hidden layers after the mean")
    dropout: float = Field(0.0, ge=0, lt=1, description="the share of numbers that are left out in training")


@dataclass
class DanState:
    """The sum of the vectors read so far, and how many they are."""

    total_BD: Tensor
    count: int

    def select(self, rows: Tensor) -> "DanState":
        """Return the state of some rows."""
        return DanState(self.total_BD[rows], self.count)


class Dan(CausalEncoder):
    """The mean of what came before, itself included, through a feed-forward net; or of everything, if not causal.

    It does not know the order of the words: that is what it is there to show.
    """

    def __init__(self, settings: DanSettings, vocabulary: int, *, causal: bool) -> None:
        super().__init__(vocabulary, settings.width, causal=causal)
        self.layers = nn.ModuleList(nn.Linear(settings.width, settings.width) for _ in range(settings.layers))
        self.dropout = nn.Dropout(settings.dropout)

    def contextualise(self, x_BTD: Tensor, keep_BT: Tensor | None = None) -> Tensor:
        """Return the mean up to each position, or of the whole row at each, through the net."""
        if keep_BT is not None:
            x_BTD = x_BTD * keep_BT[..., None]
        means_BTD = x_BTD.cumsum(dim=1) / places_before(keep_BT, x_BTD)
        if not self.causal:
            means_BTD = means_BTD[:, -1:].expand_as(x_BTD)
        return self._think(means_BTD)

    def _think(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = self.dropout(layer(x).relu())
        return x

    def start(self, batch: int) -> DanState:
        """Return the state of nothing read."""
        return DanState(self.embedding.weight.new_zeros(batch, self.width), 0)

    def go_on(self, x_BTD: Tensor, state: State) -> tuple[Tensor, DanState]:
        """Return the encodings of the next vectors."""
        assert isinstance(state, DanState)
        sums_BTD = state.total_BD[:, None] + x_BTD.cumsum(dim=1)
        counts_T = torch.arange(1, x_BTD.shape[1] + 1, device=x_BTD.device) + state.count
        following = DanState(sums_BTD[:, -1], state.count + x_BTD.shape[1])
        return self._think(sums_BTD / counts_T[None, :, None]), following
