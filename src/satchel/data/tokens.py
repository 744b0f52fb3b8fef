"""Token files: the ids of a corpus, written in batches and memory-mapped for reading.

A file contains one array of ids, two or four bytes each, in the format of `predictor.py`: a boundary, then documents,
each followed by a boundary; a stream has only the first boundary. The header contains the SHA-256 of the tokenizer and
of the corpus, and the counts.
"""

import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from satchel import durable, tensors
from satchel.errors import RunError
from satchel.text.reading import DocumentRule, Piece
from satchel.text.tokenizer import Tokenizer

# Limits of a batch of pieces for the tokenizer: enough to use all cores, and a few megabytes of memory.
BATCH_PIECES = 256
BATCH_CHARACTERS = 1 << 21
# Number of ids that are validated at once.
CHECKED_AT_ONCE = 1 << 22


@dataclass
class TokenCounts:
    """Counts of a token file. `tokens` is the number of predicted ids, including document ends.

    `bytes` and `characters` refer to the text; with one document per line, a line end counts as one of each.
    """

    documents: int = 0
    tokens: int = 0
    unknown: int = 0
    characters: int = 0
    bytes: int = 0
    lossless: bool = True


@dataclass(frozen=True)
class TokenFile:
    """The ids of a corpus, their counts, and the SHA-256 of the tokenizer and of the corpus."""

    ids: npt.NDArray[Any]
    counts: TokenCounts
    tokenizer_sha256: str
    corpus_sha256: str


class TokenWriter:
    """Writes a token file in batches of pieces."""

    def __init__(self, handle: BinaryIO, tokenizer: Tokenizer, rule: DocumentRule) -> None:
        self.counts = TokenCounts()
        self.tokenizer = tokenizer
        self._rule = rule
        self._starts_document = True
        self.dtype = np.dtype(np.uint16 if tokenizer.size < 1 << 16 else np.uint32)
        self._writer = tensors.ArrayWriter(handle, "ids", self.dtype)
        self._boundary = np.array([tokenizer.boundary])
        self._writer.append(self._boundary)

    def write(self, pieces: list[Piece]) -> list[int]:
        """Append pieces of documents, and return the number of ids of each."""
        starts = []  # which pieces start a document
        for piece in pieces:
            starts.append(self._starts_document)
            self._starts_document = piece.ends
        texts = [piece.text for piece in pieces]
        counts = self.counts
        ids: list[npt.NDArray[np.int64]] = []
        lengths: list[int] = []
        for piece, starts_document, encoding in zip(
            pieces, starts, self.tokenizer.encode_pieces(texts, starts), strict=True
        ):
            ids.append(encoding.ids)
            lengths.append(len(encoding.ids))
            counts.unknown += encoding.unknown
            counts.lossless &= encoding.lossless
            counts.documents += starts_document
            if piece.ends:
                ids.append(self._boundary)
            line_end = piece.ends and self._rule == "line"
            counts.characters += len(piece.text) + line_end
            counts.bytes += len(piece.text.encode("utf-8", "surrogatepass")) + line_end
        if ids:
            self._writer.append(np.concatenate(ids))
        counts.tokens = self._writer.length - 1
        return lengths

    def finish(self, corpus_sha256: str) -> None:
        """Write the header with the counts."""
        metadata = {name: str(value) for name, value in asdict(self.counts).items()}
        metadata |= {"tokenizer": self.tokenizer.sha256, "corpus": corpus_sha256}
        self._writer.finish(metadata)


def open_tokens(
    path: Path, tokenizer: Tokenizer | None = None, entry: durable.ManifestEntry | None = None
) -> TokenFile:
    """Return a memory-mapped token file.

    With `tokenizer`, check that it wrote the file, and all ids; with `entry`, compare the file with the manifest.
    """
    ids, metadata = tensors.map_array(path, "ids", entry)
    if tokenizer is not None and metadata.get("tokenizer") != tokenizer.sha256:
        raise RunError(
            "was written with another tokenizer",
            "the run folder changed after it was loaded: load it again",
            where=str(path),
        )
    try:
        values = {field.name: metadata[field.name] for field in fields(TokenCounts)}
        lossless = {"True": True, "False": False}[values.pop("lossless")]
        counts = TokenCounts(**{name: int(value) for name, value in values.items()}, lossless=lossless)
        file = TokenFile(ids, counts, metadata["tokenizer"], metadata["corpus"])
    except (KeyError, ValueError) as error:
        raise RunError(f"has a header with missing or invalid values: {error}", where=str(path)) from None
    if tokenizer is not None and (fault := _fault(file, tokenizer.boundary)):
        raise RunError(fault, where=str(path))
    return file


def _fault(file: TokenFile, boundary: int) -> str:
    """Return an error message if the ids are out of range or contradict the counts, else an empty string."""
    ids, counts = file.ids, file.counts
    if ids.dtype not in (np.uint16, np.uint32) or not len(ids) or ids[0] != boundary:
        return f"expected ids of type uint16 or uint32 that begin with the boundary {boundary}"
    documents = 0
    for start in range(1, len(ids), CHECKED_AT_ONCE):
        block = np.asarray(ids[start : start + CHECKED_AT_ONCE])
        if block.max() > boundary:
            return f"contains the id {block.max()}, expected at most {boundary}"
        documents += int(np.count_nonzero(block == boundary))
    is_stream = documents == 0 and counts.documents <= 1
    if counts.tokens != len(ids) - 1 or not (is_stream or counts.documents == documents):
        return f"has a header that counts {counts.tokens} tokens and {counts.documents} documents"
    sizes = (counts.documents, counts.unknown, counts.characters, counts.bytes)
    return "has a header with a negative count" if min(sizes) < 0 else ""


def decode_documents(ids: npt.NDArray[Any], tokenizer: Tokenizer) -> Iterator[str]:
    """Yield the text of each document, or the text of a stream."""
    after_boundary = np.asarray(ids[1:])
    *documents, rest = np.split(after_boundary, np.flatnonzero(after_boundary == tokenizer.boundary) + 1)
    yield from map(tokenizer.decode, documents)
    if len(rest):
        yield tokenizer.decode(rest)


def piece_batches(pieces: Iterable[Piece]) -> Iterator[list[Piece]]:
    """Yield the pieces in batches for the tokenizer."""
    batch: list[Piece] = []
    characters = 0
    for piece in pieces:
        batch.append(piece)
        characters += len(piece.text)
        if len(batch) == BATCH_PIECES or characters > BATCH_CHARACTERS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


def write_tokens(
    writer: TokenWriter, pieces: Iterable[Piece], progress: Callable[[int], None] = lambda characters: None
) -> TokenCounts:
    """Write all pieces and return their counts; `progress` receives the number of characters after each batch."""
    for batch in piece_batches(pieces):
        writer.write(batch)
        progress(writer.counts.characters)
    return writer.counts


def tokenize_pieces(
    pieces: Iterable[Piece],
    tokenizer: Tokenizer,
    rule: DocumentRule,
    progress: Callable[[int], None] = lambda characters: None,
) -> TokenFile:
    """Return a temporary token file of pieces of documents."""
    return temporary_tokens(tokenizer, rule, lambda writer: write_tokens(writer, pieces, progress))


def temporary_tokens(tokenizer: Tokenizer, rule: DocumentRule, write: Callable[[TokenWriter], object]) -> TokenFile:
    """Return a temporary token file filled by `write`; the file is deleted when its ids are garbage-collected."""
    with tempfile.TemporaryFile() as handle:
        writer = TokenWriter(handle, tokenizer, rule)
        write(writer)
        handle.flush()
        offset = 8 + tensors.ArrayWriter.HEADER_SIZE
        return TokenFile(np.memmap(handle, writer.dtype, "r", offset), writer.counts, tokenizer.sha256, "")
