"""Recurrent cells with weights set by hand: their sums, and the same from the recurrent layer of the package."""

import math
from itertools import pairwise

import pytest
import torch
from torch import Tensor, nn

from satchel.lessons.rnn import ADDING, ADDING_RELU, RecurrentCell, adding_only, adding_tanh, rnn
from satchel.nn.recurrence import RecurrentLayer
from tests.lessons.lookup import Lookup

lookup = Lookup(rnn)
step, matrix = lookup.step, lookup.matrix

SEQUENCES = [(1, 2, 3, 4), (2, 2, 2), (-1, 2, -5, -1, 0, 3), (0,), (5, 4, 3, 2, 1, 2)]


def layer(cell: RecurrentCell, nonlinearity: str) -> RecurrentLayer:
    """Return the recurrent layer of the package with the weights of a cell."""
    network = RecurrentLayer("rnn", 1, len(cell.w), nonlinearity=nonlinearity)
    weights = {
        "weight_ih_l0": [[float(number)] for number in cell.w],
        "weight_hh_l0": [[float(number) for number in row] for row in cell.u],
        "bias_ih_l0": [float(number) for number in cell.b],
        "bias_hh_l0": [0.0] * len(cell.b),
    }
    with torch.no_grad():
        for name, parameter in network.net.named_parameters():
            parameter.copy_(torch.tensor(weights[name]))
    return network


def layer_outputs(cell: RecurrentCell, nonlinearity: str, sequence: tuple[float, ...]) -> Tensor:
    with torch.no_grad():
        states, _ = layer(cell, nonlinearity)(torch.tensor(sequence, dtype=torch.float32).reshape(1, -1, 1))
        outputs: Tensor = states[0] @ torch.tensor([float(number) for number in cell.v])
    return outputs


@pytest.mark.item(8)
@pytest.mark.parametrize("sequence", SEQUENCES)
def test_a_cell_adds_its_inputs(sequence: tuple[int, ...]) -> None:
    sums = [sum(sequence[: stop + 1]) for stop in range(len(sequence))]
    assert ADDING.outputs(sequence) == sums
    assert ADDING_RELU.outputs(sequence) == sums
    assert layer_outputs(ADDING_RELU, "relu", sequence).tolist() == sums
    assert step("Adding each", sequence=sequence).answer == (sum(sequence),)


@pytest.mark.item(8)
def test_the_hidden_states_are_partial_sums() -> None:
    assert matrix("Adding each").values == ((1, 0, 1), (2, 1, 3), (3, 3, 6), (4, 6, 10))


@pytest.mark.item(8)
def test_with_tanh_the_sum_is_approximate() -> None:
    table = matrix("Other activation")
    rows = dict(zip(table.rows, table.values, strict=True))
    assert rows["identity"] == rows["ReLU"] == (10, 0)
    errors = [float(row[1]) for name, row in rows.items() if name.startswith("tanh")]
    assert errors == pytest.approx([9.0001, 2.6912, 0.0412, 0.000415], rel=1e-2)
    assert all(later < earlier / 3 for earlier, later in pairwise(errors))
    assert errors[-1] > 0
    hidden = 0.0
    for number in (1, 2, 3, 4):
        hidden = math.tanh(0.01 * number + hidden)
    assert float(rows["tanh, inputs times 0.01"][0]) == pytest.approx(hidden / 0.01, rel=1e-12)
    assert float(layer_outputs(adding_tanh(0.01), "tanh", (1, 2, 3, 4))[-1]) == pytest.approx(hidden / 0.01, rel=1e-4)


@pytest.mark.item(9)
@pytest.mark.parametrize("sequence", SEQUENCES)
@pytest.mark.parametrize("only", [2, -1, 0, 7])
def test_a_cell_adds_only_a_certain_value(sequence: tuple[int, ...], only: int) -> None:
    sums = [sum(number for number in sequence[: stop + 1] if number == only) for stop in range(len(sequence))]
    cell = adding_only(only)
    assert cell.outputs(sequence) == sums
    assert layer_outputs(cell, "relu", sequence).tolist() == sums
    assert step("Adding only", sequence=sequence, only=only).answer == (sums[-1],)


@pytest.mark.item(9)
def test_the_gate_is_one_for_the_value_only() -> None:
    gated = matrix("Adding only", sequence=(1, 2, 3, 2), only=2.0)
    assert gated.columns == ("x_i", "relu(x-1)", "relu(x-2)", "relu(x-3)", "count", "gate", "h_i")
    assert [row[gated.columns.index("gate")] for row in gated.values] == [0, 1, 0, 1]
    assert [row[gated.columns.index("h_i")] for row in gated.values] == [0, 2, 2, 4]
    assert step("Adding only").answer == (2,)


@pytest.mark.item(7)
def test_the_parameters_do_not_depend_on_the_length() -> None:
    rows = matrix("The number of parameters").values
    assert [row[0] for row in rows] == [4, 8, 400]
    assert {row[1] for row in rows} == {28}
    assert [row[2] for row in rows] == [24, 40, 1608]
    assert step("The number of parameters").answer == (28,)
    # torch has a second bias of 4 numbers; the lesson counts the 4 weights of the output.
    net: nn.RNNBase = layer(adding_only(2), "relu").net
    assert sum(parameter.numel() for parameter in net.parameters()) - 4 + 4 == adding_only(2).parameters


@pytest.mark.item(10)
def test_long_sequences_are_summed_exactly() -> None:
    assert matrix("A sequence 100 times").values == ((1000, 200),)
    long = (1, 2, 3, 4) * 100
    assert float(layer_outputs(ADDING_RELU, "relu", long)[-1]) == 1000
    assert float(layer_outputs(adding_only(2), "relu", long)[-1]) == 200


@pytest.mark.item(104)
def test_the_answer_on_the_abilities_of_the_model_is_checked() -> None:
    first = step("One cell")
    assert first.question == "What can this model do?"
    assert first.is_correct("It can add up its inputs")
    assert not first.is_correct("translate")
