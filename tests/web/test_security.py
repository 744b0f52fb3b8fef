"""Access control: every route with every kind of refused request, token, headers, binding, traversal."""

import json
import os
import re
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from satchel.web import limits
from satchel.web.security import MAX_FAILURES, PUBLIC
from satchel.web.static_files import FILES
from tests.cli.conftest import SATCHEL
from tests.web import client
from tests.web.client import TOKEN, Server

FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@pytest.fixture(scope="module")
def routes(server: Server) -> list[tuple[str, str]]:
    """(method, path) of every route of the application, from the router itself; those of files are not documented."""
    from satchel.web.app import Services, create_app
    from satchel.web.app import routes as routes_of
    from satchel.web.catalogue import Catalogue
    from satchel.web.context import ServerContext
    from satchel.web.pool import Pool
    from satchel.web.trainings import Trainings

    catalogue = Catalogue(Path("absent"), [], [])
    app = create_app(Services(ServerContext(catalogue, Trainings(catalogue)), Pool(), None))
    documented = {
        (method.upper(), path)
        for path, methods in server.get("/openapi.json").json["paths"].items()
        for method in methods
    }
    all_routes = [(method, path.replace(":path}", "}")) for method, path in routes_of(app)]
    assert documented == {route for route in all_routes if route[1] not in FILES}
    return [(method, path.replace("{model}", "lstm")) for method, path in all_routes]


def _private(routes: list[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    assert len(routes) > 10
    yield from (route for route in routes if route[1] not in PUBLIC)
    yield from (
        ("GET", "/absent"),
        ("GET", "/static/absent.js"),
        ("OPTIONS", "/v1/models"),
        ("HEAD", "/v1/models"),
        ("PUT", "/v1/models"),
    )


@pytest.mark.parametrize("token", [None, "", "wrong", TOKEN[:-1], f"{TOKEN}x", TOKEN.upper()])
def test_no_route_answers_without_the_token(server: Server, routes: list[tuple[str, str]], token: str | None) -> None:
    for method, path in _private(routes):
        reply = server.send(method, path, {} if method == "POST" else None, token=token)
        assert reply.status in (401, 429), (method, path)


def test_other_schemes_and_places_of_the_token_are_refused(server: Server) -> None:
    for headers in ({"Authorization": TOKEN}, {"Authorization": f"Basic {TOKEN}"}, {"Cookie": f"token={TOKEN}"}):
        assert server.get("/v1/models", token=None, headers=headers).status in (401, 429)
    assert server.get(f"/v1/models?token={TOKEN}", token=None).status in (401, 429)
    twice = f"GET /v1/models HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n" + f"Authorization: Bearer {TOKEN}\r\n" * 2
    assert client.raw(server.port, f"{twice}\r\n".encode()).startswith(b"HTTP/1.1 4")


HOSTS = [
    "", "evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example:{port}",
    "[::]:{port}", "0.0.0.0:{port}", "127.0.0.1:{port}@evil.example", "127.0.0.1:{port}.",
]  # fmt: skip


@pytest.mark.parametrize("host", HOSTS)
def test_no_route_answers_for_another_host(server: Server, routes: list[tuple[str, str]], host: str) -> None:
    for method, path in {*_private(routes), *routes}:
        body: Any = {} if method == "POST" else None
        reply = server.send(method, path, body, headers={"Host": host.format(port=server.port)})
        assert reply.status in (400, 403), (method, path)


def test_a_missing_or_repeated_host_is_refused(server: Server) -> None:
    own = f"Host: 127.0.0.1:{server.port}\r\n"
    for headers in ("", own * 2, f"{own}Host: evil.example\r\n"):
        answer = client.raw(server.port, f"GET /health HTTP/1.1\r\n{headers}Connection: close\r\n\r\n".encode())
        assert re.match(rb"HTTP/1.1 40[03] ", answer), headers


@pytest.mark.parametrize("origin", ["null", "", "https://evil.example", "http://127.0.0.1", "http://localhost:1",
                                    "https://127.0.0.1:{port}", "http://127.0.0.1:{port}.evil.example"])  # fmt: skip
def test_no_route_answers_for_another_origin(server: Server, routes: list[tuple[str, str]], origin: str) -> None:
    for method, path in {*_private(routes), *routes}:
        body: Any = {} if method == "POST" else None
        reply = server.send(method, path, body, headers={"Origin": origin.format(port=server.port)})
        assert reply.status == 403, (method, path)
        assert not any(name.startswith("access-control") for name in reply.headers)


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "[::1]", "LOCALHOST"])
def test_the_names_of_this_machine_are_accepted(server: Server, name: str) -> None:
    address = f"{name}:{server.port}"
    for headers in ({"Host": address}, {"Host": address, "Origin": f"http://{name.lower()}:{server.port}"}):
        assert server.get("/v1/models", headers=headers).status == 200


@pytest.mark.parametrize("content_type", [*FORM.values(), "text/plain", "multipart/form-data; boundary=a", ""])
def test_no_route_reads_forms(server: Server, routes: list[tuple[str, str]], content_type: str) -> None:
    for method, path in routes:
        if method == "POST":
            reply = server.send(method, path, b'{"model": "lstm"}', headers={"Content-Type": content_type})
            assert reply.status == 415, path


def test_wrong_tokens_are_throttled_and_the_right_one_still_works(root: Path, tmp_path: Path) -> None:
    server = client.start(tmp_path, "--root", root / "runs")
    try:
        statuses = [server.get("/v1/models", token=f"wrong-{number}").status for number in range(MAX_FAILURES + 30)]
        assert statuses == [401] * MAX_FAILURES + [429] * 30
        assert server.get("/v1/models").status == 200
    finally:
        server.stop()


HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


def test_every_response_has_the_security_headers(server: Server, routes: list[tuple[str, str]]) -> None:
    for method, path in [*routes, ("GET", "/absent"), ("PUT", "/v1/models")]:
        for token in (TOKEN, None):
            reply = server.send(method, path, {} if method == "POST" else None, token=token)
            assert {name: reply.headers.get(name) for name in HEADERS} == HEADERS, (method, path)
            policy = reply.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "frame-ancestors 'none'" in policy
            assert "server" not in reply.headers


def test_the_health_route_returns_its_status_only(server: Server) -> None:
    assert server.get("/health", token=None).json == {"status": "ok"}


def test_pages_that_load_from_other_hosts_are_off(server: Server) -> None:
    assert [server.get(path).status for path in ("/docs", "/redoc", "/docs/oauth2-redirect")] == [404] * 3


def test_web_sockets_are_refused(server: Server) -> None:
    request = (
        f"GET /v1/models HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    assert client.raw(server.port, request.encode()).startswith(b"HTTP/1.1 401 ")


TRAVERSAL = [
    "..", "../", "../../etc/passwd", "..%2f..%2fetc", "%2e%2e/", "..\\..\\windows", "....//....//etc", "/etc/passwd",
    "//etc/passwd", "C:\\windows", "\\\\server\\share", "lstm/../../served", "lstm\x00", "lstm%00", "./lstm", "lstm/",
    "lstm/.", "runs-evil", "~root", "-o", "file:///etc/passwd", "@model:../lstm", "@model:/etc", "lstm/checkpoints",
    "..;/", "\u2025/", "..%c0%af", "lstm\n",
]  # fmt: skip


@pytest.mark.parametrize("name", TRAVERSAL)
def test_ids_are_not_paths(server: Server, name: str) -> None:
    assert server.post("/v1/completions", {"model": name, "prompt": "a"}).status == 404
    assert server.post("/tokenize", {"model": name, "prompt": "a"}).status == 404
    assert server.post("/api/generate", {"run": name}).status == 404


# --- start of the server --------------------------------------------------------------------------------


def _serve(*arguments: object, folder: Path, **env: str) -> tuple[int, str]:
    """Return the exit code and the messages of a server that cannot start."""
    environment = {**os.environ, **env}
    if "SATCHEL_TOKEN" not in env:
        environment.pop("SATCHEL_TOKEN", None)
    command = [*SATCHEL, "serve", *map(str, arguments)]
    result = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    return result.returncode, result.stderr


def test_other_addresses_need_a_flag_and_a_token(tmp_path: Path) -> None:
    code, messages = _serve("--host", "0.0.0.0", "--port", 0, folder=tmp_path)
    assert (code, "--allow-remote" in messages) == (2, True)
    code, messages = _serve("--host", "0.0.0.0", "--port", 0, "--allow-remote", folder=tmp_path)
    assert (code, "SATCHEL_TOKEN is not set" in messages) == (2, True)
    code, messages = _serve("--port", 0, folder=tmp_path, SATCHEL_TOKEN="short")
    assert (code, "too short" in messages) == (2, True)


def test_an_occupied_port_is_named(server: Server, tmp_path: Path) -> None:
    code, messages = _serve("--port", server.port, folder=tmp_path, SATCHEL_TOKEN=TOKEN)
    assert code == 2
    assert f"127.0.0.1:{server.port}" in messages
    assert "--port 0" in messages


@pytest.mark.parametrize(
    "arguments", [("--host", "192.0.2.1", "--allow-remote"), ("--host", "no such host", "--allow-remote")]
)
def test_an_address_that_is_not_available_is_named(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    code, messages = _serve(*arguments, "--port", 0, folder=tmp_path, SATCHEL_TOKEN=TOKEN)
    assert (code, "cannot listen" in messages, "Traceback" in messages) == (2, True, False)


def test_a_token_file_that_others_could_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "satchel").mkdir()
    (tmp_path / "satchel").chmod(0o755)
    code, messages = _serve("--port", 0, folder=tmp_path, SATCHEL_TOKEN=TOKEN, XDG_RUNTIME_DIR=str(tmp_path))
    assert (code, "other users can read" in messages, "Traceback" in messages) == (2, True, False)


def test_an_allowed_host_is_accepted_beside_the_own_ones(root: Path, tmp_path: Path) -> None:
    server = client.start(tmp_path, "--root", root / "runs", "--allow-host", "hub.example")
    try:
        proxied = {"Host": "hub.example", "Origin": "https://hub.example"}
        assert server.get("/v1/models", headers=proxied).status == 200
        assert server.get("/v1/models").status == 200
        for headers in ({**proxied, "Origin": "https://evil.example"}, {"Host": "x.hub.example"}):
            assert server.get("/v1/models", headers=headers).status == 403
    finally:
        server.stop()


def test_a_link_out_of_the_folder_of_runs_is_not_followed(root: Path, tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "link").symlink_to(root / "runs" / "lstm")
    (tmp_path / "runs" / "all").symlink_to(root / "runs")
    server = client.start(tmp_path, "--root", tmp_path / "runs")
    try:
        assert server.get("/v1/models").json["data"] == []
        for name in ("link", "all/lstm"):
            assert server.post("/v1/completions", {"model": name, "prompt": "a"}).status == 404
    finally:
        server.stop()


def test_the_server_listens_on_loopback_only(server: Server) -> None:
    listening = [
        line.split()[1]
        for name in ("/proc/net/tcp", "/proc/net/tcp6")
        for line in Path(name).read_text().splitlines()[1:]
        if line.split()[3] == "0A" and line.split()[1].endswith(f":{server.port:04X}")
    ]
    assert listening == [f"0100007F:{server.port:04X}"]


def test_a_new_token_is_made_at_each_start_and_kept_private(root: Path, tmp_path: Path) -> None:
    tokens = []
    for _ in range(2):
        server = client.start(tmp_path, "--root", root / "runs", token=None)
        try:
            tokens.append(server.token)
            assert server.get("/v1/models", token=server.token).status == 200
            (path,) = (tmp_path / "runtime").rglob(f"server-{server.port}.json")
            assert json.loads(path.read_text())["token"] == server.token
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
            arguments = Path(f"/proc/{server.process.pid}/cmdline").read_bytes()
            workers = b"".join(
                Path(f"/proc/{pid}/{name}").read_bytes() for pid in server.workers() for name in ("cmdline", "environ")
            )
            assert server.token.encode() not in arguments + workers
            server.get("/v1/models", token="wrong")
        finally:
            assert server.stop() == 0
        assert not path.exists()
        assert server.token not in server.log.read_text().replace("API key: the token", "")
    assert len(set(tokens)) == 2
    assert all(len(token) * 6 >= 256 for token in tokens)


def test_the_log_contains_neither_texts_nor_tokens(root: Path, tmp_path: Path) -> None:
    server = client.start(tmp_path, "--root", root / "runs")
    try:
        server.complete(model="ngram", prompt="zebra crossing", max_tokens=3)
        server.post("/v1/completions", {"model": "ngram", "prompt": "zebra", "stop": ["zebra"] * 9})
        server.get("/v1/models/zebra?text=zebra")
        server.get("/zebra", token="wrong-zebra")
    finally:
        server.stop()
    lines = [json.loads(line) for line in server.log.read_text().splitlines() if line.startswith("{")]
    assert [(line["route"], line["status"]) for line in lines[-4:]] == [
        ("/v1/completions", 200),
        ("/v1/completions", 400),
        ("/v1/models/{model:path}", 404),
        (None, 401),
    ]
    assert "zebra" not in server.log.read_text()
    assert TOKEN not in server.log.read_text()


def test_limits_are_documented(server: Server) -> None:
    table = server.get("/limits").json
    assert table["server"]["max_body"] == limits.MAX_BODY
    schema = server.get("/openapi.json").json["components"]["schemas"]["CompletionRequest"]["properties"]["temperature"]
    assert schema["anyOf"][0]["maximum"] == table["fields"]["temperature"]["maximum"]
