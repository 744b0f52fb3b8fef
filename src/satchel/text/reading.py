"""Corpora: the text of sources in a fixed order, read as documents, pieces or lines with bounded memory."""

import codecs
import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Literal, NamedTuple

from pydantic import Field, field_validator

from satchel.config import Settings
from satchel.text.decoding import DecodingErrors, decode, decompress
from satchel.text.sources import CHUNK, Source

# An unpaired surrogate: not a character, but the result of an invalid JSON escape.
SURROGATE = re.compile("[\ud800-\udfff]")

DocumentRule = Literal["stream", "file", "line"]
Task = Literal["lm", "tag", "classify", "translate"]


class DataSettings(Settings):
    """Reading of the data: documents, validation data, encoding and columns."""

    documents: DocumentRule = Field("stream", description="unit of a document: stream (all text), file or line")
    valid: float | str = Field(0.0, description="validation data: a file, or the fraction held out")
    encoding: str = Field("utf-8", description="text encoding of the files")
    encoding_errors: Literal["strict", "replace", "skip"] = Field("strict", description="handling of invalid bytes")
    max_bytes: int = Field(1 << 36, ge=1, description="maximum decompressed size of a .gz file, in bytes")
    size: int = Field(10_000, ge=1, le=10_000_000, description="generated data: number of training examples")
    length: int = Field(4, ge=1, le=16, description="@ab: length of the strings")
    columns: tuple[str, ...] = Field((), description="column names of a table without a header line; - skips a column")
    delimiter: str | None = Field(
        None, min_length=1, max_length=1, description="column delimiter of .csv files (none: detected)"
    )
    skip_unlabelled: bool = Field(False, description="skip rows without a label or tags")
    text_column: str = Field("text", description="column of the text; several columns, separated by commas, are joined")
    label_column: str = Field("label", description="column of the label")
    tags_column: str = Field("tags", description="column of the tags")
    source_column: str = Field("source", description="column of the source text")
    target_column: str = Field("target", description="column of the target text (the translation)")

    @field_validator("columns", mode="before")
    @classmethod
    def _to_tuple(cls, columns: object) -> object:
        return (columns,) if isinstance(columns, str) else tuple(columns) if isinstance(columns, list) else columns

    @field_validator("encoding")
    @classmethod
    def _check_encoding(cls, name: str) -> str:
        try:
            # Decoding fails for codecs that do not decode to text, such as base64.
            b"a".decode(name, "ignore")
            codecs.getincrementaldecoder(name)
        except (LookupError, UnicodeError):
            raise ValueError("expected a text encoding of Python, such as utf-8, latin-1 or utf-16") from None
        return name

    @field_validator("delimiter")
    @classmethod
    def _check_delimiter(cls, delimiter: str | None) -> str | None:
        if delimiter is not None and delimiter in '"\r\n':
            raise ValueError("expected one character other than a quote or a line break")
        return delimiter

    @field_validator("valid")
    @classmethod
    def _check_fraction(cls, valid: float | str) -> float | str:
        if isinstance(valid, float) and not 0 <= valid < 1:
            raise ValueError("expected a file, or a fraction of at least 0 and less than 1")
        return valid


class Piece(NamedTuple):
    """A part of a document; `ends` is True for the last one."""

    text: str
    ends: bool


@dataclass
class Corpus:
    """Sources in a fixed order.

    `skipped` is the number of other files in the folder, `repaired` the number of invalid byte sequences per source,
    `unlabelled` the number of rows without a label or tags.
    """

    name: str
    sources: tuple[Source, ...]
    settings: DataSettings = field(default_factory=lambda: DataSettings())
    skipped: int = 0
    repaired: dict[str, int] = field(default_factory=dict)
    unlabelled: int = 0

    @property
    def size(self) -> int:
        """Number of bytes on disk."""
        return sum(source.size for source in self.sources)

    def identity(self) -> str:
        """Return the SHA-256 of the name, size and bytes of all sources."""
        digest = hashlib.sha256()
        for source in self.sources:
            digest.update(f"{source.name}\0{source.size}\0".encode("utf-8", "surrogateescape"))
            with source.open() as handle:
                while chunk := handle.read(CHUNK):
                    digest.update(chunk)
        return digest.hexdigest()

    def texts(self, source: Source) -> Iterator[str]:
        """Yield the decoded text of a source in chunks."""
        errors = DecodingErrors(self.settings.encoding_errors)
        with source.open() as handle:
            chunks = decompress(handle, source, self.settings.max_bytes)
            yield from decode(chunks, self.settings.encoding, errors, source.where)
        if errors.count:
            self.repaired[source.where] = errors.count

    def pieces(self, rule: DocumentRule | None = None) -> Iterator[Piece]:
        """Yield the documents in pieces that can be tokenized separately."""
        rule = rule or self.settings.documents
        if rule == "stream":
            yield from pieces_of((chunk for source in self.sources for chunk in self.texts(source)), rule)
            return
        for source in self.sources:
            yield from pieces_of(self.texts(source), rule)


def pieces_of(chunks: Iterable[str], rule: DocumentRule) -> Iterator[Piece]:
    """Yield the pieces of the documents of one text; the document of a stream does not end."""
    if rule == "stream":
        for text in split_pieces(chunks):
            yield Piece(text, False)
    elif rule == "file":
        yield from document_pieces(chunks)
    else:
        for parts in lines_in_parts(chunks):
            blank = list[str]()
            for part in parts:
                if part.strip():
                    yield from document_pieces(chain(blank, [part], parts))
                blank.append(part)


def text_pieces(texts: Iterable[str]) -> Iterator[Piece]:
    """Yield the pieces of texts, each of which is a document, even if it is empty."""
    for text in texts:
        yield from document_pieces([text])


def document_pieces(chunks: Iterable[str]) -> Iterator[Piece]:
    """Yield the pieces of one document, even if it is empty."""
    last = ""
    for piece in split_pieces(chunks):
        if last:
            yield Piece(last, False)
        last = piece
    yield Piece(last, True)


# A cut before white space that follows another character does not change the tokens: no token of these tokenizers, or
# of GPT-2, spans such a position, and no pre-tokenizer rule looks behind. U+001C to U+001F are excluded: they are white
# space in Python but not for the tokenizers.
SAFE_CUT = re.compile(r"[ \t\r\n](?<=\S.)", re.DOTALL)
# Limits of the length of a piece, in characters.
SHORTEST_PIECE = 1 << 14
LONGEST_PIECE = 1 << 20


def split_pieces(chunks: Iterable[str]) -> Iterator[str]:
    """Yield a text in pieces, split at the first safe position after 16,384 characters, independently of the chunks.

    A word of more than a million characters is split at any position, to bound the memory.
    """
    buffer = ""
    for chunk in chunks:
        buffer += chunk
        start = 0
        while len(buffer) - start > SHORTEST_PIECE + 1:
            limit = start + LONGEST_PIECE
            match = SAFE_CUT.search(buffer, start + SHORTEST_PIECE, limit + 1)
            if match is not None:
                end = match.start()
            elif len(buffer) > limit:
                end = limit
            else:
                break
            yield buffer[start:end]
            start = end
        buffer = buffer[start:]
    if buffer:
        yield buffer


def lines(chunks: Iterable[str]) -> Iterator[str]:
    """Yield the lines without line ends: a newline, or a carriage return and a newline."""
    for line in lines_with_ends(chunks):
        yield _without_end(line)


def _without_end(line: str) -> str:
    return line.removesuffix("\r\n") if line.endswith("\r\n") else line.removesuffix("\n")


def lines_in_parts(chunks: Iterable[str]) -> Iterator[Iterator[str]]:
    """Yield the lines without line ends, each as an iterator of parts, which bounds the memory of long lines.

    Each line must be read before the next one.
    """
    parts = _line_parts(lines_with_ends(chunks, LONGEST_PIECE))
    for part, ends in parts:
        yield iter([part]) if ends else chain([part], _rest(parts))


def _line_parts(parts: Iterable[str]) -> Iterator[Piece]:
    """Yield parts of lines without line ends."""
    held_back = ""
    is_open = False
    for part in parts:
        text = held_back + part
        if is_open := not text.endswith("\n"):
            # A carriage return at the end of a part may belong to the line end.
            held_back = "\r" if text.endswith("\r") else ""
            yield Piece(text.removesuffix("\r"), False)
        else:
            held_back = ""
            yield Piece(_without_end(text), True)
    if is_open:
        yield Piece(held_back, True)


def _rest(parts: Iterator[Piece]) -> Iterator[str]:
    """Yield the parts of a line up to its end."""
    for part, ends in parts:
        yield part
        if ends:
            return


def lines_with_ends(chunks: Iterable[str], longest: int | None = None) -> Iterator[str]:
    """Yield the lines with their line ends; lines of more than `longest` characters are yielded in parts."""
    pending: list[str] = []
    length = 0
    for chunk in chunks:
        *complete, rest = chunk.split("\n")
        for line in complete:
            pending += [line, "\n"]
            yield "".join(pending)
            pending.clear()
            length = 0
        if rest:
            pending.append(rest)
            length += len(rest)
        if longest is not None and length > longest:
            yield "".join(pending)
            pending.clear()
            length = 0
    if pending:
        yield "".join(pending)
