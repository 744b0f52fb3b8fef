"""What suits a text, a task and a time: the settings of a network that nobody gave.

These are rules of thumb; `bench/defaults.py` measures them. No clock decides: the same data, the same time and the
same number of cores always give the same settings.
"""

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from satchel.text.tokenizer import default_size

# Additions and multiplications of training that one core does in a second, about; a graphics card does more.
CORE_RATE = 3e10
CARD_RATES = {"cuda": 2e13, "mps": 1e12}
# A model learns most in a given time if it reads about so many tokens per parameter.
TOKENS_PER_PARAMETER = 6
# Whoever reads a text more often than this learns it by heart, unless more and more of it is left out or changed.
FEW_READINGS, SEVERAL_READINGS, MANY_READINGS = 2, 8, 20
# Counting more tokens than this takes longer, and more memory, than anybody expects of a default.
MOST_COUNTED = 20_000_000
UPDATES = 2000


class Choice(NamedTuple):
    """A setting, and why it has this value."""

    key: str
    value: Any
    why: str


class Shape(NamedTuple):
    """The size of a Transformer."""

    width: int
    layers: int
    heads: int

    def parameters(self, vocabulary: int) -> int:
        """Return how many numbers each token is multiplied with: those of the blocks, and of the scores."""
        return 12 * self.layers * self.width**2 + vocabulary * self.width


# Each takes two or three times the work of the one before.
SHAPES = (
    Shape(64, 2, 4),
    Shape(96, 3, 4),
    Shape(128, 4, 4),
    Shape(192, 5, 6),
    Shape(256, 6, 8),
    Shape(384, 6, 6),
    Shape(512, 8, 8),
    Shape(768, 12, 12),
)


@dataclass(frozen=True)
class Budget:
    """What a training may take: some work, or so many tokens."""

    work: float | None = None
    tokens: float | None = None

    @property
    def parameters(self) -> float:
        """How many parameters are worth it: more learn too slowly, fewer know all they can too soon."""
        if self.work is not None:
            return math.sqrt(self.work / (6 * TOKENS_PER_PARAMETER))
        assert self.tokens is not None
        return self.tokens / TOKENS_PER_PARAMETER

    def read_by(self, parameters: float) -> float:
        """Return how many tokens a network of so many parameters reads."""
        if self.work is not None:
            return self.work / (6 * parameters)
        assert self.tokens is not None
        return self.tokens

    def shape(self, vocabulary: int) -> Shape:
        """Return the shape that suits it best."""
        return min(SHAPES, key=lambda shape: abs(math.log(shape.parameters(vocabulary) / self.parameters)))


def minutes_of_work(minutes: float, device: str = "cpu", threads: int = 0) -> Budget:
    """Return what this machine does in so many minutes, on so many threads of its processor; 0 is all of them."""
    return Budget(work=60 * minutes * CARD_RATES.get(device, CORE_RATE * (threads or os.cpu_count() or 1)))


def characters_per_token(kind: str, size: int) -> float:
    """Return about how many characters of prose a token has."""
    if kind in ("char", "byte"):
        return 1.0
    return 5.5 if kind == "word" else 1.9 + 0.45 * math.log2(max(1.0, size / 500))


def language_shape(budget: Budget, vocabulary: int) -> Iterator[Choice]:
    """Return the size of a Transformer for a language model."""
    shape = budget.shape(vocabulary)
    why = "what can be learned in the time" if budget.work is not None else "what can be learned from as many tokens"
    for name, value in shape._asdict().items():
        yield Choice(f"model.{name}", value, why)


def language_reading(tokens: float, read: float) -> Iterator[Choice]:
    """Return how a text of so many tokens is read, if so many are read in all."""
    times = read / max(1.0, tokens)
    often = f"the text is read about {times:,.0f} times" if times >= 1.5 else "the text is read about once"
    updates = 2 ** round(math.log2(max(1.0, read / UPDATES)))
    yield Choice("training.batch_tokens", min(1 << 14, max(1 << 10, updates)), "enough updates, and not too small ones")
    if times > FEW_READINGS:
        # Where tokens are replaced too, less has to be left out.
        yield Choice("model.dropout", 0.2 if SEVERAL_READINGS < times <= MANY_READINGS else 0.1, often)
    if times > MANY_READINGS:
        yield Choice("training.noise", 0.1, f"{often}: else it is learned by heart")


def ngram_order(kind: str) -> int:
    """Return the order of n-grams that suits tokens of a kind."""
    return 7 if kind in ("char", "byte") else 5


def tokenizer_size(characters: int) -> Choice:
    """Return how many pieces of words suit a text."""
    return Choice("tokenizer.size", default_size(characters), f"a text of {characters:,} characters")


# --- translators ---------------------------------------------------------------------------------------------


# Whoever reads pairs less often than this learns more with a smaller network.
PAIR_READINGS = 8
# More numbers than this for each token of the targets have nothing to learn from.
PAIR_NUMBERS = 64
PAIR_SHAPES = (
    Shape(64, 2, 4),
    Shape(96, 2, 4),
    Shape(128, 3, 4),
    Shape(192, 3, 4),
    Shape(256, 3, 4),
    Shape(384, 4, 6),
    Shape(512, 6, 8),
)
PAIR_BATCH = 2048


def pair_parameters(shape: Shape, vocabulary: int) -> int:
    """Return how many numbers a source token and a target token are multiplied with, and the scores."""
    return 28 * shape.layers * shape.width**2 + vocabulary * shape.width


def pair_shape(budget: Budget, vocabulary: int, tokens: float) -> Iterator[Choice]:
    """Return the size of a Transformer that is to read pairs of so many target tokens."""

    def fits(shape: Shape) -> bool:
        numbers = pair_parameters(shape, vocabulary)
        return numbers <= PAIR_NUMBERS * tokens and budget.read_by(numbers) >= PAIR_READINGS * max(1.0, tokens)

    shape = max(filter(fits, PAIR_SHAPES), default=PAIR_SHAPES[0])
    why = f"the largest for so many pairs that reads them {PAIR_READINGS} times in the time"
    for name, value in shape._asdict().items():
        yield Choice(f"model.{name}", value, why)


def pair_reading(is_bpe: bool) -> Iterator[Choice]:
    """Return how pairs are read: they are few, and read often."""
    yield Choice("training.batch_tokens", PAIR_BATCH, "small steps, and many of them")
    yield Choice("training.label_smoothing", 0.1, "pairs are few, and read often")
    yield Choice("model.dropout", 0.1, "pairs are few, and read often")
    if is_bpe:
        yield Choice("training.merge_dropout", 0.1, "a word is not always the same pieces")


# --- classifiers of words and pairs of words ----------------------------------------------------------------


ROWS_AT_ONCE = 64
MOST_PAIRS = 1 << 20


def words_of_texts() -> Iterator[Choice]:
    """Return what texts are cut into for a mean of words."""
    yield Choice("tokenizer.kind", "word", "a mean of words, and of pairs of words")
    yield Choice("tokenizer.split", "punctuation", "a word is the same before a comma")


def averaging(rows: int, characters: int) -> Iterator[Choice]:
    """Return the settings of a mean of words that classifies so many texts, which have so many characters in all.

    Narrow vectors, and few readings with large steps: measured on film sentences and reviews, 3,000 to 30,000 rows.
    """
    tokens = characters / characters_per_token("word", 0)
    pairs = 2 ** math.ceil(math.log2(max(2.0, tokens)))
    a_row = max(1, round(tokens / max(1, rows)))
    yield Choice("model.width", 16, "many narrow vectors learn more than few wide ones")
    yield Choice("model.layers", 0, "what words and pairs add up to")
    yield Choice("model.average", "root", "long texts say more")
    yield Choice("model.bigrams", min(MOST_PAIRS, max(1 << 15, pairs)), f"about {tokens:,.0f} pairs of words")
    yield Choice("training.batch_tokens", ROWS_AT_ONCE * a_row, f"{ROWS_AT_ONCE} texts of about {a_row:,} words")
    yield Choice("training.learning_rate", 5e-3, "few readings, large steps")
    yield Choice("training.weight_decay", 0.0, "rare words keep what they have learned")
    yield Choice("training.epochs", 4.0, "more readings learn the texts by heart")
