"""Reading: decoding, lines, folders, gzip files, changed files, and splitting into pieces."""

import codecs
import gzip
import hashlib
import io
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from satchel.datasets.corpora import open_corpus
from satchel.errors import DataError, SatchelError
from satchel.text import reading
from satchel.text.reading import Corpus, DataSettings, bytes_source, file_source, folder_sources, lines, split_pieces
from satchel.text.tokenizer import Tokenizer, TokenizerSettings, train_tokenizer

STRICT = DataSettings()
# Line separators of other programs that are ordinary characters here.
OTHER_SEPARATORS = "\r\x0b\x0c\x1c\x1d\x1e\x1f\x85\u2028\u2029\0"


def text_of(data: bytes, settings: DataSettings = STRICT, name: str = "a.txt") -> str:
    corpus = Corpus(name, (bytes_source(name, data),), settings)
    return "".join(corpus.texts(corpus.sources[0]))


def error_of(data: bytes, settings: DataSettings = STRICT, name: str = "a.txt") -> DataError:
    with pytest.raises(DataError) as caught:
        text_of(data, settings, name)
    return caught.value


def texts(folder: Path) -> list[str]:
    corpus = open_corpus(folder, STRICT)
    return ["".join(corpus.texts(source)) for source in corpus.sources]


# --- bytes to characters


INVALID_UTF8 = {
    "start": (b"\xffabc\n", 0, 1),
    "middle": (b"ab\nc\xffd\n", 4, 2),
    "end": (b"abc\n\xe2\x82", 4, 2),
    "overlong": (b"ab\xc0\xafc", 2, 1),
    "overlong of three": (b"ab\n\xe0\x80\xafc", 3, 2),
    "half a surrogate pair": (b"\n\n\xed\xa0\x80", 2, 3),
    "above U+10FFFF": (b"abcdef\xf4\x90\x80\x80", 6, 1),
    "a lone continuation": (b"\xc3\xa9\x80", 2, 1),
    "latin-1": ("naïve café".encode("latin-1"), 2, 1),
}


@pytest.mark.parametrize("chunk", [1, 2, 3, 5, 1 << 18])
@pytest.mark.parametrize(("data", "byte", "line"), INVALID_UTF8.values(), ids=INVALID_UTF8)
def test_invalid_utf8_is_reported_with_its_byte_and_line_for_every_chunk_size(
    data: bytes, byte: int, line: int, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "CHUNK", chunk)
    error = error_of(data)
    assert f"found byte {data[byte]:#04x} at byte {byte}, expected utf-8" in error.cause
    assert error.where == f"a.txt, line {line}"
    assert "--encoding latin-1" in error.remedy


def test_positions_of_invalid_bytes_are_correct_around_a_chunk_boundary() -> None:
    for position in range(reading.CHUNK - 2, reading.CHUNK + 3):
        assert f"at byte {position}," in error_of(b"a" * position + b"\xff\n").cause
    # A character across the boundary is decoded.
    for start in range(reading.CHUNK - 4, reading.CHUNK + 1):
        assert text_of(b"a" * start + "😀".encode() + b"b") == "a" * start + "😀b"


@given(st.binary(max_size=40), st.sampled_from(["replace", "skip"]), st.integers(1, 7))
@settings(max_examples=400, deadline=None)
def test_replaced_and_skipped_bytes_equal_those_of_python_for_every_chunk_size(
    data: bytes, policy: str, chunk: int
) -> None:
    data_settings = DataSettings.model_validate({"encoding_errors": policy})
    results = []
    for size in (chunk, 1 << 18):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(reading, "CHUNK", size)
            corpus = Corpus("x", (bytes_source("x", b"." + data),), data_settings)
            results.append(("".join(corpus.texts(corpus.sources[0])), corpus.repaired))
    assert results[0] == results[1]
    # The leading full stop excludes a byte order mark and the signature of gzip.
    assert results[0][0] == (b"." + data).decode("utf-8", "replace" if policy == "replace" else "ignore")


def test_invalid_byte_sequences_are_counted_per_source() -> None:
    replacing = DataSettings(encoding_errors="replace")
    sources = (bytes_source("a", b"\xff\xfe\xffx"), bytes_source("b", b"fine"), bytes_source("c", b"\xe2\x82"))
    corpus = Corpus("three", sources, replacing)
    assert ["".join(corpus.texts(source)) for source in sources] == ["\ufffd\ufffd\ufffdx", "fine", "\ufffd"]
    assert corpus.repaired == {"a": 3, "c": 1}
    list(corpus.pieces())
    assert corpus.repaired == {"a": 3, "c": 1}  # the counts do not accumulate
    skipping = Corpus("three", sources, DataSettings(encoding_errors="skip"))
    assert "".join(piece.text for piece in skipping.pieces()) == "xfine"
    assert skipping.repaired == {"a": 3, "c": 1}


@pytest.mark.parametrize("chunk", [1, 3, 1 << 18])
@pytest.mark.parametrize(
    ("encoding", "mark"),
    [
        ("utf-16-le", codecs.BOM_UTF16_LE),
        ("utf-16-be", codecs.BOM_UTF16_BE),
        ("utf-32-le", codecs.BOM_UTF32_LE),
        ("utf-32-be", codecs.BOM_UTF32_BE),
    ],
)
def test_the_remedy_names_utf16_and_utf32_which_can_be_read(
    encoding: str, mark: bytes, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "CHUNK", chunk)
    name, data = encoding[:6], mark + "héllo\n😀".encode(encoding)
    remedy = error_of(data).remedy
    # With smaller chunks the error may occur before the whole mark is read.
    assert f"use --encoding {name}" in remedy or chunk < 4
    assert text_of(data, DataSettings(encoding=name)) == "héllo\n😀"


def test_a_byte_order_mark_in_the_middle_of_a_file_does_not_suggest_utf16(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "CHUNK", 4)
    assert "UTF-16" not in error_of(b"abcd\xff\xfeab").remedy


def test_a_file_that_ends_within_a_utf16_character_is_rejected() -> None:
    error = error_of("abc".encode("utf-16") + b"d", DataSettings(encoding="utf-16"))
    assert "at byte 8," in error.cause


def test_latin1_can_be_read() -> None:
    data = bytes(range(256))
    assert text_of(data, DataSettings(encoding="latin-1")) == data.decode("latin-1")


@pytest.mark.parametrize("encoding", ["no-such", "base64", "rot13", "zlib", "hex", "undefined", "idna", "a\0b", ""])
def test_codecs_that_do_not_decode_to_text_are_rejected(encoding: str) -> None:
    with pytest.raises(ValueError, match=r"expected a text encoding|embedded null"):
        DataSettings(encoding=encoding)


@pytest.mark.parametrize("encoding", ["punycode", "utf-7", "shift_jis", "cp1252", "ascii"])
def test_errors_of_other_encodings_name_the_file(encoding: str) -> None:
    for policy in ("strict", "replace", "skip"):
        try:
            text_of(
                b"\x81\xff+\x80abc" * 3, DataSettings.model_validate({"encoding": encoding, "encoding_errors": policy})
            )
        except SatchelError as error:
            assert error.where.startswith("a.txt")  # noqa: PT017 - some encodings accept the bytes


@pytest.mark.parametrize("chunk", [1, 2, 1 << 18])
def test_one_byte_order_mark_is_removed_at_the_start_only(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "CHUNK", chunk)
    mark = "\ufeff"
    assert text_of(f"{mark}a{mark}b".encode()) == f"a{mark}b"
    assert text_of(f"{mark}{mark}a".encode()) == f"{mark}a"
    assert text_of(f"a{mark}".encode()) == f"a{mark}"
    assert text_of(mark.encode()) == ""
    for encoding in ("utf-16", "utf-32", "utf-8-sig"):
        # The encoder writes a mark; the second one is text.
        assert text_of(f"{mark}a".encode(encoding), DataSettings(encoding=encoding)) == f"{mark}a"
    two = (bytes_source("a", f"{mark}x".encode()), bytes_source("b", f"{mark}y".encode()))
    assert "".join(piece.text for piece in Corpus("two", two).pieces()) == "xy"


def test_nul_and_control_characters_are_text() -> None:
    characters = "".join(chr(code) for code in range(0xA0)) + "\u200d\u202e\u2066\ufeff\ufffe\U0010ffff"
    assert text_of(characters.encode()) == characters


# --- lines


@pytest.mark.parametrize("chunk", [1, 2, 7, 1 << 18])
def test_only_a_newline_ends_a_line(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "CHUNK", chunk)
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


def test_a_stream_keeps_its_line_ends() -> None:
    assert text_of(b"a\r\nb\rc\n") == "a\r\nb\rc\n"


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


# --- folders


def test_the_text_files_of_a_folder_are_sorted_by_relative_path_without_hidden_files(tmp_path: Path) -> None:
    for name in ("b.txt", "a/z.txt", "a.txt", "a/b/c.txt", "Z.txt", "é.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name, encoding="utf-8")
    (tmp_path / "d.txt.gz").write_bytes(gzip.compress(b"d.txt.gz"))
    for name in (".hidden.txt", ".git/x.txt", "a/.x/y.txt", "picture.png", "table.csv", "txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"\xff")
    names = ["Z.txt", "a.txt", "a/b/c.txt", "a/z.txt", "b.txt", "d.txt.gz", "é.txt"]
    sources, others = folder_sources(tmp_path)
    assert [source.name for source in sources] == names
    assert texts(tmp_path) == names
    assert others == 3
    assert open_corpus(tmp_path, STRICT).skipped == 3


def test_a_folder_inside_a_hidden_folder_can_be_opened(tmp_path: Path) -> None:
    (tmp_path / ".cache" / "data").mkdir(parents=True)
    (tmp_path / ".cache" / "data" / "a.txt").write_text("a", encoding="utf-8")
    assert texts(tmp_path / ".cache" / "data") == ["a"]


def test_cyclic_symbolic_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a", encoding="utf-8")
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "up").symlink_to(tmp_path)
    (tmp_path / "self").symlink_to(tmp_path / "self")
    assert texts(tmp_path) == ["a"]
    (tmp_path / "loop.txt").symlink_to(tmp_path / "loop.txt")
    with pytest.raises(DataError, match=r"loop\.txt: cannot be read: Too many"):
        open_corpus(tmp_path, STRICT)


def test_a_folder_without_text_files_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "a.pdf").touch()
    with pytest.raises(DataError, match=r"has 1 files, none of them \.txt"):
        open_corpus(tmp_path, STRICT)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="this user may read all files")
def test_an_unreadable_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.txt").touch()
    (tmp_path / "closed").mkdir()
    (tmp_path / "closed").chmod(0)
    with pytest.raises(DataError, match=r"closed: cannot be read: Permission denied"):
        open_corpus(tmp_path, STRICT)


def test_files_with_names_that_are_not_utf8_can_be_read(tmp_path: Path) -> None:
    with open(os.fsencode(tmp_path) + b"/\xff.txt", "wb") as handle:
        handle.write(b"text")
    assert texts(tmp_path) == ["text"]
    assert len(open_corpus(tmp_path, STRICT).identity()) == 64


# --- other than regular files


@pytest.mark.timeout(20)
@pytest.mark.parametrize("kind", ["fifo", "device", "folder", "missing", "under a file", "long", "nul", "half a pair"])
def test_other_than_regular_files_are_rejected_without_blocking(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "x"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "device":
        path = Path("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    elif kind == "under a file":
        path.touch()
        path = path / "y"
    elif kind != "missing":
        path = tmp_path / {"long": "x" * 5000, "nul": "a\0b", "half a pair": "\ud800"}[kind]
    with pytest.raises(DataError) as caught:
        file_source(path)
    assert caught.value.where == str(path)
    with pytest.raises(DataError):
        open_corpus(str(path), STRICT)
    with pytest.raises(DataError):
        open_corpus(f"{path},{path}", STRICT)


@pytest.mark.timeout(20)
def test_a_pipe_in_a_folder_is_rejected_without_blocking(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.txt")
    with pytest.raises(DataError, match="is not a regular file"):
        open_corpus(tmp_path, STRICT)


def test_an_empty_name_is_rejected() -> None:
    with pytest.raises(DataError, match="name of the data is empty"):
        open_corpus("", STRICT)


# --- gzip


def test_gzip_is_detected_by_content(tmp_path: Path) -> None:
    compressed = gzip.compress("größe\n".encode())
    for name in ("a.txt.gz", "a.txt", "a"):
        assert text_of(compressed, name=name) == "größe\n"
    assert text_of(compressed + gzip.compress(b"more"), name="a.gz") == "größe\nmore"
    assert text_of(gzip.compress(b""), name="a.gz") == ""
    assert "has the extension .gz but is not a gzip file" in error_of(b"plain text", name="a.gz").cause


@pytest.mark.parametrize("count", [1, 2, 5, 12, 30, -9, -8, -4, -1])
def test_a_truncated_gzip_file_is_rejected(count: int) -> None:
    compressed = gzip.compress(os.urandom(50).hex().encode())
    error = error_of(compressed[:count], name="a.txt.gz")
    assert "gzip" in error.cause
    assert error.where == "a.txt.gz"


@pytest.mark.parametrize("garbage", [b"x", b"garbage", b"\x1f", b"\x1f\x8b", b"\x1f\x8b\x07garbage", b"\x1f\x8b\x08\0"])
def test_other_bytes_after_a_gzip_file_are_rejected(garbage: bytes) -> None:
    assert "is a damaged gzip file" in error_of(gzip.compress(b"text\n") + garbage, name="a.txt.gz").cause


def test_a_gzip_file_with_a_wrong_checksum_is_rejected() -> None:
    compressed = bytearray(gzip.compress(b"a text that is long enough to be worth packing\n" * 20))
    compressed[-6] ^= 1  # its checksum
    assert "is a damaged gzip file" in error_of(bytes(compressed)).cause


def test_a_gzip_file_inside_a_gzip_file_is_not_text() -> None:
    assert "expected utf-8" in error_of(gzip.compress(gzip.compress(b"text"))).cause


def test_a_gzip_bomb_is_detected_by_its_compression_ratio(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "FREE_BYTES", 1 << 20)
    compressed = gzip.compress(b"\n" * (8 << 20))
    limit = max(1 << 20, len(compressed) * reading.LARGEST_RATIO)
    assert error_of(compressed).cause == f"decompresses to more than {limit:,} bytes from {len(compressed):,}"
    # Small files, and files with the compression ratio of text, are accepted.
    assert len(text_of(gzip.compress(b"\n" * (1 << 20)))) == 1 << 20
    plain = np.random.default_rng(0).integers(97, 123, 3 << 20, np.uint8).tobytes()
    assert len(text_of(gzip.compress(plain, 1))) == 3 << 20


def test_a_large_gzip_bomb_is_rejected_early() -> None:
    # 80 members of 16 MiB each: 1.3 GB from a megabyte.
    member = gzip.compress(bytes(16 << 20))
    corpus = Corpus("bomb", (bytes_source("bomb.gz", member * 80),))
    lengths: list[int] = []
    with pytest.raises(DataError, match="decompresses to more than"):
        lengths.extend(len(text) for text in corpus.texts(corpus.sources[0]))
    assert sum(lengths) <= max(reading.FREE_BYTES, 80 * len(member) * reading.LARGEST_RATIO)


def test_max_bytes_limits_the_decompressed_size() -> None:
    compressed = gzip.compress(b"a" * 1000)
    assert len(text_of(compressed, DataSettings(max_bytes=1000))) == 1000
    assert "decompresses to more than 999 bytes" in error_of(compressed, DataSettings(max_bytes=999)).cause


# --- changed files


@pytest.mark.parametrize("change", ["longer", "shorter", "rewritten", "replaced", "deleted", "a pipe"])
@pytest.mark.timeout(20)
def test_a_file_that_changes_between_two_reads_is_rejected(change: str, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("some text\n", encoding="utf-8")
    os.utime(path, ns=(10**18, 10**18))
    corpus = open_corpus(path, STRICT)
    corpus.identity()
    if change == "replaced":
        other = tmp_path / "b"
        other.write_text("same size\n", encoding="utf-8")
        os.utime(other, ns=(10**18, 10**18))
        other.replace(path)
    elif change in ("deleted", "a pipe"):
        path.unlink()
        if change == "a pipe":
            os.mkfifo(path)
    else:
        path.write_text({"longer": "some text\nmore", "shorter": "some", "rewritten": "SOME TEXT\n"}[change])
    with pytest.raises(DataError, match=r"changed while it was being read|no such file|not a regular file"):
        list(corpus.pieces())
    with pytest.raises(DataError):
        corpus.identity()


def test_a_file_that_changes_while_it_is_read_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"line of text\n" * 100_000)
    corpus = open_corpus(path, STRICT)
    reader = corpus.texts(corpus.sources[0])
    next(reader)
    with open(path, "ab") as handle:
        handle.write(b"more")
    with pytest.raises(DataError, match="changed while it was being read"):
        list(reader)


def test_reading_a_part_of_a_file_is_allowed(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"line of text\n" * 100_000)
    corpus = open_corpus(path, STRICT)
    reader = corpus.texts(corpus.sources[0])
    next(reader)
    assert isinstance(reader, Iterator)
    reader.close()  # type: ignore[attr-defined]
    assert len("".join(corpus.texts(corpus.sources[0]))) == 1_300_000


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


# --- standard input


def test_standard_input_can_be_read_twice() -> None:
    program = """
from satchel.datasets.corpora import open_corpus
from satchel.text.reading import DataSettings
corpus = open_corpus("-", DataSettings())
for _ in range(2):
    print(ascii("".join(piece.text for piece in corpus.pieces())), corpus.size, corpus.identity())
"""
    data = "größe\n".encode() * 3
    done = subprocess.run([sys.executable, "-c", program], input=data, capture_output=True, check=True)
    identity = hashlib.sha256(b"-\x0024\0" + data).hexdigest()
    line = f"{data.decode()!a} {len(data)} {identity}\n"
    assert done.stdout.decode() == line * 2
    compressed = subprocess.run(
        [sys.executable, "-c", program], input=gzip.compress(data), capture_output=True, check=True
    )
    assert compressed.stdout.decode().startswith(ascii(data.decode()))


def test_errors_name_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"ab\xff")))
    with pytest.raises(DataError, match="standard input, line 1: found byte 0xff at byte 2"):
        list(open_corpus("-", STRICT).pieces())


def test_a_closed_standard_input_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(DataError, match="standard input: is closed"):
        open_corpus("-", STRICT)


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

    from satchel.text import tokenizer

    scores = [(character, -9.0 - index / 1000) for index, character in enumerate(tokenizer.ALPHABET)]
    scores += [(spelling, -5.0 - index / 100) for index, spelling in enumerate(dict.fromkeys(spellings))]
    return Tokenizer(tokenizer._byte_level(models.Unigram(scores, None, False)).to_str())


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
