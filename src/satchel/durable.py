"""The only code that writes files, and the only code that trusts them.

A file or folder is written under another name, synced, and given its name by one rename: whoever
reads sees the old one or the new one, whole. A folder carries `manifest.json` with the size and
sha256 of each file in it; reading checks them.
"""

import contextlib
import errno
import hashlib
import json
import math
import os
import shutil
import stat
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from satchel.errors import MachineError, RunError

# Windows has no advisory locks of this kind, and no way to sync a folder.
if sys.platform != "win32":
    import fcntl

MANIFEST = "manifest.json"
SCHEMA = 1
LARGEST_JSON = 1 << 24
LARGEST_NAME = 255


# --- writing -----------------------------------------------------------------------------------


@contextlib.contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """Give a handle to write; `path` becomes what was written, in one rename, when the block ends well.

    A second process that writes the same file is refused; what a killed process left behind is cleared away.
    """
    with _told(path), _parents(path):
        if path.exists() and not path.is_file():
            raise MachineError("is not a regular file, expected the name of a file to write", where=str(path))
        # The real place: what a link names is replaced where it lives.
        target = path.resolve()
        partial = _partial(target)
        lock = _claim(partial, target, folder=False)
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
            if lock is not None:
                os.close(lock)
        _sync_folder(target.parent)


def append_line(path: Path, line: bytes) -> None:
    """Add a line to a file in one write, so that whoever reads it sees it whole or not at all."""
    with _told(path):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            # A process that was killed may have left a line without its end.
            torn = os.path.getsize(path) > 0 and not _ends_a_line(path)
            os.write(descriptor, (b"\n" if torn else b"") + line + b"\n")
        finally:
            os.close(descriptor)


def _ends_a_line(path: Path) -> bool:
    with open(path, "rb") as handle:
        handle.seek(-1, os.SEEK_END)
        return handle.read() == b"\n"


def remove_folder(path: Path) -> None:
    """Remove a folder. Under its own name it is there whole or not at all."""
    aside = path.with_name(f".{path.name}.gone")
    shutil.rmtree(aside, ignore_errors=True)
    os.rename(path, aside)
    shutil.rmtree(aside, ignore_errors=True)


def clear_left(folder: Path) -> None:
    """Remove what killed processes left in a folder, unfinished or half gone. Only where no other process writes."""
    for path in [*folder.glob(".*.partial"), *folder.glob(".*.gone")]:
        shutil.rmtree(path, ignore_errors=True)


def check_writable(folder: Path) -> None:
    """Refuse a folder in which no file can be made."""
    probe = folder / ".writable"
    write_file(probe, b"")
    probe.unlink()


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Let no other process work in a folder while the block runs. A lock ends with the process that holds it."""
    try:
        import fcntl
    except ImportError:  # not on this system
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise RunError(
                "is being trained by another process", "wait for it, or stop it", where=str(folder)
            ) from None
        yield
    finally:
        os.close(descriptor)


def write_file(path: Path, data: bytes) -> None:
    """Make `path` hold `data`, whole or not at all."""
    with new_file(path) as handle:
        handle.write(data)


class NewFolder:
    """A folder being made: files go to `path`, and get their place together when all is done."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextlib.contextmanager
    def create(self, name: str) -> Iterator[BinaryIO]:
        """Give a handle to a new file of the folder."""
        target = self.path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        with open(target, "xb") as handle:
            yield handle
            handle.flush()
            os.fsync(handle.fileno())

    def write(self, name: str, data: bytes) -> None:
        """Make a new file of the folder."""
        with self.create(name) as handle:
            handle.write(data)

    def copy(self, source: Path, name: str) -> None:
        """Make a new file of the folder that holds what another file does."""
        with open_regular(source) as original, self.create(name) as handle:
            shutil.copyfileobj(original, handle)


@contextlib.contextmanager
def new_folder(
    target: Path, replaceable: Callable[[Path], bool] | None = None, changing: Collection[str] = ()
) -> Iterator[NewFolder]:
    """Make the folder `target` whole, or leave everything as it was. Files that are `changing` are not in its manifest.

    A folder that is there is replaced only if `replaceable` says so. A second process that makes
    the same folder is refused; what a killed process left behind is cleared away.
    """
    with _told(target), _parents(target):
        _refuse_existing(target, replaceable)
        # The real place: a symlinked run folder is replaced where it lives.
        target = target.resolve()
        # The new folder is made inside a locked one that keeps its name, so that none but the lock's owner removes it.
        partial = _partial(target)
        new = partial / "new"
        lock = _claim(partial, target, folder=True)
        try:
            _clear(partial, target)
            # Another process may have finished before this one got the lock.
            _refuse_existing(target, replaceable)
            new.mkdir()
            yield NewFolder(new)
            _seal(new, changing)
            _refuse_existing(target, replaceable)
            _exchange(new, target)
            _sync_folder(target.parent)
        finally:
            # After an exchange this is the old folder; after a failure, the unfinished one.
            shutil.rmtree(new, ignore_errors=True)
            with contextlib.suppress(OSError):
                partial.rmdir()
            if lock is not None:
                os.close(lock)


@contextlib.contextmanager
def _parents(target: Path) -> Iterator[None]:
    """Make the folders above `target`; take back those that were made if it does not come to be."""
    missing = [folder for folder in target.parents if not folder.exists()]
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            for folder in missing:
                folder.rmdir()
        raise


def _refuse_existing(target: Path, replaceable: Callable[[Path], bool] | None) -> None:
    if not os.path.lexists(target):
        return
    if replaceable is None:
        raise RunError("exists already", "give another name with -o, or replace it with --force", where=str(target))
    if not target.is_dir() or (not replaceable(target) and any(target.iterdir())):
        raise RunError("is not a run, so it is not replaced", "give another name with -o", where=str(target))


def _partial(target: Path) -> Path:
    """Return where the target is made before it gets its name."""
    partial = target.with_name(f".{target.name}.partial")
    if len(os.fsencode(partial.name)) > LARGEST_NAME:
        raise MachineError(
            f"found a name of {len(os.fsencode(target.name))} bytes, expected at most "
            f"{LARGEST_NAME - len('..partial')}",
            "give a shorter one with -o",
            where=f"{target.name[:40]}...",
        )
    return partial


def _clear(partial: Path, target: Path) -> None:
    """Remove what a killed process left, but for the only copy of a folder that it was replacing."""
    old = partial / "old"
    if old.exists() and not os.path.lexists(target):
        os.rename(old, target)
    for stale in (old, partial / "new"):
        shutil.rmtree(stale, ignore_errors=True)


def _exchange(new: Path, target: Path) -> None:
    """Give `new` the name `target`; what was there gets the name `new`, in one step where the system can."""
    if not target.exists():
        os.rename(new, target)
    elif not _swap(new, target):
        # A process killed between these leaves the old folder aside: see _clear.
        old = new.with_name("old")
        os.rename(target, old)
        try:
            os.rename(new, target)
        except BaseException:
            os.rename(old, target)
            raise
        os.rename(old, new)


def _swap(first: Path, second: Path) -> bool:
    """Exchange the names of two folders at once; return whether this system and this disk know how."""
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
    with open(folder / MANIFEST, "xb") as handle:
        handle.write(to_json(manifest))
        handle.flush()
        os.fsync(handle.fileno())
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
    """Make the unfinished file or folder and lock it. A lock ends with the process that holds it."""
    while True:
        is_mine = False
        if folder:
            with contextlib.suppress(FileExistsError):
                os.mkdir(partial)
                is_mine = True
        if sys.platform == "win32":
            return None
        # Never through a link: somebody else's file would be overwritten, or folder cleared.
        flags = os.O_RDONLY | os.O_DIRECTORY if folder else os.O_RDWR | os.O_CREAT
        try:
            lock = os.open(partial, flags | os.O_NOFOLLOW, 0o666)
        except OSError as error:
            if folder and isinstance(error, FileNotFoundError):
                continue
            if is_mine:
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
                "wait for it, or give another name with -o",
                where=str(target),
            ) from None
        # Another process may have finished in between: then this has gone, or has its final name.
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(lock), os.lstat(partial)):
                return lock
        os.close(lock)


@contextlib.contextmanager
def _told(target: Path) -> Iterator[None]:
    """Say what the machine refused, and about which file."""
    remedies = {
        errno.ENOSPC: "make room on the disk, or write to another one with -o",
        errno.EDQUOT: "make room in your quota, or write to another disk with -o",
        errno.EACCES: "choose a folder you may write to with -o",
        errno.EPERM: "choose a folder you may write to with -o",
        errno.EROFS: "choose a folder you may write to with -o",
        errno.EFBIG: "this disk or your limits allow no file so large: write to another one with -o",
        errno.ENAMETOOLONG: "give a shorter name with -o",
        errno.ELOOP: "a part of this path is a link to nowhere: give another name with -o",
        errno.ENOTDIR: "a part of this path is a file: give another name with -o",
        errno.EEXIST: "a part of this path is a file: give another name with -o",
    }
    try:
        yield
    except OSError as error:
        if error.errno not in remedies:
            raise
        raise MachineError(f"cannot be written: {error.strerror}", remedies[error.errno], where=str(target)) from error


# --- reading -----------------------------------------------------------------------------------


@contextlib.contextmanager
def open_regular(path: Path) -> Iterator[BinaryIO]:
    """Open a file of a run to read: a regular one, not a link out of the folder, not a pipe."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        reason = "is a link, expected a file" if error.errno == errno.ELOOP else f"cannot be read: {error.strerror}"
        raise RunError(reason, where=str(path)) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise RunError("is not a regular file", where=str(path))
    with open(descriptor, "rb") as handle:
        yield handle


def read_file(path: Path, largest: int) -> bytes:
    """Return the bytes of a regular file that is at most `largest` long."""
    with open_regular(path) as handle:
        size = os.fstat(handle.fileno()).st_size
        if size > largest:
            raise RunError(f"found {size} bytes, expected at most {largest}", where=str(path))
        return handle.read(size)


def read_manifest(folder: Path) -> dict[str, dict[str, Any]]:
    """Return what the manifest says of each file of the folder."""
    path = folder / MANIFEST
    manifest = from_json(read_file(path, LARGEST_JSON), str(path))
    if not isinstance(manifest, dict) or not isinstance(manifest.get("files"), dict):
        raise RunError("found no list of files, expected schema_version and files", where=str(path))
    if manifest.get("schema_version") != SCHEMA:
        raise RunError(
            f"found schema_version {manifest.get('schema_version')}, expected {SCHEMA}",
            "it was written by another version of satchel: open it with that one",
            where=str(path),
        )
    return dict(manifest["files"])


def read_verified(folder: Path, name: str, largest: int) -> bytes:
    """Return the bytes of a file of the folder, if they are those the manifest was made of."""
    entry = read_manifest(folder).get(name)
    if not isinstance(entry, dict):
        raise RunError(f"{name} is not in the manifest", where=str(folder / MANIFEST))
    data = read_file(folder / name, largest)
    if len(data) != entry.get("size") or hashlib.sha256(data).hexdigest() != entry.get("sha256"):
        raise RunError(
            "is damaged: its contents differ from the manifest's",
            "restore the folder from a copy, or train it again",
            where=str(folder / name),
        )
    return data


def file_sha256(path: Path) -> str:
    """Return the sha256 of a file."""
    with open(path, "rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


# --- JSON --------------------------------------------------------------------------------------


def to_json(value: object) -> bytes:
    """Return readable JSON that holds no NaN or infinity."""
    # A file's name need not be Unicode: what is not becomes a question mark.
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace") + b"\n"


def from_json(data: bytes, where: str) -> Any:
    """Return what JSON in UTF-8 says: each key once, no NaN or infinity, not too deep."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
            raise RunError(f"found the key {twice[:40]!r} twice, expected once", where=where)
        return found

    def finite(number: str) -> float:
        if not math.isfinite(float(number)):
            raise RunError(f"found {number[:40]}, expected a finite number", where=where)
        return float(number)

    try:
        return json.loads(data.decode(), object_pairs_hook=unique, parse_float=finite, parse_constant=finite)
    except RecursionError:
        raise RunError("is nested too deeply", where=where) from None
    except ValueError as error:  # not JSON, not UTF-8, or a number of thousands of digits
        raise RunError(f"is not JSON: {error}", where=where) from error
