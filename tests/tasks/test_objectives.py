"""Cross-entropy in chunks: values, gradients and memory."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from satchel.data.batches import NO_TARGET
from satchel.tasks.objectives import cross_entropy


def example(rows: int = 13, width: int = 5, classes: int = 7) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(rows, width, generator=generator, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(classes, width, generator=generator, dtype=torch.float64, requires_grad=True)
    targets = torch.randint(0, classes, (rows,), generator=generator)
    targets[3] = NO_TARGET
    return hidden, weight, targets


@pytest.mark.item(80, 83)
@pytest.mark.parametrize("at_once", [1, 7, 20, 10_000])
@pytest.mark.parametrize("reduction", ["sum", "mean"])
@pytest.mark.parametrize("biased", [False, True])
def test_it_equals_the_cross_entropy_of_torch(at_once: int, reduction: Any, biased: bool) -> None:
    hidden, weight, targets = example()
    bias = torch.randn(7, dtype=torch.float64, requires_grad=True) if biased else None
    inputs = [hidden, weight, *([bias] if bias is not None else [])]
    loss = cross_entropy(hidden, weight, targets, bias, reduction=reduction, at_once=at_once)
    expected = F.cross_entropy(F.linear(hidden, weight, bias), targets, ignore_index=NO_TARGET, reduction=reduction)
    torch.testing.assert_close(loss, expected, rtol=1e-12, atol=1e-12)
    gradients = torch.autograd.grad(3 * loss, inputs)
    for mine, theirs in zip(gradients, torch.autograd.grad(3 * expected, inputs), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.item(83)
def test_sum_and_mean_differ_by_the_number_of_targets() -> None:
    hidden, weight, targets = example()
    total, mean = (cross_entropy(hidden, weight, targets, reduction=name) for name in ("sum", "mean"))
    torch.testing.assert_close(total, 12 * mean)
    logprobs = (hidden @ weight.T).log_softmax(dim=-1)
    by_hand = -sum(logprobs[row, target] for row, target in enumerate(targets.tolist()) if target != NO_TARGET)
    torch.testing.assert_close(total, by_hand)
    torch.testing.assert_close(torch.nn.NLLLoss(ignore_index=NO_TARGET)(logprobs, targets), mean)


def test_the_gradient_is_correct() -> None:
    hidden, weight, targets = example(4, 3, 5)
    assert torch.autograd.gradcheck(lambda h, w: cross_entropy(h, w, targets, at_once=5), (hidden, weight))


def test_only_the_required_gradients_are_computed() -> None:
    hidden, weight, targets = example()
    (alone,) = torch.autograd.grad(cross_entropy(hidden, weight.detach(), targets), [hidden])
    both = torch.autograd.grad(cross_entropy(hidden, weight, targets), [hidden, weight])
    assert torch.equal(alone, both[0])
    assert not cross_entropy(hidden.detach(), weight.detach(), targets).requires_grad


def test_a_batch_without_targets_has_a_loss_of_zero() -> None:
    hidden, weight, _ = example()
    loss = cross_entropy(hidden, weight, torch.full((13,), NO_TARGET))
    assert loss.item() == 0
    assert torch.equal(torch.autograd.grad(loss, [hidden])[0], torch.zeros_like(hidden))


def test_the_logits_of_all_positions_are_never_in_memory_at_once() -> None:
    largest = 0

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            nonlocal largest
            result = function(*args, **(kwargs or {}))
            if isinstance(result, torch.Tensor):
                largest = max(largest, result.numel())
            return result

    rows, classes, width, at_once = 512, 1000, 8, 4000
    hidden = torch.randn(rows, width, requires_grad=True)
    weight = torch.randn(classes, width, requires_grad=True)
    with Watch():  # type: ignore[no-untyped-call]
        cross_entropy(hidden, weight, torch.randint(0, classes, (rows,)), at_once=at_once).backward()
    assert largest <= max(rows * width, classes * width) < rows * classes / 50
