"""Text classification: embeddings, one block, mean pooling, a linear layer and a softmax (items 91, 92 and 93)."""

import re
from fractions import Fraction
from functools import partial

from satchel.lessons.arithmetic import Number, Rows, matmul, mean, softmax
from satchel.lessons.checks import check_range, split_words
from satchel.lessons.steps import Matrix, Step, build_step, matrix, vector

step = partial(build_step, "classifier")

MOST_WORDS = 12
PUNCTUATION = re.compile(r"([.,;:!?])")
# Embeddings of the words of the example; all other words have the embedding (0, 0, 0).
EMBEDDINGS = {
    "good": (1, 0, 0),
    "fine": (1, 0, 0),
    "lovely": (2, 0, 0),
    "bad": (0, 1, 0),
    "dull": (0, 1, 0),
    "awful": (0, 2, 0),
    "not": (0, 0, 1),
    "never": (0, 0, 1),
}
DIMENSIONS = ("good", "bad", "not")
LABELS = ("positive", "negative")
# Weight of the linear layer: the logits are SCALE * good and SCALE * bad.
SCALE = 4


def classifier(text: str = "not bad , a lovely film", positions: bool = True, padding: int = 2) -> list[Step]:
    """Return the steps from a text to its label, and the effects of padding and of word order."""
    # Punctuation marks are separate tokens, with or without a space before them.
    words = split_words("text", PUNCTUATION.sub(r" \1 ", text), 2, MOST_WORDS, "not bad")
    check_range("padding", padding, 0, MOST_WORDS, example=2)
    chances = probabilities(words, positions)
    label = LABELS[chances.index(max(chances))]
    weights = attention_weights(len(words), positions)
    encodings = encode(words, positions)
    unmasked = mean(encode((*words, *["<pad>"] * padding), positions))
    orders = (words, words[::-1])
    by_order = [[probabilities(order, with_positions)[0] for order in orders] for with_positions in (True, False)]
    pattern = (
        "each word attends to the previous word (the first word to itself)"
        if positions
        else "without position encodings, every word attends to all words equally"
    )
    return [
        step("Word embeddings", _by_dimension("E", embed(words), words)),
        step(
            "Self-attention",
            matrix("attention weights", weights, words, words),
            _by_dimension("attention output", matmul(weights, embed(words)), words),
            pattern=pattern,
        ),
        step("The output of the block", _by_dimension("H", encodings, words)),
        step("Mean pooling", _by_dimension("mean", [mean(encodings)]), answer=mean(encodings)[0], count=len(words)),
        step("Linear layer and softmax", vector("P", chances, LABELS), answer=label, scale=SCALE, text=" ".join(words)),
        step(
            "Padding must be masked",
            _by_dimension("mean", [mean(encodings), unmasked], ("masked", "unmasked")),
            answer=unmasked[0],
            padding=padding,
        ),
        step(
            "Word order",
            matrix("P(positive)", by_order, ("with positions", "without positions"), map(" ".join, orders)),
        ),
    ]


def embed(words: tuple[str, ...]) -> list[list[Number]]:
    """Return the embeddings of the words."""
    return [[Fraction(number) for number in EMBEDDINGS.get(word.lower(), (0, 0, 0))] for word in words]


def attention_weights(length: int, positions: bool) -> list[list[Number]]:
    """Return attention to the previous word (the first word: to itself), or uniform attention without positions."""
    if not positions:
        return [[Fraction(1, length)] * length for _ in range(length)]
    return [[Fraction(key == max(0, query - 1)) for key in range(length)] for query in range(length)]


def encode(words: tuple[str, ...], positions: bool) -> list[list[Number]]:
    """Return the outputs of the block: good and bad are exchanged in proportion to the attended negation."""
    embeddings = embed(words)
    attended = matmul(attention_weights(len(words), positions), embeddings)
    return [
        [good + (bad - good) * negation, bad + (good - bad) * negation, Fraction(0)]
        for (good, bad, _), (*_, negation) in zip(embeddings, attended, strict=True)
    ]


def probabilities(words: tuple[str, ...], positions: bool) -> list[Number]:
    """Return the probabilities of the labels positive and negative."""
    good, bad, _ = mean(encode(words, positions))
    return softmax([SCALE * good, SCALE * bad])


def _by_dimension(name: str, rows: Rows, labels: tuple[str, ...] = ()) -> Matrix:
    return matrix(name, rows, labels, DIMENSIONS)
