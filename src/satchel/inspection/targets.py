"""What comes next: how much of a text is read before it, and which token is asked about."""

import numpy as np

from satchel.errors import DataError, SettingsError
from satchel.predictor import Ids, Predictor
from satchel.text.tokenizer import Tokenizer
from satchel.text.words import word_ids


def read_prefix(tokenizer: Tokenizer, context: int | None, prefix: str) -> tuple[Ids, list[str]]:
    """Return what is read of a text before something comes next, as generation reads it, and what to say of it."""
    ids = np.concatenate([[tokenizer.boundary], tokenizer.encode(prefix).ids]).astype(np.int64)
    if context is None or len(ids) <= context:
        return ids, []
    kept = max(1, context // 2)
    return ids[-kept:], [f"the text is longer than the context of {context:,}: its last {kept:,} tokens are read"]


def likeliest(predictor: Predictor, ids: Ids) -> int:
    """Return the likeliest token after others."""
    logprobs_BV, _ = predictor.step(ids[None], predictor.start(1))
    return int(logprobs_BV[0].argmax())


def known_ids(tokenizer: Tokenizer, word: str) -> list[int]:
    """Return the tokens of a word as it stands inside a sentence."""
    ids = word_ids(tokenizer, word) if word.strip() else []
    if not ids:
        raise DataError(f"found {word!r}, expected a word")
    if tokenizer.unknown in ids:
        raise DataError(
            f"{word!r} is no word of this vocabulary",
            "give one that is in the training text, spelled as it is there; pieces of words (bpe) know all",
        )
    return ids


def next_token(tokenizer: Tokenizer, target: str | int, prefix: str, notes: list[str]) -> int:
    """Return the token a target begins with after a text: with the space before it, unless that is there already.

    `notes` is added to where there is something to say of it.
    """
    if isinstance(target, int):
        if not 0 <= target <= tokenizer.boundary:
            raise SettingsError(f"found the token {target}, expected 0 to {tokenizer.boundary}")
        return target
    follows_space = not prefix or prefix[-1].isspace()
    ids = [int(id_) for id_ in tokenizer.encode(target).ids] if follows_space else known_ids(tokenizer, target)
    if not ids or tokenizer.unknown in ids:
        raise DataError(f"{target!r} is no word of this vocabulary", "give one that is in the training text")
    if len(ids) > 1:
        parts = " ".join(repr(tokenizer.text_of(id_)) for id_ in ids)
        notes.append(f"{target!r} is {len(ids)} tokens ({parts}): this explains the first")
    return ids[0]
