"""Tagged texts: the units that tags annotate, and the tokens of each unit.

Tags annotate characters, words or tokens, the same unit in every row. Characters, and words with the space before
them, are tokenized separately, so the tokens of each are known; the tag is assigned to the last of them.
Shapes: N tags.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np

from satchel.data.batches import NO_TARGET, Ints
from satchel.data.tokens import BATCH_PIECES, TokenFile, TokenWriter, temporary_tokens
from satchel.errors import DataError
from satchel.text.reading import Piece
from satchel.text.tables import TaggedText
from satchel.text.tokenizer import Tokenizer

Unit = Literal["character", "word", "token"]

WORD = re.compile(r"\s*\S+")


def has_character_tags(rows: Iterable[TaggedText]) -> bool:
    """Return whether every row has one tag per character, with or without spaces between the tags."""
    listed = list(rows)
    if all(" " not in row.tags and len(row.tags) == len(row.text) for row in listed):
        return True
    # Texts of a single character fit both units.
    return all(_has_tags_of(row, "character") for row in listed) and not all(
        _has_tags_of(row, "word") for row in listed
    )


def infer_unit(rows: Sequence[TaggedText], tokenizer: Tokenizer, where: str) -> Unit:
    """Return the unit (character, word or token) of which every row has as many as tags."""
    if has_character_tags(rows):
        return "character"
    mismatched = [row for row in rows if not _has_tags_of(row, "word")]
    if not mismatched:
        return "word"
    if fits_unit(rows, "token", tokenizer):
        return "token"
    row = mismatched[0]
    tags = len(row.tags.split())
    raise DataError(
        f"found {tags:,} {'tag' if tags == 1 else 'tags'} for {len(row.text.split()):,} words"
        f" and {len(row.text):,} characters",
        "expected one tag per word, separated by spaces, or one tag per character, with or without spaces between them",
        where=f"{where}, line {row.line}",
    )


def fits_unit(rows: Iterable[TaggedText], unit: Unit, tokenizer: Tokenizer) -> bool:
    """Return whether every row has one tag per unit."""
    return all(_has_tags_of(row, unit, tokenizer) for row in rows)


def _has_tags_of(row: TaggedText, unit: Unit, tokenizer: Tokenizer | None = None) -> bool:
    """Return whether a row has as many tags as units; only tokens need the tokenizer."""
    if unit == "token":
        assert tokenizer is not None
        count = len(tokenizer.encode(row.text).ids)
    else:
        count = len(row.text if unit == "character" else row.text.split())
    return len(split_tags(row, unit)) == count


def split_tags(row: TaggedText, unit: Unit) -> list[str]:
    """Return the tags of a row: split at spaces if there are any, otherwise one per character for that unit."""
    is_split = unit == "character" and " " not in row.tags and len(row.text) != 1
    return list(row.tags) if is_split else row.tags.split()


def split_units(text: str, unit: Unit, tokenizer: Tokenizer) -> list[str]:
    """Return the characters, words or tokens of a text."""
    if unit == "character":
        return list(text)
    if unit == "word":
        return text.split()
    return list(tokenizer.tokens_of(tokenizer.encode(text).ids))


def write_tagged(writer: TokenWriter, texts: Iterable[str], unit: Unit) -> Ints:
    """Write the tokens of texts, and return the (N,) positions of the tags among all ids."""
    position = 1  # after the first boundary
    positions: list[int] = []
    batch: list[Piece] = []

    def flush() -> None:
        nonlocal position
        for piece, length in zip(batch, writer.write(batch), strict=True):
            if piece.text and not length:
                raise DataError(f"the tokenizer has no token for {piece.text!r}", "use another --tokenizer")
            if unit == "token":
                positions.extend(range(position, position + length))
            elif length:
                positions.append(position + length - 1)
            position += length + piece.ends
        batch.clear()

    for text in texts:
        units = {"character": list(text), "word": WORD.findall(text), "token": [text]}[unit] or [""]
        batch += [Piece(part, number == len(units)) for number, part in enumerate(units, start=1)]
        if len(batch) > 16 * BATCH_PIECES:
            flush()
    flush()
    return np.array(positions, np.int64)


def tokenize_tagged(texts: Iterable[str], tokenizer: Tokenizer, unit: Unit) -> tuple[TokenFile, Ints]:
    """Return a temporary token file of texts, and the (N,) positions of the tags among its ids."""
    positions: list[Ints] = []
    tokens = temporary_tokens(tokenizer, "file", lambda writer: positions.append(write_tagged(writer, texts, unit)))
    return tokens, positions[0]


def tag_targets(tags_N: Ints, positions_N: Ints, length: int) -> Ints:
    """Return the target of each of `length` ids: the tag at its position, NO_TARGET elsewhere."""
    targets = np.full(length, NO_TARGET, np.int64)
    targets[positions_N] = tags_N
    return targets
