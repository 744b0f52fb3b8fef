"""HTTP/1.1 connections with time limits: slow or silent clients are disconnected."""

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from satchel.web import limits


class TimedProtocol(H11Protocol):
    """A connection that is closed if the header of a request, or the client's reading of a response, takes too long."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._header_timer: asyncio.TimerHandle | None = None
        self._send_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start to wait for the first header, or close a connection in excess."""
        super().connection_made(transport)
        if len(self.connections) > limits.MAX_CONNECTIONS:
            transport.close()
            return
        self._watch_header()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timers."""
        self._stop_header_timer()
        self._stop_send_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Handle data, and wait for the rest of a header."""
        super().data_received(data)
        self._watch_header()

    def _watch_header(self) -> None:
        """Start the timer while a header is incomplete; stop it when a request is being answered."""
        is_incomplete = self.cycle is None or self.cycle.response_complete
        if not is_incomplete:
            self._stop_header_timer()
        elif self._header_timer is None and not self.transport.is_closing():
            self._header_timer = self.loop.call_later(limits.HEADER_SECONDS, self.transport.abort)

    def _stop_header_timer(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def pause_writing(self) -> None:
        """Start to wait for the client, whose buffers are full."""
        super().pause_writing()
        self._stop_send_timer()
        self._send_timer = self.loop.call_later(limits.SEND_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """Continue to write."""
        self._stop_send_timer()
        super().resume_writing()

    def _stop_send_timer(self) -> None:
        if self._send_timer is not None:
            self._send_timer.cancel()
            self._send_timer = None
