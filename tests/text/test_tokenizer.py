"""Tokenizers: lossless encoding, unknown tokens, spellings of special tokens, the option `--tokenizer`."""

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from satchel.errors import DataError, SettingsError
from satchel.text import reading
from satchel.text.tokenizer import Tokenizer, TokenizerSettings, parse_tokenizer
from satchel.text.tokenizer_training import char_tokenizer, word_tokenizer
from tests.text.samples import SPECIAL, TEXTS, train

# Text that is partly in the vocabulary of the word and char tokenizers below.
PARTLY_KNOWN = st.lists(
    st.sampled_from(["cat", "sat", "on", ",", ".", "cats", " ", " ", "  ", "\n", "\u3000"]), max_size=9
)


# --- encoding and decoding


@pytest.mark.parametrize(("kind", "examples"), [("byte", 2700), ("bpe", 2700), ("unigram", 2700)])
def test_byte_level_tokenizers_are_lossless_and_have_no_unknown_tokens(
    kind: str, examples: int, trained: dict[str, Tokenizer]
) -> None:
    tokenizer = trained[kind]
    assert tokenizer.kind == kind

    @settings(max_examples=examples, deadline=None)
    @given(TEXTS)
    def check(text: str) -> None:
        encoding = tokenizer.encode(text)
        assert tokenizer.decode(encoding.ids) == text
        assert encoding.unknown == 0
        assert encoding.lossless
        assert b"".join(tokenizer.bytes_of(int(id_)) for id_ in encoding.ids) == text.encode()
        assert encoding.ids.max(initial=0) < tokenizer.size

    check()


@given(TEXTS)
@settings(max_examples=400, deadline=None)
def test_a_char_tokenizer_with_all_characters_is_lossless(text: str) -> None:
    tokenizer = char_tokenizer(sorted(set(text)))
    encoding = tokenizer.encode(text)
    assert tokenizer.decode(encoding.ids) == text
    assert encoding.lossless
    assert len(encoding.ids) == len(text)


@given(PARTLY_KNOWN.map("".join), st.integers(1, 30))
@example("cat, sat  on", 30)
@example("cat , sat", 1)
@example("cat  sat ", 3)
@example("", 1)
@example(" ", 1)
@settings(max_examples=1500, deadline=None)
def test_an_encoding_is_lossless_if_and_only_if_decoding_restores_the_text(text: str, shortest: int) -> None:
    known = ["cat", "sat", "on", ",", "."]
    tokenizers = [
        word_tokenizer(known),
        word_tokenizer(known, "punctuation"),
        char_tokenizer([*"catson, \n"]),
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "SHORTEST_PIECE", shortest)
        patch.setattr(reading, "LONGEST_PIECE", shortest + 3)
        for tokenizer in tokenizers:
            encoding = tokenizer.encode(text)
            assert encoding.lossless == (tokenizer.decode(encoding.ids) == text)


def test_an_empty_piece_at_the_start_of_a_document_is_lossless(trained: dict[str, Tokenizer]) -> None:
    for tokenizer in trained.values():
        (encoding,) = tokenizer.encode_pieces([""], [True])
        assert encoding.lossless
        assert len(encoding.ids) == len(tokenizer.encode("").ids) == 0


def test_unknown_tokens_are_counted() -> None:
    words = word_tokenizer(["a", "b"])
    encoding = words.encode("a x b y y\n")
    assert encoding.unknown == 3
    assert not encoding.lossless
    assert words.decode(encoding.ids) == "a <unk> b <unk> <unk>"
    characters = char_tokenizer([*"ab"])
    encoding = characters.encode("axyb")
    assert encoding.ids.tolist() == [0, 2, 2, 1]
    assert encoding.unknown == 2


def test_an_unpaired_surrogate_is_rejected(trained: dict[str, Tokenizer]) -> None:
    for tokenizer in trained.values():
        with pytest.raises(DataError, match="unpaired surrogate"):
            tokenizer.encode("a\ud800b")


# --- spellings of special tokens


@pytest.mark.parametrize("spelling", SPECIAL)
def test_the_spelling_of_a_special_token_is_encoded_as_text(spelling: str, trained: dict[str, Tokenizer]) -> None:
    for text in (spelling, f"a{spelling}b", f"a {spelling} b", spelling * 3):
        for kind in ("byte", "bpe", "unigram"):
            encoding = trained[kind].encode(text)
            assert trained[kind].decode(encoding.ids) == text
        words = word_tokenizer(sorted(set(text.split())))
        for tokenizer in (*trained.values(), words, char_tokenizer(sorted(set(text)))):
            ids = tokenizer.encode(text).ids
            assert tokenizer.boundary == tokenizer.size
            assert ids.max() < tokenizer.boundary
        assert words.encode(text).unknown == 0
        assert char_tokenizer(sorted(set(text))).encode(text).unknown == 0


def test_words_spelled_like_special_tokens_are_in_the_vocabulary() -> None:
    text = " ".join(SPECIAL).replace("  ", " ")
    tokenizer = train("word", text)
    encoding = tokenizer.encode(text)
    assert encoding.unknown == 0
    assert tokenizer.decode(encoding.ids) == text
    assert tokenizer.unknown not in encoding.ids
    assert tokenizer.encode("other").ids.tolist() == [tokenizer.unknown]


def test_decoding_omits_the_boundary_and_ids_out_of_range(trained: dict[str, Tokenizer]) -> None:
    for tokenizer in trained.values():
        ids = tokenizer.encode("cat").ids
        around = [tokenizer.boundary, -1, *ids, 1 << 31, tokenizer.boundary]
        assert tokenizer.decode(around) == tokenizer.decode(ids)
        assert tokenizer.text_of(tokenizer.boundary) == "<end>"


# --- the option --tokenizer


def test_the_option_is_a_kind_with_a_size_or_a_path(tmp_path: Path) -> None:
    assert parse_tokenizer("char") == TokenizerSettings(kind="char")
    assert parse_tokenizer("bpe:2000") == TokenizerSettings(kind="bpe", size=2000)
    assert parse_tokenizer("byte:256") == TokenizerSettings(kind="byte", size=256)
    assert parse_tokenizer(str(tmp_path)) == tmp_path


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ("bpe:", "the vocabulary size is '', expected a number"),
        ("bpe:many", "the vocabulary size is 'many', expected a number"),
        ("bpe:-5", "expected a number"),
        ("bpe:2.5", "expected a number"),
        ("bpe:²", "expected a number"),
        ("bpe:1_000", "expected a number"),
        (f"bpe:{'9' * 5000}", "expected a number"),
        ("bpe:99999999999", "at most"),
        ("word:0", "at least"),
        ("byte:100", "expected 256 or no size"),
        ("bpee", "is neither a kind of tokenizer nor an existing file or folder"),
        ("BPE:500", "is neither a kind of tokenizer"),
        ("", "is neither a kind of tokenizer"),
        ("x" * 5000, "is neither a kind of tokenizer"),
        ("a\0b", "is neither a kind of tokenizer"),
    ],
)
def test_other_values_of_the_option_are_rejected(choice: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        parse_tokenizer(choice)
