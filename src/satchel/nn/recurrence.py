"""Recurrent layers: RNN, GRU and LSTM.

PyTorch's layers compute the states; if the gates have a hook, the same parameters are applied step by step.
Shapes: B batch, T time, D width, G gates.
"""

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from satchel.nn.sites import Site

Cell = Literal["rnn", "gru", "lstm"]
# Names of the gates in the order of PyTorch's parameters; `new` is the candidate state, the only one of an rnn.
GATES = {"rnn": ("new",), "gru": ("reset", "update", "new"), "lstm": ("input", "forget", "new", "output")}

# The state of a layer: the hidden state, and for an lstm the cell state, each (directions, B, D).
LayerState = tuple[Tensor, ...]


class RecurrentLayer(nn.Module):
    """One recurrent layer. A bidirectional layer has half of the width in each direction."""

    def __init__(
        self, cell: Cell, inputs: int, width: int, *, bidirectional: bool = False, nonlinearity: str = "tanh"
    ) -> None:
        super().__init__()
        if bidirectional and width % 2:
            raise ValueError(f"found a width of {width}, expected an even one for a bidirectional layer")
        self.cell, self.nonlinearity = cell, nonlinearity
        hidden = width // 2 if bidirectional else width
        if cell == "rnn":
            self.net: nn.RNNBase = nn.RNN(
                inputs, hidden, batch_first=True, bidirectional=bidirectional, nonlinearity=nonlinearity
            )
            # Orthogonal recurrent matrices preserve the norm of the state; with PyTorch's initialisation it vanishes.
            for name, parameter in self.net.named_parameters():
                if name.startswith("weight_hh"):
                    nn.init.orthogonal_(parameter)
        else:
            kind = nn.GRU if cell == "gru" else nn.LSTM
            self.net = kind(inputs, hidden, batch_first=True, bidirectional=bidirectional)
        self.states, self.gates = Site(), Site()

    def start(self, batch: int) -> LayerState:
        """Return the initial state: zeros."""
        zeros = next(self.net.parameters()).new_zeros(2 if self.net.bidirectional else 1, batch, self.net.hidden_size)
        return (zeros, zeros) if self.cell == "lstm" else (zeros,)

    def forward(
        self, x_BTD: Tensor, keep_BT: Tensor | None = None, state: LayerState | None = None
    ) -> tuple[Tensor, LayerState]:
        """Return the hidden states (B, T, D) and the final state.

        `keep_BT` is False for padding, which follows the tokens of a row.
        """
        state = self.start(len(x_BTD)) if state is None else state
        if self.gates.is_hooked:
            return self._explicit(x_BTD, keep_BT, state)
        initial = state if self.cell == "lstm" else state[0]
        if keep_BT is None or not self.net.bidirectional:
            states_BTD, last = self.net(x_BTD, initial)
        else:
            # The backward direction must start at the last token, not at padding. Empty rows count as one token.
            lengths = keep_BT.sum(dim=1).clamp(min=1).cpu()
            packed = pack_padded_sequence(x_BTD, lengths, batch_first=True, enforce_sorted=False)
            packed_states, last = self.net(packed, initial)
            states_BTD, _ = pad_packed_sequence(packed_states, batch_first=True, total_length=x_BTD.shape[1])
        return self.states(states_BTD), last if self.cell == "lstm" else (last,)

    def _explicit(self, x_BTD: Tensor, keep_BT: Tensor | None, state: LayerState) -> tuple[Tensor, LayerState]:
        """Compute the states step by step. The site has the gates (B, T, G, D) of both directions, concatenated."""
        directions = [self._run_direction(x_BTD, None, tuple(part[0] for part in state), "")]
        if self.net.bidirectional:
            if keep_BT is None:
                keep_BT = torch.ones(x_BTD.shape[:2], dtype=torch.bool, device=x_BTD.device)
            lengths_B = keep_BT.sum(dim=1).clamp(min=1)
            reversed_BT = _reversed_positions(lengths_B, x_BTD.shape[1])
            reversed_x = torch.gather(x_BTD, 1, reversed_BT[..., None].expand_as(x_BTD))
            backward_state = tuple(part[1] for part in state)
            states, gates, last = self._run_direction(reversed_x, lengths_B, backward_state, "_reverse")
            states = torch.gather(states, 1, reversed_BT[..., None].expand_as(states))
            gates = torch.gather(gates, 1, reversed_BT[..., None, None].expand_as(gates))
            directions.append((states, gates, last))
        # Gates can be recorded, but not replaced: the states are computed already.
        self.gates(torch.cat([gates for _, gates, _ in directions], dim=-1))
        states_BTD = self.states(torch.cat([states for states, _, _ in directions], dim=-1))
        last = tuple(torch.stack(parts) for parts in zip(*(each for _, _, each in directions), strict=True))
        return states_BTD, last

    def _run_direction(
        self, x_BTD: Tensor, lengths_B: Tensor | None, state: LayerState, suffix: str
    ) -> tuple[Tensor, Tensor, LayerState]:
        """Return the states (B, T, D), the gates (B, T, G, D) and the final state of one direction."""
        weights = [getattr(self.net, f"{name}_l0{suffix}") for name in ("weight_ih", "bias_ih", "weight_hh", "bias_hh")]
        inputs_BTG = nn.functional.linear(x_BTD, weights[0], weights[1])
        states, gates = [], []
        for time in range(x_BTD.shape[1]):
            following, gate = self._step(inputs_BTG[:, time], weights[2], weights[3], state)
            if lengths_B is not None:
                is_token = (time < lengths_B)[:, None]
                following = tuple(torch.where(is_token, new, old) for new, old in zip(following, state, strict=True))
            state = following
            states.append(state[0])
            gates.append(gate)
        return torch.stack(states, dim=1), torch.stack(gates, dim=1), state

    def _step(self, inputs_BG: Tensor, weight: Tensor, bias: Tensor, state: LayerState) -> tuple[LayerState, Tensor]:
        """Return the state after one step and its gates (B, G, D)."""
        hidden = state[0]
        recurrent_BG = nn.functional.linear(hidden, weight, bias)
        if self.cell == "rnn":
            new = inputs_BG + recurrent_BG
            new = new.relu() if self.nonlinearity == "relu" else new.tanh()
            return (new,), new[:, None]
        if self.cell == "gru":
            reset, update, new = inputs_BG.chunk(3, -1)
            hidden_reset, hidden_update, hidden_new = recurrent_BG.chunk(3, -1)
            reset, update = (reset + hidden_reset).sigmoid(), (update + hidden_update).sigmoid()
            new = (new + reset * hidden_new).tanh()
            return (new + update * (hidden - new),), torch.stack([reset, update, new], dim=1)
        input_gate, forget_gate, new, output_gate = (inputs_BG + recurrent_BG).chunk(4, -1)
        input_gate, forget_gate, output_gate = (gate.sigmoid() for gate in (input_gate, forget_gate, output_gate))
        new = new.tanh()
        memory = forget_gate * state[1] + input_gate * new
        return (output_gate * memory.tanh(), memory), torch.stack([input_gate, forget_gate, new, output_gate], dim=1)


def _reversed_positions(lengths_B: Tensor, length: int) -> Tensor:
    """Return the index (B, T) that reverses the tokens of each row and leaves padding in place."""
    positions_T = torch.arange(length, device=lengths_B.device)
    is_token = positions_T < lengths_B[:, None]
    return torch.where(is_token, lengths_B[:, None] - 1 - positions_T, positions_T)
