"""Self-attention: every word is a query, a key and a value (items 23 to 33)."""

import math
from dataclasses import replace
from fractions import Fraction
from functools import cache, partial

from satchel.lessons.arithmetic import (
    Number,
    Rows,
    attend,
    exact,
    format_cell,
    identity,
    matmul,
    mean,
    multiply,
    transpose,
)
from satchel.lessons.attention import describe_base, embed_letters
from satchel.lessons.checks import check_above
from satchel.lessons.steps import Curves, Matrix, Step, build_step, matrix

step = partial(build_step, "self-attention")

LONGEST = 16
# Lengths, width and repetitions of the measurement of time and memory.
LENGTHS = (128, 256, 512, 1024, 2048)
WIDTH = 64
REPETITIONS = 3
SENTENCE = ("the", "cat", "walks", "on", "the", "street")
# Embeddings with the dimensions noun, verb and function word.
WORDS = {"the": (0, 0, 2), "cat": (2, 0, 0), "walks": (1, 2, 0), "on": (0, 1, 1), "street": (2, 0, 1)}


def self_attention(sequence: str = "AABA", base: float = math.e, sharp: float = 10) -> list[Step]:
    """Return the steps of self-attention over a string of As and Bs, then over a sentence."""
    embeddings = embed_letters(sequence, LONGEST)
    check_above("base", base, 1, example=3)
    check_above("sharp", sharp, 0, example=10)
    return [*_letters(tuple(sequence), embeddings, base, exact(sharp)), *_words(base)]


def _letters(letters: tuple[str, ...], embeddings: Rows, base: float, factor: Number) -> list[Step]:
    n, f = len(letters), format_cell(float(factor))
    swap = [[0, 1], [1, 0]]
    plain = attend(embeddings, embeddings, embeddings, base=base)
    scaled = attend(embeddings, multiply(factor, embeddings), embeddings, base=base)
    columns = attend(matmul(embeddings, [[1], [1]]), matmul(embeddings, [[factor], [factor]]), embeddings, base=base)
    swapped = attend(matmul(embeddings, swap), embeddings, embeddings, base=base)
    position = letters.index("B") if "B" in letters else 0
    letter = f"letter {position + 1}, {letters[position]},"

    def square(name: str, rows: Rows) -> Matrix:
        return matrix(name, rows, letters, letters)

    return [
        step(
            "Every letter is a query",
            matrix("E", embeddings, letters),
            answer=(n, n),
            count=n,
            sequence="".join(letters),
        ),
        step("Scores", square("S", plain.scores), answer=plain.scores[position], letter=letter),
        step(
            "Softmax of each row",
            square("attention weights", plain.weights),
            answer=plain.weights[position],
            base=describe_base(base),
            letter=letter,
        ),
        step(
            "Outputs",
            matrix("E'", plain.outputs, letters),
            answer=plain.outputs[position],
            letter=letter,
            number=position + 1,
        ),
        step(
            "Version 2: keys {factor} times as long",
            square("S", scaled.scores),
            square("attention weights", scaled.weights),
            matrix("E'", scaled.outputs, letters),
            answer=scaled.scores[position],
            factor=f,
            letter=letter,
        ),
        step(
            "The columns as printed",
            square("S", columns.scores),
            matrix("E'", columns.outputs, letters),
            answer=columns.scores[0][0],
            factor=f,
        ),
        step("W^Q is not the identity", matrix("W^Q", swap), square("S", swapped.scores)),
        step(
            "Quadratic cost",
            matrix(
                "cost", [(n * times, (n * times) ** 2) for times in (1, 2, 4, 256)], columns=("n", "number of scores")
            ),
        ),
        _measured_cost(),
    ]


def _measured_cost() -> Step:
    """Return the time and memory of self-attention by length, measured, beside the counts of operations and bytes."""
    measured = measure_attention(LENGTHS)
    milliseconds = tuple((float(n), 1000 * seconds) for n, (seconds, _) in measured.items())
    megabytes = tuple((float(n), peak / 1e6) for n, (_, peak) in measured.items())
    # The product Q K^T and the product with V each take n^2 d multiplications; a score has 4 bytes.
    counted = tuple((float(n), 4 * n * n / 1e6) for n in measured)
    rows = [
        (n, n * n, 2 * n * n * WIDTH / 1e6, 4 * n * n / 1e6, milliseconds[place][1], megabytes[place][1])
        for place, n in enumerate(measured)
    ]
    columns = ("n", "scores", "million multiplications", "MB of scores", "measured ms", "measured peak MB")
    built = step(
        "Measured time and memory",
        matrix("counted and measured", rows, columns=columns),
        width=WIDTH,
        first=LENGTHS[-2],
        last=LENGTHS[-1],
        time=milliseconds[-1][1] / milliseconds[-2][1],
        memory=megabytes[-1][1] / megabytes[-2][1],
    )
    curves = (
        Curves("time against length", "n", "milliseconds", (("measured", milliseconds),), log=True),
        Curves("memory against length", "n", "MB", (("measured peak", megabytes), ("scores", counted)), log=True),
    )
    return replace(built, curves=curves)


@cache
def measure_attention(lengths: tuple[int, ...]) -> dict[int, tuple[float, int]]:
    """Return the seconds and the peak bytes of self-attention in NumPy by length; measured once per process."""
    import time
    import tracemalloc

    import numpy as np

    rng = np.random.default_rng(0)

    def attend_once(x: "np.ndarray[tuple[int, int], np.dtype[np.float32]]") -> None:
        scores = x @ x.T
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        weights @ x

    measured = {}
    for length in lengths:
        x = rng.standard_normal((length, WIDTH), dtype=np.float32)
        attend_once(x)
        seconds = []
        for _ in range(REPETITIONS):
            start = time.perf_counter()
            attend_once(x)
            seconds.append(time.perf_counter() - start)
        tracemalloc.start()
        attend_once(x)
        measured[length] = (min(seconds), tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    return measured


def _words(base: float) -> list[Step]:
    x = [[Fraction(number) for number in WORDS[word]] for word in SENTENCE]
    basic = attend(x, x, x, base=base)
    reverse = attend(x[::-1], x[::-1], x[::-1], base=base)
    # The query of a verb matches nouns; the values drop the function-word dimension.
    w_q, w_v = [[0, 1, 0], [0, 0, 0], [0, 0, 0]], [[1, 0, 0], [0, 1, 0], [0, 0, 0]]
    projected = attend(matmul(x, transpose(w_q)), x, matmul(x, transpose(w_v)), base=base)
    unprojected = attend(*(matmul(x, identity(3)) for _ in range(3)), base=base)
    return [
        step("Basic self-attention", matrix("x", x, SENTENCE)),
        step("Attention weights", matrix("attention weights", basic.weights, SENTENCE, SENTENCE)),
        step("No parameters", matrix("y", basic.outputs, SENTENCE)),
        step(
            "A repeated word",
            matrix("y", [basic.outputs[0], basic.outputs[4]], ("the (1)", "the (5)")),
            sentence=" ".join(SENTENCE),
        ),
        step(
            "Permutation equivariance",
            matrix("y", reverse.outputs, SENTENCE[::-1]),
            matrix("mean of y", [mean(basic.outputs), mean(reverse.outputs)], ("original", "reversed")),
        ),
        step(
            "Queries, keys and values",
            matrix("W_q", w_q),
            matrix("W_k", identity(3)),
            matrix("W_v", w_v),
            matrix("scores", projected.scores, SENTENCE, SENTENCE),
            matrix("y", projected.outputs, SENTENCE),
        ),
        step("Identity projections", matrix("y", unprojected.outputs, SENTENCE)),
    ]
