"""Stop conditions of a continuation. Each reads the continuation token by token and returns why it ends, or None."""

from collections.abc import Sequence
from typing import Literal, Protocol

Finish = Literal["length", "stop", "end"]


class StopCondition(Protocol):
    """Ends a continuation."""

    def __call__(self, id_: int, text: str) -> Finish | None:
        """Return the reason if the continuation ends with this token, which adds `text` to it."""


class EndOfDocument:
    """Ends a continuation at the boundary id, which is not part of it."""

    def __init__(self, boundary: int) -> None:
        self._boundary = boundary

    def __call__(self, id_: int, text: str) -> Finish | None:
        """Return `end` at the boundary."""
        return "end" if id_ == self._boundary else None


class TokenLimit:
    """Ends a continuation after a number of tokens."""

    def __init__(self, tokens: int) -> None:
        self._remaining = tokens

    def __call__(self, id_: int, text: str) -> Finish | None:
        """Return `length` at the last token."""
        self._remaining -= 1
        return "length" if self._remaining <= 0 else None


class StopStrings:
    """Ends a continuation before the first complete stop string, whose text may be divided among tokens.

    If several are complete at the same character, the longest is used, so the text does not depend on the division into
    tokens. `released` is the text that cannot belong to a stop string; the rest is held back.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = [stop for stop in stops if stop]
        self._held = ""
        self.released: list[str] = []

    def __call__(self, id_: int, text: str) -> Finish | None:
        """Return `stop` if a stop string is complete."""
        self._held += text
        ends = [(start + len(stop), start) for stop in self._stops if (start := self._held.find(stop)) >= 0]
        if ends:
            _, start = min(ends)
            self._release(start)
            self._held = ""
            return "stop"
        lengths = (n for stop in self._stops for n in range(1, len(stop)) if self._held.endswith(stop[:n]))
        self._release(len(self._held) - max(lengths, default=0))
        return None

    def finish(self, text: str = "") -> None:
        """Release the text held back, and the last characters of the continuation."""
        self._held += text
        self._release(len(self._held))

    def _release(self, length: int) -> None:
        if length:
            self.released.append(self._held[:length])
            self._held = self._held[length:]
