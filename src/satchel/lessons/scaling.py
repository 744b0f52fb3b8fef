"""Scaling: why scores are divided by the square root of a width, and of which (items 34 and 35)."""

import math
import random
import statistics
from fractions import Fraction

from satchel.errors import SettingsError
from satchel.lessons.steps import Matrix, Number, Step, exact, product, softmax, transposed, weighted_sum

WIDEST = 1024
KEYS = 8
# Enough for a variance that is right to about a tenth, few enough to wait for.
DRAWS = 200


def scaling(width: int = 64, heads: int = 8, seed: int = 0) -> list[Step]:
    """Return what wide vectors do to softmax and its gradient, what dividing does about it, and by which width."""
    if not 1 <= width <= WIDEST:
        raise SettingsError(f"width: found {width}, expected 1 to {WIDEST}", "for example --set width=64")
    if heads < 1 or width % heads:
        raise SettingsError(
            f"heads: found {heads} for a width of {width}, expected a divisor of it", "for example --set heads=1"
        )
    return [*_saturation(width, seed), _formula(), *_which_width(width, heads, seed)]


def _scores(width: int, seed: int) -> list[list[float]]:
    """Return the dot products of queries with keys whose entries all have mean 0 and variance 1."""
    draw = random.Random(seed)
    rows = []
    for _ in range(DRAWS):
        query = [draw.gauss(0, 1) for _ in range(width)]
        rows.append([sum(number * draw.gauss(0, 1) for number in query) for _ in range(KEYS)])
    return rows


def _weights(scores: list[float], divisor: float = 1) -> list[float]:
    return [float(weight) for weight in softmax([score / divisor for score in scores])]


def _jacobian(weights: list[float]) -> list[list[float]]:
    """Return how each weight changes with each score: diag(w) - w w^T."""
    return [
        [(a if row == column else 0.0) - a * b for column, b in enumerate(weights)] for row, a in enumerate(weights)
    ]


def _norm(matrix: list[list[float]]) -> float:
    return math.hypot(*(number for row in matrix for number in row))


def _saturation(width: int, seed: int) -> list[Step]:
    widths = sorted({4, 16, 64, width})
    drawn = {each: _scores(each, seed) for each in widths}
    variances = {each: statistics.pvariance([score for row in drawn[each] for score in row], 0.0) for each in widths}
    first = drawn[width][0]
    root = math.sqrt(width)
    plain, scaled = _weights(first), _weights(first, root)
    return [
        Step(
            "How far scores spread",
            "Each product q_i k_i of two independent numbers of mean 0 and variance 1 has variance 1 again, and the "
            f"variances of a sum add up. Measured over {DRAWS} queries with {KEYS} keys each:",
            (Matrix("variance of q . k", tuple(variances.items()), columns=("k", "measured")),),
            f"The entries of q and k have mean 0 and variance 1, and there are {width}. What is the variance of q . k?",
            (width,),
        ),
        Step(
            "Softmax of scores that are far apart",
            f"One query, {KEYS} keys, width {width}. Of the scores as they come, the largest takes {max(plain):.4f}; "
            f"divided by sqrt({width}) = {root:.4g}, {max(scaled):.4f}.",
            (
                Matrix("scores", (tuple(first), tuple(score / root for score in first)), ("as is", "divided")),
                Matrix("weights", (tuple(plain), tuple(scaled)), ("as is", "divided")),
            ),
        ),
        Step(
            "The gradient of softmax",
            "With two keys whose scores differ by s, the larger weight p changes with its score by p (1 - p). Where "
            "softmax is sure, almost nothing comes back through it, and learning slows down or stops.",
            (
                Matrix(
                    "gradient",
                    tuple((s, p, p * (1 - p)) for s in (0, 1, 2, 4, 8, 16) for p in [_weights([float(s), 0.0])[0]]),
                    columns=("s", "p", "p (1 - p)"),
                ),
            ),
            "Two weights are 1/2 each. How fast does one of them grow with its own score? (p times 1 - p)",
            (Fraction(1, 4),),
        ),
        Step(
            "How much of it is left",
            "The norm of the Jacobian diag(w) - w w^T, and the largest weight; half of the draws lie below what stands "
            "here. As they come, wide vectors lose the gradient; divided, width no longer matters. (Dividing also "
            "makes the scores themselves move sqrt(k) times less: what it buys is that nothing is stuck.)",
            (
                Matrix(
                    "medians",
                    tuple((k, *_medians(rows, 1), *_medians(rows, math.sqrt(k))) for k, rows in drawn.items()),
                    columns=("k", "largest", "norm", "largest, divided", "norm, divided"),
                ),
                Matrix(
                    "norm for the query above",
                    ((_norm(_jacobian(plain)), _norm(_jacobian(scaled))),),
                    columns=("as is", "divided"),
                ),
            ),
        ),
    ]


def _medians(rows: list[list[float]], divisor: float) -> tuple[float, float]:
    """Return the median of the largest weights, and of the norms of the Jacobians."""
    weights = [_weights(row, divisor) for row in rows]
    return statistics.median(map(max, weights)), statistics.median(_norm(_jacobian(row)) for row in weights)


def _formula() -> Step:
    queries, keys = [[2, 0, 0, 0], [0, 2, 2, 0]], [[1, 0, 0, 0], [0, 1, 0, 1], [0, 1, 1, 0]]
    values = [[1, 0], [0, 1], [1, 1]]
    scores: list[list[Number]] = [[exact(s) / 2 for s in row] for row in product(queries, transposed(keys))]
    outputs = [weighted_sum(softmax(row, 3), values) for row in scores]
    return Step(
        "Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V",
        "The queries may come from another sequence: Q then has other rows than K and V, and the output has one row "
        "for each query, as wide as a value. Here d_k = 4, and e = 3 so that fractions come out.",
        (
            Matrix("Q", tuple(map(tuple, queries))),
            Matrix("K", tuple(map(tuple, keys))),
            Matrix("V", tuple(map(tuple, values))),
            Matrix("Q K^T / 2", tuple(map(tuple, scores))),
            Matrix("output", tuple(map(tuple, outputs))),
        ),
        "Q is 2 x 4, K is 3 x 4, V is 3 x 2. How many rows and columns has the output?",
        (2, 2),
    )


def _which_width(width: int, heads: int, seed: int) -> list[Step]:
    head = width // heads
    by_width, by_head = math.sqrt(width), math.sqrt(head)
    row = _scores(head, seed)[0]
    counts = sorted({each for each in (1, 2, 4, 8, 16, heads) if width % each == 0})
    return [
        Step(
            "The square root of which width?",
            "One lecture divides by sqrt(k), k the width of the vectors; the others by sqrt(d_k), that of one head. "
            "For one head (or wide heads, as wide as the vectors) that is the same. For many, the scores of a head "
            "spread by sqrt(d_k) only, and dividing by sqrt(k) leaves a spread of 1 / sqrt(heads).",
            (
                Matrix(
                    f"divisors for a width of {width}",
                    tuple((h, math.sqrt(width), math.sqrt(width / h), math.sqrt(1 / h)) for h in counts),
                    columns=("heads", "sqrt(k)", "sqrt(d_k)", "spread after sqrt(k)"),
                ),
            ),
            f"{width} numbers in {heads} heads: what are sqrt(k) and sqrt(d_k)?",
            (by_width, by_head),
        ),
        Step(
            "What it does to the weights",
            f"The scores of one head of width {head}, divided either way. The larger divisor makes the weights more "
            "alike; training can make up for it with longer queries.",
            (
                Matrix(
                    "weights",
                    (tuple(_weights(row, by_width)), tuple(_weights(row, by_head))),
                    ("by sqrt(k)", "by sqrt(d_k)"),
                ),
            ),
        ),
    ]
