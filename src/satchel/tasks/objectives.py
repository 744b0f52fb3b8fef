"""Cross-entropy of a linear layer that computes logits in chunks, to limit memory.

Shapes: N positions of a batch, D width, V classes.
"""

from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from satchel.data.batches import NO_TARGET

# Number of logits in memory at once: a few megabytes, with enough rows for efficient matrix products.
LOGITS_AT_ONCE = 1 << 22
# Number of float32 logits in the processor's cache.
CACHED_LOGITS = 1 << 19

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
    at_once: int = LOGITS_AT_ONCE,
) -> Tensor:
    """Return the sum, or the mean over positions with a target, of -log softmax(W h + b)[target].

    `smoothing` is label smoothing; `weights_V` multiplies the loss of a position by the weight of its target class.
    """
    rows = max(1, at_once // len(weight_VD))
    loss: Tensor = _CrossEntropy.apply(  # type: ignore[no-untyped-call]
        hidden_ND, weight_VD, bias_V, targets_N, smoothing, weights_V, rows
    )
    if reduction == "sum":
        return loss
    return loss / (targets_N != NO_TARGET).sum().clamp(min=1)


def _losses_and_gradient(logits_NV: Tensor, classes_N1: Tensor) -> tuple[Tensor, Tensor]:
    """Return the float32 losses -log p[y] (N, 1) and the gradients p - [v = y] in the memory of bfloat16 logits.

    The softmax is computed in float32, for so few rows at once that they stay in the processor's cache. It also gives
    the losses, which are at most 87: smaller probabilities are not represented.
    """
    rows = max(1, CACHED_LOGITS // logits_NV.shape[1])
    buffer_NV = logits_NV.new_empty(min(rows, len(logits_NV)), logits_NV.shape[1], dtype=torch.float32)
    ones_N1 = torch.ones_like(buffer_NV[:, :1])
    probs = []
    for part_NV, part_N1 in zip(logits_NV.split(rows), classes_N1.split(rows), strict=True):
        probs_NV = buffer_NV[: len(part_NV)].copy_(part_NV)
        torch.softmax(probs_NV, dim=-1, out=probs_NV)
        probs.append(probs_NV.gather(1, part_N1))
        # Subtracted in float32: the difference of a probability near 1 is not 0.
        part_NV.copy_(probs_NV.scatter_add_(1, part_N1, -ones_N1[: len(part_NV)]))
    return -torch.cat(probs).clamp(min=torch.finfo(torch.float32).tiny).log(), logits_NV


class _CrossEntropy(torch.autograd.Function):
    """Summed cross-entropy with a hand-written gradient, computed in the forward pass while the logits exist.

    For a position with hidden vector h, target y, weight c (0 without a target) and label smoothing e, with
    z = W h + b, p = softmax(z) and V classes:

        q[v]  = (1 - e) [v = y] + e / V              (smoothed target distribution)
        L     = -c sum over v of q[v] log p[v]
        dL/dz = c (p - q)
        dL/dh = W^T dL/dz,   dL/dW = dL/dz h^T,   dL/db = dL/dz

    dL/dW and dL/db are sums over positions, accumulated over the chunks. Backward multiplies the stored gradients by
    that of the loss.
    """

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
        needs_grad = context.needs_input_grad
        device = hidden_ND.device.type
        # Matrix products use the dtype of autocast; sums and stored gradients use the dtype of the weights.
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else weight_VD.dtype
        cast_hidden_ND, cast_weight_VD = hidden_ND.to(dtype), weight_VD.to(dtype)
        cast_bias_V = None if bias_V is None else bias_V.to(dtype)
        loss = weight_VD.new_zeros(())
        hidden_grad = torch.empty_like(cast_hidden_ND) if needs_grad[0] else None
        weight_grad = torch.zeros_like(weight_VD) if needs_grad[1] else None
        bias_grad = torch.zeros_like(bias_V) if bias_V is not None and needs_grad[2] else None
        # Skips a multiplication by 1.
        is_weighted = weights_V is not None or bool((targets_N == NO_TARGET).any())
        uses_probabilities = dtype == torch.bfloat16 and not smoothing
        for start in range(0, len(hidden_ND), rows):
            part_ND, targets = cast_hidden_ND[start : start + rows], targets_N[start : start + rows]
            logits_NV = F.linear(part_ND, cast_weight_VD, cast_bias_V)
            # A valid index for positions without a target; their weight is 0.
            classes_N1 = targets.clamp(min=0)[:, None]
            weights_N1 = (targets != NO_TARGET)[:, None].to(weight_VD.dtype)
            if weights_V is not None:
                weights_N1 = weights_N1 * weights_V[classes_N1]
            if uses_probabilities:
                losses_N1, grad_NV = _losses_and_gradient(logits_NV, classes_N1)
            else:
                logprobs_NV = logits_NV.to(weight_VD.dtype).log_softmax(dim=-1)
                losses_N1 = -(1 - smoothing) * logprobs_NV.gather(1, classes_N1)
                if smoothing:
                    losses_N1 -= smoothing * logprobs_NV.mean(dim=1, keepdim=True)
            loss += (losses_N1 * weights_N1).sum()
            if hidden_grad is None and weight_grad is None and bias_grad is None:
                continue
            # dL/dz = c (p - q), in the memory of the log-probabilities.
            if not uses_probabilities:
                grad_NV = logprobs_NV.exp_()
                grad_NV.scatter_add_(1, classes_N1, torch.full_like(weights_N1, smoothing - 1))
                if smoothing:
                    grad_NV -= smoothing / len(weight_VD)
            if is_weighted:
                grad_NV *= weights_N1.to(grad_NV.dtype)
            if bias_grad is not None:
                bias_grad += grad_NV.sum(dim=0, dtype=bias_grad.dtype)
            grad_NV = grad_NV.to(dtype)
            if hidden_grad is not None:
                torch.mm(grad_NV, cast_weight_VD, out=hidden_grad[start : start + rows])
            if weight_grad is not None and weight_grad.dtype == dtype:
                weight_grad.addmm_(grad_NV.T, part_ND)
            elif weight_grad is not None:
                weight_grad += grad_NV.T @ part_ND
        context.save_for_backward(hidden_grad, weight_grad, bias_grad)
        return loss

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Return the stored gradients times the gradient of the loss."""
        parts = context.saved_tensors
        # On other devices, the comparison would wait for the result.
        if gradients[0].device.type != "cpu" or gradients[0] != 1:
            parts = [None if part is None else part * gradients[0] for part in parts]
        return *parts, None, None, None, None
