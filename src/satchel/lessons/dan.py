"""Two feed-forward language models: one that cannot see order, one that cannot see far (items 5 and 6)."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import permutations

from satchel.errors import SettingsError
from satchel.lessons.steps import Matrix, Number, Rows, Step, softmax, weighted_sum

MOST_WORDS = 5
ROWS_SHOWN = 6
# A word that the context does not have.
NEW = "<new>"


def dan(context: str = "the cat sat") -> list[Step]:
    """Return what a deep averaging network and a position-sensitive network see of a context."""
    words = tuple(context.split())
    if not 2 <= len(words) <= MOST_WORDS:
        raise SettingsError(
            f"context: found {len(words)} words, expected 2 to {MOST_WORDS}", "for example --set context='the cat sat'"
        )
    vocabulary = (*dict.fromkeys(words), NEW)
    # Each word on a dimension of its own, as the lecture has its As and Bs.
    vectors = {word: [Fraction(word == other) for other in vocabulary] for word in vocabulary}
    orders = list(dict.fromkeys(permutations(words)))
    return [
        Step(
            "The embeddings",
            "Each word has a dimension of its own, so nothing is hidden in the numbers.",
            (Matrix("E", tuple(tuple(vectors[word]) for word in words), words, vocabulary),),
        ),
        *_averaging(words, orders, vectors),
        _concatenating(orders, vectors),
        _blind(words, vectors),
    ]


def mean(words: tuple[str, ...], vectors: dict[str, list[Fraction]]) -> list[Number]:
    """Return the average of the words' vectors: what a deep averaging network sees."""
    return weighted_sum([Fraction(1, len(words))] * len(words), [vectors[word] for word in words])


def side_by_side(words: tuple[str, ...], vectors: dict[str, list[Fraction]]) -> list[Number]:
    """Return the words' vectors one after the other: what a position-sensitive network sees."""
    return [number for word in words for number in vectors[word]]


def hidden(seen: list[Number], weights: Sequence[Number]) -> list[Number]:
    """Return a layer of ReLUs, a unit for each word, that adds the parts of what it sees, each times its weight."""
    size = len(seen) // len(weights)
    return [
        max(number, Fraction(0))
        for number in weighted_sum(weights, [seen[at : at + size] for at in range(0, len(seen), size)])
    ]


def _averaging(words: tuple[str, ...], orders: list[tuple[str, ...]], vectors: dict[str, list[Fraction]]) -> list[Step]:
    average = mean(words, vectors)
    counts = hidden(average, [len(words)])
    averages = {order: tuple(mean(order, vectors)) for order in orders}
    return [
        Step(
            "A deep averaging network",
            "The mean of the embeddings, through a feed-forward net (here n times the mean, which counts the words), "
            "through a softmax: a probability for each word to come next.",
            (
                _matrix("mean", [average], vectors),
                _matrix("hidden", [counts], vectors),
                _matrix("P(next)", [softmax(counts)], vectors),
            ),
            f"What is the mean of the embeddings of '{' '.join(words)}'?",
            tuple(average),
        ),
        Step(
            "Every order of the words",
            f"{len(orders)} orders, {len(set(averages.values()))} mean: what the net above it does cannot matter any "
            "more, since it gets the same input.",
            (_matrix("mean", list(averages.values())[:ROWS_SHOWN], vectors, orders),),
            f"There are {len(orders)} different orders of '{' '.join(words)}'. How many different means have they?",
            (len(set(averages.values())),),
        ),
    ]


def _concatenating(orders: list[tuple[str, ...]], vectors: dict[str, list[Fraction]]) -> Step:
    inputs = {order: tuple(side_by_side(order, vectors)) for order in orders}
    # Weights of 1, 2, 4, ... tell which places a word stands at, even if it stands at several.
    places = [hidden(list(seen), [2**place for place in range(len(orders[0]))]) for seen in inputs.values()]
    width = len(vectors)
    return Step(
        "A position-sensitive network",
        f"The embeddings side by side: {len(orders[0])} x {width} = {len(orders[0]) * width} numbers, and weights of "
        "its own for each place (here 1, 2, 4, ...). Each order is another input, so the net can give it another "
        "answer.",
        (
            Matrix("side by side", tuple(inputs.values())[:ROWS_SHOWN], _names(orders)),
            _matrix("hidden", places[:ROWS_SHOWN], vectors, orders),
            _matrix("P(next)", list(map(softmax, places))[:ROWS_SHOWN], vectors, orders),
        ),
        f"How many different inputs do the {len(orders)} orders make for a net that sees the embeddings side by side?",
        (len(set(inputs.values())),),
    )


def _blind(words: tuple[str, ...], vectors: dict[str, list[Fraction]]) -> Step:
    longer = (NEW, *words)
    seen = [side_by_side(each[-len(words) :], vectors) for each in (words, longer)]
    difference = sum((abs(a - b) for a, b in zip(*seen, strict=True)), start=Fraction(0))
    return Step(
        "Only the last n-1 words",
        f"A net with room for n-1 = {len(words)} words does not see the one before them; the mean, which has no "
        "places to run out of, does.",
        (
            Matrix("side by side", tuple(map(tuple, seen)), _names([words, longer])),
            _matrix("mean", [mean(words, vectors), mean(longer, vectors)], vectors, [words, longer]),
        ),
        f"{NEW} comes before the {len(words)} words that fit. By how much does what the net sees change?",
        (difference,),
    )


def _names(orders: list[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(" ".join(order) for order in orders[:ROWS_SHOWN])


def _matrix(
    name: str, rows: Rows, vectors: dict[str, list[Fraction]], orders: list[tuple[str, ...]] | None = None
) -> Matrix:
    return Matrix(name, tuple(map(tuple, rows)), _names(orders or []), tuple(vectors))
