"""The gate that interpolates a network with an n-gram model.

It is not trained with the network but fitted to held-out text: a network is overconfident on its training data, and a
gate trained there would give it too much weight.
Shapes: N positions, D width.
"""

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from satchel.nn.sites import Site

# Coefficient of the L2 penalty on the gate's weights.
L2_PENALTY = 20
MAX_ITERATIONS = 100


class Gate(nn.Module):
    """Logistic regression from an encoding to the weight of the network in the interpolation."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, 1).requires_grad_(False)
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)
        self.gate = Site()

    def forward(self, encoded: Tensor) -> Tensor:
        """Return the gate's logits (...) at encodings (..., D); the network's weight is their sigmoid."""
        return self.gate(self.linear(encoded).squeeze(-1))

    def logits(self, encoded: Tensor) -> npt.NDArray[np.float64]:
        """Return the gate's logits (...) in NumPy, whose overhead is smaller for the encodings of a decoding step."""
        if self.gate.is_hooked:
            with torch.inference_mode():
                hooked: npt.NDArray[np.float64] = self(encoded).cpu().double().numpy()
            return hooked
        weight, bias = (part.detach().cpu().double().numpy() for part in (self.linear.weight, self.linear.bias))
        logits: npt.NDArray[np.float64] = encoded.detach().cpu().double().numpy().dot(weight[0]) + bias
        return logits

    def fit(self, encoded_ND: Tensor, network_logprobs_N: Tensor, ngram_logprobs_N: Tensor) -> None:
        """Set the parameters that maximise the log-likelihood of the interpolation, minus the L2 penalty.

        The previous parameters have no influence. Encodings are standardised, so that the penalty does not depend on
        their scale.
        """
        mean_D, scale_D = encoded_ND.mean(dim=0), encoded_ND.std(dim=0, correction=0).clamp(min=1e-9)
        x_ND = ((encoded_ND - mean_D) / scale_D).double()
        weight_D, bias = (torch.zeros(size, dtype=torch.float64, requires_grad=True) for size in (x_ND.shape[1], 1))
        optimizer = torch.optim.LBFGS([weight_D, bias], max_iter=MAX_ITERATIONS, line_search_fn="strong_wolfe")

        def objective() -> Tensor:
            optimizer.zero_grad()
            logits_N = x_ND @ weight_D + bias
            logprobs_N = torch.logaddexp(
                network_logprobs_N + F.logsigmoid(logits_N), ngram_logprobs_N + F.logsigmoid(-logits_N)
            )
            total: Tensor = L2_PENALTY * weight_D.square().sum() - logprobs_N.sum()
            mean = total / len(x_ND)
            mean.backward()
            return mean

        with torch.enable_grad():
            optimizer.step(objective)
        with torch.no_grad():
            weight_D = weight_D / scale_D
            self.linear.weight.copy_(weight_D[None])
            self.linear.bias.copy_(bias - weight_D @ mean_D.double())
