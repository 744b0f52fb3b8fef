"""What a lesson is made of: steps with a sentence or two, matrices with words beside them, questions with answers.

Numbers are kept as fractions for as long as they are fractions, so that a lesson prints what the lecture prints.
"""

import inspect
import math
import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from pydantic import create_model

from satchel import config
from satchel.config import Settings

Number = int | float | Fraction
Cell = Number | str
Vector = Sequence[Number]
Rows = Sequence[Sequence[Number]]

# A power with a larger exponent is not worth writing as a fraction.
LARGEST_EXPONENT = 20
# An answer may be rounded: to two places, or to two in a hundred.
TOLERANCE = 0.011


@dataclass(frozen=True)
class Matrix:
    """Numbers (or words) in rows; words beside the rows and above the columns, where there are any."""

    name: str
    values: tuple[tuple[Cell, ...], ...]
    rows: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Step:
    """One step of a lesson. Where it has a question, the rest of it is the answer that is shown afterwards.

    `answer` is what a reader's answer is checked against: numbers in a row, or words any of which will do; none of
    them where there is nothing to check.
    """

    title: str
    text: str = ""
    matrices: tuple[Matrix, ...] = ()
    question: str = ""
    answer: tuple[Cell, ...] = ()

    def _repr_html_(self) -> str:
        """Return the step as a notebook shows it."""
        from satchel.lessons import page

        return page.fragment([self])


class Steps(list[Step]):
    """The steps of a lesson with its dials set: they show themselves in a notebook, and become a file."""

    def __init__(self, steps: Iterable[Step], lesson: "Lesson", dials: Settings) -> None:
        super().__init__(steps)
        self.lesson = lesson
        self.dials = dials

    @property
    def command(self) -> str:
        """What makes these steps in a terminal."""
        dials = [f"--set {shlex.quote(f'{name}={spelled(value)}')}" for name, value in self.dials]
        return " ".join(["satchel", "lesson", self.lesson.name, *dials])

    def _repr_html_(self) -> str:
        """Return the steps as a notebook shows them."""
        from satchel.lessons import page

        return page.fragment(self)

    def save(self, path: str | Path) -> None:
        """Write the steps as a page, a picture, LaTeX or a notebook, whichever the ending says."""
        from satchel.lessons import files

        files.save(self, Path(path))


@dataclass(frozen=True)
class Lesson:
    """A worked example of a lecture: a function of its dials that returns steps."""

    name: str
    title: str
    source: str  # the lecture
    items: tuple[int, ...]  # what it shows, by number
    function: Callable[..., list[Step]]
    trained: Step | None = None  # what became of it in training

    @property
    def dials(self) -> type[Settings]:
        """The settings of the function, as strict as all others."""
        parameters = inspect.signature(self.function, eval_str=True).parameters.values()
        fields: dict[str, Any] = {each.name: (each.annotation, each.default) for each in parameters}
        return create_model(f"{self.name} dials", __base__=Settings, **fields)

    def run(self, **dials: object) -> Steps:
        """Return the steps with the dials set."""
        chosen = config.build(self.dials, {name: self._fitting(name, value) for name, value in dials.items()})
        steps = self.function(**dict(chosen))
        return Steps([*steps, *([self.trained] if self.trained else [])], self, chosen)

    def _fitting(self, name: str, value: object) -> object:
        """Return a value in the form of its dial: on a command line, commas make a list of a text, and one is none."""
        default = self.dials.model_fields[name].default if name in self.dials.model_fields else None
        if isinstance(default, str) and isinstance(value, list):
            return ", ".join(map(str, value))
        return [value] if isinstance(default, tuple) and not isinstance(value, (list, tuple)) else value


# --- arithmetic that keeps fractions ------------------------------------------------------------------


def exact(number: Number) -> Number:
    """Return a whole number or a simple decimal as a fraction, anything else as it is."""
    if isinstance(number, float):
        simple = Fraction(number).limit_denominator(1000)
        return simple if float(simple) == number else number
    return Fraction(number)


def dot(first: Vector, second: Vector) -> Number:
    """Return the dot product of two vectors."""
    return sum((a * b for a, b in zip(first, second, strict=True)), start=Fraction(0))


def product(first: Rows, second: Rows) -> list[list[Number]]:
    """Return the product of two matrices."""
    columns = list(zip(*second, strict=True))
    return [[dot(row, column) for column in columns] for row in first]


def transposed(matrix: Rows) -> list[list[Number]]:
    """Return a matrix with its rows as columns."""
    return [list(column) for column in zip(*matrix, strict=True)]


def softmax(scores: Vector, base: Number = math.e) -> list[Number]:
    """Return base ** score for each score, shared out to sum to one; a score of -inf gets nothing."""
    highest = max(scores)
    if highest == -math.inf:
        return [Fraction(0)] * len(scores)
    powers = [_power(base, score - highest) if score != -math.inf else Fraction(0) for score in scores]
    total = sum(powers, start=Fraction(0))
    return [power / total for power in powers]


def _power(base: Number, exponent: Number) -> Number:
    whole = isinstance(exponent, (int, Fraction)) and Fraction(exponent).denominator == 1
    simple = exact(base)
    if whole and abs(int(exponent)) <= LARGEST_EXPONENT and isinstance(simple, Fraction):
        return simple ** int(exponent)
    power: float = float(base) ** float(exponent)
    return power


def weighted_sum(weights: Vector, vectors: Rows) -> list[Number]:
    """Return the sum of the vectors, each times its weight."""
    return product([weights], vectors)[0]


# --- showing ------------------------------------------------------------------------------------------


def shown(cell: Cell) -> str:
    """Return a number as people write it: whole, as a fraction with a small denominator, or with four decimals."""
    if isinstance(cell, str):
        return cell
    if isinstance(cell, Fraction) and cell.denominator <= 64:
        return str(cell)
    if isinstance(cell, int):
        return str(cell)
    number = float(cell)
    if number and abs(number) < 5e-4:
        return f"{number:.1e}"
    if abs(number) >= 1e4:
        return f"{number:.4g}"
    rounded = f"{number:.4f}"
    # What is nearly whole must not look as if it were: it keeps its zeros.
    return rounded if float(rounded).is_integer() and not number.is_integer() else rounded.rstrip("0").rstrip(".")


def spelled(dial: object) -> str:
    """Return the value of a dial as it is given on a command line."""
    if isinstance(dial, tuple):
        return ",".join(map(spelled, dial))
    return f"{dial:g}" if isinstance(dial, float) and float(f"{dial:g}") == dial else str(dial)


def lines(matrix: Matrix) -> list[str]:
    """Return a matrix as lines of text, its columns aligned, words beside its rows."""
    cells = [[shown(cell) for cell in row] for row in matrix.values]
    heads = [list(matrix.columns)] if matrix.columns else []
    widths = [max(map(len, column)) for column in zip(*heads, *cells, strict=True)]
    side = max(map(len, matrix.rows), default=0)
    words = [*([""] if heads else []), *(matrix.rows or [""] * len(cells))]
    return [
        f"{word:>{side}}  {'  '.join(f'{cell:>{width}}' for cell, width in zip(row, widths, strict=True))}".rstrip()
        for word, row in zip(words, [*heads, *cells], strict=True)
    ]


def is_right(answer: str, expected: tuple[Cell, ...]) -> bool:
    """Return whether a reader's answer is the expected one: the same numbers, or any one of the words."""
    if all(isinstance(cell, str) for cell in expected):
        said = answer.casefold()
        return any(str(word).casefold() in said for word in expected)
    # 196,608 is one number; 4x4 and (1, 2) are two.
    grouped = re.sub(r"(?<=\d),(?=\d{3}\b)", "", answer)
    found = [_number(word) for word in re.sub(r"[][(),;x×]", " ", grouped).split()]
    return len(found) == len(expected) and all(
        number is not None and math.isclose(number, float(cell), rel_tol=0.02, abs_tol=TOLERANCE)
        for number, cell in zip(found, expected, strict=True)
    )


def _number(word: str) -> float | None:
    above, slash, below = word.partition("/")
    try:
        return float(above) / float(below) if slash else float(above)
    except (ValueError, ZeroDivisionError):
        return None
