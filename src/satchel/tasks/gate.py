"""The gate between a network and the n-gram it stands on.

It is not trained with the network but fitted to a text that neither of them has seen: on the text it learned from, a
network is surer than it will be on any other, and a gate that learned there would believe it too much.

Letters: N positions, D width.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from satchel.nn.sites import Site

# How strongly weights are held near zero: as if by so many positions that say nothing about them.
POSITIONS_BEFORE = 20
ITERATIONS = 100


class Gate(nn.Module):
    """How far a network is to be believed, and how far the n-gram it stands on, read off its encoding."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, 1).requires_grad_(False)
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)
        self.gate = Site()

    def forward(self, encoded: Tensor) -> Tensor:
        """Return the (...) scores of the network at (..., D) encodings: its share of the answer is their sigmoid."""
        scores: Tensor = self.gate(self.linear(encoded).squeeze(-1))
        return scores

    def fit(self, encoded_ND: Tensor, own_N: Tensor, others_N: Tensor) -> None:
        """Make the gate the one under which a text is most probable, given what network and n-gram say of it, in logs.

        It depends on nothing else: not on what the gate was before.
        """
        mean_D, scale_D = encoded_ND.mean(dim=0), encoded_ND.std(dim=0, correction=0).clamp(min=1e-9)
        x_ND = ((encoded_ND - mean_D) / scale_D).double()
        weight_D, bias = (torch.zeros(size, dtype=torch.float64, requires_grad=True) for size in (x_ND.shape[1], 1))
        search = torch.optim.LBFGS([weight_D, bias], max_iter=ITERATIONS, line_search_fn="strong_wolfe")

        def cost() -> Tensor:
            search.zero_grad()
            gates_N = x_ND @ weight_D + bias
            logprobs_N = torch.logaddexp(own_N + F.logsigmoid(gates_N), others_N + F.logsigmoid(-gates_N))
            total: Tensor = POSITIONS_BEFORE * weight_D.square().sum() - logprobs_N.sum()
            mean = total / len(x_ND)
            mean.backward()
            return mean

        with torch.enable_grad():
            search.step(cost)
        with torch.no_grad():
            weight_D = weight_D / scale_D
            self.linear.weight.copy_(weight_D[None])
            self.linear.bias.copy_(bias - weight_D @ mean_D.double())
