"""Scaled dot-product attention: why scores are divided by the square root of a width, and of which (items 34, 35)."""

import math
import random
import statistics
from collections.abc import Sequence
from fractions import Fraction
from functools import partial

from satchel.lessons.arithmetic import attend, multiply, softmax
from satchel.lessons.checks import check_heads, check_range
from satchel.lessons.steps import Step, build_step, matrix, vector

WIDEST = 1024
KEYS = 8
# Number of random queries: the measured variances are accurate to about 10 %.
DRAWS = 200

step = partial(build_step, "scaling", draws=DRAWS, keys=KEYS)


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
            matrix("variance of q . k", variances.items(), columns=("k", "measured")),
            answer=width,
            width=width,
        ),
        step(
            "Saturation of the softmax",
            matrix("scores", (example, [score / root for score in example]), labels),
            matrix("attention weights", (plain, scaled), labels),
            width=width,
            plain=max(plain),
            scaled=max(scaled),
            root=root,
        ),
        step(
            "The gradient of the softmax",
            matrix(
                "gradient",
                [(s, p, p * (1 - p)) for s in (0, 1, 2, 4, 8, 16) for p in [_weights([float(s), 0.0])[0]]],
                columns=("s", "p", "p (1 - p)"),
            ),
            answer=Fraction(1, 4),
        ),
        step(
            "The gradient by width",
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
        matrix("Q", queries),
        matrix("K", keys),
        matrix("V", values),
        matrix("Q K^T / 2", scores),
        matrix("output", outputs),
    )


def _divisors(width: int, heads: int, seed: int) -> list[Step]:
    head_width = width // heads
    by_width, by_head = math.sqrt(width), math.sqrt(head_width)
    scores = _random_scores(head_width, seed)[0]
    counts = sorted({count for count in (1, 2, 4, 8, 16, heads) if width % count == 0})
    return [
        step(
            "The square root of which width?",
            matrix(
                f"divisors for width {width}",
                [(h, math.sqrt(width), math.sqrt(width / h), math.sqrt(1 / h)) for h in counts],
                columns=("heads", "sqrt(k)", "sqrt(d_k)", "std after / sqrt(k)"),
            ),
            answer=(by_width, by_head),
            width=width,
            heads=heads,
        ),
        step(
            "Effect on the attention weights",
            matrix(
                "attention weights",
                (_weights(scores, by_width), _weights(scores, by_head)),
                ("by sqrt(k)", "by sqrt(d_k)"),
            ),
            head_width=head_width,
        ),
    ]
