"""Recurrent networks with exact weights: a cell that adds its inputs, and a gated one (items 7 to 10)."""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from typing import NamedTuple

from satchel.lessons.arithmetic import Number, dot, exact, format_cell
from satchel.lessons.checks import check
from satchel.lessons.steps import Step, build_step, format_cells, matrix, vector

LONGEST = 20
LARGEST = 1_000_000
# How many times the sequence is repeated in the step on long sequences.
REPETITIONS = 100
# Input scales of the tanh cell: for small inputs tanh is nearly linear.
TANH_SCALES = (1.0, 0.1, 0.01, 0.001)

step = partial(build_step, "rnn", repetitions=REPETITIONS)


class RecurrentCell(NamedTuple):
    """h' = f(W x + U h + b) with a scalar input x; its output is v . h."""

    w: tuple[Number, ...]
    u: tuple[tuple[Number, ...], ...]
    b: tuple[Number, ...]
    v: tuple[Number, ...]
    activation: Callable[[Number], Number]

    @property
    def parameters(self) -> int:
        """The number of parameters in W, U, b and v."""
        return len(self.w) * (len(self.w) + 3)

    def states(self, sequence: Sequence[Number]) -> list[list[Number]]:
        """Return the hidden state after each input; the initial state is zero."""
        state: list[Number] = [Fraction(0)] * len(self.w)
        states = []
        for x in sequence:
            state = [self.activation(w * x + dot(u, state) + b) for w, u, b in zip(self.w, self.u, self.b, strict=True)]
            states.append(state)
        return states

    def outputs(self, sequence: Sequence[Number]) -> list[Number]:
        """Return the output after each input."""
        return [dot(self.v, state) for state in self.states(sequence)]


def _identity(number: Number) -> Number:
    return number


def _relu(number: Number) -> Number:
    return max(number, Fraction(0))


ADDING = RecurrentCell((1,), ((1,),), (0,), (1,), _identity)
# One unit for positive sums and one for negative sums: a single ReLU unit cannot represent a negative sum.
ADDING_RELU = RecurrentCell((1, -1), ((1, -1), (-1, 1)), (0, 0), (1, -1), _relu)


def adding_tanh(input_scale: float) -> RecurrentCell:
    """Return a tanh cell that approximately adds its inputs: inputs are scaled down, the output is scaled up again."""
    return RecurrentCell((input_scale,), ((1,),), (0,), (1 / input_scale,), math.tanh)


def adding_only(value: Number) -> RecurrentCell:
    """Return a ReLU cell that adds the inputs equal to an integer value and ignores all other integers.

    Three units compute the gate relu(x-v+1) - 2 relu(x-v) + relu(x-v-1), which is 1 for x = v and 0 for all other
    integers. The fourth unit counts the gates of earlier steps; the output is v times (the count + the current gate).
    """
    no_recurrence = (0, 0, 0, 0)
    return RecurrentCell(
        w=(1, 1, 1, 0),
        u=(no_recurrence, no_recurrence, no_recurrence, (1, -2, 1, 1)),
        b=(1 - value, -value, -1 - value, 0),
        v=(value, -2 * value, value, value),
        activation=_relu,
    )


def rnn(sequence: tuple[float, ...] = (1, 2, 3, 4), only: float = 2.0) -> list[Step]:
    """Return the states of a cell that adds integers, and of one that adds only a certain value."""
    check(1 <= len(sequence) <= LONGEST, "sequence", f"{len(sequence)} numbers", f"1 to {LONGEST}", "1,2,3,4")
    for name, number in (*(("sequence", number) for number in sequence), ("only", only)):
        # The gate is exact for integers only.
        valid = abs(number) <= LARGEST and number == int(number)
        check(valid, name, f"{number:g}", f"integers from -{LARGEST} to {LARGEST}", 2)
    numbers = [exact(number) for number in sequence]
    return [*_adding(numbers), *_gated(numbers, exact(only))]


def _adding(numbers: list[Number]) -> list[Step]:
    sums = ADDING.outputs(numbers)
    total = sums[-1]
    columns = ("x_i", "h_{i-1}", "h_i")
    cells = {
        "identity": ADDING,
        "ReLU": ADDING_RELU,
        **{f"tanh, inputs times {factor:g}": adding_tanh(factor) for factor in TANH_SCALES},
    }
    last_outputs = [cell.outputs(numbers)[-1] for cell in cells.values()]
    return [
        step("One cell for every step", vector("x", numbers)),
        step(
            "Adding each input",
            matrix("steps", zip(numbers, [Fraction(0), *sums[:-1]], sums, strict=True), columns=columns),
            answer=total,
            numbers=format_cells(numbers),
            count=len(numbers),
        ),
        step(
            "Other activation functions",
            matrix(
                "last output",
                [(output, abs(float(output) - float(total))) for output in last_outputs],
                cells,
                ("output", "error"),
            ),
        ),
    ]


def _gated(numbers: list[Number], only: Number) -> list[Step]:
    cell = adding_only(only)
    states, outputs = cell.states(numbers), cell.outputs(numbers)
    gates = [dot((1, -2, 1, 0), state) for state in states]
    count, units = len(numbers), len(cell.w)
    repeated = numbers * REPETITIONS
    return [
        step(
            "Adding only the value {only}",
            matrix(
                "steps",
                [(x, *state, gate, h) for x, state, gate, h in zip(numbers, states, gates, outputs, strict=True)],
                columns=("x_i", *(f"relu(x{offset - int(only):+d})" for offset in (1, 0, -1)), "count", "gate", "h_i"),
            ),
            answer=outputs[-1],
            only=format_cell(only),
            count=count,
            numbers=format_cells(numbers),
        ),
        step(
            "The number of parameters does not depend on the length",
            matrix(
                "parameters",
                [(length, cell.parameters, units * length + 2 * units) for length in (count, 2 * count, len(repeated))],
                columns=("length", "recurrent", "feed-forward"),
            ),
            answer=cell.parameters,
            parameters=cell.parameters,
            length=count,
            longer=2 * count,
        ),
        step(
            "A sequence {repetitions} times as long",
            vector(
                f"after {len(repeated)} inputs",
                (ADDING_RELU.outputs(repeated)[-1], cell.outputs(repeated)[-1]),
                ("all", f"only {format_cell(only)}"),
            ),
        ),
    ]
