"""Masking: why a language model must not look ahead, and how it is kept from it (items 75 to 79)."""

import math
import random
from collections.abc import Sequence
from fractions import Fraction

from satchel.errors import SettingsError
from satchel.lessons.steps import Matrix, Number, Rows, Step, product, softmax, transposed, weighted_sum

MOST_WORDS = 12
WIDTH = 2
# How strongly the cheating model looks at the next word: enough for nothing else to count.
SHARP = 100


def masking(words: str = "<s> I saw the dog", seed: int = 0) -> list[Step]:
    """Return self-attention over some words with and without a causal mask. Queries, keys and values are random."""
    texts = tuple(words.split())
    if not 2 <= len(texts) <= MOST_WORDS:
        raise SettingsError(
            f"words: found {len(texts)} of them, expected 2 to {MOST_WORDS}",
            "for example --set words='<s> I saw the dog'",
        )
    draw = random.Random(seed)
    queries, keys, values = (
        [[Fraction(draw.randint(-2, 2)) for _ in range(WIDTH)] for _ in texts] for _ in ("queries", "keys", "values")
    )
    scores = product(queries, transposed(keys))
    return [
        *_cheating(texts, scores),
        *_masked(texts, causal(scores)),
        _afterwards(texts, scores),
        _word_by_word(texts, queries, keys, values),
        _pairs(len(texts)),
    ]


def causal(scores: Rows) -> list[list[Number]]:
    """Return the scores with -inf above the diagonal: row i may look at columns 1 to i."""
    return [
        [score if column <= row else -math.inf for column, score in enumerate(line)] for row, line in enumerate(scores)
    ]


def copied(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Return what attention without a mask can read off at each position by looking one place ahead."""
    places = range(len(texts))
    # Positions are in the embeddings, so a query can ask for the next place; the last finds none.
    weights = [softmax([SHARP * (key == place + 1) for key in places]) for place in places]
    return tuple(texts[row.index(max(row))] if max(row) > Fraction(1, 2) else "?" for row in map(list, weights))


def _cheating(texts: tuple[str, ...], scores: Rows) -> list[Step]:
    targets = (*texts[1:], "?")
    found = copied(texts)
    right = sum(word == target for word, target in zip(found[:-1], texts[1:], strict=True))
    return [
        Step(
            "Scores: every word looks at every word",
            "Rows are the query words, columns the key words; dot products of random queries and keys.",
            (_square("scores", scores, texts),),
        ),
        Step(
            "Training a language model on this",
            "The word to predict at position i stands in the input at i + 1, and nothing forbids to look there: a "
            "query for the next place copies it. Only the last position cannot, its target is not in the input (the "
            "slide says 'perfect accuracy', which holds for all positions but that one).",
            (Matrix("copying", (texts, targets, found), ("input", "target", "copied")),),
            "Without a mask, this language model will easily achieve perfect accuracy. Why?",
            ("next", "copy", "copies", "copied", "ahead", "later", "future", "forward", "cheat"),
        ),
        Step(
            "How far the copying goes",
            "It learns nothing of the language on the way.",
            (Matrix("copied right", ((right, len(texts)),), columns=("right", "positions")),),
            f"At how many of the {len(texts)} positions can the target be copied from the input?",
            (right,),
        ),
    ]


def _masked(texts: tuple[str, ...], masked: Rows) -> list[Step]:
    weights = [softmax(row) for row in masked]
    return [
        Step(
            "The mask",
            "Before the softmax, every score above the diagonal becomes -inf: a word may look at itself and at what "
            "came before. The mask is a triangle of -inf to be added; a triangle of ones times -inf would not do, as "
            "0 times -inf is no number.",
            (_square("masked scores", masked, texts),),
            "How do we ensure that a word does not attend to the next one?",
            ("mask", "-inf", "infinit", "triang"),
        ),
        Step(
            "Softmax",
            "e to the -inf is 0, exactly. Rows still sum to 1, and the first word can look at nothing but itself.",
            (
                _square("weights", weights, texts),
                Matrix("sums of rows", (tuple(sum(row) for row in weights),), columns=texts),
            ),
            "What is the first row of the weights?",
            tuple(weights[0]),
        ),
    ]


def _afterwards(texts: tuple[str, ...], scores: Rows) -> Step:
    weights = [softmax(row) for row in scores]
    cut = [[weight if key <= place else 0 for key, weight in enumerate(row)] for place, row in enumerate(weights)]
    return Step(
        "Not after the softmax",
        "Weights that are set to 0 afterwards leave rows that do not sum to 1: what was forbidden has already taken "
        "its share.",
        (Matrix("sums of rows", (tuple(sum(row) for row in cut),), columns=texts),),
    )


def _word_by_word(texts: tuple[str, ...], queries: Rows, keys: Rows, values: Rows) -> Step:
    at_once = outputs(queries, keys, values)
    # What was read is kept; a new word adds one key and one value to it.
    going_on = [
        weighted_sum(softmax(product([query], transposed(keys[:seen]))[0]), values[:seen])
        for seen, query in enumerate(queries, start=1)
    ]
    pairs = [pair for rows in zip(at_once, going_on, strict=True) for pair in zip(*rows, strict=True)]
    off = max(abs(float(a) - float(b)) for a, b in pairs)
    return Step(
        "It behaves like an RNN",
        "Read word by word, with the keys and values of those before kept, it gives the same rows. Unlike an RNN it "
        "keeps all of them: what is carried on grows with each word.",
        (
            Matrix("all at once", tuple(map(tuple, at_once)), texts),
            Matrix("word by word", tuple(map(tuple, going_on)), texts),
        ),
        "How far apart are the two ways?",
        (off,),
    )


def outputs(queries: Rows, keys: Rows, values: Rows) -> list[list[Number]]:
    """Return what each word finds among itself and those before it."""
    weights = [softmax(row) for row in causal(product(queries, transposed(keys)))]
    return product(weights, values)


def _pairs(count: int) -> Step:
    return Step(
        "What is left",
        "The triangle is all that makes an encoder a decoder: with it, each position predicts from what came before, "
        "so text can be generated. An encoder-decoder for translation has both kinds.",
        (
            Matrix(
                "pairs of words",
                ((count * (count + 1) // 2, count * count),),
                columns=("with the mask", "without"),
            ),
        ),
        f"Of {count} x {count} pairs of query and key, how many does the mask leave?",
        (count * (count + 1) // 2,),
    )


def _square(name: str, values: Sequence[Sequence[Number]], texts: tuple[str, ...]) -> Matrix:
    return Matrix(name, tuple(map(tuple, values)), texts, texts)
