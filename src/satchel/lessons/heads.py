"""Multi-head attention: why a single head averages, and narrow, canonical and wide heads (items 51 to 56)."""

from collections.abc import Sequence
from functools import partial

from satchel.lessons.arithmetic import Number, Rows, attend, matmul, mean
from satchel.lessons.checks import check_heads, check_range
from satchel.lessons.steps import Step, build_step, matrix

step = partial(build_step, "heads")

WIDEST = 1_000_000
SENTENCE = ("cats", "chase", "mice")
VALUES = {"cats": [1, 0], "chase": [0, 0], "mice": [0, 1]}
# Two words of width 4, before and after a change of the second half of the second word.
BEFORE = ((1, 0, 0, 1), (0, 1, 1, 0))
AFTER = ((1, 0, 0, 1), (0, 1, 2, 2))
# W_q, W_k and W_v of each narrow head.
NARROW = (((1, 0), (0, 1)), ((1, 1), (0, 1)), ((1, 0), (1, 1)))
# For each canonical head, one matrix used as W_q, W_k and W_v.
CANONICAL = (((1, 0), (0, 1), (1, 0), (0, 1)), ((1, 0), (0, 1), (1, 1), (0, 1)))


def heads(width: int = 256, heads: int = 8) -> list[Step]:
    """Return a comparison of one head with two, and the parameter shapes of narrow, canonical and wide heads."""
    check_range("width", width, 1, WIDEST, example=256)
    check_heads(heads, width)
    return [*_one_or_two(), *_shapes(width, heads), _chunks()]


def _one_or_two() -> list[Step]:
    sentences = (SENTENCE, SENTENCE[::-1])
    labels = [" ".join(words) for words in sentences]
    # In the limit of large scores, a head that attends to two words equally outputs the mean of their values.
    one = [mean([VALUES[words[0]], VALUES[words[2]]]) for words in sentences]
    two = [mean([VALUES[words[0]]]) + mean([VALUES[words[2]]]) for words in sentences]
    w_o = [[1, 0], [0, 1], [-1, 0], [0, -1]]
    return [
        step("A single head averages", matrix("output at the verb", one, labels), answer=one[0]),
        step("Two heads", matrix("concatenated outputs", two, labels), answer=two[0]),
        step("The output projection W^O", matrix("W^O", w_o), matrix("projected outputs", matmul(two, w_o), labels)),
    ]


def _shapes(k: int, h: int) -> list[Step]:
    d = k // h
    kinds = ("narrow", "canonical", "wide")
    shapes = (
        (f"{d} of {k}", f"{d} x {d}", f"{k}", f"{k} x {k}"),
        (f"all {k}", f"{k} x {d}", f"{k}", f"{k} x {k}"),
        (f"all {k}", f"{k} x {k}", f"{h * k}", f"{h * k} x {k}"),
    )
    projections = (3 * h * d * d, 3 * h * k * d, 3 * h * k * k)
    outputs = (k * k, k * k, h * k * k)
    formulas = ("3k^2/h + k^2", "3k^2 + k^2", "3hk^2 + hk^2")
    rows = zip(formulas, projections, outputs, strict=True)
    return [
        step(
            "Narrow, canonical and wide heads: shapes for k = {width}, h = {heads}",
            matrix("shapes", shapes, kinds, ("input of a head", "each W_q, W_k, W_v", "concatenated width", "W^O")),
            answer=h * k,
            width=k,
            heads=h,
        ),
        step(
            "Number of parameters",
            matrix(
                "parameters",
                [(formula, qkv, output, qkv + output) for formula, qkv, output in rows],
                kinds,
                ("formula", "W_q, W_k, W_v", "W^O", "total"),
            ),
            answer=projections[1],
            heads=h,
            width=k,
        ),
    ]


def _concatenate(inputs: Sequence[Rows], projections: Sequence[Sequence[Rows]]) -> list[list[Number]]:
    """Return the concatenated outputs of two heads, each with its input and its W_q, W_k and W_v."""
    # Base 3 gives fractions.
    first, second = (
        attend(*(matmul(x, weight) for weight in weights), base=3).outputs
        for x, weights in zip(inputs, projections, strict=True)
    )
    return [[*left, *right] for left, right in zip(first, second, strict=True)]


def _narrow(x: Rows) -> list[list[Number]]:
    return _concatenate([[row[:2] for row in x], [row[2:] for row in x]], [NARROW, NARROW])


def _canonical(x: Rows) -> list[list[Number]]:
    return _concatenate([x, x], [[weight] * 3 for weight in CANONICAL])


def _chunks() -> Step:
    return step(
        "The input of a narrow head",
        matrix("x", BEFORE),
        matrix("x, changed", AFTER),
        matrix("narrow", _narrow(BEFORE)),
        matrix("narrow, changed", _narrow(AFTER)),
        matrix("canonical", _canonical(BEFORE)),
        matrix("canonical, changed", _canonical(AFTER)),
    )
