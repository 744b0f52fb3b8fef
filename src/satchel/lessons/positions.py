"""Positions: what tells attention where a word stands (items 68 to 73)."""

import math
import random
from itertools import count

from satchel.errors import SettingsError
from satchel.lessons.steps import Matrix, Number, Rows, Step, dot, product, softmax, transposed

MOST_WORDS = 12
WIDEST = 1024
LONGEST = 64
LONGEST_WAVE = 10_000
# More columns than this do not fit beside one another.
SHOWN = 10


def positions(words: str = "the movie was great", width: int = 4, length: int = 12) -> list[Step]:
    """Return what attention cannot tell without positions, and what learned ones and sinusoids add."""
    sentence = tuple(words.split())
    if not 2 <= len(sentence) <= MOST_WORDS:
        raise SettingsError(
            f"words: found {len(sentence)}, expected 2 to {MOST_WORDS}", 'for example --set words="the movie was great"'
        )
    if not 2 <= width <= WIDEST or width % 2:
        raise SettingsError(
            f"width: found {width}, expected an even number from 2 to {WIDEST}",
            "sines and cosines come in pairs: for example --set width=64",
        )
    if not len(sentence) <= length <= LONGEST:
        raise SettingsError(
            f"length: found {length}, expected {len(sentence)} (the words) to {LONGEST}", "for example --set length=12"
        )
    # Each word has an axis of its own, for as long as there are any.
    distinct = list(dict.fromkeys(sentence))
    axes = [[0] * (number % width) + [1 + number // width] for number in map(distinct.index, sentence)]
    x: Rows = [axis + [0] * (width - len(axis)) for axis in axes]
    encoded = [_sinusoid(position, width) for position in range(length)]
    return [
        *_without(x, sentence),
        *_learned(x, sentence),
        *_sinusoids(encoded),
        *_distances(encoded),
        _added(x, encoded[: len(x)], sentence),
    ]


def _sinusoid(position: int, width: int) -> list[float]:
    angles = [position / LONGEST_WAVE ** (pair / width) for pair in range(0, width, 2)]
    return [wave(angle) for angle in angles for wave in (math.sin, math.cos)]


def _attended(x: Rows) -> list[list[Number]]:
    return product([softmax(row) for row in product(x, transposed(x))], x)


def _plus(first: Rows, second: Rows) -> list[list[Number]]:
    return [[a + b for a, b in zip(one, other, strict=True)] for one, other in zip(first, second, strict=True)]


def _matrix(name: str, rows: Rows, words: tuple[str, ...] = ()) -> Matrix:
    """Return a matrix of which just the first columns are shown."""
    wide = f"{name}, {SHOWN} of {len(rows[0])} columns" if len(rows[0]) > SHOWN else name
    return Matrix(wide, tuple(tuple(row[:SHOWN]) for row in rows), words)


def _without(x: Rows, sentence: tuple[str, ...]) -> list[Step]:
    return [
        Step(
            "No notion of order",
            "Self-attention over the words, then over the words backwards: each word gets the same vector. In a long "
            "text (the ballerina is very excited that she will dance in the show) a word should look nearby first, "
            "and nothing here says what is near.",
            (
                _matrix("words", x, sentence),
                _matrix("outputs", _attended(x), sentence),
                _matrix("outputs, backwards", _attended(x[::-1]), sentence[::-1]),
            ),
            "Without positions, the words are turned round. What changes in the output of a word?",
            ("nothing", "none", "same"),
        )
    ]


def _learned(x: Rows, sentence: tuple[str, ...]) -> list[Step]:
    source = random.Random(0)
    # Numbers such as training might find.
    p = [[round(source.gauss(0, 1), 1) for _ in x[0]] for _ in x]
    terms = [dot(a, b) for a, b in ((x[0], x[1]), (x[0], p[1]), (p[0], x[1]), (p[0], p[1]))]
    summed = _plus(x, p)
    return [
        Step(
            "Learned positions",
            "Each position is an integer with an embedding of its own, which is added to the word's. A word is then "
            "another vector in another place, and the dot product of two sums has four terms: a query can look for "
            "words, for places, or for both.",
            (
                _matrix("positions", p, tuple(map(str, range(len(p))))),
                _matrix("words + positions", summed, sentence),
                Matrix(
                    f"{sentence[0]} . {sentence[1]}",
                    ((*terms, dot(summed[0], summed[1])),),
                    columns=("word.word", "word.place", "place.word", "place.place", "sum"),
                ),
            ),
            "The embedding of the position is added to that of the word. Why does this work: what becomes of a word "
            "in another place?",
            ("differ", "other vector", "another vector", "changes", "distinguish", "not the same"),
        ),
        Step(
            "Any f from positions to vectors",
            "Which one is a choice to be made, and the network learns what to make of it.",
            (
                Matrix(
                    "some choices",
                    (
                        ("the number itself", "grows without end and drowns the words"),
                        ("one-hot", "needs as many columns as positions"),
                        ("learned", "ends where training ended"),
                        ("sinusoids", "any position, nothing to learn"),
                    ),
                    columns=("f", "what to know"),
                ),
            ),
        ),
    ]


def _sinusoids(encoded: Rows) -> list[Step]:
    width = len(encoded[0])
    places = tuple(map(str, range(len(encoded))))
    return [
        Step(
            "Sines and cosines",
            "PE(pos, 2i) = sin(pos / 10000^(2i/k)), PE(pos, 2i+1) = cos of the same: ever longer waves. The slides "
            "call i an index over dimensions; it counts pairs of them, from 0 to k/2 - 1.",
            (_matrix("PE", encoded, places),),
            "What are the first two numbers of PE(0), and the first two of PE(1)?",
            (*encoded[0][:2], *encoded[1][:2]),
        ),
        Step(
            "All of one length",
            "sin^2 + cos^2 = 1 for each pair, so |PE|^2 = k/2 at every position: it does not grow with the sentence.",
            (Matrix("|PE|^2", (tuple(dot(row, row) for row in encoded[:SHOWN]),), columns=places[:SHOWN]),),
            f"k = {width}. What is the sum of the squares of PE, at any position?",
            (width // 2,),
        ),
    ]


def _distances(encoded: Rows) -> list[Step]:
    width = len(encoded[0])
    starts = range(min(3, len(encoded)))
    farthest = min(len(encoded) - len(starts) + 1, SHOWN)
    rows = [[dot(encoded[start], encoded[start + distance]) for distance in range(farthest)] for start in starts]
    rises = tuple((k, _first_rise(k)) for k in sorted({4, 64, 512, width}))
    return [
        Step(
            "Only the distance counts",
            "PE(p) . PE(q) is the sum of cos((p - q) / 10000^(2i/k)): the same wherever the two stand.",
            (
                Matrix(
                    "PE(p) . PE(p + distance)",
                    tuple(map(tuple, rows)),
                    tuple(f"p = {start}" for start in starts),
                    tuple(map(str, range(farthest))),
                ),
            ),
        ),
        Step(
            "Closer is higher, mostly",
            "The slides say that closer words get higher dot products by default. That is a tendency: the waves come "
            "round again, and from some distance on the product rises now and then.",
            (Matrix("first rise", rises, columns=("k", "distance")),),
        ),
    ]


def _first_rise(width: int) -> int:
    """Return the first distance whose dot product is higher than that of the distance before."""

    def at(distance: int) -> Number:
        return dot(_sinusoid(0, width), _sinusoid(distance, width))

    return next(distance for distance in count(1) if at(distance) > at(distance - 1))


def _added(x: Rows, encoded: Rows, sentence: tuple[str, ...]) -> Step:
    width = len(x[0])
    forwards = _attended(_plus(x, encoded))
    backwards = _attended(_plus(x[::-1], encoded))[::-1]
    return Step(
        "Added, not put beside",
        "Word and position are both k numbers and so is their sum; put side by side they would be 2k. Now the words "
        "backwards give other vectors.",
        (
            _matrix("words + PE", _plus(x, encoded), sentence),
            _matrix("outputs", forwards, sentence),
            _matrix("outputs of the words backwards", backwards, sentence),
        ),
        f"The word has {width} numbers and its position {width}. How many has their sum?",
        (width,),
    )
