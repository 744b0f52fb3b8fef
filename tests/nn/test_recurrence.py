"""Recurrent layers compared with PyTorch, fused and explicit, in one direction and both."""

from typing import Any

import pytest
import torch
from torch import nn

from satchel.nn.recurrence import GATES, RecurrentLayer
from satchel.nn.sites import recording

CELLS = ["rnn", "gru", "lstm"]


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("bidirectional", [False, True])
def test_stacked_layers_equal_a_multi_layer_network_of_torch(cell: Any, bidirectional: bool) -> None:
    hidden = 4 if bidirectional else 8
    theirs = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}[cell](
        6, hidden, num_layers=2, batch_first=True, bidirectional=bidirectional, dtype=torch.float64
    )
    layers = [RecurrentLayer(cell, inputs, 8, bidirectional=bidirectional).double() for inputs in (6, 8)]
    for number, layer in enumerate(layers):
        parameters = {
            name.replace(f"_l{number}", "_l0"): value
            for name, value in theirs.state_dict().items()
            if f"_l{number}" in name
        }
        layer.net.load_state_dict(parameters)
    x = torch.randn(3, 7, 6, dtype=torch.float64)
    expected, _ = theirs(x)
    outputs = x
    for layer in layers:
        outputs, _ = layer(outputs)
    torch.testing.assert_close(outputs, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("padded", [False, True])
def test_the_explicit_computation_equals_the_fused_one(cell: Any, bidirectional: bool, padded: bool) -> None:
    layer = RecurrentLayer(cell, 6, 8, bidirectional=bidirectional)
    x = torch.randn(3, 7, 6)
    keep = torch.ones(3, 7, dtype=torch.bool)
    if padded:
        keep[1, 4:] = keep[2, 1:] = False
    states, last = layer(x, keep)
    with recording(layer, "gates", "states") as records:
        visible, visible_last = layer(x, keep)
    torch.testing.assert_close(visible[keep], states[keep], rtol=1e-5, atol=1e-6)
    if not padded or bidirectional:
        for mine, expected in zip(visible_last, last, strict=True):
            torch.testing.assert_close(mine[:, 0], expected[:, 0], rtol=1e-5, atol=1e-6)
    (gates,) = records["gates"]
    assert gates.shape == (3, 7, len(GATES[cell]), 8)
    shares = [number for number, name in enumerate(GATES[cell]) if name != "new"]
    assert ((gates[:, :, shares] > 0) & (gates[:, :, shares] < 1)).all()


@pytest.mark.parametrize("cell", CELLS)
def test_the_final_state_continues_the_sequence(cell: Any) -> None:
    layer = RecurrentLayer(cell, 6, 8).double()
    x = torch.randn(2, 9, 6, dtype=torch.float64)
    whole, _ = layer(x)
    first, state = layer(x[:, :4])
    second, _ = layer(x[:, 4:], None, state)
    torch.testing.assert_close(torch.cat([first, second], dim=1), whole, rtol=1e-12, atol=1e-12)


@pytest.mark.item(7, 10)
def test_the_number_of_parameters_does_not_depend_on_the_length() -> None:
    layer = RecurrentLayer("rnn", 4, 4)
    before = sum(parameter.numel() for parameter in layer.parameters())
    for length in (1, 10, 2000):
        assert layer(torch.randn(1, length, 4))[0].shape == (1, length, 4)
    assert sum(parameter.numel() for parameter in layer.parameters()) == before == 2 * 16 + 2 * 4


@pytest.mark.item(8)
def test_a_cell_with_chosen_weights_sums_its_inputs() -> None:
    layer = RecurrentLayer("rnn", 1, 1, nonlinearity="relu").double()
    net: Any = layer.net
    with torch.no_grad():
        net.weight_ih_l0.fill_(1)
        net.weight_hh_l0.fill_(1)
        net.bias_ih_l0.zero_()
        net.bias_hh_l0.zero_()
        numbers = torch.tensor([1.0, 5.0, 2.0, 7.0], dtype=torch.float64)
        states, _ = layer(numbers[None, :, None])
    assert states.flatten().tolist() == [1, 6, 8, 15]
    curved = RecurrentLayer("rnn", 1, 1).double()
    curved.load_state_dict(layer.state_dict())
    small, _ = curved(numbers[None, :, None] / 1000)
    assert small[0, -1, 0].item() == pytest.approx(0.015, rel=1e-3)
    assert small[0, -1, 0].item() != 0.015


@pytest.mark.item(9)
def test_a_cell_can_sum_the_inputs_of_a_given_value_only() -> None:
    """Three units compute a bump that is 1 at 2 and 0 at other integers; the fourth sums it one step later."""
    layer = RecurrentLayer("rnn", 1, 4, nonlinearity="relu").double()
    net: Any = layer.net
    with torch.no_grad():
        net.weight_ih_l0.copy_(torch.tensor([[1.0], [1.0], [1.0], [0.0]]))
        net.bias_ih_l0.copy_(torch.tensor([-1.0, -2.0, -3.0, 0.0]))
        net.bias_hh_l0.zero_()
        net.weight_hh_l0.zero_()
        net.weight_hh_l0[3] = torch.tensor([2.0, -4.0, 2.0, 1.0])  # the value itself, 2, times the bump
        states, _ = layer(torch.tensor([2.0, 1.0, 2.0, 3.0, 0.0, 2.0, 0.0], dtype=torch.float64)[None, :, None])
    assert states[0, :, 3].tolist() == [0, 2, 2, 4, 4, 4, 6]


def test_a_bidirectional_layer_needs_an_even_width() -> None:
    with pytest.raises(ValueError, match="expected an even one"):
        RecurrentLayer("lstm", 4, 5, bidirectional=True)
