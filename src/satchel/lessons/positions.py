"""Position encodings: learned embeddings and sinusoids (items 68 to 73)."""

import math
import random
from functools import partial
from itertools import count

from satchel.lessons.arithmetic import Number, Rows, add, attend, dot
from satchel.lessons.checks import check, check_range, split_words
from satchel.lessons.steps import Matrix, Step, build_step, matrix, vector

step = partial(build_step, "positions")

MOST_WORDS = 12
WIDEST = 1024
LONGEST = 64
LARGEST_PERIOD = 10_000
# Maximum number of columns printed side by side.
SHOWN = 10


def positions(words: str = "the movie was great", width: int = 4, length: int = 12) -> list[Step]:
    """Return self-attention without positions, and the properties of learned and sinusoidal position encodings."""
    sentence = split_words("words", words, 2, MOST_WORDS, "the movie was great")
    # Sines and cosines come in pairs.
    check(2 <= width <= WIDEST and width % 2 == 0, "width", width, f"an even number from 2 to {WIDEST}", 64)
    check_range("length", length, len(sentence), LONGEST, example=LONGEST)
    x = _embed(sentence, width)
    encodings = [_sinusoid(position, width) for position in range(length)]
    added = encodings[: len(x)]
    labels = tuple(map(str, range(length)))
    return [
        step(
            "No notion of order",
            _truncated("word embeddings", x, sentence),
            _truncated("outputs", _self_attention(x), sentence),
            _truncated("outputs, reversed words", _self_attention(x[::-1]), sentence[::-1]),
        ),
        *_learned(x, sentence),
        step("Sines and cosines", _truncated("PE", encodings, labels), answer=(*encodings[0][:2], *encodings[1][:2])),
        step(
            "Constant norm",
            vector("|PE|^2", (dot(row, row) for row in encodings[:SHOWN]), labels[:SHOWN]),
            answer=width // 2,
            width=width,
        ),
        *_distances(encodings),
        step(
            "Position encodings are added",
            _truncated("words + PE", add(x, added), sentence),
            _truncated("outputs", _self_attention(add(x, added)), sentence),
            _truncated("outputs, reversed words", _self_attention(add(x[::-1], added))[::-1], sentence),
            answer=width,
            width=width,
        ),
    ]


def _embed(sentence: tuple[str, ...], width: int) -> list[list[Number]]:
    """Return one-hot embeddings; words beyond the width reuse the columns with larger values."""
    distinct = list(dict.fromkeys(sentence))
    numbers = [distinct.index(word) for word in sentence]
    return [[(1 + n // width) * (column == n % width) for column in range(width)] for n in numbers]


def _sinusoid(position: int, width: int) -> list[float]:
    angles = [position / LARGEST_PERIOD ** (pair / width) for pair in range(0, width, 2)]
    return [function(angle) for angle in angles for function in (math.sin, math.cos)]


def _self_attention(x: Rows) -> list[list[Number]]:
    return attend(x, x, x).outputs


def _truncated(name: str, rows: Rows, labels: tuple[str, ...] = ()) -> Matrix:
    """Return a matrix with at most SHOWN columns."""
    full_name = f"{name}, {SHOWN} of {len(rows[0])} columns" if len(rows[0]) > SHOWN else name
    return matrix(full_name, (row[:SHOWN] for row in rows), labels)


def _learned(x: Rows, sentence: tuple[str, ...]) -> list[Step]:
    rng = random.Random(0)
    # Random values in place of learned ones.
    p = [[round(rng.gauss(0, 1), 1) for _ in x[0]] for _ in x]
    terms = [dot(a, b) for a, b in ((x[0], x[1]), (x[0], p[1]), (p[0], x[1]), (p[0], p[1]))]
    sums = add(x, p)
    return [
        step(
            "Learned position embeddings are added",
            _truncated("position embeddings", p, tuple(map(str, range(len(p))))),
            _truncated("words + positions", sums, sentence),
            vector(
                f"{sentence[0]} . {sentence[1]}",
                (*terms, dot(sums[0], sums[1])),
                ("word.word", "word.position", "position.word", "position.position", "sum"),
            ),
        ),
        step(
            "Choice of the position encoding",
            matrix(
                "examples",
                (
                    ("the number itself", "unbounded: large compared with the word embeddings"),
                    ("one-hot", "needs as many columns as positions"),
                    ("learned", "only for positions seen in training"),
                    ("sinusoids", "defined for every position, no parameters"),
                ),
                columns=("f", "property"),
            ),
        ),
    ]


def _distances(encodings: Rows) -> list[Step]:
    starts = range(min(3, len(encodings)))
    distances = range(min(len(encodings) - len(starts) + 1, SHOWN))
    rows = [[dot(encodings[start], encodings[start + distance]) for distance in distances] for start in starts]
    increases = [(k, _first_increase(k)) for k in sorted({4, 64, 512, len(encodings[0])})]
    return [
        step(
            "Dot products depend on the distance only",
            matrix("PE(p) . PE(p + distance)", rows, (f"p = {start}" for start in starts), map(str, distances)),
        ),
        step(
            "Closer positions mostly have higher dot products",
            matrix("first increase", increases, columns=("k", "distance")),
        ),
    ]


def _first_increase(width: int) -> int:
    """Return the first distance whose dot product is higher than that of the previous distance."""

    def dot_product(distance: int) -> Number:
        return dot(_sinusoid(0, width), _sinusoid(distance, width))

    return next(distance for distance in count(1) if dot_product(distance) > dot_product(distance - 1))
