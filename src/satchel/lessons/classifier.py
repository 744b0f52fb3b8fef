"""A classifier: words, a block, the mean, a linear map, a softmax (items 91, 92 and 93)."""

from fractions import Fraction

from satchel.errors import SettingsError
from satchel.lessons.steps import Matrix, Number, Step, softmax, weighted_sum

MOST_WORDS = 12
# What the words of the example say; all others say nothing.
MEANINGS = {
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
SCALE = 4  # of the linear map: how sure a mean makes it

Vectors = list[list[Number]]


def classifier(text: str = "not bad , a lovely film", positions: bool = True, padding: int = 2) -> list[Step]:
    """Return how a text gets its label, and what order and padding have to do with it."""
    words = tuple(text.split())
    if not 2 <= len(words) <= MOST_WORDS or not 0 <= padding <= MOST_WORDS:
        raise SettingsError(
            f"found {len(words)} words and {padding} of padding, expected 2 to {MOST_WORDS} and up to {MOST_WORDS}",
            "for example --set text='not bad'",
        )
    chances = probabilities(words, positions)
    label = LABELS[chances.index(max(chances))]
    looked = weights(len(words), positions)
    found = block(embedded(words), positions)
    how = "each word looks at the one before it" if positions else "without positions all words look alike: at all"
    return [
        Step(
            "The words",
            "Each word says how good, how bad and how much of a `not` it is.",
            (_matrix("E", embedded(words), words),),
        ),
        Step(
            "Who looks at whom",
            f"The block's attention: {how}.",
            (
                Matrix("weights", tuple(map(tuple, looked)), words, words),
                _matrix("found", _found(embedded(words), looked), words),
            ),
        ),
        Step(
            "What the block makes of it",
            "A word that found a `not` means the opposite, as far as it found one.",
            (_matrix("H", found, words),),
        ),
        Step(
            "The mean of the sequence",
            f"One vector for the text: the sum of the {len(words)} vectors over their number.",
            (_matrix("mean", [mean(found)], ()),),
            f"What is the mean of the `good` column of H, over {len(words)} words?",
            (mean(found)[0],),
        ),
        Step(
            "A linear map and a softmax",
            f"{SCALE} times `good` is the score of positive, {SCALE} times `bad` that of negative.",
            (Matrix("P", (tuple(chances),), (), LABELS),),
            f"Which label does '{text}' get?",
            (label,),
        ),
        _padded(words, positions, padding),
        _shuffled(words),
    ]


def embedded(words: tuple[str, ...]) -> Vectors:
    """Return what each word says by itself."""
    return [[Fraction(number) for number in MEANINGS.get(word.lower(), (0, 0, 0))] for word in words]


def weights(length: int, positions: bool) -> Vectors:
    """Return who looks at whom: at the word before, the first at itself; or everybody at everybody."""
    if not positions:
        return [[Fraction(1, length)] * length for _ in range(length)]
    return [[Fraction(other == max(0, place - 1)) for other in range(length)] for place in range(length)]


def block(vectors: Vectors, positions: bool) -> Vectors:
    """Return the words in their context: good and bad change places as far as a `not` was found."""
    changed: Vectors = []
    for (good, bad, _), (*_, negated) in zip(vectors, _found(vectors, weights(len(vectors), positions)), strict=True):
        changed.append([good + (bad - good) * negated, bad + (good - bad) * negated, Fraction(0)])
    return changed


def mean(vectors: Vectors) -> list[Number]:
    """Return the mean of some vectors."""
    return weighted_sum([Fraction(1, len(vectors))] * len(vectors), vectors)


def probabilities(words: tuple[str, ...], positions: bool) -> list[Number]:
    """Return how likely a text is positive, and negative."""
    good, bad, _ = mean(block(embedded(words), positions))
    return softmax([SCALE * good, SCALE * bad])


def _found(vectors: Vectors, looked: Vectors) -> Vectors:
    return [weighted_sum(row, vectors) for row in looked]


def _padded(words: tuple[str, ...], positions: bool, padding: int) -> Step:
    """Padding is there to make rows equally long: it must enter neither the mean nor the attention."""
    right = mean(block(embedded(words), positions))
    longer = (*words, *["<pad>"] * padding)
    wrong = mean(block(embedded(longer), positions))
    return Step(
        "Padding is no text",
        f"In a batch, short rows are filled up, here with {padding}. Left out of the attention and of the mean they "
        "change nothing; let in, the text says less of everything than it did.",
        (_matrix("mean", [right, wrong], ("left out", "let in")),),
        f"What is `good` in the mean, if {padding} rows of padding are let in?",
        (wrong[0],),
    )


def _shuffled(words: tuple[str, ...]) -> Step:
    """Only a block that knows positions can tell a text from the same words in another order."""
    backwards = tuple(reversed(words))
    rows = {
        "with positions": (probabilities(words, True)[0], probabilities(backwards, True)[0]),
        "without": (probabilities(words, False)[0], probabilities(backwards, False)[0]),
    }
    return Step(
        "The same words backwards",
        "With positions another order may get another label. Without, every order has the same mean: always.",
        (Matrix("P(positive)", tuple(rows.values()), tuple(rows), (" ".join(words), " ".join(backwards))),),
        "By how much does P(positive) change without positions?",
        (0,),
    )


def _matrix(name: str, rows: Vectors, words: tuple[str, ...]) -> Matrix:
    return Matrix(name, tuple(map(tuple, rows)), words, DIMENSIONS)
