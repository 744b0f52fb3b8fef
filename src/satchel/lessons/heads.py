"""Multi-head attention: why a single head averages, and narrow, canonical and wide heads (items 51 to 56)."""

from functools import partial

from satchel.lessons.arithmetic import Number, Rows, attend, largest_difference, matmul, mean
from satchel.lessons.checks import check_heads, check_range
from satchel.lessons.steps import Step, build_step, matrix

step = partial(build_step, "heads")

WIDEST = 1_000_000
SENTENCE = ("cats", "chase", "mice")
VALUES = {"cats": [1, 0], "chase": [0, 0], "mice": [0, 1]}
# Two words of width 4, before and after a change of one half of the second word, by the number of the half.
BEFORE = ((1, 0, 0, 1), (0, 1, 1, 0))
AFTER = {1: ((1, 0, 0, 1), (2, 2, 1, 0)), 2: ((1, 0, 0, 1), (0, 1, 2, 2))}
# W_q, W_k and W_v of each narrow head.
NARROW = (((1, 0), (0, 1)), ((1, 1), (0, 1)), ((1, 0), (1, 1)))
# For each canonical head, one matrix used as W_q, W_k and W_v.
CANONICAL = (((1, 0), (0, 1), (1, 0), (0, 1)), ((1, 0), (0, 1), (1, 1), (0, 1)))
# For each wide head, one matrix used as W_q, W_k and W_v: it keeps the width.
WIDE = (
    ((1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1)),
    ((1, 0, 0, 1), (0, 1, 0, 0), (0, 1, 1, 0), (0, 0, 0, 1)),
)


def heads(width: int = 256, heads: int = 8, chunk: int = 2) -> list[Step]:
    """Return a comparison of one head with two, and of narrow, canonical and wide heads.

    `chunk` is the half of the input that changes in the last step.
    """
    check_range("width", width, 1, WIDEST, example=256)
    check_heads(heads, width)
    check_range("chunk", chunk, 1, 2, example=2)
    return [*_one_or_two(), *_shapes(width, heads), _chunks(chunk)]


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
    formulas = ("3k^2/h + k^2", "3k^2 + k^2", "3 h k^2 + h k^2")
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


def head_outputs(kind: str, x: Rows) -> list[list[list[Number]]]:
    """Return the outputs of two heads of this kind: narrow, canonical or wide."""
    if kind == "narrow":
        projected = [[matmul([row[2 * head : 2 * head + 2] for row in x], w) for w in NARROW] for head in range(2)]
    else:
        projected = [[matmul(x, w)] * 3 for w in (CANONICAL if kind == "canonical" else WIDE)]
    # Base 3 gives fractions.
    return [attend(queries, keys, values, base=3).outputs for queries, keys, values in projected]


def _chunks(chunk: int) -> Step:
    kinds = ("narrow", "canonical", "wide")
    outputs = {
        (kind, x): head_outputs(kind, rows) for kind in kinds for x, rows in (("", BEFORE), (", changed", AFTER[chunk]))
    }
    changes = [
        [largest_difference(*pair) for pair in zip(outputs[kind, ""], outputs[kind, ", changed"], strict=True)]
        for kind in kinds
    ]
    return step(
        "The input of a narrow head",
        matrix("x", BEFORE),
        matrix("x, changed", AFTER[chunk]),
        *(
            matrix(f"{kind}{x}", ([*first, *second] for first, second in zip(*pair, strict=True)))
            for (kind, x), pair in outputs.items()
        ),
        matrix("largest change of a head's output", changes, kinds, ("head 1", "head 2")),
        answer=chunk,
        half="first" if chunk == 1 else "second",
        entries="1 and 2" if chunk == 1 else "3 and 4",
        unchanged=3 - chunk,
    )
