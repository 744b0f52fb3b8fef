"""Token files: the ids of a text, on disk as they come, memory-mapped when they are used.

A file holds one array of ids in two or four bytes each, in the form that predictor.py expects: a
boundary, then documents, each followed by a boundary; a stream has just the first one. Its header
says which tokenizer and which corpus it was made of, and what was read.
"""

import hashlib
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from satchel import tensors
from satchel.errors import RunError
from satchel.text.reading import Corpus, DocumentRule, Piece
from satchel.text.tokenizer import Tokenizer

# As many pieces as keep every core busy, and no more than fit in a few megabytes.
BATCH_PIECES = 256
BATCH_CHARACTERS = 1 << 21


@dataclass
class TokenCounts:
    """What a token file holds. `tokens` are the events to predict: ids and document ends.

    `bytes` and `characters` are those of the text; a line's end counts as one of each.
    """

    documents: int = 0
    tokens: int = 0
    unknown: int = 0
    characters: int = 0
    bytes: int = 0
    lossless: bool = True


@dataclass(frozen=True)
class TokenFile:
    """The ids of a text, and what is known of them."""

    ids: npt.NDArray[Any]
    counts: TokenCounts
    tokenizer_sha256: str
    corpus_sha256: str


class TokenWriter:
    """Writes a token file, piece by piece."""

    def __init__(self, handle: BinaryIO, tokenizer: Tokenizer, rule: DocumentRule) -> None:
        self.counts = TokenCounts()
        self.tokenizer = tokenizer
        self._rule = rule
        self._begins = True
        self.dtype = np.dtype(np.uint16 if tokenizer.size < 1 << 16 else np.uint32)
        self._writer = tensors.ArrayWriter(handle, "ids", self.dtype)
        self._boundary = np.array([tokenizer.boundary])
        self._writer.append(self._boundary)

    def write(self, pieces: list[Piece]) -> list[int]:
        """Add pieces of documents, and return how many ids each became."""
        begins = []
        for piece in pieces:
            begins.append(self._begins)
            self._begins = piece.ends
        texts = [piece.text for piece in pieces]
        counts = self.counts
        ids: list[npt.NDArray[np.int64]] = []
        lengths: list[int] = []
        for piece, begin, encoding in zip(pieces, begins, self.tokenizer.encode_pieces(texts, begins), strict=True):
            ids.append(encoding.ids)
            lengths.append(len(encoding.ids))
            counts.unknown += encoding.unknown
            counts.lossless &= encoding.lossless
            counts.documents += begin
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
        """Write the header."""
        metadata = {name: str(value) for name, value in asdict(self.counts).items()}
        metadata |= {"tokenizer": self.tokenizer.sha256, "corpus": corpus_sha256}
        self._writer.finish(metadata)


def open_tokens(path: Path, *, tokenizer: Tokenizer | None = None) -> TokenFile:
    """Return a token file, its ids as a view of the disk; with a `tokenizer`, once it is known to be its work."""
    ids, metadata = tensors.map_array(path, "ids", verify=tokenizer is not None)
    if tokenizer is not None and metadata.get("tokenizer") != tokenizer.sha256:
        raise RunError(
            "was made with another tokenizer", "the run has changed since it was loaded: load it again", where=str(path)
        )
    try:
        values = {field.name: metadata[field.name] for field in fields(TokenCounts)}
        lossless = values.pop("lossless") == "True"
        counts = TokenCounts(**{name: int(value) for name, value in values.items()}, lossless=lossless)
        return TokenFile(ids, counts, metadata["tokenizer"], metadata["corpus"])
    except (KeyError, ValueError) as error:
        raise RunError(f"its header lacks {error}", where=str(path)) from None


def decoded(ids: npt.NDArray[Any], tokenizer: Tokenizer) -> Iterator[str]:
    """Return the texts of the documents of some ids, or that of a stream."""
    inside = np.asarray(ids[1:])
    *whole, rest = np.split(inside, np.flatnonzero(inside == tokenizer.boundary) + 1)
    yield from map(tokenizer.decode, whole)
    if len(rest):
        yield tokenizer.decode(rest)


def batches(pieces: Iterable[Piece]) -> Iterator[list[Piece]]:
    """Return the pieces in lists that are worth tokenizing at once."""
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
    """Write all pieces and return what they hold."""
    for batch in batches(pieces):
        writer.write(batch)
        progress(writer.counts.characters)
    return writer.counts


def scratch_tokens(
    corpus: Corpus,
    tokenizer: Tokenizer,
    rule: DocumentRule,
    progress: Callable[[int], None] = lambda characters: None,
) -> TokenFile:
    """Return the tokens of a corpus in a file without a name."""
    return scratch_file(corpus.pieces(rule), tokenizer, rule, progress)


def scratch_file(
    pieces: Iterable[Piece], tokenizer: Tokenizer, rule: DocumentRule, progress: Callable[[int], None]
) -> TokenFile:
    """Return the tokens of some pieces in a file without a name, which goes when nobody uses it any more."""
    return scratch(tokenizer, rule, lambda writer: write_tokens(writer, pieces, progress))


def scratch(tokenizer: Tokenizer, rule: DocumentRule, write: Callable[[TokenWriter], object]) -> TokenFile:
    """Return what `write` writes, in a file without a name."""
    with tempfile.TemporaryFile() as handle:
        writer = TokenWriter(handle, tokenizer, rule)
        write(writer)
        handle.flush()
        offset = 8 + tensors.ArrayWriter.HEADER_SIZE
        return TokenFile(np.memmap(handle, writer.dtype, "r", offset), writer.counts, tokenizer.sha256, "")


# --- train and validation parts ------------------------------------------------------------------


@dataclass(frozen=True)
class Split:
    """Which part of a corpus is held out: the last of a stream, or documents chosen by a hash of the seed."""

    fraction: float
    seed: int

    def parts(self, corpus: Corpus, rule: DocumentRule, characters: int) -> Iterator[tuple[bool, Piece]]:
        """Return the pieces in order, each with whether it is held out."""
        if rule == "stream":
            yield from self._stream(corpus.pieces(rule), int(characters * (1 - self.fraction) + 1e-9))
            return
        document = 0
        for piece in corpus.pieces(rule):
            yield self._is_held_out(document), piece
            document += piece.ends

    def _stream(self, pieces: Iterator[Piece], place: int) -> Iterator[tuple[bool, Piece]]:
        for piece in pieces:
            if 0 < place < len(piece.text):
                yield False, Piece(piece.text[:place], False)
                yield True, Piece(piece.text[place:], False)
            else:
                yield place <= 0, piece
            place -= len(piece.text)

    def _is_held_out(self, document: int) -> bool:
        digest = hashlib.blake2b(f"{self.seed} {document}".encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") < self.fraction * 2**64
