"""Rendering of charts as SVG, PNG and PDF in a separate process.

vl_convert contains the JavaScript engine V8, which aborts the process where memory is limited (`ulimit -v`). In a
separate process the abort is an error like any other. The process is started on first use and reused.
"""

import atexit
import contextlib
import json
import os
import signal
import struct
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO

from satchel.charts.render_worker import HEADER
from satchel.errors import MachineError

# Maximum duration of one conversion, in seconds.
TIMEOUT = 300.0
WORKER = Path(__file__).with_name("render_worker.py")


class RenderError(MachineError):
    """An image could not be drawn."""


class Renderer:
    """A process that converts charts to images, one at a time; a process that failed is replaced."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0
        self._lock = threading.Lock()

    def convert(self, function: str, text: str, **options: float) -> bytes:
        """Return the result of a function of vl_convert; raise RenderError if its process fails."""
        with self._lock:
            process = self._running()
            assert process.stdin is not None
            assert process.stdout is not None
            timer = threading.Timer(TIMEOUT, process.kill)
            timer.start()
            try:
                process.stdin.write(json.dumps([function, text, options]).encode() + b"\n")
                process.stdin.flush()
                is_done, size = struct.unpack(HEADER, _read(process.stdout, struct.calcsize(HEADER)))
                content = _read(process.stdout, size)
            except (OSError, EOFError):
                is_late = timer.finished.is_set()
                self.close()
                raise RenderError(
                    f"took longer than {TIMEOUT:g} s" if is_late else _reason(process.returncode)
                ) from None
            except BaseException:
                # Interrupted between request and reply: the next reply would be that of this request.
                self.close()
                raise
            finally:
                timer.cancel()
        if not is_done:
            raise RenderError(content.decode())
        return content

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is None or self._owner != os.getpid():
            return
        process.kill()
        for stream in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):
                stream.close()  # type: ignore[union-attr]
        process.wait()

    def _running(self) -> "subprocess.Popen[bytes]":
        """Return the process; a forked copy of this program starts its own."""
        if self._process is None or self._process.poll() is not None or self._owner != os.getpid():
            self.close()
            self._owner = os.getpid()
            try:
                # -P: the folder of the program, which contains a module named html, is not searched for modules.
                self._process = subprocess.Popen(
                    [sys.executable, "-P", str(WORKER)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                )
            except OSError as error:
                raise RenderError(f"the rendering process could not be started ({error.strerror})") from None
        return self._process


RENDERER = Renderer()
atexit.register(RENDERER.close)


def _read(stream: IO[bytes], size: int) -> bytes:
    content = stream.read(size)
    if len(content) < size:
        raise EOFError
    return content


def _reason(code: int) -> str:
    """Return why the process ended."""
    ended = f"was stopped by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
    return f"the rendering process {ended}{_memory_limit()}"


def _memory_limit() -> str:
    """Return the limit of the address space, the usual cause of an abort; empty if there is none."""
    if sys.platform == "win32":
        return ""
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return "" if limit == resource.RLIM_INFINITY else f"; memory is limited to {limit >> 10:,} kB (ulimit -v)"
