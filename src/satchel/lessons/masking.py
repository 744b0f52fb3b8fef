"""Causal masking: why a language model must not attend to later positions, and how the mask works (items 75 to 79)."""

import random
from fractions import Fraction

from satchel.lessons.arithmetic import Rows, attend, largest_difference, softmax
from satchel.lessons.checks import split_words
from satchel.lessons.steps import Matrix, Step, matrix, step, vector

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

    def square(name: str, rows: Rows) -> Matrix:
        return matrix(name, rows, sentence, sentence)

    return [
        step(
            "Scores without a mask",
            "Every position attends to every position: rows are queries, columns are keys. The queries and keys are "
            "random.",
            square("scores", unmasked.scores),
        ),
        *_copying(sentence),
        step(
            "The causal mask",
            "Before the softmax, every score above the diagonal is set to -inf: a position attends to itself and to "
            "earlier positions only. The mask is a matrix with -inf above the diagonal and 0 elsewhere, added to the "
            "scores; a matrix of ones and zeros multiplied by -inf does not work, because 0 times -inf is NaN.",
            square("masked scores", masked.scores),
            question="How do we ensure that a word does not attend to the next one?",
            answer=("mask", "-inf", "infinit", "triang"),
        ),
        step(
            "Softmax of the masked scores",
            "e^-inf = 0, so the masked attention weights are exactly 0. Rows still sum to 1, and the first position "
            "attends only to itself.",
            square("attention weights", masked.weights),
            vector("row sums", map(sum, masked.weights), sentence),
            question="What is the first row of the attention weights?",
            answer=masked.weights[0],
        ),
        step(
            "Masking after the softmax is wrong",
            "If attention weights are set to 0 after the softmax, rows no longer sum to 1, because the masked scores "
            "are part of the normalising sum.",
            vector("row sums", map(sum, masked_late), sentence),
        ),
        step(
            "Incremental decoding",
            "With a causal mask a Transformer behaves like an RNN: computed one position at a time, with the keys and "
            "values of earlier positions in a cache, it gives the same outputs. Unlike the hidden state of an RNN, the "
            "cache grows with every position.",
            matrix("all positions at once", masked.outputs, sentence),
            matrix("one position at a time", incremental, sentence),
            question="What is the largest difference between the two?",
            answer=largest_difference(masked.outputs, incremental),
        ),
        _pairs(len(sentence)),
    ]


def copied_words(sentence: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words that attention to the next position copies; "?" at the last position, which has none."""
    positions = range(len(sentence))
    rows = [softmax([COPY_SCORE * (key == query + 1) for key in positions]) for query in positions]
    return tuple(sentence[row.index(max(row))] if max(row) > Fraction(1, 2) else "?" for row in rows)


def _copying(sentence: tuple[str, ...]) -> list[Step]:
    copied = copied_words(sentence)
    correct = sum(word == target for word, target in zip(copied[:-1], sentence[1:], strict=True))
    return [
        step(
            "A language model without a mask",
            "The target at position i is the input at position i + 1, and without a mask position i can attend to it: "
            "with position encodings, a query for the next position copies the target. Only the target of the last "
            "position is not in the input. (The slide says 'perfect accuracy', which holds for all positions but the "
            "last.)",
            matrix("copying", (sentence, (*sentence[1:], "?"), copied), ("input", "target", "copied")),
            question="Without a mask, this language model will easily achieve perfect accuracy. Why?",
            answer=("next", "copy", "copies", "copied", "ahead", "later", "future", "forward", "cheat"),
        ),
        step(
            "Accuracy of copying",
            "Copying needs no knowledge of the language, so the model does not learn to predict.",
            vector("copied targets", (correct, len(sentence)), ("correct", "positions")),
            question=f"At how many of the {len(sentence)} positions can the target be copied from the input?",
            answer=correct,
        ),
    ]


def _pairs(count: int) -> Step:
    allowed = count * (count + 1) // 2
    return step(
        "Encoder and decoder",
        "The triangular mask is the difference between a Transformer encoder and a decoder-only model: each position "
        "predicts from its left context, so the model can generate text. An encoder-decoder model for translation uses "
        "self-attention without the mask in the encoder and with the mask in the decoder.",
        vector("query-key pairs", (allowed, count * count), ("masked", "unmasked")),
        question=f"Of {count} x {count} query-key pairs, how many does the causal mask allow?",
        answer=allowed,
    )
