"""Words from tokens: each token belongs to one word, and a word may have several tokens."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from satchel.text.tokenizer import Tokenizer, TokenizerSettings
from satchel.text.tokenizer_training import train_tokenizer
from satchel.text.words import word_ids, words_of

TEXT = "The cats sat on the mat, and the cat's hats sat on the cats. Zauberflöte 12 \u4f60\u597d\n" * 9


def tokenizer(kind: str) -> Tokenizer:
    size = 300 if kind in ("bpe", "unigram") else None
    return train_tokenizer(TokenizerSettings.model_validate({"kind": kind, "size": size}), [TEXT], len(TEXT))


@pytest.mark.parametrize("kind", ["bpe", "unigram", "char"])
def test_tokens_of_a_word_are_joined_and_punctuation_is_separate(kind: str) -> None:
    trained = tokenizer(kind)
    ids = trained.encode("the cats sat, cat's hats").ids.tolist()
    words = [word.text.strip() for word in words_of(trained, ids)]
    assert [word for word in words if word] == ["the", "cats", "sat", ",", "cat's", "hats"]


def test_the_words_of_a_word_tokenizer_are_its_tokens() -> None:
    trained = tokenizer("word")
    ids = trained.encode("the cats sat").ids.tolist()
    assert [word.text for word in words_of(trained, ids)] == ["the", "cats", "sat"]


def test_boundaries_and_unknown_tokens_are_separate_words() -> None:
    characters = tokenizer("char")
    at = characters.encode("at").ids.tolist()
    assert characters.unknown is not None
    ids = [characters.boundary, *at, characters.unknown, *at]
    assert [word.text for word in words_of(characters, ids)] == ["<end>", "at", "<unk>", "at"]
    assert words_of(characters, []) == []


@given(st.text(alphabet="abc the,.'\n\u4f60ö1", max_size=40))
def test_every_token_belongs_to_one_word_in_order(text: str) -> None:
    bpe = tokenizer("bpe")
    ids = bpe.encode(text).ids.tolist()
    words = words_of(bpe, ids)
    assert [position for word in words for position in range(word.start, word.stop)] == list(range(len(ids)))


def test_the_ids_of_a_word_include_the_space_before_it() -> None:
    bpe, characters = tokenizer("bpe"), tokenizer("char")
    assert bpe.decode(word_ids(bpe, "cats")) == " cats"
    assert bpe.decode(word_ids(bpe, " cats")) == " cats"
    assert characters.decode(word_ids(characters, "cats")) == "cats"
