"""Training pairs: what goes into a language model, what should come out, and what the loss adds up (items 81 to 85)."""

import math
from fractions import Fraction

from satchel.errors import SettingsError
from satchel.lessons.steps import Matrix, Step

START = "<s>"
NO_TARGET = "-"
MOST_WORDS = 200

Words = tuple[str, ...]


def training_pairs(
    text: str = "I saw the dog running in the park and it looked very excited to be there", length: int = 5
) -> list[Step]:
    """Return a text as rows of inputs and targets, and their loss under a small model that can be computed by hand."""
    words = tuple(text.split())
    if not 2 <= len(words) <= MOST_WORDS:
        raise SettingsError(
            f"text: found {len(words)} words, expected 2 to {MOST_WORDS}", "for example --set text='I saw the dog'"
        )
    if not 1 <= length <= MOST_WORDS:
        raise SettingsError(f"length: found {length}, expected 1 to {MOST_WORDS}", "for example --set length=5")
    rows = pairs(words, length)
    return [*_rows(words, rows, length), *_losses(words, rows)]


def pairs(words: Words, length: int) -> list[tuple[Words, Words]]:
    """Return the (inputs, targets) of each chunk: the same words, one place on; each chunk begins again with <s>."""
    chunks = [words[start : start + length] for start in range(0, len(words), length)]
    return [((START, *chunk[:-1]), chunk) for chunk in chunks]


def probability(word: str, prefix: Words, vocabulary: Words) -> Fraction:
    """Return P(word | prefix): the more letters of it have been read, the likelier it is."""
    return _share(word, set("".join(prefix)), vocabulary)


def all_at_once(inputs: Words, targets: Words, vocabulary: Words) -> list[Fraction]:
    """Return P(target) at every position in one pass, which reads each input once."""
    letters: set[str] = set()
    found = []
    for word, target in zip(inputs, targets, strict=True):
        letters |= set(word)
        found.append(_share(target, letters, vocabulary))
    return found


def _share(word: str, letters: set[str], vocabulary: Words) -> Fraction:
    scores = {known: 1 + len(set(known) & letters) for known in vocabulary}
    return Fraction(scores[word], sum(scores.values()))


def _rows(words: Words, rows: list[tuple[Words, Words]], length: int) -> list[Step]:
    inputs, targets = rows[0]
    filled = [_filled(each, length) for row in rows for each in row]
    names = tuple(f"{number} {name}" for number in range(1, len(rows) + 1) for name in ("input", "target"))
    asked = min(2, len(rows) - 1)
    return [
        Step(
            "Shifted by one",
            "At each position the word to predict is the one that the input has next; <s> gives the first word "
            "something to follow.",
            (Matrix("pair", (inputs, targets), ("input", "target")),),
            f"The input is '{' '.join(inputs)}', from the text '{' '.join(words[: length + 1])}'. What is the target?",
            (" ".join(targets),),
        ),
        Step(
            f"Chunks of {length}",
            f"Every chunk begins again with {START}, so every word is predicted exactly once, but the first of a chunk "
            f"without what came before it. A short row is filled up, and nothing is predicted there ({NO_TARGET}). "
            "Rows are the batch; positions in a row are time. (The slide prints its third chunk without saying that it "
            "is the target; the input begins with <s> as the others do.)",
            (Matrix("rows", tuple(filled), names),),
            f"The input of row {asked + 1} begins with {START}. Which word is to be predicted there?",
            (rows[asked][1][0],),
        ),
    ]


def _filled(row: Words, length: int) -> Words:
    return (*row, *[NO_TARGET] * (length - len(row)))


def _losses(words: Words, rows: list[tuple[Words, Words]]) -> list[Step]:
    vocabulary = tuple(dict.fromkeys(words))
    inputs, targets = rows[0]
    prefixes = [inputs[:stop] for stop in range(1, len(inputs) + 1)]
    chances = [probability(word, prefix, vocabulary) for prefix, word in zip(prefixes, targets, strict=True)]
    once = all_at_once(inputs, targets, vocabulary)
    losses = [[-math.log(chance) for chance in all_at_once(*row, vocabulary)] for row in rows]
    flat = [loss for row in losses for loss in row]
    means = [sum(row) / len(row) for row in losses]
    count = len(targets)
    return [
        Step(
            "All positions at once",
            "A small model: each word of the text scores 1 and another 1 for each of its letters that the context has; "
            "P is its share. One pass over the row gives what each prefix gives by itself, since no position looks "
            "ahead. That is not batching: it is one sequence.",
            (
                Matrix(
                    "prefix by prefix",
                    tuple(
                        (" ".join(p), w, c, -math.log(c)) for p, w, c in zip(prefixes, targets, chances, strict=True)
                    ),
                    columns=("context", "target", "P", "-log P"),
                ),
                Matrix("one pass", (tuple(once),), columns=targets),
            ),
            "One pass over row 1: how many predictions is the model trained on?",
            (len(once),),
        ),
        Step(
            "The loss: a sum or a mean",
            "The slide adds up -log P over positions, but the NLLLoss() beside it takes the mean unless it is told "
            f"reduction='sum': {count} times less here.",
            (Matrix("loss of row 1", ((sum(losses[0]), means[0]),), columns=("sum", "mean")),),
            "By what has NLLLoss's own answer to be multiplied to be the sum over row 1?",
            (count,),
        ),
        Step(
            "A batch",
            f"[batch, time, classes] = [{len(rows)}, {count}, {len(vocabulary)}] collapses to "
            f"[{len(rows) * count}, {len(vocabulary)}], of which {len(flat)} positions have a target. The sum is that "
            "of the rows; the mean over positions is the mean of the rows' means only if all rows are equally long.",
            (
                Matrix(
                    "by row",
                    tuple((len(row), sum(row), mean) for row, mean in zip(losses, means, strict=True)),
                    tuple(str(number) for number in range(1, len(rows) + 1)),
                    ("targets", "sum", "mean"),
                ),
                Matrix(
                    "batch",
                    ((sum(flat), sum(flat) / len(flat), sum(means) / len(means)),),
                    columns=("sum", "mean over positions", "mean of means"),
                ),
            ),
        ),
    ]
