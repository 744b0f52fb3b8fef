"""Start and end of the server: socket, token, addresses, signals, shutdown."""

import asyncio
import contextlib
import ipaddress
import json
import logging
import os
import secrets
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn

from satchel import durable
from satchel.errors import MachineError, SettingsError
from satchel.web import limits
from satchel.web.app import Services, create_app
from satchel.web.catalogue import Catalogue
from satchel.web.context import ServerContext
from satchel.web.pool import Pool
from satchel.web.protocol import TimedProtocol
from satchel.web.security import Guard
from satchel.web.trainings import Trainings

TOKEN_VARIABLE = "SATCHEL_TOKEN"
SHORTEST_TOKEN = 16
LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")


@dataclass(frozen=True)
class Address:
    """Where the server listens, and the values of Host and Origin that it accepts."""

    host: str
    port: int
    allowed: tuple[str, ...] = ()  # further values of Host, such as the address of a proxy

    @property
    def url(self) -> str:
        """The URL for a client on this machine."""
        host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(self.host, self.host)
        return f"http://{_bracketed(host)}:{self.port}"

    @property
    def hosts(self) -> tuple[str, ...]:
        """Accepted values of the Host header."""
        names = dict.fromkeys((*LOOPBACK_NAMES, _bracketed(self.host).lower()))
        own = [f"{name}:{self.port}" for name in names]
        return (*own, *names, *self.allowed) if self.port == 80 else (*own, *self.allowed)

    @property
    def origins(self) -> tuple[str, ...]:
        """Accepted values of the Origin header."""
        return (
            *(f"http://{host}" for host in self.hosts),
            *(f"https://{host}" for host in self.allowed),
        )


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def read_token(*, is_remote: bool) -> str:
    """Return SATCHEL_TOKEN, or a new token; other machines are only served with the former."""
    token = os.environ.get(TOKEN_VARIABLE)
    if token is None:
        if is_remote:
            raise SettingsError(
                f"{TOKEN_VARIABLE} is not set, and the server would be reachable from other machines",
                f"set it to a secret of at least {SHORTEST_TOKEN} characters",
            )
        return secrets.token_urlsafe(32)
    if len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise SettingsError(
            f"{TOKEN_VARIABLE} is too short or has characters other than printable ASCII without spaces",
            f"set it to at least {SHORTEST_TOKEN} characters, or unset it",
        )
    return token


def check_host(host: str, *, allow_remote: bool) -> bool:
    """Return whether other machines can reach this address; raise an error if that is not allowed."""
    with contextlib.suppress(ValueError):
        if host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback:
            return False
    if not allow_remote:
        raise SettingsError(
            f"--host {host}: the server would be reachable from other machines",
            f"add --allow-remote and set {TOKEN_VARIABLE}; or use an SSH tunnel to 127.0.0.1",
        )
    return True


def bind(host: str, port: int) -> socket.socket:
    """Return a listening socket; raise an error if the address is not available."""
    name = host.strip("[]")
    where = f"{host}:{port}"
    listener: socket.socket | None = None
    try:
        family, _, _, _, address = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        # asyncio sets TCP_NODELAY only for sockets with this protocol; without it, responses are delayed by 40 ms.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        if os.name == "posix":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(limits.MAX_CONNECTIONS)
    except OSError as error:
        if listener is not None:
            listener.close()
        remedy = "choose another port with --port, or --port 0 for a free one"
        raise MachineError(f"cannot listen: {error.strerror or error}", remedy, where=where) from None
    listener.setblocking(False)
    return listener


@contextlib.contextmanager
def token_file(address: Address, token: str) -> Iterator[Path]:
    """Write URL, token and process id for programs of this user; remove the file at the end of the block."""
    folder = _runtime_folder()
    path = folder / f"server-{address.port}.json"
    content = json.dumps({"url": address.url, "token": token, "pid": os.getpid()}).encode()
    with durable.private_file(path, content):
        yield path


def _runtime_folder() -> Path:
    """Return the folder for files of running programs of this user, which no other user can read."""
    base = os.environ.get("XDG_RUNTIME_DIR")
    user = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
    folder = Path(base) / "satchel" if base and Path(base).is_dir() else Path(tempfile.gettempdir()) / f"satchel-{user}"
    durable.make_private_folder(folder)
    return folder


class Server(uvicorn.Server):
    """A server that ends open requests after SIGTERM or Ctrl-C, within a limited time."""

    def __init__(self, config: uvicorn.Config, guard: Guard, pool: Pool) -> None:
        super().__init__(config)
        self._guard, self._pool = guard, pool

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle signals for the duration of the block."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._drain)
        try:
            yield
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)

    def _drain(self) -> None:
        """Accept no further requests; end those that are open after DRAIN_SECONDS, at a second signal at once."""
        if self.should_exit:
            self.force_exit = True
            self._pool.stop()
            return
        self._guard.is_draining = self.should_exit = True
        asyncio.get_running_loop().call_later(limits.DRAIN_SECONDS, self._pool.stop)


def serve(
    listener: socket.socket,
    address: Address,
    token: str,
    catalogue: Catalogue,
    *,
    default_run: str | None = None,
    log: Callable[[dict[str, Any]], None] | None = None,
    on_start: Callable[[Path], None] = lambda path: None,
) -> None:
    """Answer requests until SIGTERM or SIGINT. `log` receives the facts of each request, `on_start` the token file."""
    logging.getLogger("uvicorn.error").disabled = True  # its tracebacks contain messages with text of users

    async def run() -> None:
        pool = Pool()
        trainings = Trainings(catalogue)
        services = Services(ServerContext(catalogue, trainings), pool, default_run)
        guard = Guard(create_app(services), token, address.hosts, address.origins, log)
        config = uvicorn.Config(
            guard,
            http=TimedProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            h11_max_incomplete_event_size=limits.MAX_HEADER,
            timeout_keep_alive=int(limits.KEEP_ALIVE_SECONDS),
            timeout_graceful_shutdown=int(limits.DRAIN_SECONDS) + 5,
            backlog=limits.MAX_CONNECTIONS,
        )
        starting = asyncio.create_task(pool.start())
        server = Server(config, guard, pool)
        with token_file(address, token) as path:
            on_start(path)
            try:
                await server.serve([listener])
            finally:
                starting.cancel()
                await asyncio.to_thread(trainings.close)
                await pool.close()

    asyncio.run(run())


def access_log(document: dict[str, Any]) -> None:
    """Print the facts of a request as a line of JSON."""
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    print(json.dumps({"time": stamp, **document}), file=sys.stderr, flush=True)
