"""Worker processes as seen by the HTTP process: starting, spare processes, queues, cancellation, time limits.

Each place (`generation`, `worker`, `long`) has at most one worker process. A spare process, which has imported torch,
takes over the place of a worker that ends, so that the next request need not wait for a start.
"""

import asyncio
import contextlib
import json
import os
import signal
import struct
import sys
import time
from collections import deque
from collections.abc import AsyncIterator
from typing import Any

from satchel.errors import SatchelError
from satchel.web import limits
from satchel.web.errors import (
    DeadlineError,
    InternalError,
    InvalidFieldError,
    NotFoundError,
    OverloadedError,
    WorkerError,
)
from satchel.web.frames import FRAME

Document = dict[str, Any]
# Threads of a computation wait for each other in a loop at first. The default duration is made for idle processors: if
# another process uses one of them, the worker would spend most of its time in these loops.
SPINNING = {"GOMP_SPINCOUNT": "1000"}
# Seconds between the starts of worker processes that end at once: the first and the longest delay.
FIRST_DELAY, LONGEST_DELAY = 0.5, 8.0
# A worker process that lived this long did not end at once.
STABLE_SECONDS = 10.0
# Number of successive processes that end at once after which the server reports that it is unavailable.
MAX_CRASHES = 3
LOST = ("the worker process ended while it answered the request", "try again")


class Event:
    """An event of a worker: a small document, and the bytes of a reply."""

    __slots__ = ("content", "document")

    def __init__(self, document: Document, content: bytes = b"") -> None:
        self.document, self.content = document, content

    @property
    def is_last(self) -> bool:
        """Whether it is the last event of its request."""
        return not self.document.keys().isdisjoint(("end", "reply", "array", "error"))


class Worker:
    """A worker process and the events of the requests that it answers."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._events: dict[int, asyncio.Queue[Event | None]] = {}
        self.ready = asyncio.Event()  # also set when the process has ended
        self.ended = asyncio.Event()
        self.started = time.monotonic()
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def start(cls) -> "Worker":
        """Start a process."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "satchel.web.worker"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=limits.MEGABYTE,
            start_new_session=True,  # Ctrl-C in the terminal reaches the server only
            env=SPINNING | {name: value for name, value in os.environ.items() if name != "SATCHEL_TOKEN"},
        )
        return cls(process)

    @property
    def is_alive(self) -> bool:
        """Whether the process can answer requests."""
        return not self.ended.is_set()

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    async def _read(self) -> None:
        """Distribute events until the process ends."""
        assert self._process.stdout is not None
        try:
            while True:
                size, content_size = FRAME.unpack(await self._process.stdout.readexactly(FRAME.size))
                document = json.loads(await self._process.stdout.readexactly(size))
                content = await self._process.stdout.readexactly(content_size) if content_size else b""
                if "ready" in document:
                    self.ready.set()
                for id_, step in document.get("steps", ()):
                    self._put(id_, Event(step))
                if "id" in document:
                    self._put(document["id"], Event(document, content))
        except (asyncio.IncompleteReadError, ConnectionError, struct.error, ValueError):
            pass
        finally:
            self.ended.set()
            self.ready.set()
            self.abandon()
            self.kill()
            await self._process.wait()

    def _put(self, id_: int, event: Event) -> None:
        if id_ in self._events:  # otherwise it has been cancelled
            self._events[id_].put_nowait(event)

    async def send(self, message: Document) -> None:
        """Send a message; a process that has ended ignores it."""
        assert self._process.stdin is not None
        with contextlib.suppress(ConnectionError, RuntimeError):
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            await self._process.stdin.drain()

    def kill(self) -> None:
        """End the process immediately."""
        # Not by `Process.kill`, which waits for the process itself, so that asyncio cannot.
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGKILL)

    async def close(self) -> None:
        """End the process and wait until its events are handled."""
        self.kill()
        await self._reading

    def add_request(self, id_: int) -> asyncio.Queue[Event | None]:
        """Return the queue of the events of a request; None is the end of the process."""
        queue = self._events[id_] = asyncio.Queue()
        if not self.is_alive:
            queue.put_nowait(None)
        return queue

    def abandon(self) -> None:
        """Let open requests fail as if the process had ended."""
        for queue in self._events.values():
            queue.put_nowait(None)

    def forget(self, id_: int) -> None:
        """Ignore further events of a request."""
        self._events.pop(id_, None)


class Slots:
    """A first-in first-out semaphore for several units at a time, with a limit of waiting requests."""

    def __init__(self, total: int) -> None:
        self._free = self._total = total
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @property
    def waiting(self) -> int:
        """Number of waiting requests."""
        return len(self._waiting)

    async def acquire(self, count: int) -> None:
        """Take `count` units when it is this request's turn; raise OverloadedError if too many requests wait."""
        if not self._waiting and self._free >= count:
            self._free -= count
            return
        if len(self._waiting) >= limits.MAX_WAITING:
            raise OverloadedError("too many requests are waiting", "try again later")
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (count, turn)
        self._waiting.append(entry)
        try:
            async with asyncio.timeout(limits.QUEUE_SECONDS):
                await turn
        except BaseException as error:
            if entry in self._waiting:
                self._waiting.remove(entry)
                self._admit()
            else:  # its turn came at the same time
                self.release(count)
            if isinstance(error, TimeoutError):
                raise OverloadedError("the request waited too long for its turn", "try again later") from None
            raise

    def release(self, count: int) -> None:
        """Return units."""
        self._free += count
        self._admit()

    def _admit(self) -> None:
        while self._waiting and self._free >= self._waiting[0][0]:
            count, turn = self._waiting.popleft()
            self._free -= count
            if not turn.done():
                turn.set_result(None)


class Pool:
    """The worker processes of a server."""

    def __init__(self) -> None:
        self._running: dict[int, str] = {}  # places of the requests that are being answered, by id
        self._endings: set[asyncio.Task[None]] = set()
        self._workers: dict[str, Worker] = {}
        self._spare: asyncio.Task[Worker] | None = None
        self._slots = {"generation": Slots(limits.MAX_ROWS), "worker": Slots(1), "long": Slots(1)}
        self._taking = asyncio.Lock()
        self._ids = iter(range(1, sys.maxsize))
        self._crashes = 0
        self._closed = False

    @property
    def is_available(self) -> bool:
        """Whether worker processes start without ending at once."""
        return self._crashes < MAX_CRASHES

    @property
    def running(self) -> int:
        """Number of requests that worker processes answer."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """Number of requests that wait for a worker process."""
        return sum(slots.waiting for slots in self._slots.values())

    @property
    def pids(self) -> dict[str, int]:
        """Process ids of the workers by place."""
        return {place: worker.pid for place, worker in self._workers.items() if worker.is_alive}

    async def start(self) -> None:
        """Start the worker of generation, and a spare process."""
        await self._worker("generation")

    def stop(self) -> None:
        """End the open requests with an error."""
        self._closed = True
        for worker in self._workers.values():
            worker.abandon()

    async def close(self) -> None:
        """End all processes."""
        self._closed = True
        spare = []
        if self._spare is not None:
            self._spare.cancel()
            spare = [
                each for each in await asyncio.gather(self._spare, return_exceptions=True) if isinstance(each, Worker)
            ]
        await asyncio.gather(*(worker.close() for worker in (*self._workers.values(), *spare)))

    async def _worker(self, place: str) -> Worker:
        """Return the worker of a place; if it has none, the spare process becomes it."""
        async with self._taking:
            worker = self._workers.get(place)
            if worker is not None and worker.is_alive:
                return worker
            worker = None
            while worker is None or not worker.is_alive:
                if self._closed:
                    raise OverloadedError("the server is shutting down")
                if self._spare is None:
                    self._spare = asyncio.create_task(self._start())
                try:
                    worker = await asyncio.shield(self._spare)
                except OSError as error:
                    self._spare = None
                    raise OverloadedError(f"no worker process can be started: {error.strerror}") from None
                self._spare = None
            self._workers[place] = worker
            self._spare = asyncio.create_task(self._start())
            return worker

    async def _start(self) -> Worker:
        """Start a process and wait until it is ready; processes that end at once delay the next start."""
        while True:
            if self._crashes:
                await asyncio.sleep(min(LONGEST_DELAY, FIRST_DELAY * 2 ** (self._crashes - 1)))
            worker = await Worker.start()
            try:
                await worker.ready.wait()
            except asyncio.CancelledError:
                await worker.close()
                raise
            if worker.is_alive:
                return worker
            self._crashes += 1

    @contextlib.asynccontextmanager
    async def submit(
        self, place: str, message: Document, *, rows: int = 1, seconds: float
    ) -> AsyncIterator[AsyncIterator[Event]]:
        """Send a request to the worker of a place and yield its events until the last one.

        The request is cancelled in the worker if the block ends before its last event. Raises the error of the request,
        OverloadedError if too many requests wait, DeadlineError after `seconds`, WorkerError if the process ends.
        """
        slots = self._slots[place]
        await slots.acquire(rows)
        id_, is_finished = next(self._ids), False
        worker: Worker | None = None

        async def events() -> AsyncIterator[Event]:
            nonlocal is_finished
            assert worker is not None
            queue = worker.add_request(id_)
            await worker.send({**message, "id": id_})
            while not is_finished:
                event = await queue.get()
                if event is None:
                    is_finished = True
                    if self._closed:
                        raise OverloadedError("the server is shutting down")
                    self._note_end(worker)
                    raise WorkerError("the worker process ended while it answered the request", "try again")
                if queue.qsize() > limits.MAX_EVENTS:
                    raise OverloadedError("the client reads its response too slowly")
                is_finished = event.is_last
                if "error" in event.document:
                    raise _error(event.document["error"])
                self._crashes = 0
                yield event

        try:
            async with asyncio.timeout(seconds):
                worker = await self._worker(place)
                self._running[id_] = place
                yield events()
        except TimeoutError:
            raise DeadlineError(f"the request took longer than {seconds:g} seconds", "send a smaller request") from None
        finally:
            # In a task of its own: the units are released when the worker has stopped, not when this task is cancelled.
            ending = asyncio.create_task(self._end(worker, id_, place, rows, is_cancelled=not is_finished))
            self._endings.add(ending)
            ending.add_done_callback(self._endings.discard)

    async def _end(self, worker: Worker | None, id_: int, place: str, rows: int, *, is_cancelled: bool) -> None:
        """Release the units of a request. If it has not ended, cancel it; end a worker that does not stop in time.

        The worker of generation stops requests between two tokens, and is not ended, because it serves many requests.
        """
        try:
            if worker is not None and is_cancelled:
                queue = worker.add_request(id_)
                await worker.send({"id": id_, "cancel": True})
                async with asyncio.timeout(limits.CANCEL_SECONDS):
                    while (event := await queue.get()) is not None and not event.is_last:
                        pass
        except TimeoutError:
            if place != "generation" and worker is not None:
                await worker.close()
        finally:
            if worker is not None:
                worker.forget(id_)
            self._running.pop(id_, None)
            self._slots[place].release(rows)

    def _note_end(self, worker: Worker) -> None:
        """Count processes that end soon after their start."""
        if time.monotonic() - worker.started < STABLE_SECONDS:
            self._crashes += 1


def _error(document: Document) -> SatchelError:
    """Return the error that a worker has sent."""
    kind, cause, remedy = document["kind"], document["cause"], document.get("remedy", "")
    if kind == "field":
        return InvalidFieldError(document["field"], cause, remedy, document.get("code"))
    if kind == "not_found":
        return NotFoundError(cause, remedy, where=document["where"])
    if kind == "memory":
        return OverloadedError(cause, "send a smaller request")
    if kind == "internal":
        return InternalError(cause)
    return SatchelError(cause, remedy, where=document.get("where", ""))
