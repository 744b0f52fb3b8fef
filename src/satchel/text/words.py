"""Words of a text, from its tokens: several tokens may be one word."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from satchel.text.tokenizer import Tokenizer

# Kinds of tokenizers whose tokens are words already.
WHOLE = ("word",)
# Besides letters and digits these stand inside words; the last begins the spelling of a byte that is no character.
INSIDE = "'\u2019_\\"


@dataclass(frozen=True)
class Word:
    """A word of a text as it stands there, and its tokens: `start` to `stop`."""

    text: str
    start: int
    stop: int


def words_of(tokenizer: Tokenizer, ids: Sequence[int]) -> list[Word]:
    """Return the words of a text, in order: every token belongs to one. Punctuation is a word of its own."""
    if not len(ids):
        return []
    texts = [tokenizer.text_of(int(id_)) for id_ in ids]
    starts = [0, *(place for place in range(1, len(ids)) if _begins(tokenizer, ids, texts, place)), len(ids)]
    found = []
    for start, stop in pairwise(starts):
        is_one = stop - start == 1
        text = texts[start] if is_one else tokenizer.decode(ids[start:stop])
        found.append(Word(text, start, stop))
    return found


def _begins(tokenizer: Tokenizer, ids: Sequence[int], texts: Sequence[str], place: int) -> bool:
    """Return whether a word begins at a place."""
    special = (tokenizer.boundary, tokenizer.unknown)
    if tokenizer.kind in WHOLE or ids[place] in special or ids[place - 1] in special:
        return True
    before, after = texts[place - 1][-1:], texts[place][:1]
    return after.isspace() or before.isspace() or _is_inside(before) != _is_inside(after)


def _is_inside(character: str) -> bool:
    return character.isalnum() or character in INSIDE


def word_ids(tokenizer: Tokenizer, word: str) -> list[int]:
    """Return the tokens of a word as it stands inside a sentence: with the space before it where tokens have that."""
    has_spaces = tokenizer.kind in ("bpe", "unigram") and not word[:1].isspace()
    return [int(id_) for id_ in tokenizer.encode(f" {word}" if has_spaces else word).ids]
