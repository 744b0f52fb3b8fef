"""The gate between a network and an n-gram is the one that suits a text neither has seen."""

import numpy as np
import pytest
import torch

from satchel.tasks.gate import Gate


def example(positions: int = 4000, width: int = 5) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return encodings, and two answers of which one or the other is better, as the second number of each says."""
    generator = torch.Generator().manual_seed(0)
    encoded = 3 + 10 * torch.randn(positions, width, generator=generator)
    sure, unsure = np.log(0.9), np.log(0.1)
    first = torch.where(encoded[:, 1] > 0, sure, unsure).double()
    second = torch.where(encoded[:, 1] > 0, unsure, sure).double()
    return encoded, first, second


def test_it_believes_whoever_is_right_where_the_encoding_tells() -> None:
    encoded, own, others = example()
    gate = Gate(5)
    gate.fit(encoded, own, others)
    shares = gate(encoded).sigmoid()
    clear = encoded[:, 1].abs() > 5
    assert ((shares > 0.5) == (own > others))[clear].all()
    assert shares[clear & (own > others)].min() > 0.8
    assert shares[clear & (own < others)].max() < 0.2


def test_where_nothing_tells_it_is_the_best_weight_for_all() -> None:
    _, own, others = example()
    gate = Gate(3)
    gate.fit(torch.zeros(len(own), 3), own, others)
    share = gate(torch.zeros(1, 3)).sigmoid().item()
    weights = np.linspace(0.001, 0.999, 999)
    costs = [-torch.logaddexp(own + np.log(w), others + np.log(1 - w)).mean().item() for w in weights]
    assert share == pytest.approx(weights[int(np.argmin(costs))], abs=0.002)


def test_it_does_not_depend_on_what_the_gate_was_before_or_on_the_scale_of_encodings() -> None:
    encoded, own, others = example()
    gate, used = Gate(5), Gate(5)
    gate.fit(encoded, own, others)
    used.fit(-encoded, others, own)
    used.fit(encoded, own, others)
    assert torch.equal(gate.linear.weight, used.linear.weight)
    large = Gate(5)
    large.fit(1000 * encoded, own, others)
    torch.testing.assert_close(large(1000 * encoded), gate(encoded), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("positions", [1, 2, 10])
def test_a_few_positions_hardly_move_it(positions: int) -> None:
    encoded, own, others = example(positions)
    gate = Gate(5)
    gate.fit(encoded, own, others)
    assert torch.isfinite(gate.linear.weight).all()
    found = gate(encoded)
    assert torch.isfinite(found).all()


def test_what_one_finds_impossible_is_left_to_the_other() -> None:
    encoded, own, others = example(100)
    others = torch.full_like(others, -torch.inf)
    gate = Gate(5)
    gate.fit(encoded, own, others)
    assert gate(encoded).sigmoid().min() > 0.8
