"""Program of a worker process: reads requests from stdin and writes events to stdout until stdin ends.

A request is one line of JSON:

- `{"id": 1, "generate": {...}, "run": PATH}`: see `Scheduler.start`
- `{"id": 2, "call": "module:function", "request": "module:class", "body": {...}, "paths": {...}}`: an operation
- `{"id": 1, "cancel": true}`

An event is a message in the format of `frames.py`: a JSON document with the id of its request, and the bytes of a
reply. `{"steps": [[id, event], ...]}` holds the events of a step of generation. The last event of a request has
the key `end`, `reply`, `array` or `error`, also if the request has been cancelled.
Requests that generate are answered together, a step at a time; between two steps one operation is executed.
"""

import contextlib
import io
import json
import os
import queue
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from satchel import durable
from satchel.errors import SatchelError
from satchel.text.display import finite
from satchel.web.errors import InvalidFieldError
from satchel.web.frames import pack
from satchel.web.models import Models, RequestContext
from satchel.web.operation import Array, imported
from satchel.web.scheduler import Scheduler

Message = dict[str, Any]


class Cancelled(BaseException):
    """The request that is being answered has been cancelled."""


class Worker:
    """Answers requests, as stated in the docstring of the module."""

    def __init__(self, requests: BinaryIO, events: BinaryIO) -> None:
        self._requests, self._events = requests, events
        self._waiting: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._cancelled: set[int] = set()
        self._models, self._scheduler = Models(), Scheduler()

    def run(self) -> None:
        """Answer requests until stdin ends."""
        threading.Thread(target=self._read, daemon=True).start()
        self._send({"ready": True})
        while True:
            while (message := self._next()) is not None:
                self._answer(message)
            if steps := [(id_, _document(event)) for id_, event in self._scheduler.step()]:
                self._send({"steps": steps})

    def _read(self) -> None:
        """Move requests into the queue; end the process with the one that started it."""
        for line in self._requests:
            message = json.loads(line)
            if message.get("cancel"):
                self._cancelled.add(message["id"])
            self._waiting.put(message)
        os._exit(0)

    def _next(self) -> Message | None:
        """Return the next request; None if there is none and text is being generated."""
        try:
            return self._waiting.get(block=self._scheduler.is_idle)
        except queue.Empty:
            return None

    def _answer(self, message: Message) -> None:
        id_ = message["id"]
        if message.get("cancel"):
            self._scheduler.cancel(id_)
            self._cancelled.discard(id_)
            self._send({"id": id_, "end": {}})
            return
        if id_ in self._cancelled:
            return
        try:
            if "generate" in message:
                _leave_a_core()
                model = self._models.load(Path(message["run"]))
                if model.task != "lm":
                    name = Path(message["run"]).name
                    cause = f"{name} is a run for the task {model.task}, expected a language model"
                    raise InvalidFieldError("run", cause)
                facts = self._scheduler.start(id_, model, message["generate"])
                self._send({"id": id_, "start": facts})
                if not message["generate"]["generate"]:
                    self._send({"id": id_, "end": {"samples": []}})
            else:
                self._call(id_, message)
        except Cancelled:
            pass
        except RecursionError as error:
            self._send({"id": id_, "error": _error(SatchelError(f"the input is too deeply nested: {error}"))})
        except Exception as error:
            self._send({"id": id_, "error": _error(error)})

    def _call(self, id_: int, message: Message) -> None:
        def progress(stage: str, done: float | None) -> None:
            if id_ in self._cancelled:
                raise Cancelled

        request = imported(message["request"]).model_validate(message["body"])
        context = RequestContext(self._models, message["paths"], progress)
        result = imported(message["call"])(context, request)
        if isinstance(result, Array):
            values = np.ascontiguousarray(result.values)
            header = {"shape": list(values.shape), "dtype": str(values.dtype)}
            self._send({"id": id_, "array": header}, values.tobytes())
        elif isinstance(result, Iterator):
            for item in result:
                self._send({"id": id_, "item": True}, _json(item))
                progress("answering", None)
            self._send({"id": id_, "end": {}})
        else:
            self._send({"id": id_, "reply": True}, _json(result))

    def _send(self, event: Mapping[str, Any], content: bytes = b"") -> None:
        self._events.write(pack(event, content))
        self._events.flush()


def _leave_a_core() -> None:
    """Use fewer threads than cores: at each step all threads would wait for the one that shares its core with the HTTP
    process.
    """
    import torch

    torch.set_num_threads(min(torch.get_num_threads(), max(1, (os.cpu_count() or 1) - 1)))


def _json(document: Mapping[str, Any]) -> bytes:
    """Return a reply as JSON; numbers that are not finite become null."""
    return json.dumps(finite(document), default=_plain, ensure_ascii=False, separators=(",", ":")).encode(
        "utf-8", "replace"
    )


def _document(event: Message) -> Message:
    return {"error": _error(event["error"])} if "error" in event else event


def _error(error: BaseException) -> dict[str, Any]:
    """Return an error as JSON, without the messages of unexpected errors, which may contain text of users."""
    if isinstance(error, SatchelError):
        document = {"kind": "invalid", "cause": error.cause, "remedy": error.remedy, "where": error.where}
        if isinstance(error, InvalidFieldError):
            return {**document, "kind": "field", "field": error.field, "code": error.code}
        return document
    if isinstance(error, MemoryError):
        return {"kind": "memory", "cause": "there is not enough memory for this request"}
    frames = "".join(traceback.format_tb(error.__traceback__))
    print(f"satchel worker: {type(error).__name__}\n{frames}", file=sys.stderr, flush=True)
    return {"kind": "internal", "cause": "internal error; the log of the server contains the details"}


def _plain(value: Any) -> Any:
    """Return a NumPy value as one of Python."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"cannot be written as JSON: {type(value).__name__}")


def main() -> None:
    """Answer requests of the process that started this one."""
    events = io.BufferedWriter(io.FileIO(os.dup(sys.stdout.fileno()), "wb"))
    # Whatever a library prints must not be mistaken for an event.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    # The HTTP process has priority over computations, and if the memory is exhausted, the system ends this process.
    os.nice(5)
    with contextlib.suppress(OSError):
        durable.set_oom_score(500)
    import torch  # noqa: F401  (a process that waits as a spare has loaded it)

    try:
        Worker(sys.stdin.buffer, events).run()
    except BaseException as error:
        _error(error)
        os._exit(1)  # the thread that reads stdin does not end


if __name__ == "__main__":
    main()
