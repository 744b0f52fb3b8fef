"""Server-sent events, and iteration over several sources at once."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, TypeVar

from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from satchel.errors import SatchelError
from satchel.web import limits
from satchel.web.errors import ServerError, describe, json_bytes

Item = TypeVar("Item")


def error_response(error: SatchelError, invalid: int) -> Response:
    """Return the response to an error; `invalid` is the status of invalid requests."""
    status, document = describe(error, invalid)
    headers = {"retry-after": str(limits.RETRY_SECONDS)} if status in (429, 503) else None
    return JSONResponse(document, status, headers)


def event(content: bytes) -> bytes:
    """Return a server-sent event with this content, which has no line break."""
    return b"data: " + content + b"\n\n"


class EventStream(Response):
    """A response of server-sent events: the JSON documents or bytes of an async iterator.

    An error before the first item is an ordinary error response; a later one is the last event. `end` follows the
    items.
    """

    def __init__(self, items: AsyncIterator[Any], *, invalid: int, end: bytes = b"") -> None:
        self.items, self.invalid, self.end = items, invalid, end
        self.background = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response."""
        iterator = aiter(self.items)
        try:
            item = await anext(iterator, None)
        except SatchelError as error:
            await error_response(error, self.invalid)(scope, receive, send)
            return
        headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"x-accel-buffering", b"no")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        try:
            while item is not None:
                await send({"type": "http.response.body", "body": _encoded(item), "more_body": True})
                item = await anext(iterator, None)
        except SatchelError as error:
            document = describe(error, self.invalid)[1]
            await send({"type": "http.response.body", "body": _encoded(document), "more_body": True})
        finally:
            close: Callable[[], Any] | None = getattr(iterator, "aclose", None)
            if close is not None:
                await close()
        await send({"type": "http.response.body", "body": event(self.end) if self.end else b""})


def _encoded(item: Any) -> bytes:
    return event(item if isinstance(item, bytes) else json_bytes(item))


async def merged(sources: Sequence[AsyncIterator[Item]]) -> AsyncIterator[tuple[int, Item]]:
    """Yield (number of the source, item) from several iterators, each item as soon as it is there."""
    queue: asyncio.Queue[tuple[int, Any]] = asyncio.Queue()
    ended = object()

    async def forward(number: int, source: AsyncIterator[Item]) -> None:
        try:
            async for item in source:
                queue.put_nowait((number, item))
            queue.put_nowait((number, ended))
        except Exception as error:
            queue.put_nowait((number, error))

    tasks = [asyncio.create_task(forward(number, source)) for number, source in enumerate(sources)]
    remaining = len(tasks)
    try:
        while remaining:
            number, item = await queue.get()
            if isinstance(item, Exception):
                raise item
            if item is ended:
                remaining -= 1
            else:
                if queue.qsize() > limits.MAX_EVENTS:
                    raise ServerError("the client reads its response too slowly")
                yield number, item
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
