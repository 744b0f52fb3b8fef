"""Sense selection in a Backpack: "That trick was sick" (items 97 to 102).

Each word has two sense vectors; 8-row matrices have one row per sense, word by word. The lesson repeats the slide's
arithmetic as printed, lists its problems, and gives constructions with the intended result 1000, short for the vector
(1, 0, 0, 0): only the positive sense of 'sick'.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import partial

from satchel.lessons.arithmetic import (
    Number,
    Rows,
    attend,
    dot,
    exact,
    format_cell,
    matmul,
    mean,
    multiply,
    softmax,
    transpose,
    weighted_sum,
)
from satchel.lessons.checks import check_above
from satchel.lessons.steps import Matrix, Step, build_step, matrix, vector

step = partial(build_step, "sense-selection")

WORDS = ("that", "trick", "was", "sick")
DIMENSIONS = ("positive", "negative", "skateboarding", "health")
ZERO = (0, 0, 0, 0)
SENSES = {
    "that": (ZERO, ZERO),
    "trick": ((0, 0, 1, 0), ZERO),
    "was": (ZERO, ZERO),
    "sick": ((1, 0, 1, 0), (0, 1, 0, 1)),
}
ROWS = tuple(f"{word} {sense}" for word in WORDS for sense in (0, 1))
# Row of the first sense of 'sick' in 8-row matrices.
SICK = 6

# Queries as printed on the slide, and the (row, column) of the only 1 in its softmax.
PRINTED_Q: Rows = [[0, 0, Fraction(2, 3), Fraction(1, 3)] if row < SICK else [0, 0, 1, 0] for row in range(8)]
PRINTED_ONE = (6, 6)  # in the edition with an 8 x 8 matrix
PRINTED_ONE_8X7 = (6, 5)  # in the edition with an 8 x 7 matrix

LARGEST = 1e6


def sense_selection(b: float = 10.0, scale: bool = True) -> list[Step]:
    """Return the slide's attention, its problems, and constructions that give 1000.

    `b` multiplies the scores of the constructions; `scale` divides the slide's scores by sqrt(d).
    """
    check_above("b", b, 0, example=10, highest=LARGEST)
    factor = exact(b)
    return [*_slide(), *_arithmetic(factor, scale), *_problems(factor), *_solutions(factor)]


# --- the slide ------------------------------------------------------------------------------------------


def sum_rows(rows: Rows) -> list[Number]:
    """Return the sum of the rows."""
    return weighted_sum([Fraction(1)] * len(rows), rows)


def select(rows: Rows, *dimensions: int) -> list[list[Number]]:
    """Return the rows with all other dimensions set to 0."""
    return [[number if column in dimensions else Fraction(0) for column, number in enumerate(row)] for row in rows]


def topics(word: str) -> list[Number]:
    """Return C(word)_2 and C(word)_3, summed over the senses of the word."""
    return sum_rows(SENSES[word])[2:]


def topics_of_others(word: str) -> list[list[Number]]:
    """Return the topics of all words but one."""
    return [topics(other) for other in WORDS if other != word]


def normalise(vectors: Rows) -> list[Number]:
    """Return the sum of the vectors, divided by the sum of its entries."""
    sums = sum_rows(vectors)
    return [number / sum(sums) for number in sums]


def sense_weights(word: str) -> list[Number]:
    """Return alpha for the senses of a word: the share of each topic in the topics of the other words."""
    return normalise(topics_of_others(word))


def sum_of_ratios(word: str) -> tuple[list[Number], int]:
    """Return equation 5 as printed, a sum of ratios with 0/0 replaced by 0, and the number of ratios 0/0."""
    others = topics_of_others(word)
    ratios = [normalise([pair]) for pair in others if sum(pair)]
    return sum_rows(ratios), len(others) - len(ratios)


# All sense vectors (8 x 4), their sentiment dimensions as values, and their topic dimensions as keys.
X = [[Fraction(number) for number in sense] for word in WORDS for sense in SENSES[word]]
V = select(X, 0, 1)
K = select(X, 2, 3)
# The sense weights of all words, in the order of the rows of X.
ALPHA = [weight for word in WORDS for weight in sense_weights(word)]
# The queries as defined by the equation: both rows of a word contain its sense weights in the topic dimensions.
Q: list[list[Number]] = [[Fraction(0), Fraction(0), *sense_weights(word)] for word in WORDS for _ in SENSES[word]]


def printed_softmax(one: tuple[int, int], columns: int = 8) -> list[list[Number]]:
    """Return the softmax as printed on the slide: 8 rows of zeros with a single 1."""
    return [[Fraction((row, column) == one) for column in range(columns)] for row in range(8)]


def summed_output(weights: Rows) -> list[Number]:
    """Return the sum over all rows of the weights times V."""
    return sum_rows(matmul(weights, V))


def _slide() -> list[Step]:
    weights = [sense_weights(word) for word in WORDS]
    return [
        step("Two sense vectors per word", _by_sense("X", X)),
        step("Sense weights", matrix("sense weights", weights, WORDS, ("sense 0", "sense 1")), answer=weights[-1]),
        step("Values", _by_sense("V", V), answer=(*V[SICK], *V[SICK + 1])),
        step("Keys", _by_sense("K", K), answer=(*K[SICK], *K[SICK + 1])),
        step("Queries", _by_sense("Q, printed", PRINTED_Q), _by_sense("Q, computed", Q), answer=Q[SICK]),
        step(
            "The printed result",
            matrix("printed softmax", printed_softmax(PRINTED_ONE), ROWS),
            _total("printed, times V, summed", summed_output(printed_softmax(PRINTED_ONE))),
            _total("8 x 7, with an eighth column of 0", summed_output(printed_softmax(PRINTED_ONE_8X7))),
            row=ROWS[PRINTED_ONE_8X7[1]],
        ),
    ]


# --- the arithmetic of the slide ------------------------------------------------------------------------


def slide_weights(factor: Number) -> list[list[Number]]:
    """Return softmax(factor Q K^T) with the printed queries, 8 x 8."""
    return attend(multiply(factor, PRINTED_Q), K, V).weights


def hard_softmax(scores: Rows) -> list[list[Number]]:
    """Return the limit of the softmax for large scores: equal weights on the largest scores of each row."""
    return [[Fraction(int(score == max(row)), list(row).count(max(row))) for score in row] for row in scores]


def _arithmetic(b: Number, scaled: bool) -> list[Step]:
    scores = matmul(PRINTED_Q, transpose(K))
    # d = 4: the square root is 2.
    root_factor = Fraction(1, 2) if scaled else Fraction(1)
    scores_name = "scores divided by sqrt(4)" if scaled else "unscaled scores"
    weights = slide_weights(root_factor)
    total = summed_output(weights)
    limit = hard_softmax(scores)
    factor = format_cell(float(b))
    return [
        step("Check: the scores", matrix("Q K^T", scores, ROWS, ROWS), answer=scores[SICK][2]),
        step(
            "Check: the softmax of the {scores}",
            matrix("attention weights", weights, ROWS, ROWS),
            _total("times V, summed", total),
            vector("share of the positive dimension", [total[0] / sum(total)]),
            answer=weights[SICK][SICK],
            scores=scores_name,
        ),
        step(
            "Check: larger scores",
            _total(f"{scores_name}, times {factor}", summed_output(slide_weights(b * root_factor))),
            matrix("limit", limit, ROWS, ROWS),
            _total("limit, summed", summed_output(limit)),
            _total("limit, row of sick", matmul(limit, V)[SICK]),
            answer=limit[SICK][SICK],
            factor=factor,
            scores=scores_name,
        ),
    ]


# --- problems -------------------------------------------------------------------------------------------


def mask_other_words(scores: Rows) -> list[list[Number]]:
    """Return the scores with -inf for keys of other words; the rows are senses (8 rows) or words (4 rows)."""
    rows_per_word = len(scores) // len(WORDS)
    return [
        [score if key // 2 == query // rows_per_word else -math.inf for key, score in enumerate(row)]
        for query, row in enumerate(scores)
    ]


def residual_norm(targets: Rows, inputs: Rows) -> float:
    """Return the least-squares residual of a linear map from inputs to targets (Frobenius norm)."""
    basis: list[list[Number]] = []
    for column in transpose(inputs):
        residual = _residual(column, basis)
        if any(residual):
            basis.append(residual)
    return math.sqrt(sum(float(number**2) for column in transpose(targets) for number in _residual(column, basis)))


def _residual(column: Sequence[Number], basis: list[list[Number]]) -> list[Number]:
    """Return a vector minus its projections on an orthogonal basis (Gram-Schmidt)."""
    residual = list(column)
    for direction in basis:
        coefficient = dot(column, direction) / dot(direction, direction)
        residual = [number - coefficient * component for number, component in zip(residual, direction, strict=True)]
    return residual


def _problems(b: Number) -> list[Step]:
    ratios = [sum_of_ratios(word) for word in WORDS]
    masked = mask_other_words(matmul(Q, transpose(K)))
    two_queries = [softmax([b * score for score in row]) for row in masked]
    return [
        step(
            "Problem: the rows of a softmax sum to 1",
            vector("softmax of eight zeros", softmax([0] * 8)),
            vector("row sums of the printed matrix", map(sum, printed_softmax(PRINTED_ONE))),
            answer=softmax([0] * 8)[0],
        ),
        step(
            "Problem: other words are not masked",
            _total("other words masked, two queries per word", summed_output(two_queries)),
            _total("other words masked, one query per word", summed_output(masked_attention(b))),
            answer=summed_output(hard_softmax(masked))[0],
        ),
        step(
            "Problem: equation 5 is a sum of ratios",
            matrix(
                "sense weights",
                [(*sums, zeros, *sense_weights(word)) for (sums, zeros), word in zip(ratios, WORDS, strict=True)],
                WORDS,
                ("sum of ratios, 0", "sum of ratios, 1", "number of 0/0", "ratio of sums, 0", "ratio of sums, 1"),
            ),
            answer=ratios[0][0],
        ),
        step(
            "Problem: the queries are not a linear function of X",
            vector("least-squares residual of Q = X W", [residual_norm(PRINTED_Q, X)]),
            matrix("mean topics", (mean(topics_of_others(word)) for word in WORDS), WORDS, DIMENSIONS[2:]),
        ),
        step(
            "Problem: sums of whole sense vectors",
            _total("sense weights times X", weighted_sum(ALPHA, X)),
            _total("sense weights times V", weighted_sum(ALPHA, V)),
            answer=weighted_sum(ALPHA, X),
        ),
    ]


# --- solutions ------------------------------------------------------------------------------------------


def diagonal_gate() -> list[list[Number]]:
    """Return equation 5 without a softmax: a diagonal matrix of the sense weights, 8 x 8."""
    return [[weight if row == column else Fraction(0) for column in range(8)] for row, weight in enumerate(ALPHA)]


def log_weight_attention() -> list[list[Number]]:
    """Return the softmax of the log sense weights with other words masked, 4 x 8: it equals the sense weights."""
    scores = [_log(weight) for weight in ALPHA]
    return [softmax(row) for row in mask_other_words([scores] * len(WORDS))]


def masked_attention(b: Number) -> list[list[Number]]:
    """Return the softmax of b q.k with other words masked and one query per word, 4 x 8."""
    scores = matmul(multiply(b, Q[::2]), transpose(K))
    return [softmax(row) for row in mask_other_words(scores)]


def sink_attention(b: Number) -> list[list[Number]]:
    """Return attention weights, 8 x 9: each sense attends to itself or to a ninth key with score 0 and value 0."""
    rows = []
    for row, (weight, value) in enumerate(zip(ALPHA, V, strict=True)):
        score = b * (weight - Fraction(1, 2)) if any(value) else -b
        rows.append(softmax([*(score if column == row else -math.inf for column in range(8)), Fraction(0)]))
    return rows


def backpack_output(word: str, weights: Sequence[Number], sink: str = "was") -> list[Number]:
    """Return o = sum_j sum_l alpha_lj C(x_j)_l, with one softmax over the words j for each sense l.

    Sense l attends to the word with `weights[l]`, and with the rest to `sink`, a word whose sense vectors are 0.
    """
    outputs = []
    for sense, weight in enumerate(weights):
        scores = dict.fromkeys(WORDS, -math.inf) | {sink: _log(1 - weight), word: _log(weight)}
        outputs.append(weighted_sum(softmax(list(scores.values())), [SENSES[other][sense] for other in WORDS]))
    return sum_rows(outputs)


def _log(number: Number) -> float:
    return math.log(number) if number else -math.inf


def _solutions(b: Number) -> list[Step]:
    factors = sorted({0.5, 1.0, 10.0, float(b)})
    sick = [masked_attention(exact(factor))[-1][-2:] for factor in factors]
    sink = sink_attention(b)
    selected, both = backpack_output("sick", sense_weights("sick")), backpack_output("sick", (1, 1))
    return [
        step(
            "Solution: a diagonal gate",
            vector("diagonal", ALPHA, ROWS),
            _by_sense("A V", matmul(diagonal_gate(), V)),
            _with_error("A V, summed", summed_output(diagonal_gate())),
        ),
        step(
            "Solution: log sense weights as scores",
            matrix("attention weights", log_weight_attention(), WORDS, ROWS),
            _with_error("times V, summed", summed_output(log_weight_attention())),
        ),
        step(
            "Approximate solution: large scores with a mask",
            matrix("sick", sick, (f"b = {factor:g}" for factor in factors), ("sense 0", "sense 1")),
            _with_error("times V, summed", summed_output(masked_attention(b))),
            answer=sick[factors.index(1.0)],
        ),
        step(
            "Approximate solution: a sink key",
            matrix("attention weights", sink, ROWS, (*ROWS, "sink")),
            _with_error("times V, summed", summed_output([row[:-1] for row in sink])),
        ),
        step(
            "Solution: the Backpack",
            matrix("o of sick", (selected, both), ("sense 1 to 'was'", "both to 'sick'"), DIMENSIONS),
            _with_error("sentiment of the first row", select([selected], 0, 1)[0]),
            answer=both,
        ),
    ]


def _by_sense(name: str, rows: Rows) -> Matrix:
    return matrix(name, rows, ROWS, DIMENSIONS)


def _total(name: str, row: Sequence[Number]) -> Matrix:
    return vector(name, row, DIMENSIONS)


def _with_error(name: str, row: Sequence[Number]) -> Matrix:
    """Return a sum and its largest distance from 1000, which four decimals may not show."""
    error = max(abs(float(number) - expected) for number, expected in zip(row, (1, 0, 0, 0), strict=True))
    return vector(name, (*row, error), (*DIMENSIONS, "error"))
