"""Words from tokens: every token belongs to one, and several may be one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from satchel.text.tokenizer import Tokenizer, TokenizerSettings, train_tokenizer
from satchel.text.words import word_ids, words_of

TEXT = "The cats sat on the mat, and the cat's hats sat on the cats. Zauberflöte 12 \u4f60\u597d\n" * 9


def tokenizer(kind: str) -> Tokenizer:
    size = 300 if kind in ("bpe", "unigram") else None
    return train_tokenizer(TokenizerSettings.model_validate({"kind": kind, "size": size}), [TEXT], len(TEXT))


@pytest.mark.parametrize("kind", ["bpe", "unigram", "char"])
def test_pieces_of_a_word_are_one_word_and_punctuation_is_its_own(kind: str) -> None:
    own = tokenizer(kind)
    ids = own.encode("the cats sat, cat's hats").ids.tolist()
    words = [word.text.strip() for word in words_of(own, ids)]
    assert [word for word in words if word] == ["the", "cats", "sat", ",", "cat's", "hats"]


def test_words_of_a_tokenizer_of_words_are_its_tokens() -> None:
    own = tokenizer("word")
    ids = own.encode("the cats sat").ids.tolist()
    assert [word.text for word in words_of(own, ids)] == ["the", "cats", "sat"]


def test_boundaries_and_unknown_words_stand_alone() -> None:
    own = tokenizer("char")
    assert own.unknown is not None
    ids = [own.boundary, *own.encode("at").ids.tolist(), own.unknown, *own.encode("at").ids.tolist()]
    assert [word.text for word in words_of(own, ids)] == ["<end>", "at", "<unk>", "at"]
    assert words_of(own, []) == []


@given(st.text(alphabet="abc the,.'\n\u4f60ö1", max_size=40))
def test_every_token_belongs_to_one_word_in_order(text: str) -> None:
    own = tokenizer("bpe")
    ids = own.encode(text).ids.tolist()
    words = words_of(own, ids)
    assert [place for word in words for place in range(word.start, word.stop)] == list(range(len(ids)))


def test_a_word_is_taken_as_it_stands_inside_a_sentence() -> None:
    bpe, letters = tokenizer("bpe"), tokenizer("char")
    assert bpe.decode(word_ids(bpe, "cats")) == " cats"
    assert bpe.decode(word_ids(bpe, " cats")) == " cats"
    assert letters.decode(word_ids(letters, "cats")) == "cats"
