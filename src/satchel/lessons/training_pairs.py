"""Training pairs: inputs and targets of a language model, batching, and the loss (items 81 to 85)."""

import math
from fractions import Fraction
from functools import partial

from satchel.lessons.checks import check_range, split_words
from satchel.lessons.steps import Step, build_step, matrix, vector

START = "<s>"
NO_TARGET = "-"
MOST_WORDS = 200

step = partial(build_step, "training-pairs", start=START, no_target=NO_TARGET)

Words = tuple[str, ...]


def training_pairs(
    text: str = "I saw the dog running in the park and it looked very excited to be there", length: int = 5
) -> list[Step]:
    """Return the inputs and targets of a text, and the loss of a model that can be computed by hand."""
    words = split_words("text", text, 2, MOST_WORDS, "I saw the dog")
    check_range("length", length, 1, MOST_WORDS, example=5)
    rows = make_pairs(words, length)
    return [*_chunks(words, rows, length), *_losses(words, rows)]


def make_pairs(words: Words, length: int) -> list[tuple[Words, Words]]:
    """Return the (inputs, targets) of each chunk: inputs are the targets shifted by one position, starting with <s>."""
    chunks = [words[start : start + length] for start in range(0, len(words), length)]
    return [((START, *chunk[:-1]), chunk) for chunk in chunks]


def probability(word: str, prefix: Words, vocabulary: Words) -> Fraction:
    """Return P(word | prefix), proportional to 1 + the number of letters of the word that occur in the prefix.

    The start symbol has no letters.
    """
    return _probability(word, set("".join(map(_letters, prefix))), vocabulary)


def target_probabilities(inputs: Words, targets: Words, vocabulary: Words) -> list[Fraction]:
    """Return P(target | prefix) at every position, computed in one pass over the inputs."""
    letters: set[str] = set()
    chances = []
    for word, target in zip(inputs, targets, strict=True):
        letters |= set(_letters(word))
        chances.append(_probability(target, letters, vocabulary))
    return chances


def _letters(word: str) -> str:
    """Return the letters of a word; the start symbol has none."""
    return "" if word == START else word


def _probability(word: str, letters: set[str], vocabulary: Words) -> Fraction:
    scores = {candidate: 1 + len(set(candidate) & letters) for candidate in vocabulary}
    return Fraction(scores[word], sum(scores.values()))


def _chunks(words: Words, rows: list[tuple[Words, Words]], length: int) -> list[Step]:
    inputs, targets = rows[0]
    padded = [(*row, *[NO_TARGET] * (length - len(row))) for pair in rows for row in pair]
    labels = [f"{number} {name}" for number in range(1, len(rows) + 1) for name in ("input", "target")]
    example = min(2, len(rows) - 1)
    return [
        step(
            "Inputs and targets are shifted by one",
            matrix("pair", (inputs, targets), ("input", "target")),
            answer=" ".join(targets),
            inputs=" ".join(inputs),
            words=" ".join(words[: length + 1]),
        ),
        step(
            "Chunks of {length} words",
            matrix("rows", padded, labels),
            answer=rows[example][1][0],
            length=length,
            number=example + 1,
        ),
    ]


def _losses(words: Words, rows: list[tuple[Words, Words]]) -> list[Step]:
    vocabulary = tuple(dict.fromkeys(words))
    inputs, targets = rows[0]
    prefixes = [inputs[:stop] for stop in range(1, len(inputs) + 1)]
    chances = [probability(word, prefix, vocabulary) for prefix, word in zip(prefixes, targets, strict=True)]
    by_prefix = [
        (" ".join(prefix), word, p, -math.log(p)) for prefix, word, p in zip(prefixes, targets, chances, strict=True)
    ]
    losses = [[-math.log(p) for p in target_probabilities(*row, vocabulary)] for row in rows]
    all_losses = [loss for row in losses for loss in row]
    total, means = sum(all_losses), [sum(row) / len(row) for row in losses]
    count = len(targets)
    return [
        step(
            "All positions at once",
            matrix("prefix by prefix", by_prefix, columns=("context", "target", "P", "-log P")),
            vector("one pass", target_probabilities(inputs, targets, vocabulary), targets),
            answer=count,
        ),
        step(
            "The loss: sum or mean",
            vector("loss of row 1", (sum(losses[0]), means[0]), ("sum", "mean")),
            answer=count,
            count=count,
        ),
        step(
            "Loss of a batch",
            matrix(
                "by row",
                [(len(row), sum(row), mean) for row, mean in zip(losses, means, strict=True)],
                (str(number) for number in range(1, len(rows) + 1)),
                ("targets", "sum", "mean"),
            ),
            vector(
                "batch",
                (total, total / len(all_losses), sum(means) / len(means)),
                ("sum", "mean over positions", "mean of means"),
            ),
            rows=len(rows),
            count=count,
            vocabulary=len(vocabulary),
            positions=len(rows) * count,
            targets=len(all_losses),
        ),
    ]
