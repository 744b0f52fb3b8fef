"""The gate that interpolates a network with an n-gram model."""

import numpy as np
import pytest
import torch

from satchel.tasks.gate import Gate


def example(positions: int = 4000, width: int = 5) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return encodings and two log-probabilities; the second dimension of an encoding decides which one is higher."""
    generator = torch.Generator().manual_seed(0)
    encoded = 3 + 10 * torch.randn(positions, width, generator=generator)
    sure, unsure = np.log(0.9), np.log(0.1)
    first = torch.where(encoded[:, 1] > 0, sure, unsure).double()
    second = torch.where(encoded[:, 1] > 0, unsure, sure).double()
    return encoded, first, second


def test_the_gate_selects_the_better_model_by_the_encoding() -> None:
    encoded, network, ngram = example()
    gate = Gate(5)
    gate.fit(encoded, network, ngram)
    shares = gate(encoded).sigmoid()
    clear = encoded[:, 1].abs() > 5
    assert ((shares > 0.5) == (network > ngram))[clear].all()
    assert shares[clear & (network > ngram)].min() > 0.8
    assert shares[clear & (network < ngram)].max() < 0.2


def test_with_uninformative_encodings_the_gate_is_the_best_constant_weight() -> None:
    _, network, ngram = example()
    gate = Gate(3)
    gate.fit(torch.zeros(len(network), 3), network, ngram)
    share = gate(torch.zeros(1, 3)).sigmoid().item()
    weights = np.linspace(0.001, 0.999, 999)
    costs = [-torch.logaddexp(network + np.log(w), ngram + np.log(1 - w)).mean().item() for w in weights]
    assert share == pytest.approx(weights[int(np.argmin(costs))], abs=0.002)


def test_the_fit_does_not_depend_on_the_previous_gate_or_the_scale_of_encodings() -> None:
    encoded, network, ngram = example()
    gate, used = Gate(5), Gate(5)
    gate.fit(encoded, network, ngram)
    used.fit(-encoded, ngram, network)
    used.fit(encoded, network, ngram)
    assert torch.equal(gate.linear.weight, used.linear.weight)
    large = Gate(5)
    large.fit(1000 * encoded, network, ngram)
    torch.testing.assert_close(large(1000 * encoded), gate(encoded), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("positions", [1, 2, 10])
def test_the_penalty_keeps_the_gate_near_one_half_with_few_positions(positions: int) -> None:
    encoded, network, ngram = example(positions)
    gate = Gate(5)
    gate.fit(encoded, network, ngram)
    assert torch.isfinite(gate.linear.weight).all()
    logits = gate(encoded)
    assert torch.isfinite(logits).all()


def test_a_probability_of_zero_in_one_model_is_supported() -> None:
    encoded, network, ngram = example(100)
    ngram = torch.full_like(ngram, -torch.inf)
    gate = Gate(5)
    gate.fit(encoded, network, ngram)
    assert gate(encoded).sigmoid().min() > 0.8
