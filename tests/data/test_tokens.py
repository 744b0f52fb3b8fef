"""Token files: layout, counts and held-out split."""

import io
import subprocess
import sys
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from satchel.data.splits import HeldOutSplit
from satchel.data.tokens import (
    TokenCounts,
    TokenFile,
    TokenWriter,
    open_tokens,
    piece_batches,
    tokenize_pieces,
    write_tokens,
)
from satchel.errors import RunError
from satchel.text import decoding, reading
from satchel.text.reading import Corpus, DocumentRule, Piece
from satchel.text.sources import bytes_source
from satchel.text.tokenizer import Tokenizer, TokenizerSettings
from satchel.text.tokenizer_training import char_tokenizer, train_tokenizer, word_tokenizer

LETTERS = char_tokenizer([*"abc\n "])
RULES: tuple[DocumentRule, ...] = ("stream", "file", "line")


def corpus_of(*texts: str) -> Corpus:
    return Corpus("texts", tuple(bytes_source(f"{number}.txt", text.encode()) for number, text in enumerate(texts)))


def tokens_of(corpus: Corpus, tokenizer: Tokenizer, rule: DocumentRule, folder: Path) -> TokenFile:
    path = folder / "tokens.safetensors"
    with open(path, "wb") as handle:
        writer = TokenWriter(handle, tokenizer, rule)
        write_tokens(writer, corpus.pieces(rule))
        writer.finish(corpus.identity())
    return open_tokens(path)


# --- layout


def test_a_stream_has_one_boundary_and_documents_have_one_after_each(tmp_path: Path) -> None:
    corpus = corpus_of("ab\n\nc", "a\nb\n")
    a, b, c, newline = (int(id_) for id_ in LETTERS.encode("abc\n").ids)
    end = LETTERS.boundary
    expected: dict[DocumentRule, list[int]] = {
        "stream": [end, a, b, newline, newline, c, a, newline, b, newline],
        "file": [end, a, b, newline, newline, c, end, a, newline, b, newline, end],
        "line": [end, a, b, end, c, end, a, end, b, end],
    }
    for rule, ids in expected.items():
        tokens = tokens_of(corpus, LETTERS, rule, tmp_path)
        assert tokens.ids.tolist() == ids
        assert tokens.counts.tokens == len(ids) - 1
        assert tokens.tokenizer_sha256 == LETTERS.sha256
        assert tokens.corpus_sha256 == corpus.identity()


def test_an_empty_file_is_a_document_without_tokens(tmp_path: Path) -> None:
    for tokenizer in (LETTERS, word_tokenizer(["a"])):
        tokens = tokens_of(corpus_of("", "a"), tokenizer, "file", tmp_path)
        end = tokenizer.boundary
        assert tokens.ids.tolist() == [end, end, tokenizer.encode("a").ids[0], end]
        assert tokens.counts == TokenCounts(documents=2, tokens=3, characters=1, bytes=1)


def test_an_empty_corpus_has_no_tokens(tmp_path: Path) -> None:
    rules: tuple[DocumentRule, ...] = ("stream", "line")
    for rule in rules:
        tokens = tokens_of(corpus_of("", ""), LETTERS, rule, tmp_path)
        assert tokens.ids.tolist() == [LETTERS.boundary]
        assert tokens.counts == TokenCounts()


def test_characters_and_bytes_refer_to_the_text_and_a_line_end_counts_as_one(tmp_path: Path) -> None:
    corpus = corpus_of("äb\r\n\n  \nc", "d\n")
    byte = train_tokenizer(TokenizerSettings(kind="byte"), [], 0)
    stream = tokens_of(corpus, byte, "stream", tmp_path).counts
    assert stream == TokenCounts(documents=1, tokens=12, characters=11, bytes=12)
    files = tokens_of(corpus, byte, "file", tmp_path).counts
    assert files == TokenCounts(documents=2, tokens=14, characters=11, bytes=12)
    lines = tokens_of(corpus, byte, "line", tmp_path).counts
    assert lines == TokenCounts(documents=3, tokens=8, characters=7, bytes=8)


def test_unknown_tokens_are_counted_and_loss_is_reported(tmp_path: Path) -> None:
    words = word_tokenizer(["a", "b"])
    assert tokens_of(corpus_of("a b", "b a"), words, "file", tmp_path).counts.lossless
    counts = tokens_of(corpus_of("a x", "b\ny"), words, "file", tmp_path).counts
    assert (counts.unknown, counts.lossless) == (2, False)
    assert not tokens_of(corpus_of("a  b"), words, "stream", tmp_path).counts.lossless


@pytest.mark.parametrize(("size", "dtype"), [(65_535, np.uint16), (65_536, np.uint32)])
def test_ids_take_two_bytes_while_the_boundary_fits(size: int, dtype: type, tmp_path: Path) -> None:
    tokenizer = word_tokenizer([f"w{number}" for number in range(size - 1)])
    assert tokenizer.size == size
    tokens = tokens_of(corpus_of(f"w0\nw{size - 2}\nother"), tokenizer, "line", tmp_path)
    assert tokens.ids.dtype == dtype
    assert tokens.ids.tolist() == [size, 0, size, size - 2, size, size - 1, size]


@given(st.lists(st.text("ab c\n\r", max_size=60), max_size=4), st.integers(1, 5))
@settings(max_examples=100, deadline=None)
def test_tokens_do_not_depend_on_the_cut_positions(texts: list[str], shortest: int) -> None:
    tokenizer = train_tokenizer(TokenizerSettings(kind="byte"), [], 0)
    for rule in RULES:
        whole = tokenize_pieces(corpus_of(*texts).pieces(rule), tokenizer, rule)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(reading, "SHORTEST_PIECE", shortest)
            patch.setattr(decoding, "CHUNK", shortest)
            cut = tokenize_pieces(corpus_of(*texts).pieces(rule), tokenizer, rule)
        assert cut.counts == whole.counts
        assert cut.ids.tolist() == whole.ids.tolist()


def test_a_temporary_file_has_the_same_content_as_a_named_one(tmp_path: Path) -> None:
    corpus = corpus_of("ab c\nabc\n" * 30)
    for rule in RULES:
        named, temporary = (
            tokens_of(corpus, LETTERS, rule, tmp_path),
            tokenize_pieces(corpus.pieces(rule), LETTERS, rule),
        )
        assert temporary.ids.tolist() == named.ids.tolist()
        assert temporary.counts == named.counts
        assert temporary.tokenizer_sha256 == LETTERS.sha256
        assert not temporary.ids.flags.writeable


def test_batches_are_limited_in_size_and_contain_all_pieces() -> None:
    pieces = [Piece("x" * 100, False)] * 1000 + [Piece("y" * (1 << 20), True)] * 5
    batches = list(piece_batches(pieces))
    assert [piece for batch in batches for piece in batch] == pieces
    assert max(map(len, batches)) <= 256
    assert all(sum(len(piece.text) for piece in batch[:-1]) <= 1 << 21 for batch in batches)


def test_damaged_token_files_are_rejected(tmp_path: Path) -> None:
    tokens_of(corpus_of("abc"), LETTERS, "stream", tmp_path)
    path = tmp_path / "tokens.safetensors"
    data = path.read_bytes()
    for damaged in (
        b"",
        data[:-1],
        data + b"x",
        data.replace(b'"tokens"', b'"tokenz"'),
        data.replace(b'"corpus"', b'"corpse"'),
        data.replace(b'"tokens": "3"', b'"tokens": "x"'),
        data.replace(b'"ids"', b'"idx"'),
    ):
        assert damaged != data
        path.write_bytes(damaged)
        with pytest.raises(RunError) as caught:
            open_tokens(path)
        assert caught.value.where == str(path)


# --- held-out split


def parts(split: HeldOutSplit, corpus: Corpus, rule: DocumentRule) -> tuple[list[Piece], list[Piece]]:
    characters = sum(len(piece.text) for piece in corpus.pieces(rule))
    pieces = list(split.pieces(corpus, rule, characters))
    train = [piece for is_held_out, piece in pieces if not is_held_out]
    return train, [piece for is_held_out, piece in pieces if is_held_out]


@given(st.text("abc \n", min_size=1, max_size=200), st.floats(0, 1, exclude_max=True), st.integers(1, 20))
@settings(max_examples=300, deadline=None)
def test_the_end_of_a_stream_is_held_out(text: str, fraction: float, shortest: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "SHORTEST_PIECE", shortest)
        train, valid = parts(HeldOutSplit(fraction, 0), corpus_of(text), "stream")
    start = "".join(piece.text for piece in train)
    assert start + "".join(piece.text for piece in valid) == text
    assert abs(len(start) - len(text) * (1 - fraction)) <= 1
    assert all(piece.text for piece in (*train, *valid))


def test_the_held_out_part_of_a_stream_is_exact() -> None:
    text = "abcdefghij " * 20_000
    for fraction, count in ((0.05, 11_000), (0.1, 22_000), (0.3, 66_000), (0.9, 198_000), (0.0, 0)):
        train, valid = parts(HeldOutSplit(fraction, 0), corpus_of(text), "stream")
        assert "".join(piece.text for piece in valid) == text[len(text) - count :]
        assert "".join(piece.text for piece in train) == text[: len(text) - count]


def documents(pieces: list[Piece]) -> list[str]:
    texts = [""]
    for piece in pieces:
        texts[-1] += piece.text
        if piece.ends:
            texts.append("")
    return texts[:-1]


@pytest.mark.parametrize("rule", ["file", "line"])
def test_whole_documents_are_held_out_by_a_hash_of_seed_and_number(
    rule: DocumentRule, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "SHORTEST_PIECE", 4)  # documents have several pieces
    texts = [f"{number} is the number here" for number in range(1000)]
    corpus = corpus_of(*texts) if rule == "file" else corpus_of("\n\n".join(texts))
    train, valid = (documents(part) for part in parts(HeldOutSplit(0.1, 0), corpus, rule))
    assert sorted([*train, *valid]) == sorted(texts)
    assert set(train).isdisjoint(valid)
    assert 70 < len(valid) < 130
    again = [documents(part) for part in parts(HeldOutSplit(0.1, 0), corpus, rule)]
    assert again == [train, valid]
    other = documents(parts(HeldOutSplit(0.1, 1), corpus, rule)[1])
    assert set(other) != set(valid)
    # A larger fraction holds out a superset; the text of a document has no effect.
    assert set(valid) < set(documents(parts(HeldOutSplit(0.2, 0), corpus, rule)[1]))
    upper = Corpus("x", (bytes_source("x", "\n".join(texts).upper().encode()),))
    assert documents(parts(HeldOutSplit(0.1, 0), upper, "line")[1]) == [text.upper() for text in valid]


def test_a_fraction_of_zero_holds_out_nothing() -> None:
    for rule in RULES:
        assert parts(HeldOutSplit(0.0, 0), corpus_of("a\nb\n", "c"), rule)[1] == []


def test_held_out_documents_keep_the_order_of_the_corpus() -> None:
    corpus = corpus_of("\n".join(f"{number:04}" for number in range(500)))
    pieces = HeldOutSplit(0.5, 3).pieces(corpus, "line", 2000)
    runs = list(groupby(is_held_out for is_held_out, _ in pieces))
    assert len(runs) > 100
    held_out = documents(parts(HeldOutSplit(0.5, 3), corpus, "line")[1])
    assert held_out == sorted(held_out)


# --- memory


def test_memory_for_writing_a_token_file_does_not_grow_with_the_text(tmp_path: Path, verse: Path) -> None:
    program = """
import resource, sys
from pathlib import Path
from satchel.data.tokens import TokenWriter, write_tokens
from satchel.datasets.corpora import open_corpus
from satchel.text.reading import DataSettings
from satchel.text.tokenizer import TokenizerSettings
from satchel.text.tokenizer_training import train_tokenizer
corpus = open_corpus(sys.argv[1], DataSettings())
pieces = (piece.text for piece in corpus.pieces())
tokenizer = train_tokenizer(TokenizerSettings(kind="word"), pieces, corpus.size)
corpus.identity()
with open(sys.argv[2], "wb") as handle:
    writer = TokenWriter(handle, tokenizer, "stream")
    counts = write_tokens(writer, corpus.pieces())
    writer.finish("")
assert counts.bytes == corpus.size
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
    text = verse.read_bytes()
    peaks = []
    for size in (3_000_000, 30_000_000):
        path = tmp_path / "text.txt"
        path.write_bytes(text * (size // len(text)))
        command = [sys.executable, "-c", program, str(path), str(tmp_path / "tokens")]
        peaks.append(int(subprocess.run(command, capture_output=True, check=True, text=True).stdout))
    assert peaks[1] < 1.2 * peaks[0]


def test_a_writer_accepts_any_seekable_file() -> None:
    handle = io.BytesIO()
    writer = TokenWriter(handle, LETTERS, "line")
    writer.write([])
    writer.write([Piece("a", False), Piece(" b", True)])
    writer.finish("x")
    assert writer.counts == TokenCounts(documents=1, tokens=4, characters=4, bytes=4)
