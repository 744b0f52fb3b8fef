"""Recurrence: one cell, applied to each vector in turn, that hands its state on.

torch's own layers do the work. Where somebody watches the gates, the same weights are applied step by step.
Letters: B batch, T time, D width, G gates.
"""

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from satchel.nn.sites import Site

Cell = Literal["rnn", "gru", "lstm"]
# The gates in the order of torch's weights; an `rnn` has none, but what it would become is like one.
GATES = {"rnn": ("new",), "gru": ("reset", "update", "new"), "lstm": ("input", "forget", "new", "output")}

# The state of a layer: (1 or 2, B, D) hidden vectors, and for an lstm its memory.
LayerState = tuple[Tensor, ...]


class RecurrentLayer(nn.Module):
    """One layer of cells. In both directions each has half of the width, so that layers stack."""

    def __init__(
        self, cell: Cell, inputs: int, width: int, *, bidirectional: bool = False, nonlinearity: str = "tanh"
    ) -> None:
        super().__init__()
        if bidirectional and width % 2:
            raise ValueError(f"found a width of {width}, expected an even one for two directions")
        self.cell, self.nonlinearity = cell, nonlinearity
        hidden = width // 2 if bidirectional else width
        if cell == "rnn":
            self.net: nn.RNNBase = nn.RNN(
                inputs, hidden, batch_first=True, bidirectional=bidirectional, nonlinearity=nonlinearity
            )
            # What it hands on neither grows nor fades at first; torch's own beginning lets it fade.
            for name, parameter in self.net.named_parameters():
                if name.startswith("weight_hh"):
                    nn.init.orthogonal_(parameter)
        else:
            kind = nn.GRU if cell == "gru" else nn.LSTM
            self.net = kind(inputs, hidden, batch_first=True, bidirectional=bidirectional)
        self.states, self.gates = Site(), Site()

    def start(self, batch: int) -> LayerState:
        """Return the state before anything was read."""
        zeros = next(self.net.parameters()).new_zeros(2 if self.net.bidirectional else 1, batch, self.net.hidden_size)
        return (zeros, zeros) if self.cell == "lstm" else (zeros,)

    def forward(
        self, x_BTD: Tensor, keep_BT: Tensor | None = None, state: LayerState | None = None
    ) -> tuple[Tensor, LayerState]:
        """Return the states over time (B, T, D), and the last one. Padding, where `keep_BT` is False, comes last."""
        state = self.start(len(x_BTD)) if state is None else state
        if self.gates.is_watched:
            return self._visible(x_BTD, keep_BT, state)
        given = state if self.cell == "lstm" else state[0]
        if keep_BT is None or not self.net.bidirectional:
            states_BTD, last = self.net(x_BTD, given)
        else:
            # Backwards, padding would come first: it has to be left out. A text of nothing still has one step.
            lengths = keep_BT.sum(dim=1).clamp(min=1).cpu()
            packed = pack_padded_sequence(x_BTD, lengths, batch_first=True, enforce_sorted=False)
            found, last = self.net(packed, given)
            states_BTD, _ = pad_packed_sequence(found, batch_first=True, total_length=x_BTD.shape[1])
        return self.states(states_BTD), last if self.cell == "lstm" else (last,)

    def _visible(self, x_BTD: Tensor, keep_BT: Tensor | None, state: LayerState) -> tuple[Tensor, LayerState]:
        """Do the same step by step. The gates pass their site as (B, T, G, D), both directions side by side."""
        directions = [self._one_way(x_BTD, None, tuple(part[0] for part in state), "")]
        if self.net.bidirectional:
            lengths_B = (
                keep_BT.sum(dim=1).clamp(min=1)
                if keep_BT is not None
                else torch.full((len(x_BTD),), x_BTD.shape[1], device=x_BTD.device)
            )
            back_BT = _backwards(lengths_B, x_BTD.shape[1])
            flipped = torch.gather(x_BTD, 1, back_BT[..., None].expand_as(x_BTD))
            states, gates, last = self._one_way(flipped, lengths_B, tuple(part[1] for part in state), "_reverse")
            states = torch.gather(states, 1, back_BT[..., None].expand_as(states))
            gates = torch.gather(gates, 1, back_BT[..., None, None].expand_as(gates))
            directions.append((states, gates, last))
        gates_BTGD = self.gates(torch.cat([gates for _, gates, _ in directions], dim=-1))
        del gates_BTGD  # what is rewritten there is shown, not used: the states were made on the way
        states_BTD = self.states(torch.cat([states for states, _, _ in directions], dim=-1))
        last = tuple(torch.stack(parts) for parts in zip(*(each for _, _, each in directions), strict=True))
        return states_BTD, last

    def _one_way(
        self, x_BTD: Tensor, lengths_B: Tensor | None, state: LayerState, suffix: str
    ) -> tuple[Tensor, Tensor, LayerState]:
        weights = [getattr(self.net, f"{name}_l0{suffix}") for name in ("weight_ih", "bias_ih", "weight_hh", "bias_hh")]
        inputs_BTG = nn.functional.linear(x_BTD, weights[0], weights[1])
        states, gates = [], []
        for time in range(x_BTD.shape[1]):
            following, gate = self._cell(inputs_BTG[:, time], weights[2], weights[3], state)
            if lengths_B is not None:
                inside = (time < lengths_B)[:, None]
                following = tuple(torch.where(inside, new, old) for new, old in zip(following, state, strict=True))
            state = following
            states.append(state[0])
            gates.append(gate)
        return torch.stack(states, dim=1), torch.stack(gates, dim=1), state

    def _cell(self, inputs_BG: Tensor, weight: Tensor, bias: Tensor, state: LayerState) -> tuple[LayerState, Tensor]:
        """Return the state after one step, and its (B, G, D) gates."""
        hidden = state[0]
        parts_BG = nn.functional.linear(hidden, weight, bias)
        if self.cell == "rnn":
            new = inputs_BG + parts_BG
            new = new.relu() if self.nonlinearity == "relu" else new.tanh()
            return (new,), new[:, None]
        if self.cell == "gru":
            (reset, update, new), (own_reset, own_update, own_new) = inputs_BG.chunk(3, -1), parts_BG.chunk(3, -1)
            reset, update = (reset + own_reset).sigmoid(), (update + own_update).sigmoid()
            new = (new + reset * own_new).tanh()
            return (new + update * (hidden - new),), torch.stack([reset, update, new], dim=1)
        taken, kept, new, shown = (inputs_BG + parts_BG).chunk(4, -1)
        taken, kept, new, shown = taken.sigmoid(), kept.sigmoid(), new.tanh(), shown.sigmoid()
        memory = kept * state[1] + taken * new
        return (shown * memory.tanh(), memory), torch.stack([taken, kept, new, shown], dim=1)


def _backwards(lengths_B: Tensor, length: int) -> Tensor:
    """Return, for each place of each row, the one it trades with when the row is read from its end; padding stays."""
    places_T = torch.arange(length, device=lengths_B.device)
    inside = places_T < lengths_B[:, None]
    return torch.where(inside, lengths_B[:, None] - 1 - places_T, places_T)
