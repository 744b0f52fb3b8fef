"""Text for a terminal: control and invisible characters are escaped, so they cannot move the cursor or hide text."""

import json
import shlex
import unicodedata
from collections.abc import Callable
from pathlib import Path

ESCAPES = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}
# Unicode categories of control, format (bidirectional, joining, zero-width), surrogate, private-use, unassigned,
# line-separator and paragraph-separator characters.
INVISIBLE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def visible(text: str, spaces: bool = False) -> str:
    """Return the text on one line with invisible characters escaped; `spaces` also replaces spaces by a symbol."""
    return "".join(_escape(character, spaces) for character in text)


def safe(text: str) -> str:
    """Return text of several lines with invisible characters escaped, except newlines and tabs."""
    return "".join(character if character in "\n\t" else _escape(character, False) for character in text)


def _escape(character: str, spaces: bool) -> str:
    if character == " " and spaces:
        return "␣"
    if character in ESCAPES:
        return ESCAPES[character]
    if unicodedata.category(character) in INVISIBLE:
        code = ord(character)
        return f"\\x{code:02x}" if code < 0x100 else f"\\u{{{code:x}}}"
    return character


def json_text(value: object, *, indent: int | None = None) -> str:
    """Return a value as JSON, with invisible characters escaped; reading it returns the same value."""
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    # Such characters occur in strings only, except newlines and spaces between the values.
    return _replace(text, _json_escape, keep="\n")


def quoted(name: str | Path) -> str:
    """Return a path as one word of a shell command, which can be copied from the terminal.

    Names with invisible characters are written as `$'...'`, which bash and zsh read.
    """
    text = str(name)
    if not any(unicodedata.category(character) in INVISIBLE for character in text):
        return shlex.quote(text)
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"$'{_replace(escaped, _shell_escape)}'"


def _replace(text: str, escape: Callable[[int], str], *, keep: str = "") -> str:
    """Return the text with `escape` applied to the code of each invisible character outside `keep`."""
    invisible = (each for each in set(text) - set(keep) if unicodedata.category(each) in INVISIBLE)
    return text.translate({ord(each): escape(ord(each)) for each in invisible})


def _json_escape(code: int) -> str:
    units = [code] if code < 0x10000 else [0xD7C0 + (code >> 10), 0xDC00 + (code & 0x3FF)]
    return "".join(f"\\u{unit:04x}" for unit in units)


def _shell_escape(code: int) -> str:
    if 0xDC80 <= code <= 0xDCFF:  # a byte of a file name that is not UTF-8
        return f"\\x{code - 0xDC00:02x}"
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
