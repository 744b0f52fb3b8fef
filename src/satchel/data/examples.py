"""Labelled examples: token files of texts, class indices, and stratified splits. Shapes: E examples."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np

from satchel import durable, tensors
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


def read_classes(
    path: Path, examples: int, classes: int, minimum: int = 0, entry: durable.ManifestEntry | None = None
) -> Ints:
    """Return the class index of each example; raise RunError if the number or range of the indices is wrong.

    The file is compared with its manifest entry.
    """
    indices, _ = tensors.map_array(path, "classes", entry)
    if indices.dtype != np.int32:
        raise RunError(f"has class indices of type {indices.dtype}, expected int32", where=str(path))
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
