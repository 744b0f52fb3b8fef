"""A server process for tests, and a small HTTP client."""

import http.client
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.cli.conftest import SATCHEL

TOKEN = "token-of-the-tests-0123456789"
JSON = {"Content-Type": "application/json"}


@dataclass
class Reply:
    """A response."""

    status: int
    headers: dict[str, str]
    content: bytes

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.content)

    @property
    def error(self) -> dict[str, Any]:
        """The error in the body."""
        error: dict[str, Any] = self.json["error"]
        return error


@dataclass
class Server:
    """A running `satchel serve`."""

    process: subprocess.Popen[str]
    port: int
    log: Path
    token: str = TOKEN
    lines: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        """The address."""
        return f"http://127.0.0.1:{self.port}"

    def connect(self, timeout: float = 60) -> http.client.HTTPConnection:
        """Return a connection."""
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def send(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None, token: str | None = TOKEN
    ) -> Reply:
        """Send a request; a body that is not bytes is sent as JSON."""
        all_headers = dict(headers or {})
        if token is not None:
            all_headers.setdefault("Authorization", f"Bearer {token}")
        content = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        if body is not None:
            all_headers = {**JSON, **all_headers}
        connection = self.connect()
        try:
            connection.request(method, path, content, all_headers)
            response = connection.getresponse()
            return Reply(
                response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
            )
        finally:
            connection.close()

    def post(self, path: str, body: Any, **options: Any) -> Reply:
        """Send a POST request."""
        return self.send("POST", path, body, **options)

    def get(self, path: str, **options: Any) -> Reply:
        """Send a GET request."""
        return self.send("GET", path, **options)

    def complete(self, **fields: Any) -> dict[str, Any]:
        """Return the answer to a completion request."""
        reply = self.post("/v1/completions", fields)
        assert reply.status == 200, reply.content
        answer: dict[str, Any] = reply.json
        return answer

    def open_stream(self, path: str, body: Any) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        """Start a streamed response."""
        connection = self.connect()
        connection.request("POST", path, json.dumps(body).encode(), {**JSON, "Authorization": f"Bearer {self.token}"})
        return connection, connection.getresponse()

    def stream(self, path: str, body: Any) -> list[Any]:
        """Return all events of a streamed response; the end marker of OpenAI is a string."""
        connection, response = self.open_stream(path, body)
        try:
            assert response.status == 200, response.read()
            return list(events(response))
        finally:
            connection.close()

    def workers(self) -> list[int]:
        """Return the process ids of the workers."""
        found = subprocess.run(
            ["pgrep", "-P", str(self.process.pid)], capture_output=True, text=True, check=False
        ).stdout
        return [int(pid) for pid in found.split()]

    def stop(self, number: int = signal.SIGTERM, timeout: float = 30) -> int:
        """Send a signal and return the exit code."""
        self.process.send_signal(number)
        code = self.process.wait(timeout)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code


def events(response: http.client.HTTPResponse) -> Iterator[Any]:
    """Yield the server-sent events of a response."""
    while line := response.readline():
        if line.startswith(b"data: "):
            text = line.removeprefix(b"data: ").rstrip(b"\n")
            yield text.decode() if text == b"[DONE]" else json.loads(text)


def start(
    folder: Path,
    *arguments: object,
    token: str | None = TOKEN,
    env: dict[str, str] | None = None,
    port: int = 0,
) -> Server:
    """Start a server on a port, by default a free one, and wait until it answers."""
    runtime = folder / "runtime"
    runtime.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(runtime), "OMP_NUM_THREADS": "1", **(env or {})}
    if token is not None:
        environment["SATCHEL_TOKEN"] = token
    log = folder / "server.log"
    command = [*SATCHEL, "serve", *map(str, arguments), "--port", str(port), "--log"]
    with log.open("w") as errors:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment, cwd=folder
        )
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("Satchel at http://127.0.0.1:"), log.read_text()
    address, _, printed = line.split()[-1].partition("/#token=")
    server = Server(process, int(address.rpartition(":")[2]), log, printed, [line])
    assert server.get("/health", token=None).status == 200
    return server


def wait_until(condition: Any, seconds: float = 20, interval: float = 0.02) -> float:
    """Wait until a condition holds; return the seconds."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < seconds, "the condition does not hold"
        time.sleep(interval)
    return time.monotonic() - began


def raw(port: int, content: bytes, timeout: float = 20) -> bytes:
    """Send bytes and return everything that the server sends until it closes the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout) as connection:
        try:
            connection.sendall(content)
            return b"".join(iter(lambda: connection.recv(65536), b""))
        except (ConnectionError, TimeoutError):
            return b""
