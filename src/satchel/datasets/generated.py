"""Generated data: deterministic pseudo-random examples and their train, valid and test splits."""

import hashlib
import random
from collections.abc import Callable, Iterator
from itertools import count, islice
from typing import Literal, TypeVar

from satchel.text.reading import DataSettings

E = TypeVar("E")
SplitName = Literal["train", "valid", "test"]
SPLITS: tuple[SplitName, ...] = ("train", "valid", "test")

# (annotation, text): the annotation is the document's name (lm), the label, the tags or the target.
Row = tuple[str, str]
RowGenerator = Callable[[DataSettings, int, SplitName], Iterator[Row]]


def draw_examples(
    draw: Callable[[random.Random], E],
    size: int,
    seed: int,
    split: SplitName = "train",
    *,
    key: Callable[[E], str] = str,
) -> Iterator[E]:
    """Yield `size` examples of the train split, or a tenth as many of another split.

    Example number i is drawn from a generator seeded with the seed and i. A hash of its `key` assigns it to a split,
    so examples with equal keys are always in the same split.
    """
    limit = size if split == "train" else max(1, size // 10)
    examples = (draw(random.Random(f"{seed} {number}")) for number in count())
    yield from islice((example for example in examples if split_of(key(example)) == split), limit)


def split_of(key: str) -> SplitName:
    """Return the split of an example: 80 % train, 10 % valid, 10 % test."""
    digest = hashlib.blake2b(key.encode(), digest_size=2).digest()
    return SPLITS[max(0, int.from_bytes(digest, "big") % 10 - 7)]


def row_generator(
    draw: Callable[[random.Random], E], row: Callable[[E], Row], *, key: Callable[[Row], str] = lambda row: row[1]
) -> RowGenerator:
    """Return a generator of one row per example; by default the row's text is the key that decides its split."""

    def rows(settings: DataSettings, seed: int, split: SplitName) -> Iterator[Row]:
        return draw_examples(lambda rng: row(draw(rng)), settings.size, seed, split, key=key)

    return rows


def line_generator(name: str, draw: Callable[[random.Random], str]) -> RowGenerator:
    """Return a generator of one document with one example per line."""

    def document(settings: DataSettings, seed: int, split: SplitName) -> Iterator[Row]:
        yield name, "".join(f"{line}\n" for line in draw_examples(draw, settings.size, seed, split))

    return document
