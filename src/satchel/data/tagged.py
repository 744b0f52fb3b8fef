"""Tagged texts: what each tag belongs to, and the tokens those become.

A tag belongs to a character, a word or a token, the same in every row. Words and characters are tokenized each by
itself, a word together with the space before it, so that it is known which tokens are whose; the tag stands at the
last of them.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np

from satchel.data.batches import NO_TARGET, Ints
from satchel.data.tokens import BATCH_PIECES, TokenFile, TokenWriter, scratch
from satchel.errors import DataError
from satchel.text.reading import Piece
from satchel.text.tables import Tagged
from satchel.text.tokenizer import Tokenizer

Unit = Literal["character", "word", "token"]

WORD = re.compile(r"\s*\S+")


def are_characters(rows: Iterable[Tagged]) -> bool:
    """Return whether the tags of some rows belong to single characters: no row's tags are set apart by spaces."""
    return all(" " not in row.tags and len(row.tags) == len(row.text) for row in rows)


def unit_of(rows: Sequence[Tagged], tokenizer: Tokenizer, where: str) -> Unit:
    """Return what the tags of a table belong to."""
    if are_characters(rows):
        return "character"
    unlike = [row for row in rows if len(row.tags.split()) != len(row.text.split())]
    if not unlike:
        return "word"
    if all(len(row.tags.split()) == len(tokenizer.encode(row.text).ids) for row in rows):
        return "token"
    row = unlike[0]
    words, tags = len(row.text.split()), len(row.tags.split())
    characters = f" and {len(row.text):,} characters" if " " not in row.tags else ""
    raise DataError(
        f"found {tags:,} {'tag' if tags == 1 else 'tags'} for {words:,} words{characters}",
        "give a tag for each word, set apart by spaces, or for each character, without",
        where=f"{where}, line {row.line}",
    )


def tags_of(row: Tagged, unit: Unit) -> list[str]:
    """Return the tags of a row."""
    return list(row.tags) if unit == "character" else row.tags.split()


def units(text: str, unit: Unit, tokenizer: Tokenizer) -> list[str]:
    """Return what the tags of a text belong to, as people read it."""
    if unit == "character":
        return list(text)
    if unit == "word":
        return text.split()
    return [tokenizer.text_of(int(id_)) for id_ in tokenizer.encode(text).ids]


def write_tagged(writer: TokenWriter, texts: Iterable[str], unit: Unit) -> Ints:
    """Write the tokens of texts, and return the places, among all ids, where their tags stand."""
    place = 1  # after the first boundary
    places: list[int] = []
    batch: list[Piece] = []

    def flush() -> None:
        nonlocal place
        for piece, length in zip(batch, writer.write(batch), strict=True):
            if piece.text and not length:
                raise DataError(f"the tokenizer has no token for {piece.text!r}", "choose another with --tokenizer")
            places.extend(range(place, place + length) if unit == "token" else [place + length - 1] if length else [])
            place += length + piece.ends
        batch.clear()

    for text in texts:
        parts = {"character": list(text), "word": WORD.findall(text), "token": [text]}[unit] or [""]
        batch += [Piece(part, last == len(parts)) for last, part in enumerate(parts, start=1)]
        if len(batch) > 16 * BATCH_PIECES:
            flush()
    flush()
    return np.array(places, np.int64)


def scratch_tagged(texts: Iterable[str], tokenizer: Tokenizer, unit: Unit) -> tuple[TokenFile, Ints]:
    """Return the tokens of texts in a file without a name, and the places where their tags stand."""
    places: list[Ints] = []
    tokens = scratch(tokenizer, "file", lambda writer: places.append(write_tagged(writer, texts, unit)))
    return tokens, places[0]


def placed(tags_N: Ints, places_N: Ints, length: int) -> Ints:
    """Return the tag that stands at each of so many ids; most ids may have none."""
    found = np.full(length, NO_TARGET, np.int64)
    found[places_N] = tags_N
    return found
