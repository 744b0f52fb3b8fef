"""Reading text from files, folders, gzip files and standard input in chunks, with bounded memory.

A corpus is a list of named sources in a fixed order. Only a newline ends a line. Errors name the file, the line and
the byte.
"""

import codecs
import contextlib
import gzip
import hashlib
import io
import os
import re
import stat
import sys
import tempfile
import weakref
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Literal, NamedTuple

from pydantic import Field, field_validator

from satchel.config import Settings
from satchel.errors import DataError

# Bytes per read.
CHUNK = 1 << 18
# Protection against gzip bombs: maximum compression ratio, applied above a number of decompressed bytes.
LARGEST_RATIO = 200
FREE_BYTES = 1 << 27
TEXT_SUFFIXES = (".txt", ".txt.gz")
# An unpaired surrogate: not a character, result of an invalid \\u escape.
SURROGATE = re.compile("[\ud800-\udfff]")
# Encodings whose decoders remove the byte order mark.
BOM_ENCODINGS = ("utf-16", "utf-32", "utf-8-sig")

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
    delimiter: str = Field(",", min_length=1, max_length=1, description="column delimiter of .csv files")
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
    def _check_delimiter(cls, delimiter: str) -> str:
        if delimiter in '"\r\n':
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


@dataclass(frozen=True)
class Source:
    """A named source of bytes that can be read several times."""

    name: str
    size: int
    open: Callable[[], contextlib.AbstractContextManager[IO[bytes]]]
    label: str = ""  # name in messages, if different

    @property
    def where(self) -> str:
        """Name of the source in messages."""
        return self.label or self.name


@dataclass
class Corpus:
    """Sources in a fixed order.

    `skipped` is the number of other files in the folder, `repaired` the number of invalid byte sequences per source.
    """

    name: str
    sources: tuple[Source, ...]
    settings: DataSettings = field(default_factory=lambda: DataSettings())
    skipped: int = 0
    repaired: dict[str, int] = field(default_factory=dict)

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
        errors = _DecodingErrors(self.settings.encoding_errors)
        with source.open() as handle:
            yield from _decode(
                _decompress(handle, source, self.settings.max_bytes), self.settings, errors, source.where
            )
        if errors.count:
            self.repaired[source.where] = errors.count

    def pieces(self, rule: DocumentRule | None = None) -> Iterator[Piece]:
        """Yield the documents in pieces that can be tokenized separately."""
        rule = rule or self.settings.documents
        if rule == "stream":
            for text in split_pieces(chunk for source in self.sources for chunk in self.texts(source)):
                yield Piece(text, False)
            return
        for source in self.sources:
            if rule == "file":
                yield from document_pieces(self.texts(source))
            else:
                yield from text_pieces(line for line in lines(self.texts(source)) if line.strip())


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
        if line.endswith("\r\n"):
            yield line[:-2]
        else:
            yield line[:-1] if line.endswith("\n") else line


def lines_with_ends(chunks: Iterable[str]) -> Iterator[str]:
    """Yield the lines with their line ends."""
    pending: list[str] = []
    for chunk in chunks:
        *complete, rest = chunk.split("\n")
        for line in complete:
            pending += [line, "\n"]
            yield "".join(pending)
            pending.clear()
        if rest:
            pending.append(rest)
    if pending:
        yield "".join(pending)


# --- bytes to characters -----------------------------------------------------------------------


class _DecodingErrors:
    """Codec error handler that replaces or skips invalid byte sequences and counts them, or raises the error."""

    def __init__(self, policy: str) -> None:
        self.policy = policy
        self.count = 0

    def __call__(self, error: UnicodeError) -> tuple[str, int]:
        if self.policy == "strict" or not isinstance(error, UnicodeDecodeError):
            raise error
        self.count += 1
        return "\ufffd" if self.policy == "replace" else "", error.end


def _decode(chunks: Iterator[bytes], settings: DataSettings, errors: _DecodingErrors, where: str) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder(settings.encoding)("satchel-decoding")
    offset = lines_before = 0
    may_have_bom = codecs.lookup(settings.encoding).name not in BOM_ENCODINGS
    start = b""
    for chunk in _with_end(chunks):
        # Error handlers are global, by name: register the handler of this source before each decoding step.
        codecs.register_error("satchel-decoding", errors)
        buffered = len(decoder.getstate()[0])
        start = (start + chunk)[:4]
        try:
            text = decoder.decode(chunk, final=not chunk)
        except UnicodeDecodeError as error:
            line = lines_before + error.object[: error.start].count(b"\n") + 1
            raise DataError(
                f"found byte {error.object[error.start]:#04x} at byte {offset - buffered + error.start}, "
                f"expected {settings.encoding}",
                _encoding_remedy(start),
                where=f"{where}, line {line}",
            ) from None
        except UnicodeError as error:  # some codecs raise errors without a position
            raise DataError(f"is not {settings.encoding}: {error}", _encoding_remedy(start), where=where) from None
        offset += len(chunk)
        lines_before += text.count("\n")
        if may_have_bom and text:
            text = text.removeprefix("\ufeff")
            may_have_bom = False
        if text:
            yield text


def _encoding_remedy(start: bytes) -> str:
    """Return the remedy for a file that starts with these bytes."""
    if start in (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE):
        return "it starts with the byte order mark of UTF-32: use --encoding utf-32"
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "it starts with the byte order mark of UTF-16: use --encoding utf-16"
    return "set the encoding (for example --encoding latin-1), or use --encoding-errors replace or skip"


def _with_end(chunks: Iterator[bytes]) -> Iterator[bytes]:
    yield from chunks
    yield b""


def _decompress(handle: IO[bytes], source: Source, budget: int) -> Iterator[bytes]:
    start = handle.read(2)
    handle.seek(0)
    if start != b"\x1f\x8b":
        if source.name.endswith(".gz") and start:
            raise DataError(
                "has the extension .gz but is not a gzip file", "rename it, or compress it", where=source.where
            )
        while chunk := handle.read(CHUNK):
            yield chunk
        return
    count = 0
    limit = min(budget, max(FREE_BYTES, source.size * LARGEST_RATIO))
    try:
        with gzip.GzipFile(fileobj=handle) as decompressed:
            while chunk := decompressed.read(CHUNK):
                count += len(chunk)
                if count > limit:
                    raise DataError(
                        f"decompresses to more than {limit:,} bytes from {source.size:,}",
                        "if this is expected, decompress it and use the plain file",
                        where=source.where,
                    )
                yield chunk
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"is a damaged gzip file: {error}", "download or copy it again", where=source.where) from error


# --- files to sources --------------------------------------------------------------------------


def file_source(path: Path, name: str | None = None) -> Source:
    """Return a regular file as a source; reading it raises DataError if the file changed after this call."""
    signature = _signature(path)

    @contextlib.contextmanager
    def opened() -> Iterator[IO[bytes]]:
        # Check before opening: if the file was replaced by a pipe, opening would block.
        check()
        with _readable(path), open(path, "rb") as handle:
            yield handle
            check()

    def check() -> None:
        if _signature(path) != signature:
            raise DataError("changed while it was being read", "run the command again", where=str(path))

    with _readable(path), open(path, "rb"):
        return Source(name or path.name, signature[0], opened, str(path))


def _signature(path: Path) -> tuple[int, int, int]:
    with _readable(path):
        status = os.stat(path)
    if not stat.S_ISREG(status.st_mode):
        raise DataError(
            "is not a regular file", "to read a pipe, use - and redirect it to standard input", where=str(path)
        )
    return status.st_size, status.st_mtime_ns, status.st_ino


@contextlib.contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise DataError("there is no such file", "check the name", where=str(path)) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise DataError(f"cannot be read: {reason}", where=str(path)) from error


def folder_sources(folder: Path) -> tuple[tuple[Source, ...], int]:
    """Return the text files of a folder, sorted by relative path, and the number of other files."""
    paths = sorted(_files(folder), key=lambda path: path.relative_to(folder).as_posix())
    texts = [path for path in paths if path.name.endswith(TEXT_SUFFIXES)]
    if not texts:
        raise DataError(
            f"has {len(paths)} files, none of them {' or '.join(TEXT_SUFFIXES)}",
            "expected a file, or a folder with .txt files",
            where=str(folder),
        )
    sources = tuple(file_source(path, path.relative_to(folder).as_posix()) for path in texts)
    return sources, len(paths) - len(texts)


def _files(folder: Path) -> Iterator[Path]:
    """Yield all files that are not hidden. Symbolic links to folders are not followed, because they may form cycles."""

    def reject(error: OSError) -> None:
        raise DataError(f"cannot be read: {error.strerror}", where=str(error.filename)) from error

    for parent, folders, names in os.walk(folder, onerror=reject):
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (Path(parent, name) for name in names if not name.startswith("."))


def stdin_source(copy: IO[bytes] | None = None) -> Source:
    """Return standard input, copied to `copy` or to a temporary file so that it can be read several times."""
    if sys.stdin is None:
        raise DataError("is closed", "redirect a text to it, or use a file", where="standard input")
    handle = copy or tempfile.TemporaryFile()  # noqa: SIM115 - closed with the source
    while chunk := sys.stdin.buffer.read(CHUNK):
        handle.write(chunk)
    source = _handle_source("-", handle)
    if copy is None:
        weakref.finalize(source, handle.close)
    return source


def bytes_source(name: str, data: bytes) -> Source:
    """Return bytes in memory as a source."""
    return _handle_source(name, io.BytesIO(data))


def _handle_source(name: str, handle: IO[bytes]) -> Source:
    @contextlib.contextmanager
    def opened() -> Iterator[IO[bytes]]:
        handle.seek(0)
        yield handle

    return Source(name, handle.seek(0, os.SEEK_END), opened, "standard input" if name == "-" else name)
