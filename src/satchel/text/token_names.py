"""Tokens named by users: by a word, by their text, by their displayed form or by their id."""

import re
from collections.abc import Sequence

from satchel.errors import DataError, SettingsError
from satchel.text.display import SPECIAL, Token, unescaped
from satchel.text.tokenizer import Tokenizer


def next_token(
    tokenizer: Tokenizer, target: str | int, notes: list[str], *, follows_space: bool = False, single: bool = False
) -> int:
    """Return the id of a target: a token id, a token as returned or displayed by `next`, or the first of a word.

    Text is compared with the tokens in this order: with a space before it (unless it follows one), without it, and with
    escapes such as `\\n` or `␣` replaced. `id:N` is the token N. Appends notes to `notes` if the text has several
    tokens or equals several tokens; with `single`, raises an error if it has several.
    """
    if isinstance(target, Token) and target.id >= 0:
        return target.id
    number = re.fullmatch(r"id:([0-9]{1,9})", target) if isinstance(target, str) else None
    if number is not None or not isinstance(target, str):
        id_ = int(number[1]) if number is not None else int(target)
        if not 0 <= id_ <= tokenizer.boundary:
            raise SettingsError(f"token id {id_} does not exist; expected 0 to {tokenizer.boundary}")
        return id_
    special = {SPECIAL["end"]: tokenizer.boundary, SPECIAL["unknown"]: tokenizer.unknown}.get(target)
    if special is not None:
        return special
    readings = _readings(tokenizer, target, follows_space)
    ids = list(dict.fromkeys(match for each in readings if (match := tokenizer.id_of(each)) is not None))
    if len(ids) > 1:
        others = ", ".join(f"{tokenizer.text_of(other)!r} (id:{other})" for other in ids[1:])
        notes.append(f"{target!r} is the token {tokenizer.text_of(ids[0])!r}, not {others}")
    return ids[0] if ids else _first_token(tokenizer, target, readings, notes, single=single)


def _readings(tokenizer: Tokenizer, text: str, follows_space: bool) -> list[bytes]:
    """Return the texts that a target may stand for, as UTF-8."""
    literal = text.encode("utf-8", "surrogatepass")
    needs_space = tokenizer.kind in ("bpe", "unigram") and not follows_space and text[:1].strip()
    return [*([b" " + literal] if needs_space else []), literal, *unescaped(text)]


def _first_token(tokenizer: Tokenizer, text: str, readings: Sequence[bytes], notes: list[str], *, single: bool) -> int:
    """Return the first token of a text that is not a single token."""
    for reading in readings:
        try:
            ids = [int(id_) for id_ in tokenizer.encode(reading.decode()).ids]
        except UnicodeDecodeError:
            continue
        if ids and tokenizer.unknown not in ids:
            if len(ids) > 1:
                parts = " ".join(repr(str(token)) for token in tokenizer.tokens_of(ids))
                if single:
                    raise DataError(
                        f"{text!r} has {len(ids)} tokens ({parts}), expected one", "give one of them, or id:N"
                    )
                notes.append(f"{text!r} has {len(ids)} tokens ({parts}); the logit of the first one is explained")
            return ids[0]
    raise DataError(
        f"{text!r} is not in the vocabulary", "give a word of the training text, a token of `model.next`, or id:N"
    )
