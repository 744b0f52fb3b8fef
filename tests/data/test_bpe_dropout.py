"""BPE-dropout undoes merges at the given rate and preserves the text."""

import numpy as np
import pytest

from satchel.data.batches import seeded_rng
from satchel.data.bpe_dropout import UNMERGED, bpe_dropout, merge_parts
from satchel.errors import SettingsError
from satchel.text.tokenizer import Tokenizer, TokenizerSettings
from satchel.text.tokenizer_training import train_tokenizer

TEXT = "the lowest tower is lower than the newest tower, and the newer towers are the widest\n"


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer(TokenizerSettings(kind="bpe", size=300), [TEXT * 20], 2000)


def test_the_boundary_is_not_a_merge(tokenizer: Tokenizer) -> None:
    assert (merge_parts(tokenizer)[-1] == UNMERGED).all()


@pytest.mark.parametrize("rate", [0.0, 0.3, 0.999999])
def test_the_new_segmentation_spells_the_same_text(tokenizer: Tokenizer, rate: float) -> None:
    ids = tokenizer.encode(TEXT).ids
    dropped = bpe_dropout(ids, merge_parts(tokenizer), rate, seeded_rng("test", 1))
    assert tokenizer.decode(dropped) == TEXT
    assert len(dropped) == len(ids) if rate == 0 else len(dropped) > len(ids)
    if rate > 0.99:
        assert len(dropped) == len(TEXT.encode())


def test_the_segmentation_depends_on_the_random_numbers_only(tokenizer: Tokenizer) -> None:
    ids, parts = tokenizer.encode(TEXT).ids, merge_parts(tokenizer)
    first, again, other = (bpe_dropout(ids, parts, 0.3, seeded_rng("test", seed)).tolist() for seed in (1, 1, 4))
    assert first == again != other


def test_merges_are_undone_at_the_given_rate(tokenizer: Tokenizer) -> None:
    parts = merge_parts(tokenizer)
    merged = np.flatnonzero(parts[:, 0] != UNMERGED)
    ids = np.repeat(merged[:1], 20_000)  # a token of two bytes
    dropped = bpe_dropout(ids, parts, 0.25, seeded_rng("test", 0))
    assert (len(dropped) - len(ids)) / len(ids) == pytest.approx(0.25, abs=0.02)


def test_a_tokenizer_without_merges_is_rejected() -> None:
    tokenizer = train_tokenizer(TokenizerSettings(kind="char"), [TEXT], 100)
    with pytest.raises(
        SettingsError, match=r"training\.merge_dropout: the tokenizer is of kind char, which has no merges"
    ):
        merge_parts(tokenizer)
