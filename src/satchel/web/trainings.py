"""The training of the server: a process `satchel train`, at most one at a time.

If the server is killed, the training continues: its output goes to unnamed files, and its run is listed as `training`
because the process holds its lock. A server that is closed stops the training, which saves.
"""

import contextlib
import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, Literal

from satchel import durable
from satchel.web import limits
from satchel.web.catalogue import Catalogue
from satchel.web.errors import ConflictError, OverloadedError
from satchel.web.training_options import StartRequest, arguments, python, resolve, terminal

# -P: the current folder is not searched for modules.
SATCHEL = (sys.executable, "-P", "-m", "satchel")
# Bytes of the messages of a training that are kept, and of those that are read.
MAX_LOG = 1 << 20
LOG_TAIL = 1 << 14
MAX_RESULT = 1 << 24
MESSAGES = 20
# Seconds between two checks of the size of the log.
TRIM_SECONDS = 60.0
# First line of an error message, and the indentation of its further lines.
ERROR, INDENTATION = "satchel: ", " " * 9
STEP = re.compile(r"^step ([\d,]+)[,:]", re.MULTILINE)
INTERRUPTED = (128 + signal.SIGINT, 128 + signal.SIGTERM, -signal.SIGTERM)
SAVE_FAILED = 3

Status = Literal["running", "stopping", "finished", "stopped", "failed"]


class _Output:
    """A file without a name that a process appends to. Unlike a pipe, it never blocks or ends the process."""

    def __init__(self) -> None:
        self.file: IO[bytes] = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - closed with the training
        descriptor = self.file.fileno()
        fcntl.fcntl(descriptor, fcntl.F_SETFL, fcntl.fcntl(descriptor, fcntl.F_GETFL) | os.O_APPEND)

    def tail(self, most: int) -> bytes:
        """Return the last bytes."""
        size = os.fstat(self.file.fileno()).st_size
        return os.pread(self.file.fileno(), most, max(0, size - most))

    def trim(self) -> None:
        """Remove all but the last bytes if the file is too large."""
        if os.fstat(self.file.fileno()).st_size > MAX_LOG:
            tail = self.tail(LOG_TAIL)
            self.file.truncate(0)
            self.file.write(tail)


class Training:
    """A process that trains a run."""

    def __init__(self, run: str, path: Path, words: Sequence[str], python: str | None) -> None:
        self.run, self.path = run, path
        self._terminal, self._python = terminal(list(words)), python
        self._log, self._result = _Output(), _Output()
        self._began = time.monotonic()
        self._seconds: float | None = None  # until the process ended
        self.is_stopping = False
        self._process = subprocess.Popen(
            [*SATCHEL, words[0], "--json", *words[1:]],
            stdin=subprocess.DEVNULL,
            stdout=self._result.file,
            stderr=self._log.file,
            start_new_session=True,  # Ctrl-C in the terminal of the server is a signal for the server only
        )
        threading.Thread(target=self._wait, daemon=True).start()

    def _wait(self) -> None:
        """Wait for the end of the process, so that it does not remain as a zombie."""
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(TRIM_SECONDS)
                self._seconds = time.monotonic() - self._began
                return
            self._log.trim()

    @property
    def is_running(self) -> bool:
        """Whether the process has not ended."""
        return self._process.poll() is None

    def stop(self) -> None:
        """Request that the training saves and ends. A second signal would end it without saving."""
        if not self.is_stopping and self.is_running:
            self.is_stopping = True
            self._process.terminate()

    def end(self, seconds: float) -> None:
        """Stop the training and wait; kill its processes after some seconds."""
        self.stop()
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    @property
    def status(self) -> Status:
        """State of the process."""
        code = self._process.poll()
        if code is None:
            return "stopping" if self.is_stopping else "running"
        if code == 0:
            return "finished"
        return "stopped" if code in INTERRUPTED else "failed"

    def document(self) -> dict[str, Any]:
        """Return the state as JSON."""
        text = self._log.tail(LOG_TAIL).decode("utf-8", "replace")
        steps = STEP.findall(text)
        seconds = self._seconds if self._seconds is not None else time.monotonic() - self._began
        status = self.status
        return {
            "run": self.run,
            "status": status,
            "step": int(steps[-1].replace(",", "")) if steps else None,
            "seconds": round(seconds, 3),
            "messages": text.rstrip("\n").split("\n")[-MESSAGES:] if text else [],
            "exit_code": self._process.poll(),
            "error": self._error(text) if status == "failed" else None,
            "result": self._report() if status in ("finished", "stopped", "failed") else None,
            "terminal": self._terminal,
            "python": self._python,
        }

    def _error(self, log: str) -> str:
        """Return the last error message of a failed training."""
        code = self._process.poll() or 0
        lines = log.rstrip("\n").split("\n")
        starts = [number for number, line in enumerate(lines) if line.startswith(ERROR)]
        if starts:
            first, *others = lines[starts[-1] :]
            more = [line.removeprefix(INDENTATION) for line in others if line.startswith(INDENTATION)]
            return "\n".join([first.removeprefix(ERROR), *more])
        if code == SAVE_FAILED:
            return "\n".join(lines[-3:])
        return f"the process was ended by signal {-code}" if code < 0 else f"the process ended with exit code {code}"

    def _report(self) -> dict[str, Any] | None:
        """Return the JSON document that the process has printed."""
        try:
            document: dict[str, Any] = json.loads(self._result.tail(MAX_RESULT))
        except ValueError:
            return None
        return document


class Trainings:
    """Starts and stops the training of the server."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._lock = threading.Lock()
        self._training: Training | None = None  # the running one, or the last one
        self._is_closed = False

    @property
    def running(self) -> Training | None:
        """The training whose process has not ended."""
        training = self._training
        return training if training is not None and training.is_running else None

    def start(self, request: StartRequest) -> dict[str, Any]:
        """Start a training and return its state; raise ConflictError if there is one."""
        with self._lock:
            self._check_free()
            path = self._catalogue.new_run(request.run)
            options = resolve(request, self._catalogue.run, self._catalogue.data)
            return self._start(request.run, path, arguments(options, path), python(options, path))

    def resume(self, run: str) -> dict[str, Any]:
        """Continue an interrupted training and return its state; raise ConflictError if there is one."""
        with self._lock:
            self._check_free()
            path = self._catalogue.changeable_run(run)
            if durable.is_locked(path):
                raise ConflictError(f"{run} is being trained by another process", "wait for it, or stop it")
            return self._start(run, path, ["train", f"--resume={path}"], None)

    def _start(self, run: str, path: Path, words: Sequence[str], code: str | None) -> dict[str, Any]:
        self._training = Training(run, path, words, code)
        return self._training.document()

    def _check_free(self) -> None:
        if self._is_closed:
            raise OverloadedError("the server is shutting down")
        if self.running is not None:
            raise ConflictError(f"{self.running.run} is being trained", "wait for it, or stop it with /api/runs/stop")

    def stop(self, run: str) -> dict[str, Any]:
        """Request that a training saves and stops, and return its state; raise ConflictError if it is not running."""
        training = self.running
        if training is not None and training.run == run:
            training.stop()
            return training.document()
        if durable.is_locked(self._catalogue.run(run)):
            raise ConflictError(f"{run} is being trained by another process", "stop it with SIGTERM or Ctrl-C")
        raise ConflictError(f"{run} is not being trained")

    def current(self) -> dict[str, Any] | None:
        """Return the state of the training that runs, or of the last one; None if there was none."""
        training = self._training
        return training.document() if training is not None else None

    def close(self, seconds: float = limits.CLOSE_SECONDS) -> None:
        """Stop the training and wait until it has saved; kill it after some seconds. No training can be started."""
        with self._lock:
            self._is_closed = True
            if self.running is not None:
                self.running.end(seconds)
