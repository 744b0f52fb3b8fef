"""Causal masking: why a language model must not attend to later positions, and how the mask works (items 75 to 79)."""

import math
import random
from fractions import Fraction
from functools import partial

from satchel.lessons.arithmetic import Attention, Rows, Vector, attend, largest_difference, softmax
from satchel.lessons.checks import split_words
from satchel.lessons.steps import Matrix, Step, build_step, matrix, vector

step = partial(build_step, "masking")

MOST_WORDS = 12
WIDTH = 2
# Score of the next position in the unmasked model that copies: large enough for an attention weight of about 1.
COPY_SCORE = 100


def masking(words: str = "<s> I saw the dog", seed: int = 0) -> list[Step]:
    """Return self-attention with random queries, keys and values, without and with a causal mask."""
    sentence = split_words("words", words, 2, MOST_WORDS, "<s> I saw the dog")
    rng = random.Random(seed)
    queries, keys, values = ([[Fraction(rng.randint(-2, 2)) for _ in range(WIDTH)] for _ in sentence] for _ in range(3))
    unmasked = attend(queries, keys, values)
    masked = attend(queries, keys, values, causal=True)
    # Without a mask on the softmax: weights above the diagonal are set to 0 after it.
    masked_late = [row[: position + 1] for position, row in enumerate(unmasked.weights)]
    # Incremental decoding: the keys and values of earlier positions are cached.
    incremental = [
        attend([query], keys[:seen], values[:seen]).outputs[0] for seen, query in enumerate(queries, start=1)
    ]
    copied = copied_words(sentence)
    correct = sum(word == target for word, target in zip(copied[:-1], sentence[1:], strict=True))
    count = len(sentence)
    allowed = count * (count + 1) // 2

    def square(name: str, rows: Rows) -> Matrix:
        return matrix(name, rows, sentence, sentence)

    return [
        step("Scores without a mask", square("scores", unmasked.scores)),
        step(
            "A language model without a mask",
            matrix("copying", (sentence, (*sentence[1:], "?"), copied), ("input", "target", "copied")),
        ),
        step(
            "Accuracy of copying",
            vector("copied targets", (correct, count), ("correct", "positions")),
            answer=correct,
            count=count,
        ),
        step("The causal mask", square("masked scores", masked.scores)),
        step(
            "Softmax of the masked scores",
            square("attention weights", masked.weights),
            vector("row sums", map(sum, masked.weights), sentence),
            answer=masked.weights[0],
        ),
        step(
            "Gradients of masked positions",
            square("gradient with the mask", gradient_norms(queries, masked, values)),
            square("gradient without the mask", gradient_norms(queries, unmasked, values)),
            answer=0,
            word=sentence[min(1, count - 2)],
        ),
        step("Masking after the softmax is wrong", vector("row sums", map(sum, masked_late), sentence)),
        step(
            "Incremental decoding",
            matrix("all positions at once", masked.outputs, sentence),
            matrix("one position at a time", incremental, sentence),
            answer=largest_difference(masked.outputs, incremental),
        ),
        step(
            "Encoder and decoder",
            vector("query-key pairs", (allowed, count * count), ("masked", "unmasked")),
            answer=allowed,
            count=count,
            pairs=count * count,
        ),
    ]


def gradient_norms(queries: Rows, attention: Attention, values: Rows) -> list[list[float]]:
    """Return the norm of the derivative of each output with respect to the key and the value of each position.

    The derivatives of output o_i are w_ij I with respect to the value v_j, and w_ij (v_j - o_i) q_i^T with respect to
    the key k_j.
    """
    return [
        [
            float(weight) * math.sqrt(len(value) + _squared_norm(query) * _squared_norm(difference))
            for weight, value in zip(weights, values, strict=True)
            for difference in [[float(a) - float(b) for a, b in zip(value, output, strict=True)]]
        ]
        for query, weights, output in zip(queries, attention.weights, attention.outputs, strict=True)
    ]


def _squared_norm(vector: Vector) -> float:
    return sum(float(number) ** 2 for number in vector)


def copied_words(sentence: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words that attention to the next position copies; "?" at the last position, which has none."""
    positions = range(len(sentence))
    rows = [softmax([COPY_SCORE * (key == query + 1) for key in positions]) for query in positions]
    return tuple(sentence[row.index(max(row))] if max(row) > Fraction(1, 2) else "?" for row in rows)
