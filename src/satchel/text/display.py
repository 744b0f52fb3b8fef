"""Text for a terminal: control and invisible characters are escaped, so they cannot move the cursor or hide text."""

import unicodedata

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
