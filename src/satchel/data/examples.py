"""Labelled examples: texts as tokens, labels as numbers, and which rows are held out. Letters: E examples."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from satchel import tensors
from satchel.data.tokens import TokenCounts, TokenFile, TokenWriter, scratch_file, write_tokens
from satchel.errors import RunError
from satchel.text.reading import Piece, document
from satchel.text.tokenizer import Tokenizer

Ints = npt.NDArray[np.int64]


def pieces(texts: Iterable[str]) -> Iterator[Piece]:
    """Return the texts as documents; an empty one is a document too."""
    for text in texts:
        yield from document([text])


def write_examples(
    handle: BinaryIO, tokenizer: Tokenizer, texts: Iterable[str], sha256: str, progress: Callable[[int], None]
) -> TokenCounts:
    """Write the tokens of some texts, each followed by a boundary, and return what they hold."""
    writer = TokenWriter(handle, tokenizer, "file")
    counts = write_tokens(writer, pieces(texts), progress)
    writer.finish(sha256)
    return counts


def scratch_examples(
    texts: Iterable[str], tokenizer: Tokenizer, progress: Callable[[int], None] = lambda characters: None
) -> TokenFile:
    """Return the tokens of some texts in a file without a name."""
    return scratch_file(pieces(texts), tokenizer, "file", progress)


def write_classes(handle: BinaryIO, classes_E: Ints) -> None:
    """Write the number of each example's label."""
    writer = tensors.ArrayWriter(handle, "classes", np.int32)
    writer.append(classes_E)
    writer.finish({})


def read_classes(path: Path, examples: int, classes: int, least: int = 0) -> Ints:
    """Return the number of each example's label, once they are known to be those that were written."""
    found, _ = tensors.map_array(path, "classes", verify=True)
    if len(found) != examples or (len(found) and not (found.min() >= least and found.max() < classes)):
        raise RunError(f"found other labels than those of {examples} examples", where=str(path))
    return np.asarray(found, np.int64)


def numbered(labels: Sequence[str], names: Sequence[str]) -> tuple[Ints, list[str]]:
    """Return the number of each label, and all names: the known ones, then those that only these examples have."""
    others = sorted(set(labels) - set(names))
    places = {name: place for place, name in enumerate([*names, *others])}
    return np.array([places[label] for label in labels], np.int64), [*names, *others]


# --- which rows are held out -----------------------------------------------------------------------


def held_out(classes_E: Ints, fraction: float, seed: int) -> npt.NDArray[np.bool_]:
    """Return which examples are held out: this share of each label's, chosen by a hash of the seed; never all."""
    counts = np.bincount(classes_E)
    most = np.minimum(np.floor(counts * fraction + 0.5), np.maximum(counts - 1, 0))
    return np.asarray(_ranks(classes_E, seed) < most[classes_E])


def folds(classes_E: Ints, count: int, seed: int) -> Ints:
    """Return the fold of each example, each with its share of every label; -1 where a label has just one."""
    return np.where(np.bincount(classes_E)[classes_E] > 1, _ranks(classes_E, seed) % count, -1)


def _ranks(classes_E: Ints, seed: int) -> Ints:
    """Return the place of each example among those of its label, in an order that depends on the seed alone."""
    digests = (hashlib.blake2b(f"{seed} {row}".encode(), digest_size=8).digest() for row in range(len(classes_E)))
    hashes = np.array([int.from_bytes(digest, "big") for digest in digests], np.uint64)
    sorting = np.lexsort((hashes, classes_E))
    counts = np.bincount(classes_E)
    ranks = np.empty(len(classes_E), np.int64)
    ranks[sorting] = np.arange(len(classes_E)) - np.repeat(np.cumsum(counts) - counts, counts)
    return ranks
