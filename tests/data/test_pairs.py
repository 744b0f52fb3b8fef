"""Pairs: what is held out, and pieces of words that fall apart."""

import numpy as np
import pytest

from satchel.data.batches import generator
from satchel.data.bpe_dropout import bpe_dropout, merged_of
from satchel.data.pairs import held_out_pairs
from satchel.errors import SettingsError
from satchel.text.tables import TextPair
from satchel.text.tokenizer import TokenizerSettings, train_tokenizer

TEXT = "the lowest tower is lower than the newest tower, and the newer towers are the widest\n"


def pairs(*rows: tuple[str, str]) -> list[TextPair]:
    return [TextPair(source, target, line) for line, (source, target) in enumerate(rows, start=1)]


def test_no_sentence_of_either_side_is_on_both_sides_of_the_split() -> None:
    chance = np.random.default_rng(0)
    rows = pairs(*((f"s{chance.integers(400)}", f"t{chance.integers(600)}") for _ in range(500)))
    chosen = held_out_pairs(rows, 0.1, 3)
    assert 30 <= chosen.sum() <= 50
    for side in ("source", "target"):
        held = {getattr(row, side) for row, is_held in zip(rows, chosen, strict=True) if is_held}
        kept = {getattr(row, side) for row, is_held in zip(rows, chosen, strict=True) if not is_held}
        assert not held & kept
    assert (held_out_pairs(rows, 0.1, 3) == chosen).all()
    assert (held_out_pairs(rows, 0.1, 4) != chosen).any()


def test_something_is_left_to_learn_from() -> None:
    assert held_out_pairs(pairs(("a", "b")), 0.5, 0).sum() == 0
    assert held_out_pairs(pairs(("a", "b"), ("c", "d")), 0.1, 0).sum() == 1
    # All of one group: it is not cut.
    assert held_out_pairs(pairs(*(("a", f"b{row}") for row in range(50))), 0.2, 0).sum() == 0


def test_pieces_fall_apart_into_what_they_were_merged_of() -> None:
    tokenizer = train_tokenizer(TokenizerSettings(kind="bpe", size=300), [TEXT * 20], 2000)
    ids = tokenizer.encode(TEXT).ids
    parts = merged_of(tokenizer)
    assert (parts[-1] == -1).all()  # the boundary
    for share in (0.0, 0.3, 0.999999):
        found = bpe_dropout(ids, parts, share, generator("test", 1))
        assert tokenizer.decode(found) == TEXT
        assert len(found) == len(ids) if share == 0 else len(found) > len(ids)
    assert len(found) == len(TEXT.encode())  # nothing is left that could fall apart
    again = bpe_dropout(ids, parts, 0.3, generator("test", 1))
    assert (again == bpe_dropout(ids, parts, 0.3, generator("test", 1))).all()
    assert (
        len(again) != len(bpe_dropout(ids, parts, 0.3, generator("test", 4)))
        or (again != bpe_dropout(ids, parts, 0.3, generator("test", 4))).any()
    )


def test_a_share_of_the_merges_is_undone() -> None:
    tokenizer = train_tokenizer(TokenizerSettings(kind="bpe", size=300), [TEXT * 20], 2000)
    parts = merged_of(tokenizer)
    merged = np.flatnonzero(parts[:, 0] >= 0)
    ids = np.repeat(merged[:1], 20_000)  # a piece of two bytes
    found = bpe_dropout(ids, parts, 0.25, generator("test", 0))
    assert (len(found) - len(ids)) / len(ids) == pytest.approx(0.25, abs=0.02)


def test_what_merges_nothing_is_refused() -> None:
    tokenizer = train_tokenizer(TokenizerSettings(kind="char"), [TEXT], 100)
    with pytest.raises(SettingsError, match="merge_dropout: the tokenizer is char"):
        merged_of(tokenizer)
