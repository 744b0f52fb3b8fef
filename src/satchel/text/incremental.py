"""Incremental decoding: the text of ids that arrive one by one."""

import codecs

from satchel.text.display import SPECIAL
from satchel.text.tokenizer import BYTE_LEVEL, Tokenizer


class IncrementalDecoder:
    """Decodes ids one by one to the text that `Tokenizer.decode_after` returns for all of them.

    Each id adds the characters that later ids cannot change: an incomplete UTF-8 character is held back. One exception:
    an imported tokenizer with byte fallback replaces a whole run of bytes if one of them is invalid, and characters of
    the run that have been returned are not replaced.
    """

    def __init__(self, tokenizer: Tokenizer, prompt: str = "") -> None:
        self._tokenizer, self._prompt = tokenizer, prompt
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._ids: list[int] = []  # only of tokenizers whose tokens are not decoded independently
        self._length = 0  # number of characters returned so far

    def add(self, id_: int) -> str:
        """Return the new characters."""
        tokenizer = self._tokenizer
        if not 0 <= id_ < tokenizer.size:
            return ""
        if tokenizer.kind in BYTE_LEVEL:
            text = self._utf8.decode(tokenizer.bytes_of(id_))
        elif tokenizer.kind in ("char", "word"):
            text = SPECIAL["unknown"] if id_ == tokenizer.unknown else tokenizer.spellings[id_]
            is_first_of_text = not self._length and (not self._prompt or self._prompt[-1].isspace())
            if tokenizer.kind == "word" and not is_first_of_text:
                text = " " + text
        else:
            self._ids.append(id_)
            text = tokenizer.decode_after(self._prompt, self._ids)[self._length :].rstrip("\ufffd")
        self._length += len(text)
        return text

    def finish(self) -> str:
        """Return the characters held back; incomplete ones are replaced by U+FFFD."""
        if self._ids:
            return self._tokenizer.decode_after(self._prompt, self._ids)[self._length :]
        return self._utf8.decode(b"", final=True)
