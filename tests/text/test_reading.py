"""Corpora: lines, documents, identity, and splitting into pieces."""

import hashlib
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from satchel.datasets.corpora import open_corpus
from satchel.text import decoding, reading
from satchel.text.reading import Corpus, DataSettings, lines, split_pieces
from satchel.text.sources import bytes_source
from satchel.text.tokenizer import Tokenizer, TokenizerSettings
from satchel.text.tokenizer_training import train_tokenizer

STRICT = DataSettings()
# Line separators of other programs that are ordinary characters here.
OTHER_SEPARATORS = "\r\x0b\x0c\x1c\x1d\x1e\x1f\x85\u2028\u2029\0"


# --- lines


@pytest.mark.parametrize("chunk", [1, 2, 7, 1 << 18])
def test_only_a_newline_ends_a_line(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "CHUNK", chunk)
    text = f"a{OTHER_SEPARATORS}b\nc\r\n\n\r\nd\r\r\ne"
    corpus = Corpus("x", (bytes_source("x", text.encode()),))
    assert list(lines(corpus.texts(corpus.sources[0]))) == [f"a{OTHER_SEPARATORS}b", "c", "", "", "d\r", "e"]
    documents = [piece.text for piece in corpus.pieces("line")]
    assert documents == [f"a{OTHER_SEPARATORS}b", "c", "d\r", "e"]


@given(st.lists(st.text("ab\r\n", max_size=5), max_size=6))
def test_lines_do_not_depend_on_the_chunks(chunks: list[str]) -> None:
    text = "".join(chunks)
    assert list(lines(chunks)) == list(lines([text])) == list(lines(text))
    assert len(list(lines(chunks))) == text.count("\n") + bool(text and not text.endswith("\n"))
    assert "".join(reading.lines_with_ends(chunks)) == text


@given(st.lists(st.text("ab \r\n", max_size=5), max_size=6))
def test_lines_in_parts_are_the_lines(chunks: list[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "LONGEST_PIECE", 2)
        assert list(map("".join, reading.lines_in_parts(chunks))) == list(lines(chunks))
        corpus = Corpus("x", (bytes_source("x", "".join(chunks).encode()),))
        documents = list[str]()
        text = ""
        for piece in corpus.pieces("line"):
            text += piece.text
            if piece.ends:
                documents.append(text)
                text = ""
    assert documents == [line for line in lines(chunks) if line.strip()]
    assert not text


def test_a_stream_keeps_its_line_ends() -> None:
    corpus = Corpus("x", (bytes_source("x", b"a\r\nb\rc\n"),))
    assert "".join(piece.text for piece in corpus.pieces()) == "a\r\nb\rc\n"


def test_a_missing_final_newline_does_not_change_the_lines() -> None:
    assert list(lines(["a\nb"])) == list(lines(["a\nb\n"])) == ["a", "b"]


def test_an_empty_file_is_a_document_without_lines(tmp_path: Path) -> None:
    path = tmp_path / "empty.txt"
    path.touch()
    corpus = open_corpus(path, STRICT)
    assert list(corpus.pieces("stream")) == list(corpus.pieces("line")) == []
    assert list(corpus.pieces("file")) == [("", True)]


# --- documents


def test_a_document_is_the_stream_a_file_or_a_line(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n\n two\n", encoding="utf-8")
    (tmp_path / "b.txt").write_text("three", encoding="utf-8")
    corpus = open_corpus(tmp_path, STRICT)
    assert "".join(piece.text for piece in corpus.pieces()) == "one\n\n two\nthree"
    assert not any(piece.ends for piece in corpus.pieces())
    assert list(corpus.pieces("file")) == [("one\n\n two\n", True), ("three", True)]
    assert list(corpus.pieces("line")) == [("one", True), (" two", True), ("three", True)]


def test_only_the_last_piece_of_a_document_ends_it(tmp_path: Path) -> None:
    line = "word " * 10_000
    (tmp_path / "a.txt").write_text(f"{line}\n{line}\n", encoding="utf-8")
    pieces = list(open_corpus(tmp_path, STRICT).pieces("line"))
    assert len(pieces) > 4
    ends = [index for index, piece in enumerate(pieces) if piece.ends]
    assert len(ends) == 2
    assert ends[-1] == len(pieces) - 1
    assert "".join(piece.text for piece in pieces[: ends[0] + 1]) == line


# --- identity


def test_the_identity_depends_on_names_sizes_contents_and_order() -> None:
    def identity(*files: tuple[str, bytes]) -> str:
        return Corpus("any", tuple(bytes_source(name, data) for name, data in files)).identity()

    identities = [
        identity(),
        identity(("a", b"x")),
        identity(("b", b"x")),
        identity(("a", b"y")),
        identity(("a", b"")),
        identity(("a", b""), ("x", b"")),
        identity(("a", b"x"), ("b", b"y")),
        identity(("b", b"y"), ("a", b"x")),
        identity(("a", b"y"), ("b", b"x")),
        identity(("a", b"xb\x001\0y")),
    ]
    assert len(set(identities)) == len(identities)
    assert identities[1] == identity(("a", b"x")) == hashlib.sha256(b"a\x001\0x").hexdigest()


def test_the_identity_of_a_folder_does_not_depend_on_its_path(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name / "sub").mkdir(parents=True)
        (tmp_path / name / "sub" / "a.txt").write_text("a", encoding="utf-8")
    assert open_corpus(tmp_path / "one", STRICT).identity() == open_corpus(tmp_path / "two", STRICT).identity()


# --- settings


@pytest.mark.parametrize("valid", [-0.1, 1.0, 1, 1.5, float("nan"), float("inf")])
def test_the_held_out_fraction_is_at_least_0_and_less_than_1(valid: float) -> None:
    with pytest.raises(ValueError, match=r"fraction|finite"):
        DataSettings(valid=valid)


# --- splitting into pieces

SAMPLE = """The cat sat on the mat, didn't it?  It's 3,000 years old.\n\n\tIndented: naïve façade.\r\n
한국어 텍스트 שלום עולם 👩‍👩‍👧 e\u0301\u0301 x\u00a0y\u3000z  <unk> ... !!! 12345 _under_score_ \x1c\x1d \x85 end\n"""


@pytest.fixture(scope="module")
def tokenizers() -> dict[str, Tokenizer]:
    trained = {
        kind: train_tokenizer(TokenizerSettings.model_validate({"kind": kind, "size": size}), [SAMPLE * 3], 600)
        for kind, size in (("char", None), ("byte", None), ("word", None), ("bpe", 400), ("unigram", 400))
    }
    # The sample is too small to train a unigram tokenizer.
    merged = [trained["bpe"].spellings[id_] for id_ in range(256, trained["bpe"].size)]
    trained["unigram"] = _unigram(merged)
    split = TokenizerSettings(kind="word", split="punctuation")
    return {**trained, "punctuation": train_tokenizer(split, [SAMPLE], 300)}


def _unigram(spellings: Sequence[str]) -> Tokenizer:
    from tokenizers import models

    from satchel.text import tokenizer, tokenizer_training

    scores = [(character, -9.0 - index / 1000) for index, character in enumerate(tokenizer.ALPHABET)]
    scores += [(spelling, -5.0 - index / 100) for index, spelling in enumerate(dict.fromkeys(spellings))]
    return Tokenizer(tokenizer_training._byte_level(models.Unigram(scores, None, False)).to_str())


WHITE_SPACE = " \n\t\r\x0b\x0c\x1c\x1d\x1e\x1f\x85\xa0\u1680\u180e\u2003\u2028\u2029\u200b\u200d\u2060\u3000\ufeff"
TEXTS = st.lists(
    st.one_of(
        st.sampled_from(
            ["cat", "the", " sat", "on ", "\n", "\n\n", "  ", " ", "\r\n", "'s", "123", "!?", "<unk>", "."]
        ),
        st.text(WHITE_SPACE, min_size=1, max_size=4),
        st.text("aé1!,\u0301\u200d👩한ש", min_size=1, max_size=4),
        st.text(max_size=3),
    ),
    max_size=25,
).map("".join)


@given(TEXTS, st.data(), st.integers(1, 6), st.integers(0, 8))
@settings(max_examples=300, deadline=None)
def test_pieces_join_to_the_text_and_do_not_depend_on_the_chunks(
    text: str, data: st.DataObject, shortest: int, more: int
) -> None:
    positions = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    chunks = [text[start:end] for start, end in zip([0, *positions], [*positions, len(text)], strict=True)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "SHORTEST_PIECE", shortest)
        patch.setattr(reading, "LONGEST_PIECE", shortest + more)
        pieces = list(split_pieces([text]))
        assert "".join(pieces) == text
        assert all(0 < len(piece) <= shortest + more + 1 for piece in pieces)
        assert list(split_pieces(chunks)) == list(split_pieces(text)) == pieces


@given(TEXTS)
@settings(max_examples=500, deadline=None)
def test_splitting_into_pieces_changes_no_token(tokenizers: dict[str, Tokenizer], text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "SHORTEST_PIECE", 1)
        pieces = list(split_pieces([text]))
    for name, tokenizer in tokenizers.items():
        whole = tokenizer._engine.encode(text, add_special_tokens=False).ids
        parts = tokenizer.encode_pieces(pieces, [number == 0 for number in range(len(pieces))])
        assert [int(id_) for part in parts for id_ in part.ids] == whole, name


def test_splitting_is_safe_next_to_every_character(
    tokenizers: dict[str, Tokenizer], monkeypatch: pytest.MonkeyPatch
) -> None:
    # All characters next to each kind of white space, and all pairs of white space characters.
    monkeypatch.setattr(reading, "SHORTEST_PIECE", 1)
    plain = [chr(code) for code in range(1, 0x3100) if not chr(code).isspace()] + ["\U0001f469", "\U00020000"]
    text = "".join(f"{a} {a}\n{a}\t\r{a}" for a in plain) + "".join(
        f"{a}{b}x{a} {b}" for a in WHITE_SPACE for b in WHITE_SPACE
    )
    pieces = list(split_pieces([text]))
    assert len(pieces) > 3 * len(plain)
    for name in ("word", "punctuation", "bpe", "unigram"):
        whole = tokenizers[name]._engine.encode(text, add_special_tokens=False).ids
        parts = tokenizers[name].encode_pieces(pieces, [False] * len(pieces))
        assert [int(id_) for part in parts for id_ in part.ids] == whole, name


def test_pieces_are_little_longer_than_the_minimum() -> None:
    for gap in (" ", "\n", "\r\n", "\n\n", "  "):
        pieces = list(split_pieces([f"word{gap}" * 20_000]))
        assert all(len(piece) < reading.SHORTEST_PIECE + 10 for piece in pieces)
        assert len(pieces) > 4


def test_a_word_of_three_million_characters_is_split(tokenizers: dict[str, Tokenizer]) -> None:
    word = "abcdefghij" * 300_000
    corpus = Corpus("x", (bytes_source("x", f"one {word} two".encode()),))
    pieces = [piece.text for piece in corpus.pieces()]
    assert "".join(pieces) == f"one {word} two"
    assert max(map(len, pieces)) <= reading.LONGEST_PIECE
    assert len(pieces) == 4  # the last is " two"
    assert tokenizers["bpe"].encode(word).lossless
    assert not tokenizers["word"].encode(word).lossless


def test_memory_does_not_grow_with_the_length_of_a_word() -> None:
    program = """
import resource
from satchel.text.reading import split_pieces
assert sum(map(len, split_pieces("a" * (1 << 18) for _ in range({count})))) == {count} << 18
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
    small, large = (
        int(subprocess.run([sys.executable, "-c", program.format(count=count)], capture_output=True, check=True).stdout)
        for count in (8, 400)
    )
    assert large < 1.2 * small
