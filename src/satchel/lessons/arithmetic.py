"""Matrix arithmetic on plain lists that keeps fractions exact, so that a lesson prints the numbers of its lecture."""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

Number = int | float | Fraction
Cell = Number | str
Vector = Sequence[Number]
Rows = Sequence[Vector]

# Largest denominator that is printed as a fraction rather than as a decimal number.
LARGEST_DENOMINATOR = 64
# Integers from this size on are printed in scientific notation.
LARGEST_INTEGER = 10**15
# Largest integer exponent for which a power is computed as a fraction.
LARGEST_EXPONENT = 20


class Attention(NamedTuple):
    """Scores, attention weights and outputs: one row per query."""

    scores: list[list[Number]]
    weights: list[list[Number]]
    outputs: list[list[Number]]


def exact(number: Number) -> Number:
    """Return the number as a fraction if its denominator is at most 1000, otherwise unchanged."""
    if isinstance(number, float):
        fraction = Fraction(number).limit_denominator(1000)
        return fraction if float(fraction) == number else number
    return Fraction(number)


def dot(first: Vector, second: Vector) -> Number:
    """Return the dot product of two vectors."""
    return sum((a * b for a, b in zip(first, second, strict=True)), start=Fraction(0))


def matmul(first: Rows, second: Rows) -> list[list[Number]]:
    """Return the matrix product."""
    columns = list(zip(*second, strict=True))
    return [[dot(row, column) for column in columns] for row in first]


def transpose(matrix: Rows) -> list[list[Number]]:
    """Return the transposed matrix."""
    return [list(column) for column in zip(*matrix, strict=True)]


def add(first: Rows, second: Rows) -> list[list[Number]]:
    """Return the elementwise sum of two matrices."""
    return [[a + b for a, b in zip(*rows, strict=True)] for rows in zip(first, second, strict=True)]


def multiply(factor: Number, matrix: Rows) -> list[list[Number]]:
    """Return the matrix multiplied by a scalar."""
    return [[factor * number for number in row] for row in matrix]


def identity(size: int) -> list[list[Number]]:
    """Return the identity matrix."""
    return [[int(row == column) for column in range(size)] for row in range(size)]


def weighted_sum(weights: Vector, vectors: Rows) -> list[Number]:
    """Return the sum of the vectors, each multiplied by its weight."""
    return matmul([weights], vectors)[0]


def mean(vectors: Rows) -> list[Number]:
    """Return the mean of the vectors."""
    return weighted_sum([Fraction(1, len(vectors))] * len(vectors), vectors)


def softmax(scores: Vector, base: Number = math.e) -> list[Number]:
    """Return base**score normalised to sum to 1; a score of -inf gets weight 0, and so does a row of -inf only."""
    largest = max(scores)
    if largest == -math.inf:
        return [Fraction(0)] * len(scores)
    powers = [_power(base, score - largest) if score != -math.inf else Fraction(0) for score in scores]
    total = sum(powers, start=Fraction(0))
    return [power / total for power in powers]


def attend(queries: Rows, keys: Rows, values: Rows, *, base: Number = math.e, causal: bool = False) -> Attention:
    """Return unscaled dot-product attention; `causal` masks the scores above the diagonal with -inf."""
    scores = matmul(queries, transpose(keys))
    if causal:
        scores = causal_mask(scores)
    weights = [softmax(row, base) for row in scores]
    return Attention(scores, weights, matmul(weights, values))


def causal_mask(scores: Rows) -> list[list[Number]]:
    """Return the scores with -inf above the diagonal: query i attends to keys 1 to i."""
    return [[score if key <= query else -math.inf for key, score in enumerate(row)] for query, row in enumerate(scores)]


def largest_difference(first: Rows, second: Rows) -> float:
    """Return the largest absolute elementwise difference of two matrices."""
    rows = zip(first, second, strict=True)
    return max(abs(float(a) - float(b)) for pair in rows for a, b in zip(*pair, strict=True))


def _power(base: Number, exponent: Number) -> Number:
    is_integer = isinstance(exponent, (int, Fraction)) and Fraction(exponent).denominator == 1
    exact_base = exact(base)
    if is_integer and abs(int(exponent)) <= LARGEST_EXPONENT and isinstance(exact_base, Fraction):
        return exact_base ** int(exponent)
    power: float = float(base) ** float(exponent)
    return power


def format_cell(cell: Cell) -> str:
    """Return a number as an integer, a fraction with a small denominator, or a decimal with up to four places."""
    if isinstance(cell, str):
        return cell
    is_exact = isinstance(cell, (int, Fraction)) and Fraction(cell).denominator <= LARGEST_DENOMINATOR
    if is_exact and abs(float(cell)) < LARGEST_INTEGER:
        return str(cell)
    number = float(cell)
    if number and abs(number) < 5e-4:
        return f"{number:.1e}"
    if abs(number) >= 1e4:
        return f"{number:.4g}"
    rounded = f"{number:.4f}"
    # 0.99999 is printed as 1.0000 and not as 1, so that it differs from an exact 1.
    return rounded if float(rounded).is_integer() and not number.is_integer() else rounded.rstrip("0").rstrip(".")
