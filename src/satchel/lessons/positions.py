"""Position encodings: learned embeddings and sinusoids (items 68 to 74)."""

import math
import random
from dataclasses import replace
from functools import partial
from itertools import count, product

from satchel.durable import scratch_folder
from satchel.lessons.arithmetic import Number, Rows, add, attend, dot, transpose
from satchel.lessons.checks import check, check_range, split_words
from satchel.lessons.steps import Matrix, Step, build_step, load_texts, matrix, stored_note, vector

step = partial(build_step, "positions")

MOST_WORDS = 12
WIDEST = 1024
LONGEST = 64
LARGEST_PERIOD = 10_000
# Maximum number of columns printed side by side.
SHOWN = 10
# Settings and steps of the trained models.
COUNTING: dict[str, object] = {
    "model.width": 64,
    "model.layers": 2,
    "model.heads": 2,
    "model.context": 20,
    "training.batch_tokens": 2048,
}
AB: dict[str, object] = {"model.width": 32, "model.layers": 1, "model.heads": 2, "model.context": 8}
COUNTING_STEPS, AB_STEPS = 500, 300
MEASURES = (
    "letter counting: correct tags, per cent",
    "AB language: correct next letters, of 16",
    "AB language: nats of the next letter",
)


def positions(words: str = "the movie was great", width: int = 4, length: int = 12, train: bool = False) -> list[Step]:
    """Return self-attention without positions, and the properties of learned and sinusoidal position encodings.

    `train` trains the models of the last step; otherwise it shows stored results.
    """
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
        _trained(train),
    ]


def _trained(train: bool) -> Step:
    """Return the accuracy of trained models by kind of position encodings, measured now or stored."""
    texts = load_texts("positions")["steps"]["Trained models: position encodings"]
    kinds = texts["columns"]
    command = "" if train else "satchel lesson positions --set train=true"
    values = transpose([train_models(kind) for kind in kinds]) if train else texts["values"]
    built = step(
        "Trained models: position encodings",
        matrix("by position encoding", values, MEASURES, kinds),
        steps=COUNTING_STEPS,
        ab_steps=AB_STEPS,
        origin=stored_note(command) if command else "The models were trained on this machine when the lesson ran.",
    )
    return replace(built, stored=command)


def train_models(kind: str, counting_steps: int = COUNTING_STEPS, ab_steps: int = AB_STEPS) -> list[float]:
    """Train on letter counting and on the AB language with one kind of position encoding and return MEASURES."""
    from satchel.api import LanguageModel, Tagger, train

    with scratch_folder() as folder:

        def trained(name: str, steps: int, settings: dict[str, object]) -> object:
            settings = {**settings, "model.positions": kind}
            out = folder / name
            return train(
                f"@{name}", model="transformer", steps=steps, seed=0, threads=1, valid=0.0, settings=settings, out=out
            )

        tagger, model = trained("counting", counting_steps, COUNTING), trained("ab", ab_steps, AB)
        assert isinstance(tagger, Tagger)
        assert isinstance(model, LanguageModel)
        losses, correct = [], 0
        for letters in product("AB", repeat=4):
            answer = "B" if "B" in letters else "A"
            following = model.next("".join(letters), top=model.predictor.vocabulary)
            correct += following.tokens[0] == answer
            losses.append(-math.log(following.probabilities[following.tokens.index(answer)]))
        return [100 * tagger.evaluate("@counting").accuracy, correct, sum(losses) / len(losses)]


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
