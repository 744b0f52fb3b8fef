"""Attention by hand: one query over a string of As and Bs (items 13 to 22)."""

import math
from dataclasses import replace
from functools import partial

from satchel.lessons.arithmetic import Number, attend, exact, format_cell, identity, matmul, mean, multiply, transpose
from satchel.lessons.checks import check, check_above
from satchel.lessons.steps import Curves, Step, build_step, format_cells, matrix, vector

step = partial(build_step, "attention")

# Maximum length of the string.
LONGEST = 12
LETTERS = {"A": (1, 0), "B": (0, 1)}


def attention(
    sequence: str = "AABA", q: tuple[float, float] = (0, 1), base: float = 3, sharp: float = 10
) -> list[Step]:
    """Return the steps of attention with the query q, then with the query sharp * q."""
    embeddings = embed_letters(sequence, LONGEST)
    check_above("base", base, 1, example=3)
    letters, query, factor = tuple(sequence), [exact(number) for number in q], exact(sharp)
    (scores,), (weights,), (output,) = attend([query], embeddings, embeddings, base=base)
    (long_query,) = multiply(factor, [query])
    (long_scores,), (long_weights,), (long_output,) = attend([long_query], embeddings, embeddings, base=base)
    decoupled = matmul(matmul(embeddings, identity(2)), matmul(multiply(factor, identity(2)), transpose([query])))
    return [
        step("The language", matrix("E", embeddings, letters), vector("q", query)),
        step("Score each key", vector("scores", scores, letters), answer=scores),
        step("Softmax", vector("attention weights", weights, letters), answer=weights, base=describe_base(base)),
        step("Output", vector("output", output), answer=output),
        step("Comparison with a DAN", vector("mean", mean(embeddings)), answer=mean(embeddings)),
        step(
            "A query {sharp:g} times as long",
            vector("scores", long_scores, letters),
            vector("attention weights", long_weights, letters),
            vector("output", long_output),
            answer=long_scores,
            sharp=sharp,
            query=format_cells(long_query),
        ),
        step(
            "Separate projections for keys and queries",
            vector("scores", (row[0] for row in decoupled), letters),
            sharp=sharp,
        ),
        _all_strings(len(letters), base),
    ]


def embed_letters(sequence: str, longest: int) -> list[list[Number]]:
    """Return the embeddings of a string of As and Bs; raise if it contains other letters or is too long."""
    valid = set(sequence) <= set(LETTERS) and 1 <= len(sequence) <= longest
    check(valid, "sequence", repr(sequence[:40]), f"1 to {longest} letters A or B", "AABA")
    return [[exact(number) for number in LETTERS[letter]] for letter in sequence]


def is_natural(base: float) -> bool:
    """Return whether a base is e, also if it was typed with a few digits."""
    return math.isclose(base, math.e, rel_tol=1e-6)


def describe_base(base: float) -> str:
    """Return the description of the base of the softmax."""
    if is_natural(base):
        return "base e"
    lecture = "the base of the lecture, so" if base == 3 else "the lecture uses 3, so"
    return f"base {base:g} instead of e ({lecture} that the weights are fractions)"


def _all_strings(length: int, base: float) -> Step:
    """Return the accuracy over all strings of this length against the length b of the query."""
    threshold = math.log(length - 1) if length > 1 else -math.inf
    bs = sorted({0.0, 0.5, 1.0, 1.5, 2.0, 10.0, *((threshold + d for d in (-0.01, 0, 0.01)) if length > 1 else ())})
    bases = [math.e] if is_natural(base) else [math.e, base]
    tables = [
        matrix(
            f"predictions for all {2**length} strings, base {'e' if is_natural(each) else format_cell(exact(each))}",
            [(b, *count_predictions(length, b, each)) for b in bs if b >= 0],
            columns=("b", "correct", "tied", "wrong"),
        )
        for each in bases
    ]
    # The accuracy is constant between the values of b at which strings with `count` Bs are tied.
    steps = [math.log((length - count) / count) for count in range(1, length // 2 + 1) if count < length]
    grid = sorted([0.0, max(2.0, 2 * threshold), *(step + side for step in steps for side in (-1e-6, 1e-6))])
    accuracy = tuple((b, 100 * count_predictions(length, b, math.e)[0] / 2**length) for b in grid if b >= 0)
    name = f"ln {length - 1} = {threshold:.4f}" if length > 1 else "-inf"
    built = step("How long must the query be?", *tables, answer=threshold, length=length, threshold=name)
    marks = ((threshold, name),) if threshold > 0 else ()
    curves = Curves("accuracy against b", "b", "correct strings, per cent", (("base e", accuracy),), marks)
    return replace(built, curves=(curves,))


def count_predictions(length: int, b: float, base: float) -> tuple[int, int, int]:
    """Return how many of all strings are predicted correctly, are tied, and are wrong, with the query [0, b].

    The prediction is the letter with the larger total attention weight, which depends on the number of Bs only.
    """
    correct = tied = 0
    for count in range(length + 1):
        weight_a, weight_b = float(length - count), count * base**b
        if math.isclose(weight_a, weight_b):
            tied += math.comb(length, count)
        elif (weight_b > weight_a) == (count > 0):
            correct += math.comb(length, count)
    return correct, tied, 2**length - correct - tied
