"""Sources of bytes: regular files, folders, standard input and memory."""

import contextlib
import io
import os
import stat
import sys
import tempfile
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from satchel.errors import DataError

# Bytes per read.
CHUNK = 1 << 18
TEXT_SUFFIXES = (".txt", ".txt.gz")


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
    if stat.S_ISDIR(status.st_mode):
        raise DataError("is a folder, expected a file", "name a file in it", where=str(path))
    if not stat.S_ISREG(status.st_mode):
        kind = "a pipe" if stat.S_ISFIFO(status.st_mode) else "not a regular file"
        raise DataError(f"is {kind}", "to read it, use - and redirect it to standard input", where=str(path))
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
