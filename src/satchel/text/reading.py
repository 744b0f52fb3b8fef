"""Reading text: files, folders, gzip, standard input; in pieces, so that memory does not grow with them.

A corpus is a list of named sources in a fixed order. Bytes are decoded as they come, lines end at
a newline only, and what could not be decoded is told with the file and the byte.
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

CHUNK = 1 << 18
# A gzip file may unpack to this many times its size before it is called a bomb, once it is past the free part.
LARGEST_RATIO = 200
FREE_BYTES = 1 << 27
TEXT_SUFFIXES = (".txt", ".txt.gz")
# What is no character, and comes from broken escapes only.
HALF_PAIR = re.compile("[\ud800-\udfff]")
# Encodings whose decoders take the byte order mark away themselves.
MARKED = ("utf-16", "utf-32", "utf-8-sig")

DocumentRule = Literal["stream", "file", "line"]
Task = Literal["lm", "tag", "classify", "translate"]


class DataSettings(Settings):
    """What is read, and what counts as one document."""

    documents: DocumentRule = Field("stream", description="stream: all text is one; file; line")
    valid: float | str = Field(0.0, description="a file, or the fraction held out")
    encoding: str = Field("utf-8", description="how the files are encoded")
    encoding_errors: Literal["strict", "replace", "skip"] = Field("strict", description="what to do with bad bytes")
    max_bytes: int = Field(1 << 36, ge=1, description="refuse to unpack more than this from a .gz file")
    size: int = Field(10_000, ge=1, le=10_000_000, description="generated data: how many examples")
    length: int = Field(4, ge=1, le=16, description="@ab: the length of its strings")
    columns: tuple[str, ...] = Field((), description="names of the columns of a table without a header; - skips one")
    delimiter: str = Field(",", min_length=1, max_length=1, description="what separates the columns of a .csv")
    text_column: str = Field("text", description="the column, or columns joined by commas, that hold the text")
    label_column: str = Field("label", description="the column that holds the label")
    tags_column: str = Field("tags", description="the column that holds the tags")
    source_column: str = Field("source", description="the column that holds what is translated")
    target_column: str = Field("target", description="the column that holds the translation")

    @field_validator("columns", mode="before")
    @classmethod
    def _one_is_a_list(cls, columns: object) -> object:
        return (columns,) if isinstance(columns, str) else tuple(columns) if isinstance(columns, list) else columns

    @field_validator("encoding")
    @classmethod
    def _known(cls, name: str) -> str:
        try:
            # Python also knows encodings that are not of text, such as base64: decoding tells them apart.
            b"a".decode(name, "ignore")
            codecs.getincrementaldecoder(name)
        except (LookupError, UnicodeError):
            raise ValueError("expected an encoding that Python knows, such as utf-8, latin-1, utf-16") from None
        return name

    @field_validator("delimiter")
    @classmethod
    def _separates(cls, delimiter: str) -> str:
        if delimiter in '"\r\n':
            raise ValueError("expected a character other than a quote or the end of a line")
        return delimiter

    @field_validator("valid")
    @classmethod
    def _fraction(cls, valid: float | str) -> float | str:
        if isinstance(valid, float) and not 0 <= valid < 1:
            raise ValueError("expected a file, or a fraction from 0 to below 1")
        return valid


class Piece(NamedTuple):
    """A part of a document; `ends` says that the document is over."""

    text: str
    ends: bool


@dataclass(frozen=True)
class Source:
    """A named stream of bytes that can be read again."""

    name: str
    size: int
    open: Callable[[], contextlib.AbstractContextManager[IO[bytes]]]
    label: str = ""  # how messages name it

    @property
    def where(self) -> str:
        return self.label or self.name


@dataclass
class Corpus:
    """Texts in a fixed order. `repaired` counts the byte sequences that could not be decoded, by source."""

    name: str
    sources: tuple[Source, ...]
    settings: DataSettings = field(default_factory=lambda: DataSettings())
    skipped: int = 0
    repaired: dict[str, int] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """The bytes on disk."""
        return sum(source.size for source in self.sources)

    def identity(self) -> str:
        """Return the sha256 over each source's name, size and bytes."""
        digest = hashlib.sha256()
        for source in self.sources:
            digest.update(f"{source.name}\0{source.size}\0".encode("utf-8", "surrogateescape"))
            with source.open() as handle:
                while chunk := handle.read(CHUNK):
                    digest.update(chunk)
        return digest.hexdigest()

    def texts(self, source: Source) -> Iterator[str]:
        """Return the decoded text of a source, a chunk at a time."""
        repair = _Repair(self.settings.encoding_errors)
        with source.open() as handle:
            yield from _decode(_unpack(handle, source, self.settings.max_bytes), self.settings, repair, source.where)
        if repair.count:
            self.repaired[source.where] = repair.count

    def pieces(self, rule: DocumentRule | None = None) -> Iterator[Piece]:
        """Return the documents, cut into pieces that can be tokenized one by one."""
        rule = rule or self.settings.documents
        if rule == "stream":
            for text in cut(chunk for source in self.sources for chunk in self.texts(source)):
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
    for piece in cut(chunks):
        if last:
            yield Piece(last, False)
        last = piece
    yield Piece(last, True)


# Where no tokenizer can tell that a text was cut: before white space, right after something else. None of
# ours, nor GPT-2's, has a token that goes on from the one to the other, or looks back. Only white space that
# everyone agrees on counts: to Python U+001C to U+001F are some, to the tokenizers they are not.
SAFE_CUT = re.compile(r"[ \t\r\n](?<=\S.)", re.DOTALL)
SHORTEST_PIECE = 1 << 14
LONGEST_PIECE = 1 << 20


def cut(chunks: Iterable[str]) -> Iterator[str]:
    """Cut a text at the first safe place after 16,384 characters, however it arrives.

    A word of more than a million characters is cut all the same, so that memory stays bounded.
    """
    buffer = ""
    for chunk in chunks:
        buffer += chunk
        start = 0
        while len(buffer) - start > SHORTEST_PIECE + 1:
            limit = start + LONGEST_PIECE
            found = SAFE_CUT.search(buffer, start + SHORTEST_PIECE, limit + 1)
            if found is not None:
                place = found.start()
            elif len(buffer) > limit:
                place = limit
            else:
                break
            yield buffer[start:place]
            start = place
        buffer = buffer[start:]
    if buffer:
        yield buffer


def lines(chunks: Iterable[str]) -> Iterator[str]:
    """Return the lines without their ends. Only a newline ends a line; a carriage return before it goes too."""
    for line in whole_lines(chunks):
        if line.endswith("\r\n"):
            yield line[:-2]
        else:
            yield line[:-1] if line.endswith("\n") else line


def whole_lines(chunks: Iterable[str]) -> Iterator[str]:
    """Return the lines with their ends."""
    waiting: list[str] = []
    for chunk in chunks:
        *whole, rest = chunk.split("\n")
        for line in whole:
            waiting += [line, "\n"]
            yield "".join(waiting)
            waiting.clear()
        if rest:
            waiting.append(rest)
    if waiting:
        yield "".join(waiting)


# --- bytes to characters -----------------------------------------------------------------------


class _Repair:
    """Replaces or skips what cannot be decoded, and counts it."""

    def __init__(self, policy: str) -> None:
        self.policy = policy
        self.count = 0

    def __call__(self, error: UnicodeError) -> tuple[str, int]:
        if self.policy == "strict" or not isinstance(error, UnicodeDecodeError):
            raise error
        self.count += 1
        return "\ufffd" if self.policy == "replace" else "", error.end


def _decode(chunks: Iterator[bytes], settings: DataSettings, repair: _Repair, where: str) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder(settings.encoding)("satchel-repair")
    offset = lines_before = 0
    first = codecs.lookup(settings.encoding).name not in MARKED
    start = b""
    for chunk in _with_end(chunks):
        # Codecs find their error handlers by name; this reader's is the one in force while it decodes.
        codecs.register_error("satchel-repair", repair)
        held = len(decoder.getstate()[0])
        start = (start + chunk)[:4]
        try:
            text = decoder.decode(chunk, final=not chunk)
        except UnicodeDecodeError as error:
            line = lines_before + error.object[: error.start].count(b"\n") + 1
            raise DataError(
                f"found byte {error.object[error.start]:#04x} at byte {offset - held + error.start}, "
                f"expected {settings.encoding}",
                _encoding_remedy(start),
                where=f"{where}, line {line}",
            ) from None
        except UnicodeError as error:  # some encodings do not say where
            raise DataError(f"is not {settings.encoding}: {error}", _encoding_remedy(start), where=where) from None
        offset += len(chunk)
        lines_before += text.count("\n")
        if first and text:
            text = text.removeprefix("\ufeff")
            first = False
        if text:
            yield text


def _encoding_remedy(start: bytes) -> str:
    """Return what to do about a file that begins with these bytes."""
    if start in (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE):
        return "it begins like UTF-32: give --encoding utf-32"
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "it begins like UTF-16: give --encoding utf-16"
    return "name its encoding (--encoding latin-1), or give --encoding-errors replace or skip"


def _with_end(chunks: Iterator[bytes]) -> Iterator[bytes]:
    yield from chunks
    yield b""


def _unpack(handle: IO[bytes], source: Source, budget: int) -> Iterator[bytes]:
    start = handle.read(2)
    handle.seek(0)
    if start != b"\x1f\x8b":
        if source.name.endswith(".gz") and start:
            raise DataError("is named .gz but is not gzip", "rename it, or pack it again", where=source.where)
        while chunk := handle.read(CHUNK):
            yield chunk
        return
    count = 0
    limit = min(budget, max(FREE_BYTES, source.size * LARGEST_RATIO))
    try:
        with gzip.GzipFile(fileobj=handle) as unpacked:
            while chunk := unpacked.read(CHUNK):
                count += len(chunk)
                if count > limit:
                    raise DataError(
                        f"unpacks to more than {limit:,} bytes from {source.size:,}",
                        "if that is right, unpack it yourself and give the plain file",
                        where=source.where,
                    )
                yield chunk
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"is a damaged gzip file: {error}", "get it again", where=source.where) from error


# --- files to sources --------------------------------------------------------------------------


def file_source(path: Path, name: str | None = None) -> Source:
    """Return a regular file as a source; it is refused if it changes between two readings."""
    signature = _signature(path)

    @contextlib.contextmanager
    def opened() -> Iterator[IO[bytes]]:
        # Looked at before it is opened: what was a file may be a pipe now, and opening that would wait.
        check()
        with _readable(path), open(path, "rb") as handle:
            yield handle
            check()

    def check() -> None:
        if _signature(path) != signature:
            raise DataError("changed while it was being read", "start again", where=str(path))

    with _readable(path), open(path, "rb"):
        return Source(name or path.name, signature[0], opened, str(path))


def _signature(path: Path) -> tuple[int, int, int]:
    with _readable(path):
        status = os.stat(path)
    if not stat.S_ISREG(status.st_mode):
        raise DataError(
            "is not a regular file", "to read a pipe, give - and feed it to standard input", where=str(path)
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
    """Return the text files of a folder in the order of their relative paths, and how many others there are."""
    paths = sorted(_files(folder), key=lambda path: path.relative_to(folder).as_posix())
    texts = [path for path in paths if path.name.endswith(TEXT_SUFFIXES)]
    if not texts:
        raise DataError(
            f"found {len(paths)} files, none of them {' or '.join(TEXT_SUFFIXES)}",
            "name a file, or a folder of .txt files",
            where=str(folder),
        )
    sources = tuple(file_source(path, path.relative_to(folder).as_posix()) for path in texts)
    return sources, len(paths) - len(texts)


def _files(folder: Path) -> Iterator[Path]:
    """Return every file that is not hidden. Links to folders are not followed: they may lead in a circle."""

    def refuse(error: OSError) -> None:
        raise DataError(f"cannot be read: {error.strerror}", where=str(error.filename)) from error

    for parent, folders, names in os.walk(folder, onerror=refuse):
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (Path(parent, name) for name in names if not name.startswith("."))


def stdin_source(copy: IO[bytes] | None = None) -> Source:
    """Return standard input, copied so that it can be read more than once: to `copy`, or to a nameless file."""
    if sys.stdin is None:
        raise DataError("is closed", "feed it a text, or name a file", where="standard input")
    kept = copy or tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the source
    while chunk := sys.stdin.buffer.read(CHUNK):
        kept.write(chunk)
    source = _handle_source("-", kept)
    if copy is None:
        weakref.finalize(source, kept.close)
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
