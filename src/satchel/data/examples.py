"""Labelled examples: token files of texts, class indices, and stratified splits. Shapes: E examples."""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from satchel import tensors
from satchel.data.batches import Ints
from satchel.data.tokens import TokenCounts, TokenFile, TokenWriter, tokenize_pieces, write_tokens
from satchel.errors import RunError
from satchel.text.reading import text_pieces
from satchel.text.tokenizer import Tokenizer


def write_examples(handle: BinaryIO, tokenizer: Tokenizer, texts: Iterable[str], sha256: str) -> TokenCounts:
    """Write a token file with one document per text, and return its counts."""
    writer = TokenWriter(handle, tokenizer, "file")
    counts = write_tokens(writer, text_pieces(texts))
    writer.finish(sha256)
    return counts


def tokenize_texts(
    texts: Iterable[str], tokenizer: Tokenizer, progress: Callable[[int], None] = lambda characters: None
) -> TokenFile:
    """Return a temporary token file with one document per text."""
    return tokenize_pieces(text_pieces(texts), tokenizer, "file", progress)


def write_classes(handle: BinaryIO, classes_E: Ints) -> None:
    """Write the class index of each example."""
    writer = tensors.ArrayWriter(handle, "classes", np.int32)
    writer.append(classes_E)
    writer.finish({})


def read_classes(path: Path, examples: int, classes: int, minimum: int = 0) -> Ints:
    """Return the class index of each example; raise RunError if the number or range of the indices is wrong."""
    indices, _ = tensors.map_array(path, "classes", verify=True)
    if len(indices) != examples:
        raise RunError(f"has {len(indices)} class indices, expected {examples}, one per example", where=str(path))
    if len(indices) and not (indices.min() >= minimum and indices.max() < classes):
        raise RunError(
            f"has class indices {indices.min()} to {indices.max()}, expected {minimum} to {classes - 1}",
            where=str(path),
        )
    return np.asarray(indices, np.int64)


def class_indices(labels: Sequence[str], names: Sequence[str]) -> tuple[Ints, list[str]]:
    """Return the class index of each label, and all class names: `names`, then the sorted labels not among them."""
    all_names = [*names, *sorted(set(labels) - set(names))]
    index_of_name = {name: index for index, name in enumerate(all_names)}
    return np.array([index_of_name[label] for label in labels], np.int64), all_names


# --- stratified splits -------------------------------------------------------------------------------


def stratified_split(classes_E: Ints, fraction: float, seed: int) -> npt.NDArray[np.bool_]:
    """Return a mask of the held-out examples: this fraction of each class, but at least one example is not held out."""
    counts = np.bincount(classes_E)
    held_out = np.minimum(np.floor(counts * fraction + 0.5), np.maximum(counts - 1, 0))
    return np.asarray(_ranks(classes_E, seed) < held_out[classes_E])


def stratified_folds(classes_E: Ints, count: int, seed: int) -> Ints:
    """Return the cross-validation fold of each example, or -1 for the only example of a class."""
    return np.where(np.bincount(classes_E)[classes_E] > 1, _ranks(classes_E, seed) % count, -1)


def _ranks(classes_E: Ints, seed: int) -> Ints:
    """Return the rank of each example within its class, in a pseudo-random order given by the seed."""
    digests = (hashlib.blake2b(f"{seed} {row}".encode(), digest_size=8).digest() for row in range(len(classes_E)))
    hashes = np.array([int.from_bytes(digest, "big") for digest in digests], np.uint64)
    order = np.lexsort((hashes, classes_E))
    counts = np.bincount(classes_E)
    ranks = np.empty(len(classes_E), np.int64)
    ranks[order] = np.arange(len(classes_E)) - np.repeat(np.cumsum(counts) - counts, counts)
    return ranks
