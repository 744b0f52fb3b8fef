"""A system that fails on purpose: at its k-th call a process is killed, or is told of an error."""

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

# What happens at a call, given its number and its name.
Fault = Callable[[int, str], None]


def nothing(number: int, name: str) -> None:
    del number, name


@contextlib.contextmanager
def faulty(before: Fault = nothing, after: Fault = nothing) -> Iterator[None]:
    """Put a fault before and after each call that changes the disk; those that only clear away are named so."""
    number = 0

    def around(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **options: Any) -> Any:
            nonlocal number
            number += 1
            mine, label = number, f"clear by {name}" if _clears(name) else name
            before(mine, label)
            try:
                return call(*args, **options)
            finally:
                after(mine, label)

        return wrapped

    class Raw(io.FileIO):
        write = around("write", io.FileIO.write)

    def open_file(file: Any, mode: str = "r", **options: Any) -> Any:
        # Small buffers: a file is written by more than one call.
        return io.BufferedWriter(Raw(file, mode), 512) if mode in ("wb", "xb") else real_open(file, mode, **options)

    real_open = builtins.open
    real = {name: getattr(os, name) for name in CALLS}
    try:
        for name, call in real.items():
            setattr(os, name, around(name, call))
        builtins.open = around("open file", open_file)
        yield
    finally:
        builtins.open = real_open
        for name, call in real.items():
            setattr(os, name, call)


def _clears(name: str) -> bool:
    frame = sys._getframe(2)
    while frame.f_back is not None:
        if frame.f_code.co_filename == shutil.__file__:
            return True
        frame = frame.f_back
    return name in ("unlink", "rmdir")


def calls(work: Callable[[], object]) -> list[str]:
    """Return the names of the calls that some work makes."""
    names: list[str] = []
    with faulty(before=lambda number, name: names.append(name)):
        work()
    return names


def kill_at(k: int) -> Fault:
    """Return the fault that kills this process at its k-th call."""

    def fault(number: int, name: str) -> None:
        del name
        if number == k:
            os.kill(os.getpid(), signal.SIGKILL)

    return fault


def error_at(k: int, code: int) -> Fault:
    """Return the fault that makes the k-th call fail, once."""

    def fault(number: int, name: str) -> None:
        if number == k:
            raise OSError(code, os.strerror(code), name)

    return fault


def fork(work: Callable[[], object]) -> int:
    """Do some work in a child process and return its id; it leaves with what the work returns, or with 99."""
    with warnings.catch_warnings():
        # The children touch nothing that other threads may hold.
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


def leave(child: int) -> int:
    """Wait for a child and return its exit code, or minus the signal that ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def contents(path: Path) -> dict[str, bytes] | bytes | None:
    """Return everything in a folder, or a file's bytes, or None where there is nothing."""
    if path.is_dir():
        return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}
    return path.read_bytes() if path.exists() else None
