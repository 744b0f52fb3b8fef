"""Access control in front of every route: Host, Origin, token, content type, size and time of a request.

One ASGI application wraps all routes, including those for unknown paths, and refuses by default: a new route is
protected without further code.
"""

import asyncio
import contextlib
import hmac
import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable, MutableMapping
from typing import Any

from satchel.web import limits
from satchel.web.errors import ERROR_TYPES, error_document, json_bytes
from satchel.web.static_files import FILES

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

# Routes without a token. They contain no data of users.
PUBLIC = frozenset({"/health", *FILES})
CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
HEADERS = [
    (b"content-security-policy", CONTENT_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
]
# Wrong tokens within a minute after which further ones are answered with 429.
MAX_FAILURES = 20
# Bytes of the body of a refused request that are read, and the time for them.
MAX_DISCARDED = 64 * limits.KILOBYTE
DISCARD_SECONDS = 0.5


class RefusedError(Exception):
    """A request that is refused before it reaches a route."""

    def __init__(self, status: int, message: str, remedy: str = "", headers: Iterable[tuple[str, str]] = ()) -> None:
        super().__init__(message)
        self.status, self.message, self.remedy, self.headers = status, message, remedy, tuple(headers)


class DisconnectedError(Exception):
    """The client has closed the connection before its request was complete."""


class Guard:
    """The ASGI application that admits requests to another one.

    `hosts` are the accepted values of the Host header, such as `127.0.0.1:8765`, and `origins` those of Origin. `log`
    receives the facts of each request, without its text. The body of a request is read completely before the
    application is called, and the application is cancelled when the client disconnects.
    """

    def __init__(
        self,
        app: Application,
        token: str,
        hosts: Collection[str],
        origins: Collection[str],
        log: Callable[[dict[str, Any]], None] | None = None,
    ) -> None:
        self._app, self._token, self._log = app, token.encode(), log
        self._hosts = {host.encode() for host in hosts}
        self._origins = {origin.encode() for origin in origins}
        self._failures: deque[float] = deque(maxlen=MAX_FAILURES)
        self._open = 0
        self.is_draining = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            self._open += 1
            response = Response(send)
            try:
                await self._answer(scope, receive, response)
            finally:
                self._open -= 1
                if self._log is not None:
                    self._log(_facts(scope, response))
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def _answer(self, scope: Scope, receive: Receive, send: "Response") -> None:
        try:
            self._check(scope)
            body = await _read_body(scope, receive)
        except RefusedError as refusal:
            await _discard_body(receive)
            await _refuse(refusal, scope, send)
        except DisconnectedError:
            pass
        else:
            await self._run(scope, body, receive, send)

    async def _run(self, scope: Scope, body: bytes, receive: Receive, send: "Response") -> None:
        """Call the application with a body; cancel it when the client disconnects."""
        messages = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive_body() -> Message:
            if messages:
                return messages.pop()
            await asyncio.Event().wait()  # the disconnection is handled below
            raise AssertionError

        answering = asyncio.ensure_future(self._app(scope, receive_body, send))
        disconnection = asyncio.ensure_future(_wait_for_disconnection(receive))
        try:
            await asyncio.wait({answering, disconnection}, return_when=asyncio.FIRST_COMPLETED)
            if send.is_complete:  # the end of the response also ends the wait for the disconnection
                await answering
        finally:
            disconnection.cancel()
            is_complete = answering.done()
            answering.cancel()
            await asyncio.gather(answering, disconnection, return_exceptions=True)
        if is_complete:
            answering.result()

    def _check(self, scope: Scope) -> None:
        """Raise a RefusedError unless the headers of a request are accepted."""
        if sum(len(name) + len(value) + 4 for name, value in scope["headers"]) > limits.MAX_HEADER:
            raise RefusedError(431, f"the header of the request is larger than {limits.MAX_HEADER:,} bytes")
        headers: dict[bytes, list[bytes]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.lower(), []).append(value)
        if [host.lower() for host in headers.get(b"host", [])] not in [[host] for host in self._hosts]:
            raise RefusedError(
                403,
                "the Host header is not one of this server",
                "use the address that the server prints, or start it with --allow-host NAME",
            )
        if (
            any(origin not in self._origins for origin in headers.get(b"origin", []))
            or len(headers.get(b"origin", [])) > 1
        ):
            raise RefusedError(403, "requests of pages of other origins are refused")
        if not scope["path"].startswith("/") or scope["raw_path"].startswith(b"//"):
            raise RefusedError(400, "the target of the request is not a path")
        if b"transfer-encoding" in headers and b"content-length" in headers:
            raise RefusedError(400, "found both Content-Length and Transfer-Encoding")
        if scope["path"] not in PUBLIC:
            self._check_token(headers.get(b"authorization", []))
        if self.is_draining and scope["path"] not in PUBLIC:
            raise RefusedError(503, "the server is shutting down", headers=[("retry-after", str(limits.RETRY_SECONDS))])
        if self._open > limits.MAX_OPEN_REQUESTS and scope["path"] not in PUBLIC:
            raise RefusedError(
                503, "too many requests", "try again later", [("retry-after", str(limits.RETRY_SECONDS))]
            )
        if scope["method"] == "POST":
            content_type = headers.get(b"content-type", [b""])[0].split(b";")[0].strip().lower()
            if content_type != b"application/json":
                raise RefusedError(415, "the content type is not application/json", "send JSON")
        length = headers.get(b"content-length", [b"0"])[0]
        if length.isdigit() and int(length[:20]) > limits.MAX_BODY:
            raise _too_large()

    def _check_token(self, values: list[bytes]) -> None:
        """Raise a RefusedError unless the Authorization header holds the token."""
        given = values[0] if len(values) == 1 else b""
        scheme, _, token = given.partition(b" ")
        if scheme.lower() == b"bearer" and hmac.compare_digest(token.strip(), self._token):
            return
        if given:
            now = time.monotonic()
            is_throttled = len(self._failures) == MAX_FAILURES and now - self._failures[0] < 60
            self._failures.append(now)
            if is_throttled:
                raise RefusedError(429, "too many wrong tokens", "wait a minute", [("retry-after", "60")])
        raise RefusedError(
            401,
            "the token is wrong" if given else "the token is missing",
            "send the header `Authorization: Bearer TOKEN` with the token that `satchel serve` prints",
            [("www-authenticate", "Bearer")],
        )


async def _read_body(scope: Scope, receive: Receive) -> bytes:
    """Return the body of a request; raise a RefusedError if it is too large or too slow."""
    del scope
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(limits.BODY_SECONDS):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise DisconnectedError
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                if size > limits.MAX_BODY:
                    raise _too_large()
                if not message.get("more_body", False):
                    return b"".join(parts)
    except TimeoutError:
        raise RefusedError(408, "the body of the request did not arrive in time") from None


async def _discard_body(receive: Receive) -> None:
    """Read the rest of a small body: closing a connection with unread data resets it and discards the response."""
    size = 0
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(DISCARD_SECONDS):
            while size < MAX_DISCARDED:
                message = await receive()
                size += len(message.get("body", b""))
                if not message.get("more_body", False):
                    return


async def _wait_for_disconnection(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _too_large() -> RefusedError:
    return RefusedError(413, f"the body of the request is larger than {limits.MAX_BODY:,} bytes", "send less text")


async def _refuse(refusal: RefusedError, scope: Scope, send: Send) -> None:
    """Send an error, and close the connection: the body of the request may not have been read."""
    kind = ERROR_TYPES.get(refusal.status, "invalid_request_error")
    content = json_bytes(error_document(refusal.message, kind, remedy=refusal.remedy))
    headers = [(name.encode(), value.encode()) for name, value in refusal.headers]
    headers += [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]
    headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else content})


class Response:
    """Sends the parts of a response, adds the security headers, and counts bytes."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.began = time.perf_counter()
        self.status = self.bytes = 0
        self.is_complete = False

    async def __call__(self, message: Message) -> None:
        """Send a part."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            present = {name.lower() for name, _ in message["headers"]}
            message["headers"] = [*message["headers"], *(each for each in HEADERS if each[0] not in present)]
        elif message["type"] == "http.response.body":
            self.bytes += len(message.get("body", b""))
            self.is_complete = not message.get("more_body", False)
        await self._send(message)


def _facts(scope: Scope, response: Response) -> dict[str, Any]:
    """Return the facts of a request for the log, without its query and its body, which contain text of users."""
    route = getattr(scope.get("route"), "path", None)
    return {
        "method": scope["method"],
        "route": route,
        "status": response.status or None,
        "complete": response.is_complete,
        "bytes": response.bytes,
        "milliseconds": round(1000 * (time.perf_counter() - response.began), 1),
    }
