"""Attention by hand: one query over a string of As and Bs (items 13 to 22)."""

import math
from functools import partial
from itertools import product

from satchel.lessons.arithmetic import Number, attend, exact, identity, matmul, mean, multiply, softmax, transpose
from satchel.lessons.checks import check, check_above
from satchel.lessons.steps import Step, build_step, format_cells, matrix, vector

step = partial(build_step, "attention")

# Maximum length of the string: the last step enumerates all 2^n strings of length n.
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
        step("1. Score each key", vector("scores", scores, letters), answer=scores),
        step("2. Softmax", vector("attention weights", weights, letters), answer=weights, base=describe_base(base)),
        step("3. Output", vector("output", output), answer=output),
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
        _all_strings(len(letters)),
    ]


def embed_letters(sequence: str, longest: int) -> list[list[Number]]:
    """Return the embeddings of a string of As and Bs; raise if it contains other letters or is too long."""
    valid = set(sequence) <= set(LETTERS) and 1 <= len(sequence) <= longest
    check(valid, "sequence", repr(sequence[:40]), f"1 to {longest} letters A or B", "AABA")
    return [[exact(number) for number in LETTERS[letter]] for letter in sequence]


def describe_base(base: float) -> str:
    """Return the description of the base of the softmax."""
    return (
        "base e"
        if base == math.e
        else f"base {base:g} instead of e (the lecture uses 3, so that the weights are fractions)"
    )


def _all_strings(length: int) -> Step:
    """Return the accuracy over all strings of this length for three lengths of the query."""
    strings = ["".join(letters) for letters in product("AB", repeat=length)]
    rows = []
    for b in (1.0, math.log(max(length - 1, 1)) + 0.01, 10.0):
        correct = sum(_predict(string, b) == ("B" if "B" in string else "A") for string in strings)
        rows.append((f"{b:.4g}", f"{correct} of {len(strings)}"))
    threshold = f"ln {length - 1} = {math.log(length - 1):.4f}" if length > 1 else "-inf"
    return step(
        "How long must the query be?",
        matrix("accuracy", rows, columns=("b", "correct")),
        length=length,
        threshold=threshold,
    )


def _predict(string: str, b: float) -> str:
    """Return the letter with the larger total attention weight for q = [0, b]."""
    weights = softmax([b if letter == "B" else 0.0 for letter in string])
    weight_of_b = float(sum(weight for weight, letter in zip(weights, string, strict=True) if letter == "B"))
    return "B" if weight_of_b > 1 / 2 else "A"
