"""The server stays up: killed workers, disconnections, overload, signals, bad requests, slow and silent clients."""

import asyncio
import json
import os
import shutil
import signal
import socket
import statistics
import struct
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

import satchel
from satchel.web import limits
from satchel.web.errors import DeadlineError
from satchel.web.pool import Pool
from tests.web import client
from tests.web.client import JSON, TOKEN, Server, events, raw, wait_until

MODEL = "transformer"
ROUTE = "/v1/completions"


@pytest.fixture(scope="module")
def busy(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server for tests that kill its workers or fill its queue; it is idle at the end of each test."""
    running = client.start(tmp_path_factory.mktemp("busy"), "--root", root / "runs")
    yield running
    assert running.stop() == 0


@pytest.fixture(scope="module")
def endless(busy: Server) -> dict[str, Any]:
    """A streamed completion that does not end during a test."""
    boundary = busy.get(f"/tokenizer_info?model={MODEL}").json["eos_token_id"]
    fields = {"model": MODEL, "prompt": "The", "max_tokens": 100_000, "stream": True}
    return {**fields, "logit_bias": {str(boundary): -1000}}


def _metric(server: Server, name: str) -> float:
    lines = server.get("/metrics").content.decode().split("\n")
    (value,) = (line.split()[1] for line in lines if line.startswith(f"satchel:{name} "))
    return float(value)


def _is_idle(server: Server) -> bool:
    return _metric(server, "num_requests_running") == _metric(server, "num_requests_waiting") == 0


def _answers(server: Server) -> None:
    """Assert that the next request is answered."""
    assert server.complete(model="ngram", prompt="The", max_tokens=2)["usage"]["completion_tokens"] == 2


def _generating(server: Server) -> int:
    """Return the process id of the worker that generates: the only one that uses the processor after a while."""

    def ticks() -> dict[int, int]:
        stats = {pid: Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in server.workers()}
        return {pid: int(values[11]) for pid, values in stats.items()}

    for _ in range(100):
        before = ticks()
        time.sleep(0.2)
        active = [pid for pid, count in ticks().items() if count != before.get(pid)]
        if len(active) == 1:
            return active[0]
    raise AssertionError("several workers use the processor")


def _in_background(function: Callable[..., Any], *arguments: Any, **options: Any) -> Callable[[], Any]:
    """Call a function in a thread; return a function that waits for its result."""
    executor = ThreadPoolExecutor(1)
    future = executor.submit(function, *arguments, **options)
    executor.shutdown(wait=False)
    return lambda: future.result(60)


# --- worker processes --------------------------------------------------------------------------------


def test_a_killed_worker_ends_its_stream_with_an_error_and_the_next_request_is_answered(
    busy: Server, endless: dict[str, Any]
) -> None:
    _answers(busy)
    for _ in range(2):
        connection, response = busy.open_stream(ROUTE, endless)
        with closing(connection):
            stream = events(response)
            next(stream)
            waiting = _in_background(busy.post, "/api/next", {"run": "ngram", "text": "The"})
            os.kill(_generating(busy), signal.SIGKILL)
            *_, error, end = stream
        assert ("worker process ended" in error["error"]["message"], end) == (True, "[DONE]")
        began = time.monotonic()
        _answers(busy)
        assert time.monotonic() - began < 5
        assert waiting().status == 200
        wait_until(lambda: len(busy.workers()) == 3)  # generation, other operations, and a spare process


def test_waiting_requests_are_answered_by_the_next_worker(busy: Server, endless: dict[str, Any]) -> None:
    connection, response = busy.open_stream(ROUTE, {**endless, "n": limits.MAX_ROWS})
    with closing(connection):
        response.readline()
        waiting = _in_background(busy.complete, model="ngram", prompt="The", max_tokens=2)
        wait_until(lambda: _metric(busy, "num_requests_waiting") == 1)
        os.kill(_generating(busy), signal.SIGKILL)
        assert waiting()["usage"]["completion_tokens"] == 2


def test_workers_that_end_at_once_are_visible_and_the_server_recovers(root: Path, tmp_path: Path) -> None:
    server = client.start(tmp_path, "--root", root / "runs")
    try:

        def is_unavailable() -> bool:
            for pid in server.workers():
                os.kill(pid, signal.SIGKILL)
            return server.get("/health", token=None).status == 503

        wait_until(is_unavailable)
        wait_until(lambda: server.post(ROUTE, {"model": "ngram", "prompt": "The"}).status == 200)
        assert server.get("/health", token=None).status == 200
    finally:
        assert server.stop() == 0


def test_a_deadline_ends_a_request_and_frees_its_place(root: Path) -> None:
    async def count_tokens(pool: Pool, message: dict[str, Any]) -> None:
        async with pool.submit("generation", message, rows=limits.MAX_ROWS, seconds=2) as replies:
            async for _ in replies:
                counts[-1] += 1

    async def main() -> None:
        pool = Pool()
        boundary = satchel.load(root / "runs" / MODEL).tokenizer.boundary
        options = {"tokens": 100_000, "logit_bias": {str(boundary): -1000}, "samples": limits.MAX_ROWS}
        generation = {
            "prompt": "The", "options": options, "refuse_long": True, "echo": False, "generate": True, "unique": True,
        }  # fmt: skip
        message = {"generate": generation, "run": str(root / "runs" / MODEL)}
        try:
            await pool.start()
            for _ in range(2):  # the second request needs the units of the first one
                counts.append(0)
                with pytest.raises(DeadlineError, match="2 seconds"):
                    await count_tokens(pool, message)
        finally:
            await pool.close()

    counts: list[int] = []
    asyncio.run(main())
    assert all(counts)


def test_a_run_that_is_replaced_is_loaded_again_and_streams_keep_the_old_one(
    root: Path, endless: dict[str, Any], tmp_path: Path
) -> None:
    folder = tmp_path / "runs"
    shutil.copytree(root / "runs" / MODEL, folder / MODEL)
    server = client.start(tmp_path, "--root", folder)
    try:
        connection, response = server.open_stream(ROUTE, endless)
        with closing(connection):
            stream = events(response)
            next(stream)
            (folder / MODEL).rename(tmp_path / "old")
            assert server.post(ROUTE, {"model": MODEL, "prompt": "The"}).status == 404
            shutil.copytree(root / "runs" / "lstm", folder / MODEL)
            fields = {"prompt": "The", "max_tokens": 8, "temperature": 0, "logprobs": 0}
            answer = server.complete(model=MODEL, **fields)["choices"]
            assert all("choices" in next(stream) for _ in range(100))
        shutil.copytree(root / "runs" / "lstm", folder / "lstm")
        assert answer == server.complete(model="lstm", **fields)["choices"]
    finally:
        server.stop()


# --- disconnections and overload ---------------------------------------------------------------------


def test_a_disconnected_client_frees_the_worker(busy: Server, endless: dict[str, Any]) -> None:
    seconds = []
    for number in range(12):
        connection, response = busy.open_stream(ROUTE, {**endless, "n": 1 + number % 3})
        for _ in range(number):
            response.readline()
        assert connection.sock is not None
        if number % 2:  # a reset instead of the end of the stream
            connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        response.close()
        connection.close()
        seconds.append(wait_until(lambda: _is_idle(busy), interval=0.005))
    assert statistics.median(seconds) < 0.25


def test_requests_beyond_the_queue_are_refused_at_once(busy: Server, endless: dict[str, Any]) -> None:
    with ExitStack() as stack:

        def open_stream(**fields: Any) -> None:
            connection = busy.connect()
            stack.callback(connection.close)
            headers = {**JSON, "Authorization": f"Bearer {TOKEN}"}
            connection.request("POST", ROUTE, json.dumps({**endless, **fields}).encode(), headers)

        open_stream(n=limits.MAX_ROWS)
        wait_until(lambda: _metric(busy, "num_requests_running") == 1)
        for _ in range(limits.MAX_WAITING):
            open_stream()
        wait_until(lambda: _metric(busy, "num_requests_waiting") == limits.MAX_WAITING)
        seconds = []
        for _ in range(20):
            began = time.monotonic()
            reply = busy.post(ROUTE, {"model": "ngram", "prompt": "The"})
            seconds.append(time.monotonic() - began)
            assert (reply.status, reply.error["type"]) == (503, "overloaded_error")
            assert int(reply.headers["retry-after"]) > 0
            assert busy.get("/health", token=None).status == 200
        assert statistics.median(seconds) < 0.1
        assert busy.post("/api/next", {"run": "ngram", "text": "The"}).status == 200  # another worker
    assert wait_until(lambda: _is_idle(busy)) < 5
    _answers(busy)


def test_the_metrics_count_tokens_and_requests(busy: Server) -> None:
    names = ("prompt_tokens_total", "generation_tokens_total", "time_to_first_token_seconds_count")
    before = [_metric(busy, name) for name in names]
    usage = busy.complete(model="ngram", prompt="The cat", max_tokens=3)["usage"]
    after = [_metric(busy, name) for name in names]
    assert [new - old for new, old in zip(after, before, strict=True)] == [usage["prompt_tokens"], 3, 1]
    reply = busy.get("/metrics")
    assert reply.headers["content-type"].startswith("text/plain")
    kinds = dict(line.split()[2:] for line in reply.content.decode().split("\n") if line.startswith("# TYPE "))
    assert kinds == {
        "satchel:prompt_tokens_total": "counter",
        "satchel:generation_tokens_total": "counter",
        "satchel:num_requests_running": "gauge",
        "satchel:num_requests_waiting": "gauge",
        "satchel:time_to_first_token_seconds": "histogram",
    }


# --- signals -----------------------------------------------------------------------------------------


def test_a_signal_lets_open_requests_end_and_refuses_new_ones(root: Path, tmp_path: Path) -> None:
    server = client.start(tmp_path, "--root", root / "runs")
    kept = server.connect()
    kept.request("GET", "/health")
    kept.getresponse().read()
    connection, response = server.open_stream(
        ROUTE, {"model": MODEL, "prompt": "The", "max_tokens": 1500, "stream": True}
    )
    with closing(connection), closing(kept):
        stream = events(response)
        next(stream)
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.1)
        with pytest.raises(ConnectionError):
            server.get("/health")
        assert list(stream)[-1] == "[DONE]"
    assert server.stop() == 0


def test_a_second_signal_ends_open_requests_with_an_error(root: Path, endless: dict[str, Any], tmp_path: Path) -> None:
    server = client.start(tmp_path, "--root", root / "runs")
    connection, response = server.open_stream(ROUTE, endless)
    with closing(connection):
        stream = events(response)
        next(stream)
        server.process.send_signal(signal.SIGINT)
        time.sleep(0.2)  # two signals at the same time are one
        assert all("choices" in next(stream) for _ in range(20))
        began = time.monotonic()
        server.process.send_signal(signal.SIGINT)
        *_, error, _ = stream
        assert "shutting down" in error["error"]["message"]
    assert server.process.wait(20) == 0
    assert time.monotonic() - began < 5
    assert server.stop() == 0


# --- bad requests ------------------------------------------------------------------------------------

INVALID: dict[str, list[Any]] = {
    "max_tokens": [-1, 10**9, 1.5, "many", [1]],
    "n": [0, -1, 33, 10**6, 0.5],
    "best_of": [0, 10**6],
    "temperature": [-1, 1e309, float("nan"), "hot", 101],
    "top_p": [0, -0.1, 1.1],
    "seed": [-1, 1 << 80, 0.5],
    "logprobs": [-1, 101, True],
    "stop": [["a"] * 5, ["a"] * 100_000, "", [""], "a" * 1001, 1],
    "logit_bias": [{"x": 1}, {"-1": 1}, {"999999": 1}, {"1": 1001}, {"1": "a"}, [1]],
    "frequency_penalty": [-101, 101],
    "prompt": [
        *([], [[]], [-1], [1 << 40], [0.5], 1, None, {}, ["a"] * 10_000, [1, "a"]),
        *([999_999], [[1], [999_999]], "the " * 600_000, "the cat " * 60),
    ],
    "model": ["", 1, None, "a" * 1001],
    "stream": ["yes", 1],
    "suffix": ["end"],
    "stream_options": [{"include_usage": True}],
    "unknown": [1],
}
FIELDS = [(field, value) for field, values in INVALID.items() for value in values]


@pytest.mark.parametrize(("field", "value"), FIELDS, ids=lambda value: repr(value)[:20])
def test_an_invalid_field_is_named(server: Server, field: str, value: Any) -> None:
    reply = server.post(ROUTE, {"model": MODEL, "prompt": "The", "max_tokens": 1, field: value})
    assert reply.status == 400
    assert set(reply.error) >= {"message", "type", "param", "code"}
    assert reply.error["type"] == "invalid_request_error"
    assert (reply.error["param"] or "body") in (field, "body")


BODIES = [
    b"", b"{", b"[]", b"1", b"null", b'"a"', b"{}", b'{"model": "ngram", "prompt": "\xff\xfe"}', b"\x00" * 100,
    b'{"model": "ngram", "prompt": "\\ud800"}', b'{"model": "ngram", "prompt": Infinity}', b"[" * 100_000,
    b'{"a":' * 100_000, b'{"model": "ngram", "prompt": "a", "seed": 1' + b"0" * 5000 + b"}",
]  # fmt: skip


@pytest.mark.parametrize("body", BODIES, ids=lambda body: repr(body[:30]))
def test_a_body_that_is_no_valid_request_is_refused(server: Server, body: bytes) -> None:
    reply = server.post(ROUTE, body)
    assert reply.status == 400, reply.content
    assert reply.error["type"] == "invalid_request_error"
    _answers(server)


def _head(server: Server, *lines: str) -> bytes:
    """Return the start of a completion request."""
    own = ["Content-Type: application/json", f"Authorization: Bearer {TOKEN}", f"Host: 127.0.0.1:{server.port}"]
    return "\r\n".join([f"POST {ROUTE} HTTP/1.1", *own, *lines, "\r\n"]).encode()


@pytest.mark.parametrize("framing", ["length", "chunked", "wrong length"])
def test_a_body_of_100_megabytes_is_refused_without_being_read(server: Server, framing: str) -> None:
    size = 100 * limits.MEGABYTE
    header = {"length": f"Content-Length: {size}", "wrong length": f"Content-Length: {limits.MAX_BODY + 1}"}
    head = _head(server, header.get(framing, "Transfer-Encoding: chunked"))
    part = b"a" * limits.MEGABYTE
    if framing == "chunked":
        part = b"%x\r\n%b\r\n" % (len(part), part)
    sent = 0
    with socket.create_connection(("127.0.0.1", server.port), 20) as connection:
        connection.sendall(head)
        try:
            while sent < size:
                sent += connection.send(part)
        except ConnectionError:
            pass
    assert sent < size / 2
    # A client that stops sending receives the answer.
    answer = raw(server.port, head + (part * 5 if framing == "chunked" else b""))
    assert answer.startswith(b"HTTP/1.1 413 ") or (framing == "chunked" and not answer)
    _answers(server)


MALFORMED = [
    b"\x00\x01\x02\x03\r\n\r\n", b"GET\r\n\r\n", b"GET /health\r\n\r\n",
    b"\r\n" * 1000, b"GET /health HTTP/1.1\r\n" + b"X: " + b"a" * (1 << 20) + b"\r\n\r\n",
    b"GET /health HTTP/1.1\r\n" + b"X: a\r\n" * 20_000 + b"\r\n",
    b"GET http://127.0.0.1/health HTTP/1.1\r\nHost: a\r\n\r\n", b"GET //evil/health HTTP/1.1\r\n\r\n",
    b"GET /\x00 HTTP/1.1\r\n\r\n", b"G\xe9T / HTTP/1.1\r\n\r\n", b"CONNECT evil:80 HTTP/1.1\r\n\r\n",
]  # fmt: skip


@pytest.mark.parametrize("content", MALFORMED, ids=lambda content: repr(content[:30]))
def test_malformed_http_is_refused(server: Server, content: bytes) -> None:
    own = f"Host: 127.0.0.1:{server.port}\r\n\r\n".encode()
    answer = raw(server.port, content.removesuffix(b"\r\n") + own if content.startswith(b"GET /") else content)
    assert not answer or answer.startswith(b"HTTP/1.1 4"), answer
    _answers(server)


FRAMINGS = [
    ("Content-Length: 2", "Content-Length: 3"), ("Content-Length: 2", "Transfer-Encoding: chunked"),
    ("Content-Length: -1",), ("Content-Length: a",), ("Transfer-Encoding: chunked, gzip",), ("Transfer-Encoding: x",),
]  # fmt: skip


@pytest.mark.parametrize("lines", FRAMINGS, ids=" and ".join)
def test_a_body_of_ambiguous_length_is_refused_and_its_rest_is_no_request(server: Server, lines: tuple[str]) -> None:
    hidden = f"GET /health HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nConnection: close\r\n\r\n"
    answer = raw(server.port, _head(server, *lines) + b"0\r\n\r\n" + hidden.encode())
    assert answer.startswith(b"HTTP/1.1 4")
    assert answer.count(b"HTTP/1.1 ") == 1
    _answers(server)


# --- slow and silent clients -------------------------------------------------------------------------


def test_idle_connections_and_half_requests_do_not_disturb_others(server: Server) -> None:
    parts = [
        b"",
        b"GET /health HT",
        _head(server, "Content-Length: 1000")[:-2],
        _head(server, "Content-Length: 9") + b"{",
    ]
    with ExitStack() as stack:
        for number in range(200):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", server.port), 20))
            connection.sendall(parts[number % len(parts)])
        for _ in range(5):
            began = time.monotonic()
            _answers(server)
            assert time.monotonic() - began < 2


@pytest.mark.slow
def test_silent_clients_are_disconnected(server: Server, endless: dict[str, Any]) -> None:
    descriptors = len(os.listdir(f"/proc/{server.process.pid}/fd"))
    closed: dict[str, float] = {}

    def wait(name: str, content: bytes, read: bool) -> None:
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect(("127.0.0.1", server.port))
            connection.settimeout(90)
            connection.sendall(content)
            began = time.monotonic()
            if read:
                while connection.recv(1000):
                    pass
            else:
                wait_until(lambda: _is_idle(server), 90, 0.2)
            closed[name] = time.monotonic() - began

    stream = json.dumps({**endless, "n": 32, "logprobs": 100}).encode()
    requests = {
        "nothing": b"",
        "half a header": b"GET /health HT",
        "half a body": _head(server, "Content-Length: 9") + b"{",
        "does not read": _head(server, f"Content-Length: {len(stream)}") + stream,
    }
    threads = [
        threading.Thread(target=wait, args=(name, content, name != "does not read"))
        for name, content in requests.items()
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 5 < closed["nothing"] < 20
    assert 5 < closed["half a header"] < 20
    assert 20 < closed["half a body"] < 45
    assert closed["does not read"] < 80
    wait_until(lambda: len(os.listdir(f"/proc/{server.process.pid}/fd")) <= descriptors)
