"""Words of a text: each consists of one or more consecutive tokens."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from satchel.text.tokenizer import Tokenizer
from satchel.text.windows import Window

# Characters inside words, besides letters and digits. The backslash starts an escaped byte such as \xe2.
WORD_CHARACTERS = "'\u2019_\\"


@dataclass(frozen=True)
class Word:
    """A word of a text, and the range of its tokens: `start` to `stop` (exclusive)."""

    text: str
    start: int
    stop: int

    def inside(self, window: Window) -> "Word":
        """Return the word with the range of its tokens inside a window, counted from the start of the window."""
        return Word(self.text, max(0, self.start - window.start), min(window.tokens, self.stop - window.start))


def words_of(tokenizer: Tokenizer, ids: Sequence[int], *, as_context: bool = False) -> list[Word]:
    """Return the words of a text in order; each token belongs to one word. Punctuation marks are separate words.

    With `as_context`, a boundary is the start of a document instead of its end.
    """
    if not len(ids):
        return []
    texts = tokenizer.tokens_of(ids, as_context=as_context)
    starts = [position for position in range(1, len(ids)) if _starts_word(tokenizer, ids, texts, position)]
    return [
        Word(texts[start] if stop - start == 1 else tokenizer.decode(ids[start:stop]), start, stop)
        for start, stop in pairwise([0, *starts, len(ids)])
    ]


def _starts_word(tokenizer: Tokenizer, ids: Sequence[int], texts: Sequence[str], position: int) -> bool:
    """Return whether the token at a position starts a word."""
    special = (tokenizer.boundary, tokenizer.unknown)
    if tokenizer.kind == "word" or ids[position] in special or ids[position - 1] in special:
        return True
    before, after = texts[position - 1][-1:], texts[position][:1]
    is_inside = [character.isalnum() or character in WORD_CHARACTERS for character in (before, after)]
    return after.isspace() or before.isspace() or is_inside[0] != is_inside[1]


def word_ids(tokenizer: Tokenizer, word: str) -> list[int]:
    """Return the tokens of a word inside a sentence; BPE and unigram tokens include the space before the word."""
    needs_space = tokenizer.kind in ("bpe", "unigram") and not word[:1].isspace()
    return [int(id_) for id_ in tokenizer.encode(f" {word}" if needs_space else word).ids]
