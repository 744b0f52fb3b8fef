"""Windows: the part of a text that a model with a limited context reads."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from satchel.errors import SettingsError


@dataclass(frozen=True)
class Window:
    """Consecutive tokens of a text: `tokens` tokens from the position `start` on, of `total` tokens.

    Positions are counted from 0. The boundary before a text that a language model reads counts as a token.
    """

    start: int
    tokens: int
    total: int

    @property
    def stop(self) -> int:
        """Position after the last token."""
        return self.start + self.tokens

    @property
    def part(self) -> slice:
        """The window as a slice of the tokens of the text."""
        return slice(self.start, self.stop)

    @property
    def is_whole(self) -> bool:
        """Whether the window contains the whole text."""
        return self.tokens == self.total

    @property
    def notes(self) -> tuple[str, ...]:
        """A note for the user; empty if the window contains the whole text."""
        if self.is_whole:
            return ()
        used = f"tokens {self.start:,} to {self.stop - 1:,}" if self.tokens > 1 else f"token {self.start:,}"
        verb = "are" if self.tokens > 1 else "is"
        return (f"only {used} of {self.total:,} {verb} used (the first token is 0)",)

    def document(self) -> dict[str, int]:
        """Return the value of `window` in JSON."""
        return asdict(self)


def select_window(total: int, context: int | None, start: int | None = None) -> Window:
    """Return the last `context` tokens of a text of `total` tokens, or the `context` tokens from `start` on.

    Without a context there is no limit.
    """
    longest = total if context is None else min(total, context)
    if start is None:
        return Window(total - longest, longest, total)
    if not 0 <= start < total:
        raise SettingsError(f"--start {start:,}: expected 0 to {total - 1:,}, a token of the text")
    return Window(start, min(longest, total - start), total)


def refuse_start(start: int | None) -> None:
    """Raise an error if a window is selected for a translator."""
    if start is not None:
        raise SettingsError(
            f"--start {start}: a translator reads source and translation from their start", "omit it, or split the text"
        )


def whole_window(total: int) -> Window:
    """Return the window that contains a whole text."""
    return Window(0, total, total)


def pair_notes(source: Window | None, target: Window) -> tuple[str, ...]:
    """Return the notes on the windows of a source and its translation; without a source, of a text."""
    if source is None:
        return target.notes
    named = {"source": source, "translation": target}
    return tuple(f"{name}: {note}" for name, window in named.items() for note in window.notes)


def pair_documents(source: Window | None, target: Window) -> dict[str, dict[str, int]]:
    """Return the windows as fields of JSON: `window`, and for a translation `source_window`."""
    return {"window": target.document(), **({} if source is None else {"source_window": source.document()})}


@dataclass(frozen=True)
class Reading:
    """The number of `tokens` of a text, and of the `windows` of `context` tokens in which a model reads them."""

    tokens: int
    windows: int = 1
    context: int | None = None

    @property
    def is_whole(self) -> bool:
        """Whether the text is read at once."""
        return self.windows == 1

    def note(self, text: str, consequence: str) -> str:
        """Return a note about a text that is read in windows, which states the consequence; empty for other texts."""
        if self.is_whole:
            return ""
        return (
            f"{text[:40]!r}... has {self.tokens:,} tokens, more than the context of {self.context:,}, and is read in"
            f" {self.windows:,} windows: {consequence}"
        )


def truncation_notes(windows: Sequence[Window]) -> tuple[str, ...]:
    """Return a note on the number of texts that are not used as a whole; empty if all of them are."""
    if len(windows) == 1:
        return windows[0].notes
    parts = [window for window in windows if not window.is_whole]
    if not parts:
        return ()
    longest = max(window.tokens for window in parts)
    texts = f"{len(parts):,} of {len(windows):,} texts {'has' if len(parts) == 1 else 'have'}"
    is_last = all(window.stop == window.total for window in parts)
    used = f"the last {longest:,} of each" if is_last else f"{longest:,} tokens from token {parts[0].start:,} on"
    return (f"{texts} more than {longest:,} tokens: {used} are used",)
