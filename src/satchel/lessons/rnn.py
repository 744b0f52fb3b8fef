"""What a recurrent cell can do: add what it reads, or only some of it, with exact weights (items 7 to 10)."""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import NamedTuple

from satchel.errors import SettingsError
from satchel.lessons.steps import Matrix, Number, Step, dot, exact

LONGEST = 20
LARGEST = 1_000_000
TIMES_AS_LONG = 100
# How much smaller a tanh cell makes what it reads, to stay where tanh is nearly straight.
SHRINKING = (1.0, 0.1, 0.01, 0.001)


class RecurrentCell(NamedTuple):
    """h' = f(W x + U h + b) for a number x; what it has found is v . h."""

    into: tuple[Number, ...]  # W
    within: tuple[tuple[Number, ...], ...]  # U
    bias: tuple[Number, ...]
    out: tuple[Number, ...]  # v
    activation: Callable[[Number], Number]

    @property
    def parameters(self) -> int:
        """The numbers in W, U, b and v."""
        return len(self.into) * (len(self.into) + 3)

    def states(self, sequence: Sequence[Number]) -> list[list[Number]]:
        """Return the hidden vector after each input; it begins as zeros."""
        hidden: list[Number] = [Fraction(0)] * len(self.into)
        found = []
        for number in sequence:
            rows = zip(self.into, self.within, self.bias, strict=True)
            hidden = [self.activation(into * number + dot(row, hidden) + bias) for into, row, bias in rows]
            found.append(hidden)
        return found

    def read(self, sequence: Sequence[Number]) -> list[Number]:
        """Return what it has found after each input."""
        return [dot(self.out, hidden) for hidden in self.states(sequence)]


def _identity(number: Number) -> Number:
    return number


def _relu(number: Number) -> Number:
    return max(number, Fraction(0))


ADDING = RecurrentCell((1,), ((1,),), (0,), (1,), _identity)
# One unit for what is above zero, one for what is below: a single one would forget a sum that is negative.
ADDING_RELU = RecurrentCell((1, -1), ((1, -1), (-1, 1)), (0, 0), (1, -1), _relu)


def adding_tanh(small: float) -> RecurrentCell:
    """Return a cell that adds, as nearly as tanh lets it: it reads small numbers and makes the sum large again."""
    return RecurrentCell((small,), ((1,),), (0,), (1 / small,), math.tanh)


def adding_only(value: Number) -> RecurrentCell:
    """Return a cell that adds the inputs that equal a whole number, and leaves the other whole numbers out.

    Three units make relu(x-v+1) - 2 relu(x-v) + relu(x-v-1), which is 1 at v and 0 at all others. The fourth counts
    these, one step later; v . h adds what it has not counted yet, and makes the count a sum.
    """
    counts = (0, 0, 0, 0)
    bias = (1 - value, -value, -1 - value, 0)
    return RecurrentCell(
        (1, 1, 1, 0), (counts, counts, counts, (1, -2, 1, 1)), bias, (value, -2 * value, value, value), _relu
    )


def rnn(sequence: tuple[float, ...] = (1, 2, 3, 4), only: float = 2.0) -> list[Step]:
    """Return what a cell that adds, and one that adds only a certain value, make of a sequence of whole numbers."""
    if not 1 <= len(sequence) <= LONGEST:
        raise SettingsError(f"sequence: found {len(sequence)} numbers, expected 1 to {LONGEST}", "sequence=1,2,3,4")
    for name, number in (*(("sequence", each) for each in sequence), ("only", only)):
        if not abs(number) <= LARGEST or number != int(number):
            raise SettingsError(
                f"{name}: found {number:g}, expected whole numbers up to {LARGEST}",
                "the gate tells whole numbers apart, for example --set sequence=1,2,3,4 --set only=2",
            )
    numbers = [exact(number) for number in sequence]
    return [*_adding(numbers), _gated(numbers, exact(only)), *_length(numbers, exact(only))]


def _adding(numbers: list[Number]) -> list[Step]:
    sums = ADDING.read(numbers)
    before = [Fraction(0), *sums[:-1]]
    total = sums[-1]
    relu = ADDING_RELU.read(numbers)[-1]
    tanh = [adding_tanh(small).read(numbers)[-1] for small in SHRINKING]
    rows = [
        ("identity", total),
        ("ReLU", relu),
        *((f"tanh, x times {s:g}", n) for s, n in zip(SHRINKING, tanh, strict=True)),
    ]
    return [
        Step(
            "One cell, at every step",
            "h_i = f(W x_i + U h_{i-1} + b): the same W, U and b each time, and the hidden state is all that is "
            "handed on. The notes draw it to predict w_5 from w_1 to w_4.",
            (Matrix("x", (tuple(numbers),)),),
            "What can this model do?",
            ("add", "sum", "count", "total", "remember"),
        ),
        Step(
            "Adding each input",
            "W = U = 1, b = 0, f the identity: h_n is the sum of the inputs.",
            (Matrix("steps", tuple(zip(numbers, before, sums, strict=True)), columns=("x_i", "h_{i-1}", "h_i")),),
            f"Each w_i is added into h_{{i-1}}, which begins as 0. What is h_{len(numbers)}?",
            (total,),
        ),
        Step(
            "With a real cell's f",
            "With ReLU the sum is exact (two units, so that it may be negative). tanh bends: it comes near only when "
            "the inputs are made small first and the sum large again afterwards.",
            (
                Matrix(
                    "last sum",
                    tuple((number, abs(float(number) - float(total))) for _, number in rows),
                    tuple(name for name, _ in rows),
                    ("found", "off by"),
                ),
            ),
        ),
    ]


def _gated(numbers: list[Number], only: Number) -> Step:
    cell = adding_only(only)
    states, found = cell.states(numbers), cell.read(numbers)
    gates = [dot((1, -2, 1, 0), hidden) for hidden in states]
    rows = [(x, *hidden, gate, h) for x, gate, hidden, h in zip(numbers, gates, states, found, strict=True)]
    bumps = (f"relu(x{place - int(only):+d})" for place in (1, 0, -1))
    columns = ("x_i", *bumps, "counted", "gate", "h_i")
    return Step(
        f"Adding only {float(only):g}s",
        "Three ReLU units make a gate that is 1 at the value and 0 at every other whole number: the first minus twice "
        "the second plus the third. A fourth counts the gates of the steps before.",
        (Matrix("steps", tuple(rows), columns=columns),),
        f"A cell adds x_i to h_{{i-1}} only if it is {float(only):g}. "
        f"What is h_{len(numbers)} for {', '.join(f'{float(number):g}' for number in numbers)}?",
        (found[-1],),
    )


def _length(numbers: list[Number], only: Number) -> list[Step]:
    cell = adding_only(only)
    lengths = [len(numbers), 2 * len(numbers), TIMES_AS_LONG * len(numbers)]
    units = len(cell.into)
    long = numbers * TIMES_AS_LONG
    return [
        Step(
            "As many parameters for any length",
            "The cell's numbers do not depend on how much it reads. A feed-forward net with as many units, which has "
            "weights for each place, grows.",
            (
                Matrix(
                    "parameters",
                    tuple((length, cell.parameters, units * length + 2 * units) for length in lengths),
                    columns=("length", "recurrent", "feed-forward"),
                ),
            ),
            f"The gated cell has {cell.parameters} parameters for {lengths[0]} inputs. How many for {lengths[1]}?",
            (cell.parameters,),
        ),
        Step(
            f"{TIMES_AS_LONG} times as long",
            "It scales to long sequences: the sums stay exact, however many steps there are. These weights were "
            "written down, though; whether training finds ones that do not forget is another matter.",
            (
                Matrix(
                    f"after {len(long)} inputs",
                    ((ADDING_RELU.read(long)[-1], cell.read(long)[-1]),),
                    columns=("all", f"only {float(only):g}"),
                ),
            ),
        ),
    ]
