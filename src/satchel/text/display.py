"""Display of text and tokens.

Control and invisible characters are escaped, so they cannot move the cursor or hide text. Tokens that are not text are
displayed by name: the document boundary as `<start>` in a context and as `<end>` otherwise, and the unknown token as
`<unk>`. A token of text with the same spelling has no role, and a terminal or figure shows it with a backslash.
"""

import json
import math
import re
import shlex
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

ESCAPES = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}
SPACE = "␣"
# Escapes in displayed text; a backslash precedes text that is spelled like a special token.
ESCAPED = re.compile(
    rf"\\(?:[ntr]|x(?P<byte>[0-9a-f]{{2}})|u\{{(?P<code>[0-9a-f]{{1,6}})\}}|(?=<(?:start|end|unk)>))|{SPACE}"
)
# Unicode categories of control, format (bidirectional, joining, zero-width), surrogate, private-use, unassigned,
# line-separator and paragraph-separator characters.
INVISIBLE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


# Role of a token that is not text, and its display.
Role = Literal["start", "end", "unknown"]
SPECIAL: dict[Role, str] = {"start": "<start>", "end": "<end>", "unknown": "<unk>"}
# Fields of JSON documents that contain tokens or words.
TOKEN_FIELDS = frozenset({"tokens", "words", "targets", "source", "target", "versus", "rows", "columns", "said"})


class Token(str):
    """The text of a token, with its id and its role: `start`, `end`, `unknown`, or None for a token of text.

    `is_word` states that the tokenizer drops the spaces between tokens.
    """

    __slots__ = ("id", "is_word", "role")
    id: int
    role: Role | None
    is_word: bool

    def __new__(cls, text: str, id_: int = -1, role: Role | None = None, is_word: bool = False) -> "Token":
        token = super().__new__(cls, text)
        token.id, token.role, token.is_word = id_, role, is_word
        return token

    def strip(self, characters: str | None = None, /) -> "Token":
        """Return the token without white space around its text."""
        return Token(super().strip(characters), self.id, self.role, self.is_word)


def role_of(token: str | None) -> Role | None:
    """Return the role of a token; None for other text."""
    return token.role if isinstance(token, Token) else None


def separator(tokens: Sequence[str]) -> str:
    """Return the text between two tokens or words of a running text: a space if they do not contain the spaces."""
    known = [token for token in tokens if isinstance(token, Token)]
    if known:
        return " " if any(token.is_word for token in known) else ""
    return "" if any(letter.isspace() for token in tokens for letter in token) else " "


def with_roles(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a JSON document, each list of tokens followed by the list of their roles.

    `token_roles` are the roles of `tokens`, `source_roles` those of `source`, and `target_role` that of one `target`.
    """
    document: dict[str, Any] = {}
    for name, value in fields.items():
        document[name] = value
        if name in TOKEN_FIELDS:
            suffix = "role" if value is None or isinstance(value, str) else "roles"
            document[f"{name.removesuffix('s') if suffix == 'roles' else name}_{suffix}"] = _roles(value)
    return document


def _roles(value: Any) -> Any:
    return role_of(value) if value is None or isinstance(value, str) else [_roles(each) for each in value]


def visible(text: str, spaces: bool = False) -> str:
    """Return the text on one line with invisible characters escaped; `spaces` also replaces spaces by a symbol."""
    is_special_spelling = isinstance(text, Token) and text.role is None and text in SPECIAL.values()
    return "\\" * is_special_spelling + "".join(_escape(character, spaces) for character in text)


def unescaped(text: str) -> list[bytes]:
    """Return the texts, as UTF-8, that `visible` may have displayed like this; empty if there are no escapes.

    `\\xNN` is a byte of a token that is not valid UTF-8, or an invisible character.
    """
    if not ESCAPED.search(text):
        return []
    characters = {mark: character for character, mark in ESCAPES.items()}

    def replaced(as_byte: bool) -> bytes:
        def character(match: re.Match[str]) -> str:
            byte, code = match["byte"], match["code"]
            if byte is None and code is None:
                return characters.get(match[0], " " if match[0] == SPACE else match[0][1:])
            number = int(byte or code, 16)
            # Python decodes an invalid byte NN to the surrogate U+DCNN, and encodes that to the byte again.
            return chr(0xDC00 + number if byte and as_byte and number > 0x7F else min(number, 0x10FFFF))

        return ESCAPED.sub(character, text).encode("utf-8", "surrogateescape" if as_byte else "surrogatepass")

    return list(dict.fromkeys([replaced(as_byte=True), replaced(as_byte=False)]))


def safe(text: str) -> str:
    """Return text of several lines with invisible characters escaped, except newlines and tabs."""
    return "".join(character if character in "\n\t" else _escape(character, False) for character in text)


def _escape(character: str, spaces: bool) -> str:
    if character == " " and spaces:
        return SPACE
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


def finite(value: Any) -> Any:
    """Return a JSON value in which numbers that are not finite are replaced by null."""
    if isinstance(value, Mapping):
        return {str(key): finite(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


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
