"""Recurrent cells with exact weights: the lesson's sums, and the same from the package's recurrent layers."""

import math
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from satchel.errors import SettingsError
from satchel.lessons.rnn import ADDING, ADDING_RELU, RecurrentCell, adding_only, adding_tanh, rnn
from satchel.lessons.steps import Lesson, Matrix, Step, is_right
from satchel.nn.recurrence import RecurrentLayer

SEQUENCES = [(1, 2, 3, 4), (2, 2, 2), (-1, 2, -5, -1, 0, 3), (0,), (5, 4, 3, 2, 1, 2)]


def step(title: str, **dials: Any) -> Step:
    """Return the one step whose title begins so."""
    (found,) = (each for each in rnn(**dials) if each.title.startswith(title))
    return found


def matrix(title: str, **dials: Any) -> Matrix:
    return step(title, **dials).matrices[0]


def layer(cell: RecurrentCell, nonlinearity: str) -> RecurrentLayer:
    """Return the package's layer with the weights of a lesson's cell."""
    made = RecurrentLayer("rnn", 1, len(cell.into), nonlinearity=nonlinearity)
    weights = {
        "weight_ih_l0": [[float(number)] for number in cell.into],
        "weight_hh_l0": [[float(number) for number in row] for row in cell.within],
        "bias_ih_l0": [float(number) for number in cell.bias],
        "bias_hh_l0": [0.0] * len(cell.bias),
    }
    with torch.no_grad():
        for name, parameter in made.net.named_parameters():
            parameter.copy_(torch.tensor(weights[name]))
    return made


def layer_reads(cell: RecurrentCell, nonlinearity: str, sequence: tuple[float, ...]) -> Tensor:
    with torch.no_grad():
        states, _ = layer(cell, nonlinearity)(torch.tensor(sequence, dtype=torch.float32).reshape(1, -1, 1))
        found: Tensor = states[0] @ torch.tensor([float(number) for number in cell.out])
    return found


@pytest.mark.item(8)
@pytest.mark.parametrize("sequence", SEQUENCES)
def test_a_cell_adds_what_it_reads(sequence: tuple[int, ...]) -> None:
    sums = [sum(sequence[: stop + 1]) for stop in range(len(sequence))]
    assert ADDING.read(sequence) == sums
    assert ADDING_RELU.read(sequence) == sums
    assert layer_reads(ADDING_RELU, "relu", sequence).tolist() == sums
    assert step("Adding each", sequence=sequence).answer == (sum(sequence),)


@pytest.mark.item(8)
def test_the_steps_of_the_sum() -> None:
    assert matrix("Adding each").values == ((1, 0, 1), (2, 1, 3), (3, 3, 6), (4, 6, 10))


@pytest.mark.item(8)
def test_with_tanh_the_sum_is_only_near() -> None:
    found = dict(zip(matrix("With a real").rows, matrix("With a real").values, strict=True))
    assert found["identity"] == found["ReLU"] == (10, 0)
    errors = [float(row[1]) for name, row in found.items() if name.startswith("tanh")]
    assert errors == pytest.approx([9.0001, 2.6912, 0.0412, 0.000415], rel=1e-2)
    assert all(later < earlier / 3 for earlier, later in pairwise(errors))
    assert errors[-1] > 0
    hidden = 0.0
    for number in (1, 2, 3, 4):
        hidden = math.tanh(0.01 * number + hidden)
    assert float(found["tanh, x times 0.01"][0]) == pytest.approx(hidden / 0.01, rel=1e-12)
    assert float(layer_reads(adding_tanh(0.01), "tanh", (1, 2, 3, 4))[-1]) == pytest.approx(hidden / 0.01, rel=1e-4)


@pytest.mark.item(9)
@pytest.mark.parametrize("sequence", SEQUENCES)
@pytest.mark.parametrize("only", [2, -1, 0, 7])
def test_a_cell_adds_only_a_certain_value(sequence: tuple[int, ...], only: int) -> None:
    sums = [sum(number for number in sequence[: stop + 1] if number == only) for stop in range(len(sequence))]
    cell = adding_only(only)
    assert cell.read(sequence) == sums
    assert layer_reads(cell, "relu", sequence).tolist() == sums
    assert step("Adding only", sequence=sequence, only=only).answer == (sums[-1],)


@pytest.mark.item(9)
def test_the_gate_opens_at_the_value() -> None:
    gated = matrix("Adding only", sequence=(1, 2, 3, 2), only=2.0)
    assert gated.columns == ("x_i", "relu(x-1)", "relu(x-2)", "relu(x-3)", "counted", "gate", "h_i")
    assert [row[gated.columns.index("gate")] for row in gated.values] == [0, 1, 0, 1]
    assert [row[gated.columns.index("h_i")] for row in gated.values] == [0, 2, 2, 4]
    assert step("Adding only").answer == (2,)


@pytest.mark.item(7)
def test_the_parameters_do_not_depend_on_the_length() -> None:
    rows = matrix("As many").values
    assert [row[0] for row in rows] == [4, 8, 400]
    assert {row[1] for row in rows} == {28}
    assert [row[2] for row in rows] == [24, 40, 1608]
    assert step("As many").answer == (28,)
    # torch keeps two biases where one would do, and the lesson counts the four numbers that read the sum.
    net: nn.RNNBase = layer(adding_only(2), "relu").net
    assert sum(parameter.numel() for parameter in net.parameters()) - 4 + 4 == adding_only(2).parameters


@pytest.mark.item(10)
def test_long_sequences_are_summed_exactly() -> None:
    assert matrix("100 times").values == ((1000, 200),)
    long = (1, 2, 3, 4) * 100
    assert float(layer_reads(ADDING_RELU, "relu", long)[-1]) == 1000
    assert float(layer_reads(adding_only(2), "relu", long)[-1]) == 200


@pytest.mark.item(104)
def test_what_this_model_can_do_can_be_answered() -> None:
    asked = step("One cell")
    assert asked.question == "What can this model do?"
    assert is_right("It can add up its inputs", asked.answer)
    assert not is_right("translate", asked.answer)


def test_dials_are_read_as_settings() -> None:
    lesson = Lesson("rnn", "Cells", "notes", (7, 8, 9, 10), rnn)
    assert lesson.run(sequence=[3, 3], only=3)[1].answer == (6,)
    with pytest.raises(SettingsError, match="sequence"):
        lesson.run(sequence=["a"])


@pytest.mark.parametrize(
    ("dials", "cause"),
    [
        ({"sequence": ()}, "sequence: found 0 numbers, expected 1 to 20"),
        ({"sequence": (1.0,) * 21}, "sequence: found 21 numbers"),
        ({"sequence": (1, 2.5)}, "sequence: found 2.5, expected whole numbers"),
        ({"sequence": (1, 1e9)}, r"sequence: found 1e\+09"),
        ({"sequence": (math.nan,)}, "sequence: found nan"),
        ({"only": 0.5}, "only: found 0.5, expected whole numbers"),
    ],
)
def test_bad_dials_are_told(dials: dict[str, Any], cause: str) -> None:
    with pytest.raises(SettingsError, match=cause) as caught:
        rnn(**dials)
    assert caught.value.remedy
