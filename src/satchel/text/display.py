"""Text as a terminal can show it: nothing invisible, nothing that moves the cursor."""

import unicodedata

NAMED = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}
# Characters that change the direction of what follows, join, or have no width, are all of these categories.
INVISIBLE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def visible(text: str, spaces: bool = False) -> str:
    """Return the text with what cannot be seen spelled out; `spaces` makes spaces visible too."""
    return "".join(_shown(character, spaces) for character in text)


def _shown(character: str, spaces: bool) -> str:
    if character == " " and spaces:
        return "␣"
    if character in NAMED:
        return NAMED[character]
    if unicodedata.category(character) in INVISIBLE:
        code = ord(character)
        return f"\\x{code:02x}" if code < 0x100 else f"\\u{{{code:x}}}"
    return character


def safe(text: str) -> str:
    """Return text of several lines for a terminal: newlines and tabs work, the rest is spelled out."""
    return "".join(character if character in "\n\t" else _shown(character, False) for character in text)
