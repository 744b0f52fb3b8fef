"""Scaled dot-product attention: why scores are divided by the square root of a width, and of which (items 34, 35)."""

import math
import random
import statistics
from collections.abc import Sequence
from fractions import Fraction

from satchel.lessons.arithmetic import attend, multiply, softmax
from satchel.lessons.checks import check_heads, check_range
from satchel.lessons.steps import Step, matrix, step, vector

WIDEST = 1024
KEYS = 8
# Number of random queries: the measured variances are accurate to about 10 %.
DRAWS = 200


def scaling(width: int = 64, heads: int = 8, seed: int = 0) -> list[Step]:
    """Return the effect of the width on the softmax and its gradient, with and without scaling."""
    check_range("width", width, 1, WIDEST, example=64)
    check_heads(heads, width)
    return [*_saturation(width, seed), _formula(), *_divisors(width, heads, seed)]


def _random_scores(width: int, seed: int) -> list[list[float]]:
    """Return dot products of random queries and keys whose entries have mean 0 and variance 1."""
    rng = random.Random(seed)
    rows = []
    for _ in range(DRAWS):
        query = [rng.gauss(0, 1) for _ in range(width)]
        rows.append([sum(number * rng.gauss(0, 1) for number in query) for _ in range(KEYS)])
    return rows


def _weights(scores: Sequence[float], divisor: float = 1) -> list[float]:
    return [float(weight) for weight in softmax([score / divisor for score in scores])]


def _jacobian_norm(weights: Sequence[float]) -> float:
    """Return the Frobenius norm of the Jacobian of the softmax, diag(w) - w w^T."""
    return math.hypot(
        *((a if row == column else 0.0) - a * b for row, a in enumerate(weights) for column, b in enumerate(weights))
    )


def _saturation(width: int, seed: int) -> list[Step]:
    scores = {k: _random_scores(k, seed) for k in sorted({4, 16, 64, width})}
    variances = {k: statistics.pvariance([score for row in rows for score in row], 0.0) for k, rows in scores.items()}
    example = scores[width][0]
    root = math.sqrt(width)
    plain, scaled = _weights(example), _weights(example, root)
    labels = ("unscaled", "scaled")
    return [
        step(
            "The variance of the scores",
            "The product q_i k_i of two independent numbers with mean 0 and variance 1 has variance 1, and the "
            f"variances of the k terms add up. Measured with {DRAWS} queries and {KEYS} keys per query:",
            matrix("variance of q . k", variances.items(), columns=("k", "measured")),
            question=f"q and k have {width} entries with mean 0 and variance 1. What is the variance of q . k?",
            answer=width,
        ),
        step(
            "Saturation of the softmax",
            f"One query, {KEYS} keys, width {width}. The largest attention weight is {max(plain):.4f} for the unscaled "
            f"scores and {max(scaled):.4f} for the scores divided by sqrt({width}) = {root:.4g}.",
            matrix("scores", (example, [score / root for score in example]), labels),
            matrix("attention weights", (plain, scaled), labels),
        ),
        step(
            "The gradient of the softmax",
            "With two keys whose scores differ by s, the derivative of the larger weight p with respect to its score "
            "is p (1 - p). If the softmax is saturated, the gradient vanishes and learning slows down or stops.",
            matrix(
                "gradient",
                [(s, p, p * (1 - p)) for s in (0, 1, 2, 4, 8, 16) for p in [_weights([float(s), 0.0])[0]]],
                columns=("s", "p", "p (1 - p)"),
            ),
            question="Two attention weights are 1/2 each. What is the derivative p (1 - p) of one of them?",
            answer=Fraction(1, 4),
        ),
        step(
            "The gradient by width",
            f"Medians over {DRAWS} queries of the largest attention weight and of the norm of the Jacobian diag(w) - "
            "w w^T. Without scaling the gradient decreases with the width; with scaling it does not depend on it. "
            "(Scaling also divides the gradient of q . k by sqrt(k); its benefit is that the softmax is not "
            "saturated.)",
            matrix(
                "medians",
                [(k, *_medians(rows, 1), *_medians(rows, math.sqrt(k))) for k, rows in scores.items()],
                columns=("k", "largest weight", "norm", "largest weight, scaled", "norm, scaled"),
            ),
            vector("norm for the query above", (_jacobian_norm(plain), _jacobian_norm(scaled)), labels),
        ),
    ]


def _medians(rows: list[list[float]], divisor: float) -> tuple[float, float]:
    """Return the medians of the largest weight and of the norm of the Jacobian."""
    weights = [_weights(row, divisor) for row in rows]
    return statistics.median(map(max, weights)), statistics.median(map(_jacobian_norm, weights))


def _formula() -> Step:
    queries, keys = [[2, 0, 0, 0], [0, 2, 2, 0]], [[1, 0, 0, 0], [0, 1, 0, 1], [0, 1, 1, 0]]
    values = [[1, 0], [0, 1], [1, 1]]
    scores, _, outputs = attend(multiply(Fraction(1, 2), queries), keys, values, base=3)
    return step(
        "Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V",
        "In cross-attention the queries come from another sequence: Q may have a different number of rows from K and "
        "V. The output has one row per query and the width of the values. Here d_k = 4, and the softmax has base 3, so "
        "that the outputs are fractions.",
        matrix("Q", queries),
        matrix("K", keys),
        matrix("V", values),
        matrix("Q K^T / 2", scores),
        matrix("output", outputs),
        question="Q is 2 x 4, K is 3 x 4, V is 3 x 2. What is the shape of the output (rows and columns)?",
        answer=(2, 2),
    )


def _divisors(width: int, heads: int, seed: int) -> list[Step]:
    head_width = width // heads
    by_width, by_head = math.sqrt(width), math.sqrt(head_width)
    scores = _random_scores(head_width, seed)[0]
    counts = sorted({count for count in (1, 2, 4, 8, 16, heads) if width % count == 0})
    return [
        step(
            "The square root of which width?",
            "One lecture divides by sqrt(k), k the model width; the others by sqrt(d_k), d_k the width of one head. "
            "For a single head (or wide heads, with d_k = k) the two are equal. For several heads the standard "
            "deviation of the scores is sqrt(d_k), so dividing by sqrt(k) leaves a standard deviation of 1 / "
            "sqrt(heads).",
            matrix(
                f"divisors for width {width}",
                [(h, math.sqrt(width), math.sqrt(width / h), math.sqrt(1 / h)) for h in counts],
                columns=("heads", "sqrt(k)", "sqrt(d_k)", "std after / sqrt(k)"),
            ),
            question=f"Width {width}, {heads} heads: what are sqrt(k) and sqrt(d_k)?",
            answer=(by_width, by_head),
        ),
        step(
            "Effect on the attention weights",
            f"The scores of one head of width {head_width}, divided by either root. The larger divisor gives more "
            "uniform attention weights; training can compensate with longer queries.",
            matrix(
                "attention weights",
                (_weights(scores, by_width), _weights(scores, by_head)),
                ("by sqrt(k)", "by sqrt(d_k)"),
            ),
        ),
    ]
