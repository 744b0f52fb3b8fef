"""Atomic file writes and verified reads. No other module writes files.

A file or folder is written under a temporary name, synced to disk, and renamed once, so that a reader sees either
the old or the new version, complete. A folder carries `manifest.json` with the size and sha256 of each of its
files; reading verifies them.
"""

import contextlib
import errno
import hashlib
import io
import json
import math
import os
import shutil
import stat
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from satchel.errors import MachineError, RunError, expectation

# Windows has neither flock nor fsync on folders.
if sys.platform != "win32":
    import fcntl

MANIFEST = "manifest.json"
SCHEMA = 1
LARGEST_JSON = 1 << 24
LARGEST_NAME = 255
# Seconds to wait for a lock: `is_locked` holds it for an instant.
LOCK_SECONDS = 0.1


# --- writing -----------------------------------------------------------------------------------

# Temporary files and folders that this process is writing, and folders that it created for them, innermost first.
_unfinished: set[Path] = set()
_new_parents: list[Path] = []


def remove_unfinished() -> None:
    """Remove the temporary files and folders of this process, which must end without writing anything else."""
    for path in _unfinished:
        # While a folder is replaced by two renames, the old one is in the temporary folder.
        if not (path / "old").exists():
            shutil.rmtree(path, ignore_errors=True)
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
    for folder in _new_parents:
        with contextlib.suppress(OSError):
            folder.rmdir()


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """Yield an empty temporary folder that is removed with its files when the block ends."""
    with tempfile.TemporaryDirectory(prefix="satchel-") as folder:
        yield Path(folder)


@contextlib.contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """Yield a handle to a temporary file that is renamed to `path` when the block ends without an exception.

    Raises RunError if another process is writing the same file. Removes temporary files of killed processes.
    """
    with _system_errors(path), _parents(path):
        if path.exists() and not path.is_file():
            raise MachineError("is not a regular file, expected the name of a file to write", where=str(path))
        # Follow symbolic links: the linked file is replaced, not the link.
        target = path.resolve()
        partial = _partial(target)
        lock = _claim(partial, target, folder=False)
        _unfinished.add(partial)
        try:
            with open(partial, "wb") as handle:
                yield handle
                handle.flush()
                os.fsync(handle.fileno())
            os.replace(partial, target)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
        finally:
            _unfinished.discard(partial)
            if lock is not None:
                os.close(lock)
        _sync_folder(target.parent)


def make_private_folder(path: Path) -> None:
    """Create a folder that only this user can read; raise MachineError if it exists and other users can read it."""
    path.mkdir(mode=0o700, exist_ok=True)
    status = path.lstat()
    is_private = stat.S_ISDIR(status.st_mode) and (
        os.name != "posix" or (status.st_uid == os.getuid() and not status.st_mode & 0o077)
    )
    if not is_private:
        raise MachineError("is a folder that other users can read", "remove it", where=str(path))


@contextlib.contextmanager
def private_file(path: Path, data: bytes) -> Iterator[None]:
    """Write a file that only this user can read, and remove it at the end of the block."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o600)
    with open(descriptor, "wb") as handle:
        handle.write(data)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def set_oom_score(score: int) -> None:
    """Set the score by which Linux chooses the process to end when memory is exhausted (1000: the first)."""
    Path("/proc/self/oom_score_adj").write_text(str(score))


def append_line(path: Path, line: bytes) -> None:
    """Append a line to a file with a single write, so that readers never see a partial line."""
    with _system_errors(path), open(path, "a+b", buffering=0) as handle:
        # A killed process may have left an incomplete last line.
        handle.seek(max(handle.tell() - 1, 0))
        is_incomplete = handle.read(1) not in (b"", b"\n")
        handle.write((b"\n" if is_incomplete else b"") + line + b"\n")


def remove_folder(path: Path) -> None:
    """Remove a folder atomically: rename it first, then delete its files."""
    renamed = path.with_name(f".{path.name}.gone")
    shutil.rmtree(renamed, ignore_errors=True)
    os.rename(path, renamed)
    shutil.rmtree(renamed, ignore_errors=True)


def remove_temporary(folder: Path) -> None:
    """Remove temporary files that killed processes left in a folder. The caller must hold the folder's lock."""
    for path in [*folder.glob(".*.partial"), *folder.glob(".*.gone")]:
        shutil.rmtree(path, ignore_errors=True)


def check_writable(folder: Path) -> None:
    """Raise MachineError if no file can be created in a folder."""
    probe = folder / ".writable"
    write_file(probe, b"")
    probe.unlink()


@dataclass(frozen=True)
class FolderLock:
    """An exclusive lock on a folder. It belongs to the folder itself, also after the folder was moved."""

    path: Path
    _identity: os.stat_result
    _descriptor: int | None  # None on Windows, which has no flock

    def location(self) -> Path | None:
        """Return `path`, the new path of the folder if it was moved, or None if it was deleted."""
        for path in (self.path, self._moved_to()):
            with contextlib.suppress(OSError):
                if path is not None and os.path.samestat(os.stat(path), self._identity):
                    return path
        return None

    def _moved_to(self) -> Path | None:
        try:
            if sys.platform == "darwin":
                name = os.fsdecode(fcntl.fcntl(self._descriptor, fcntl.F_GETPATH, bytes(1024)).rstrip(b"\0"))
            else:
                name = os.readlink(f"/proc/self/fd/{self._descriptor}")
        except OSError:
            return None
        return Path(name)


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[FolderLock]:
    """Hold an exclusive lock on a folder. The operating system releases it when the process ends."""
    if sys.platform == "win32":
        yield FolderLock(folder, os.stat(folder), None)
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if not _lock(descriptor, fcntl.LOCK_EX, LOCK_SECONDS):
            raise RunError("is being trained by another process", "wait for it, or stop it", where=str(folder))
        yield FolderLock(folder, os.fstat(descriptor), descriptor)
    finally:
        os.close(descriptor)


def is_locked(folder: Path) -> bool:
    """Return whether a process holds the lock of a folder."""
    if sys.platform == "win32":
        return False
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        # A shared lock: processes that ask at the same time do not hinder each other.
        return not _lock(descriptor, fcntl.LOCK_SH, 0.0)
    finally:
        os.close(descriptor)


def _lock(descriptor: int, kind: int, seconds: float) -> bool:
    """Lock a folder, trying for some seconds; return whether it succeeded."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except OSError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(LOCK_SECONDS / 10)
        else:
            return True


def write_file(path: Path, data: bytes) -> None:
    """Write `data` to `path` atomically."""
    with new_file(path) as handle:
        handle.write(data)


class NewFolder:
    """A folder under construction: files are created below the temporary `path` and published together."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextlib.contextmanager
    def create(self, name: str) -> Iterator[BinaryIO]:
        """Yield a handle to a new file in the folder."""
        target = self.path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        with open(target, "xb") as handle:
            yield handle
            handle.flush()
            os.fsync(handle.fileno())

    def write(self, name: str, data: bytes) -> None:
        """Write a new file in the folder."""
        with self.create(name) as handle:
            handle.write(data)

    def copy(self, source: Path, name: str) -> None:
        """Copy a file into the folder."""
        with open_regular(source) as source_handle, self.create(name) as handle:
            shutil.copyfileobj(source_handle, handle)


@contextlib.contextmanager
def new_folder(
    target: Path, check_replaceable: Callable[[Path], None] | None = None, changing: Collection[str] = ()
) -> Iterator[NewFolder]:
    """Create the folder `target` atomically; on an exception the file system is left unchanged.

    Files named in `changing` are left out of the manifest. An existing folder is replaced only if it is empty or
    `check_replaceable`, which raises an error otherwise, accepts it. Raises RunError if another process holds the lock
    of the existing folder, or is creating the same folder. Removes temporary files of killed processes.
    """
    with _system_errors(target), _parents(target), contextlib.ExitStack() as old_lock:
        _check_existing(target, check_replaceable)
        # Follow symbolic links: the linked folder is replaced, not the link.
        target = target.resolve()
        # The new folder is created inside a locked parent, so that only the owner of the lock removes it.
        partial = _partial(target)
        new = partial / "new"
        lock = _claim(partial, target, folder=True)
        _unfinished.add(partial)
        try:
            _clear(partial, target)
            # Another process may have created it before this one got the lock.
            _check_existing(target, check_replaceable)
            old = old_lock.enter_context(locked(target)) if target.exists() else None
            new.mkdir()
            yield NewFolder(new)
            _seal(new, changing)
            _check_existing(target, check_replaceable)
            if (old.location() if old else None) != (target if target.exists() else None):
                raise RunError(
                    "was moved, deleted or created by another process", "choose another name with -o", where=str(target)
                )
            _exchange(new, target)
            _sync_folder(target.parent)
        finally:
            # After a successful exchange `new` is the replaced folder; after a failure, the incomplete one.
            shutil.rmtree(new, ignore_errors=True)
            with contextlib.suppress(OSError):
                partial.rmdir()
            _unfinished.discard(partial)
            if lock is not None:
                os.close(lock)


@contextlib.contextmanager
def _parents(target: Path) -> Iterator[None]:
    """Create the parent folders of `target`; remove the created ones again if the block raises."""
    missing = [folder for folder in target.parents if not folder.exists()]
    target.parent.mkdir(parents=True, exist_ok=True)
    _new_parents.extend(missing)
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            for folder in missing:
                folder.rmdir()
        raise
    finally:
        _new_parents[:] = [folder for folder in _new_parents if folder not in missing]


def _check_existing(target: Path, check_replaceable: Callable[[Path], None] | None) -> None:
    """Raise RunError if `target` exists and cannot be replaced."""
    if not os.path.lexists(target):
        return
    if check_replaceable is None:
        raise RunError("already exists", "choose another name with -o, or replace it with --force", where=str(target))
    if not target.is_dir():
        raise RunError("is not a run folder and is not replaced", "choose another name with -o", where=str(target))
    if any(target.iterdir()):
        check_replaceable(target)


def _partial(target: Path) -> Path:
    """Return the temporary path of a target."""
    partial = target.with_name(f".{target.name}.partial")
    if len(os.fsencode(partial.name)) > LARGEST_NAME:
        raise MachineError(
            f"the name has {len(os.fsencode(target.name))} bytes, expected at most {LARGEST_NAME - len('..partial')}",
            "choose a shorter name with -o",
            where=f"{target.name[:40]}...",
        )
    return partial


def _clear(partial: Path, target: Path) -> None:
    """Remove temporary folders of a killed process; restore the old folder if the process died while replacing it."""
    old = partial / "old"
    if old.exists() and not os.path.lexists(target):
        os.rename(old, target)
    for stale in (old, partial / "new"):
        shutil.rmtree(stale, ignore_errors=True)


def _exchange(new: Path, target: Path) -> None:
    """Rename `new` to `target`; an existing target becomes `new`, atomically where the system supports it."""
    if not target.exists():
        os.rename(new, target)
    elif not _swap(new, target):
        # If the process is killed between these renames, _clear restores the old folder.
        old = new.with_name("old")
        os.rename(target, old)
        try:
            os.rename(new, target)
        except BaseException:
            os.rename(old, target)
            raise
        os.rename(old, new)


def _swap(first: Path, second: Path) -> bool:
    """Exchange two folders with renameat2; return False if the system or the file system does not support it."""
    import ctypes

    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None) if sys.platform == "linux" else None
    if renameat2 is None:
        return False
    at_working_folder, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    if renameat2(at_working_folder, os.fsencode(first), at_working_folder, os.fsencode(second), exchange) == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.ENOSYS, errno.EINVAL):
        return False
    raise OSError(number, os.strerror(number), str(second))


def _seal(folder: Path, changing: Collection[str]) -> None:
    """Write the manifest of a folder and sync every folder in it."""
    fixed = (path for path in folder.rglob("*") if path.relative_to(folder).as_posix() not in changing)
    files = sorted(path for path in fixed if path.is_file())
    manifest = {
        "schema_version": SCHEMA,
        "files": {
            path.relative_to(folder).as_posix(): {"size": path.stat().st_size, "sha256": file_sha256(path)}
            for path in files
        },
    }
    NewFolder(folder).write(MANIFEST, to_json(manifest))
    for path in [*(path for path in folder.rglob("*") if path.is_dir()), folder]:
        _sync_folder(path)


def _sync_folder(folder: Path) -> None:
    if sys.platform == "win32":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _claim(partial: Path, target: Path, *, folder: bool) -> int | None:
    """Create and lock the temporary file or folder; return the lock's descriptor (None on Windows)."""
    while True:
        is_created = False
        if folder:
            with contextlib.suppress(FileExistsError):
                os.mkdir(partial)
                is_created = True
        if sys.platform == "win32":
            return None
        # Do not follow symbolic links: the linked file could belong to another program.
        flags = os.O_RDONLY | os.O_DIRECTORY if folder else os.O_RDWR | os.O_CREAT
        try:
            lock = os.open(partial, flags | os.O_NOFOLLOW, 0o666)
        except OSError as error:
            if folder and isinstance(error, FileNotFoundError):
                continue
            if is_created:
                os.rmdir(partial)
            raise
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(lock)
            if not isinstance(error, BlockingIOError):
                raise
            raise RunError(
                "is being written by another process",
                "wait until it has finished, or choose another name with -o",
                where=str(target),
            ) from None
        # Another process may have finished in between and renamed or removed the temporary path: try again.
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(lock), os.lstat(partial)):
                return lock
        os.close(lock)


@contextlib.contextmanager
def _system_errors(target: Path) -> Iterator[None]:
    """Turn an OSError with a known remedy into a MachineError that names the file."""
    remedies = {
        errno.ENOSPC: "free disk space, or write to another disk with -o",
        errno.EDQUOT: "free disk quota, or write to another disk with -o",
        errno.EACCES: "choose a writable folder with -o",
        errno.EPERM: "choose a writable folder with -o",
        errno.EROFS: "choose a writable folder with -o",
        errno.EFBIG: "the file exceeds the size limit of the file system or of ulimit: write to another disk with -o",
        errno.ENAMETOOLONG: "choose a shorter name with -o",
        errno.ELOOP: "part of this path is a broken symbolic link: choose another name with -o",
        errno.ENOTDIR: "part of this path is a file: choose another name with -o",
        errno.EEXIST: "part of this path is a file: choose another name with -o",
    }
    try:
        yield
    except OSError as error:
        if error.errno not in remedies:
            raise
        raise MachineError(f"cannot be written: {error.strerror}", remedies[error.errno], where=str(target)) from error


# --- reading -----------------------------------------------------------------------------------


@contextlib.contextmanager
def open_regular(path: Path) -> Iterator[io.BufferedReader]:
    """Open a regular file for reading; symbolic links, pipes and devices raise RunError."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        is_link = error.errno == errno.ELOOP
        reason = "is a symbolic link, expected a regular file" if is_link else f"cannot be read: {error.strerror}"
        raise RunError(reason, where=str(path)) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise RunError("is not a regular file", where=str(path))
    with open(descriptor, "rb") as handle:
        yield handle


def inside(folder: Path, name: str) -> Path:
    """Return the path of a file in a folder; raise RunError if a folder on the way to it is a symbolic link."""
    path = folder / name
    for parent in path.relative_to(folder).parents:
        if (folder / parent).is_symlink() and parent != Path():
            raise RunError("is a symbolic link, expected a folder", where=str(folder / parent))
    return path


def read_file(path: Path, largest: int) -> bytes:
    """Return the contents of a regular file of at most `largest` bytes."""
    with open_regular(path) as handle:
        size = os.fstat(handle.fileno()).st_size
        if size > largest:
            raise RunError(f"has {size} bytes, expected at most {largest}", where=str(path))
        return handle.read(size)


def read_manifest(folder: Path) -> dict[str, "ManifestEntry"]:
    """Return the manifest's entry of each file in the folder."""
    path = folder / MANIFEST
    data = read_file(path, LARGEST_JSON)
    manifest = from_json(data, str(path))
    if not isinstance(manifest, dict) or not isinstance(manifest.get("files"), dict):
        raise RunError("is not a manifest: the keys schema_version and files are missing", where=str(path))
    if manifest.get("schema_version") != SCHEMA:
        raise RunError(
            f"has schema_version {manifest.get('schema_version')}, expected {SCHEMA}",
            "it was written by another version of satchel: open it with that version",
            where=str(path),
        )
    return parse(Manifest, data, str(path)).files


def manifest_entry(folder: Path, name: str) -> "ManifestEntry":
    """Return the manifest's entry of a file; raise RunError if there is none."""
    entry = read_manifest(folder).get(name)
    if entry is None:
        raise RunError(f"{name} is not in the manifest", where=str(folder / MANIFEST))
    return entry


def check_intact(path: Path, handle: io.BufferedIOBase, entry: "ManifestEntry") -> None:
    """Raise RunError if the contents of an open file do not have the size and sha256 of its manifest entry."""
    digest = hashlib.file_digest(handle, "sha256").hexdigest()
    if (entry.size, entry.sha256) != (handle.seek(0, os.SEEK_END), digest):
        raise RunError(
            "is damaged: its size or sha256 differs from the manifest",
            "restore the folder from a copy, or train it again",
            where=str(path),
        )
    handle.seek(0)


def read_verified(folder: Path, name: str, largest: int) -> bytes:
    """Return the contents of a file in the folder after comparing size and sha256 with the manifest."""
    path = inside(folder, name)
    data = read_file(path, largest)
    check_intact(path, io.BytesIO(data), manifest_entry(folder, name))
    return data


def file_sha256(path: Path) -> str:
    """Return the sha256 of a file."""
    with open(path, "rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


# --- JSON --------------------------------------------------------------------------------------


class Record(BaseModel):
    """Base class of what is read from the JSON files of a run: no unknown keys, no type conversions, no NaN."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False)


R = TypeVar("R", bound=Record)
Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Count = Annotated[int, Field(ge=0, lt=1 << 53)]
# A relative path without hidden components and without "..".
FileName = Annotated[
    str, Field(pattern=r"^[a-zA-Z0-9_][a-zA-Z0-9_.-]*(/[a-zA-Z0-9_][a-zA-Z0-9_.-]*)*$", max_length=255)
]


class ManifestEntry(Record):
    """Size and checksum of a file."""

    size: Count
    sha256: Sha256


class Manifest(Record):
    """The contents of manifest.json."""

    schema_version: Literal[1]
    files: dict[FileName, ManifestEntry]


def parse(kind: type[R], data: bytes, where: str) -> R:
    """Return a record of the given class from JSON; raise RunError with the key of the first invalid value."""
    from_json(data, where)  # rejects duplicate keys, which pydantic accepts
    try:
        return kind.model_validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(map(str, first["loc"]))[:80]
        if first["type"] == "value_error":
            cause = expectation(first)
        elif first["type"] in ("missing", "extra_forbidden"):
            cause = "is missing" if first["type"] == "missing" else "is not a known key"
        else:
            cause = f"found {repr(first['input'])[:40]}, expected {expectation(first)}"
        raise RunError(
            f"{key}: {cause}" if key else cause,
            "the file is damaged, or was written by another version of satchel",
            where=where,
        ) from None


def to_json(value: object) -> bytes:
    """Return indented JSON in UTF-8; NaN and infinity raise ValueError."""
    # File names may contain bytes that are not valid Unicode: they are replaced by a question mark.
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace") + b"\n"


def from_json(data: bytes, where: str) -> Any:
    """Parse JSON in UTF-8; duplicate keys, NaN, infinity and excessive nesting raise RunError."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        entries = dict(pairs)
        if len(entries) < len(pairs):
            duplicate = Counter(name for name, _ in pairs).most_common(1)[0][0]
            raise RunError(f"contains the key {duplicate[:40]!r} more than once", where=where)
        return entries

    def finite(number: str) -> float:
        if not math.isfinite(float(number)):
            raise RunError(f"contains {number[:40]}, expected a finite number", where=where)
        return float(number)

    try:
        return json.loads(data.decode(), object_pairs_hook=unique, parse_float=finite, parse_constant=finite)
    except RecursionError:
        raise RunError("is nested too deeply", where=where) from None
    except ValueError as error:  # invalid JSON, invalid UTF-8, or a number with too many digits
        raise RunError(f"is not JSON: {error}", where=where) from error
