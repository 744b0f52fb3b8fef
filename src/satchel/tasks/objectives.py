"""How wrong predictions are: cross-entropy that never holds the scores of all positions at once.

Letters: N positions of a batch, D width, V classes.
"""

from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

# A position whose target is this has none: padding, or text that is only context.
NO_TARGET = -100
# As many scores at once as fit in a few megabytes, and rows enough that products are worth it with many classes.
SCORES_AT_ONCE = 1 << 22

Reduction = Literal["sum", "mean"]


def cross_entropy(
    hidden_ND: Tensor,
    weight_VD: Tensor,
    targets_N: Tensor,
    bias_V: Tensor | None = None,
    *,
    reduction: Reduction = "mean",
    smoothing: float = 0.0,
    weights_V: Tensor | None = None,
    at_once: int = SCORES_AT_ONCE,
) -> Tensor:
    """Return the sum, or the mean over positions that have a target, of -log softmax(W h + b)[target].

    With `smoothing`, that share of each target is spread over all classes; each loss counts as much as the weight
    of its class. The scores are made, used and
    forgotten some positions at a time; their gradient is taken on the way.
    """
    rows = max(1, at_once // len(weight_VD))
    loss: Tensor = _CrossEntropy.apply(  # type: ignore[no-untyped-call]
        hidden_ND, weight_VD, bias_V, targets_N, smoothing, weights_V, rows
    )
    if reduction == "sum":
        return loss
    return loss / (targets_N != NO_TARGET).sum().clamp(min=1)


class _CrossEntropy(torch.autograd.Function):
    """The sum of the losses. Forward does the work of backward too: the scores are there then, and only then."""

    @staticmethod
    def forward(
        context: Any,
        hidden_ND: Tensor,
        weight_VD: Tensor,
        bias_V: Tensor | None,
        targets_N: Tensor,
        smoothing: float,
        weights_V: Tensor | None,
        rows: int,
    ) -> Tensor:
        wanted = context.needs_input_grad
        device = hidden_ND.device.type
        # Products are made in what autocast asks for; sums, and all that is kept, in what the weights are.
        kind = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else weight_VD.dtype
        factors_ND, factors_VD = hidden_ND.to(kind), weight_VD.to(kind)
        factors_V = None if bias_V is None else bias_V.to(kind)
        loss = weight_VD.new_zeros(())
        hidden_grad = torch.empty_like(factors_ND) if wanted[0] else None
        weight_grad = torch.zeros_like(weight_VD) if wanted[1] else None
        bias_grad = torch.zeros_like(bias_V) if bias_V is not None and wanted[2] else None
        for start in range(0, len(hidden_ND), rows):
            part, targets = factors_ND[start : start + rows], targets_N[start : start + rows]
            scores_NV = F.linear(part, factors_VD, factors_V).to(weight_VD.dtype)
            logprobs_NV = scores_NV.log_softmax(dim=-1)
            known = targets.clamp(min=0)
            counts_N1 = (targets != NO_TARGET)[:, None].to(logprobs_NV.dtype)
            if weights_V is not None:
                counts_N1 = counts_N1 * weights_V[known][:, None]
            losses_N1 = -(1 - smoothing) * logprobs_NV.gather(1, known[:, None])
            if smoothing:
                losses_N1 -= smoothing * logprobs_NV.mean(dim=1, keepdim=True)
            loss += (losses_N1 * counts_N1).sum()
            if hidden_grad is None and weight_grad is None and bias_grad is None:
                continue
            grad_NV = logprobs_NV.exp_()
            grad_NV.scatter_add_(1, known[:, None], torch.full_like(counts_N1, smoothing - 1))
            if smoothing:
                grad_NV -= smoothing / len(weight_VD)
            grad_NV *= counts_N1
            if bias_grad is not None:
                bias_grad += grad_NV.sum(dim=0)
            grad_NV = grad_NV.to(kind)
            if hidden_grad is not None:
                torch.mm(grad_NV, factors_VD, out=hidden_grad[start : start + rows])
            if weight_grad is not None and weight_grad.dtype == kind:
                weight_grad.addmm_(grad_NV.T, part)
            elif weight_grad is not None:
                weight_grad += grad_NV.T @ part
        context.save_for_backward(hidden_grad, weight_grad, bias_grad)
        return loss

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients, each times that of the loss."""
        hidden, weight, bias = (None if part is None else part * gradients[0] for part in context.saved_tensors)
        return hidden, weight, bias, None, None, None, None
