"""A browser for tests of the workbench."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from playwright.sync_api import Browser, Page, Request, expect

from tests.web.client import Server

# The first request to a model waits for the start of a worker process, on a busy machine for a while.
SECONDS = 20.0
expect.set_options(timeout=SECONDS * 1000)


@dataclass
class Log:
    """What happened in a page: messages of the console, errors, and requests to other hosts."""

    problems: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


class Workbench:
    """The workbench of a server in a tab of a browser."""

    def __init__(self, page: Page, server: Server) -> None:
        self.page, self.server = page, server

    def open(self, path: str = "models", **fields: Any) -> Page:
        """Open a page with fields of the address."""
        query = urlencode({name: str(value) for name, value in fields.items()}).replace("+", "%20")
        if not self.page.url.startswith(self.server.url):
            self.page.goto(f"{self.server.url}/#token={self.server.token}")
            expect(self.page.get_by_role("heading", name="Models", exact=True)).to_be_visible()
        self.page.evaluate("address => { location.hash = address; }", f"#/{path}{'?' if query else ''}{query}")
        return self.page

    def text(self, text: str, **options: Any) -> None:
        """Wait until a text is visible."""
        expect(self.page.get_by_text(text, **options).first).to_be_visible()


@contextmanager
def tab(browser: Browser, server: Server, **options: Any) -> Iterator[tuple[Page, Log]]:
    """Open a tab that logs problems and requests."""
    context = browser.new_context(viewport={"width": 1400, "height": 900}, **options)
    page = context.new_page()
    page.set_default_timeout(SECONDS * 1000)
    log = Log()

    def note_request(request: Request) -> None:
        log.requests.append(request.url)
        if not request.url.startswith((f"{server.url}/", "data:", "blob:")):
            log.problems.append(f"request to {request.url}")

    page.on("request", note_request)
    page.on("pageerror", lambda error: log.problems.append(str(error)))
    page.on("console", lambda message: log.problems.append(message.text) if message.type == "error" else None)
    try:
        yield page, log
    finally:
        context.close()


def number_in(text: str | None) -> float:
    """Return the first number of a text."""
    found = re.search(r"[−-]?\d+(\.\d+)?", text or "")
    assert found is not None, text
    return float(found.group().replace("−", "-"))
