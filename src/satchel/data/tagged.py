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
    """Return whether every row has one tag per character, without spaces between tags."""
    return all(" " not in row.tags and len(row.tags) == len(row.text) for row in rows)


def infer_unit(rows: Sequence[TaggedText], tokenizer: Tokenizer, where: str) -> Unit:
    """Return the unit (character, word or token) of which every row has as many as tags."""
    if has_character_tags(rows):
        return "character"
    mismatched = [row for row in rows if len(row.tags.split()) != len(row.text.split())]
    if not mismatched:
        return "word"
    if all(len(row.tags.split()) == len(tokenizer.encode(row.text).ids) for row in rows):
        return "token"
    row = mismatched[0]
    words, tags = len(row.text.split()), len(row.tags.split())
    characters = f" and {len(row.text):,} characters" if " " not in row.tags else ""
    raise DataError(
        f"found {tags:,} {'tag' if tags == 1 else 'tags'} for {words:,} words{characters}",
        "expected one tag per word, separated by spaces, or one tag per character, without spaces",
        where=f"{where}, line {row.line}",
    )


def split_tags(row: TaggedText, unit: Unit) -> list[str]:
    """Return the tags of a row."""
    return list(row.tags) if unit == "character" else row.tags.split()


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
