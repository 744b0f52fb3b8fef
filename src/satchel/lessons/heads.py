"""Heads: why one has to average, and three ways to share out a width among several (items 51 to 56)."""

import math
from collections.abc import Sequence

from satchel.errors import SettingsError
from satchel.lessons.steps import Matrix, Number, Rows, Step, product, softmax, transposed, weighted_sum

WIDEST = 1_000_000
SENTENCE = ("cats", "chase", "mice")
WORDS = {"cats": [1, 0], "chase": [0, 0], "mice": [0, 1]}
# Two words of width 4, and the same with half of one changed.
BEFORE = ((1, 0, 0, 1), (0, 1, 1, 0))
AFTER = ((1, 0, 0, 1), (0, 1, 2, 2))
# W_q, W_k and W_v of each narrow head; and for each canonical head one matrix that serves as all three.
NARROW = (((1, 0), (0, 1)), ((1, 1), (0, 1)), ((1, 0), (1, 1)))
CANONICAL = (((1, 0), (0, 1), (1, 0), (0, 1)), ((1, 0), (0, 1), (1, 1), (0, 1)))


def heads(width: int = 256, heads: int = 8) -> list[Step]:
    """Return what two heads can tell that one cannot, and the shapes of narrow, canonical and wide heads."""
    if not 1 <= width <= WIDEST:
        raise SettingsError(f"width: found {width}, expected 1 to {WIDEST}", "for example --set width=256")
    if heads < 1 or width % heads:
        raise SettingsError(
            f"heads: found {heads} for a width of {width}, expected a divisor of it", "for example --set heads=1"
        )
    return [*_one_or_two(), *_shapes(width, heads), _chunks()]


# --- one head averages --------------------------------------------------------------------------------


def _looked(words: tuple[str, ...], *places: int) -> list[Number]:
    """Return what a head gives that looks at these places only, at all of them alike."""
    # A score of -inf is the limit of a very sharp query; any base gives the same, and a whole one keeps fractions.
    weights = softmax([0 if place in places else -math.inf for place in range(len(words))], 3)
    return weighted_sum(weights, [WORDS[word] for word in words])


def _one_or_two() -> list[Step]:
    turned = SENTENCE[::-1]
    rows = (" ".join(SENTENCE), " ".join(turned))
    one = [_looked(words, 0, 2) for words in (SENTENCE, turned)]
    two = [_looked(words, 0) + _looked(words, 2) for words in (SENTENCE, turned)]
    join = [[1, 0], [0, 1], [-1, 0], [0, -1]]
    return [
        Step(
            "One head has to average",
            "One softmax gives one mixture of the two words, and looking at both alike loses who did what to whom: "
            "the sentence turned round gives the same.",
            (Matrix("output at the verb", tuple(map(tuple, one)), rows),),
            "cats chase mice, with values cats = [1, 0], chase = [0, 0], mice = [0, 1]. The verb looks at its subject "
            "and at its object, half and half: what does it get?",
            tuple(one[0]),
        ),
        Step(
            "Two heads need not",
            "One looks at the subject, one at the object, and their outputs stand side by side: nothing is lost. In "
            "the same way two heads can look at two words that a pronoun may stand for. It is the whole computation "
            "again with other weights, as a convolution has several filters.",
            (Matrix("outputs, side by side", tuple(map(tuple, two)), rows),),
            "One head looks only at the subject, another only at the object. What do they give, side by side?",
            tuple(two[0]),
        ),
        Step(
            "A linear map joins them",
            "It brings the outputs back to the width of the input. This one takes the object from the subject, which "
            "differs between the two sentences.",
            (
                Matrix("W^O", tuple(map(tuple, join))),
                Matrix("joined", tuple(map(tuple, product(two, join))), rows),
            ),
        ),
    ]


# --- three ways to share a width ----------------------------------------------------------------------


def _shapes(k: int, h: int) -> list[Step]:
    own = k // h
    kinds = ("narrow", "canonical", "wide")
    shapes = (
        (f"a part of {own}", f"{own} x {own}", f"{k}", f"{k} x {k}"),
        (f"all {k}", f"{k} x {own}", f"{k}", f"{k} x {k}"),
        (f"all {k}", f"{k} x {k}", f"{h * k}", f"{h * k} x {k}"),
    )
    projections = (3 * h * own * own, 3 * h * k * own, 3 * h * k * k)
    outputs = (k * k, k * k, h * k * k)
    formulas = ("3k^2/h + k^2", "3k^2 + k^2", "3hk^2 + hk^2")
    return [
        Step(
            f"Narrow, canonical, wide: shapes for k = {k}, h = {h}",
            "Narrow heads cut the input into parts and see one each; wide heads see all of it and stay as wide. One "
            "lecture names these two; what most Transformers do lies between: see all, project to k/h. Another says "
            "that d_k is always smaller than d_model, which is not so for wide heads. For one head all three are the "
            "same.",
            (Matrix("shapes", shapes, kinds, ("a head sees", "each of W_q W_k W_v", "side by side", "W^O")),),
            f"Width {k}, {h} heads. How many numbers stand side by side after wide heads?",
            (h * k,),
        ),
        Step(
            "Weights",
            "Queries, keys and values of all heads, then the map that joins them, without biases.",
            (
                Matrix(
                    "weights",
                    tuple(
                        (formula, projection, output, projection + output)
                        for formula, projection, output in zip(formulas, projections, outputs, strict=True)
                    ),
                    kinds,
                    ("formula", "q, k, v", "W^O", "both"),
                ),
            ),
            f"How many weights do the queries, keys and values of {h} canonical heads have, for a width of {k}?",
            (projections[1],),
        ),
    ]


# --- what a narrow head sees --------------------------------------------------------------------------


def _attend(x: Rows, weights: Sequence[Rows]) -> list[list[Number]]:
    queries, keys, values = (product(x, weight) for weight in weights)
    # The lecture's e = 3 keeps fractions.
    return [weighted_sum(softmax(row, 3), values) for row in product(queries, transposed(keys))]


def _side_by_side(first: Rows, second: Rows) -> tuple[tuple[Number, ...], ...]:
    return tuple((*left, *right) for left, right in zip(first, second, strict=True))


def _narrow(x: Rows) -> tuple[tuple[Number, ...], ...]:
    return _side_by_side(*(_attend([row[part : part + 2] for row in x], NARROW) for part in (0, 2)))


def _canonical(x: Rows) -> tuple[tuple[Number, ...], ...]:
    return _side_by_side(*(_attend(x, [weight] * 3) for weight in CANONICAL))


def _chunks() -> Step:
    return Step(
        "What a narrow head cannot see",
        "The second half of the second word changes. Narrow: the first head, columns 1 and 2, never sees it, and gives "
        "what it gave. Canonical: both heads see it, and both change. (With e = 3, so that fractions come out.)",
        (
            Matrix("x", BEFORE),
            Matrix("x, changed", AFTER),
            Matrix("narrow", _narrow(BEFORE)),
            Matrix("narrow, changed", _narrow(AFTER)),
            Matrix("canonical", _canonical(BEFORE)),
            Matrix("canonical, changed", _canonical(AFTER)),
        ),
        "Width 4 in two narrow heads. The third and fourth number of a word change: which head's output changes?",
        (2,),
    )
