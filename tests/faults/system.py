"""Fault injection: kill the process or raise an OSError at the k-th system call that changes the disk."""

import builtins
import contextlib
import io
import os
import shutil
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

CALLS = ("open", "mkdir", "fsync", "rename", "replace", "unlink", "rmdir")

# Function of the number and the name of a call; it may raise or kill the process.
Fault = Callable[[int, str], None]


def no_fault(number: int, name: str) -> None:
    """Do nothing."""
    del number, name


@contextlib.contextmanager
def faulty(before: Fault = no_fault, after: Fault = no_fault) -> Iterator[None]:
    """Call `before` and `after` around each system call that changes the disk.

    Calls that remove temporary files or folders have names that start with "clear by".
    """
    number = 0

    def wrap(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **options: Any) -> Any:
            nonlocal number
            number += 1
            call_number, label = number, f"clear by {name}" if _is_removal(name) else name
            before(call_number, label)
            try:
                return call(*args, **options)
            finally:
                after(call_number, label)

        return wrapped

    class Raw(io.FileIO):
        write = wrap("write", io.FileIO.write)

    def open_file(file: Any, mode: str = "r", **options: Any) -> Any:
        # Small buffers, so that a file is written by more than one call.
        return io.BufferedWriter(Raw(file, mode), 512) if mode in ("wb", "xb") else real_open(file, mode, **options)

    real_open = builtins.open
    real = {name: getattr(os, name) for name in CALLS}
    try:
        for name, call in real.items():
            setattr(os, name, wrap(name, call))
        builtins.open = wrap("open file", open_file)
        yield
    finally:
        builtins.open = real_open
        for name, call in real.items():
            setattr(os, name, call)


def _is_removal(name: str) -> bool:
    """Return whether the current call removes a file or folder: directly, or through shutil."""
    frame = sys._getframe(2)
    while frame.f_back is not None:
        if frame.f_code.co_filename == shutil.__file__:
            return True
        frame = frame.f_back
    return name in ("unlink", "rmdir")


def calls(work: Callable[[], object]) -> list[str]:
    """Return the names of the system calls of a function, in order."""
    names: list[str] = []
    with faulty(before=lambda number, name: names.append(name)):
        work()
    return names


def kill_at(k: int) -> Fault:
    """Return a fault that kills the process at the k-th call."""

    def fault(number: int, name: str) -> None:
        del name
        if number == k:
            os.kill(os.getpid(), signal.SIGKILL)

    return fault


def error_at(k: int, code: int) -> Fault:
    """Return a fault that raises an OSError at the k-th call."""

    def fault(number: int, name: str) -> None:
        if number == k:
            raise OSError(code, os.strerror(code), name)

    return fault


def fork(work: Callable[[], object]) -> int:
    """Run a function in a child process and return its process id.

    The exit code is the function's result if that is an int, 0 for another result, and 99 for an exception.
    """
    with warnings.catch_warnings():
        # Python warns about forking with threads; the children use no lock of another thread.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child:
        return child
    code = 99
    try:
        result = work()
        code = result if isinstance(result, int) else 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def wait_for(child: int) -> int:
    """Wait for a child process and return its exit code, or the negative number of the signal that killed it."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def contents(path: Path) -> dict[str, bytes] | bytes | None:
    """Return the bytes of a file, of each file in a folder by relative path, or None if the path does not exist."""
    if path.is_dir():
        return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}
    return path.read_bytes() if path.exists() else None
