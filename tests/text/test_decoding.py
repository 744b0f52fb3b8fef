"""Decoding: error positions, byte order marks, encodings, gzip files."""

import codecs
import gzip
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from satchel.errors import DataError, SatchelError
from satchel.text import decoding, sources
from satchel.text.reading import Corpus, DataSettings
from satchel.text.sources import bytes_source

STRICT = DataSettings()


def text_of(data: bytes, settings: DataSettings = STRICT, name: str = "a.txt") -> str:
    corpus = Corpus(name, (bytes_source(name, data),), settings)
    return "".join(corpus.texts(corpus.sources[0]))


def error_of(data: bytes, settings: DataSettings = STRICT, name: str = "a.txt") -> DataError:
    with pytest.raises(DataError) as caught:
        text_of(data, settings, name)
    return caught.value


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
    monkeypatch.setattr(decoding, "CHUNK", chunk)
    error = error_of(data)
    assert f"byte {data[byte]:#04x} at offset {byte} is not valid utf-8" in error.cause
    assert error.where == f"a.txt, line {line}"
    assert "--encoding latin-1" in error.remedy


def test_positions_of_invalid_bytes_are_correct_around_a_chunk_boundary() -> None:
    for position in range(sources.CHUNK - 2, sources.CHUNK + 3):
        assert f"at offset {position} " in error_of(b"a" * position + b"\xff\n").cause
    # A character across the boundary is decoded.
    for start in range(sources.CHUNK - 4, sources.CHUNK + 1):
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
            patch.setattr(decoding, "CHUNK", size)
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
    monkeypatch.setattr(decoding, "CHUNK", chunk)
    name, data = encoding[:6], mark + "héllo\n😀".encode(encoding)
    remedy = error_of(data).remedy
    # With smaller chunks the error may occur before the whole mark is read.
    assert f"use --encoding {name}" in remedy or chunk < 4
    assert text_of(data, DataSettings(encoding=name)) == "héllo\n😀"


def test_a_byte_order_mark_in_the_middle_of_a_file_does_not_suggest_utf16(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "CHUNK", 4)
    assert "UTF-16" not in error_of(b"abcd\xff\xfeab").remedy


def test_a_file_that_ends_within_a_utf16_character_is_rejected() -> None:
    error = error_of("abc".encode("utf-16") + b"d", DataSettings(encoding="utf-16"))
    assert "at offset 8 " in error.cause


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
    monkeypatch.setattr(decoding, "CHUNK", chunk)
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
    assert "is not valid utf-8" in error_of(gzip.compress(gzip.compress(b"text"))).cause


def test_a_gzip_bomb_is_detected_by_its_compression_ratio(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "FREE_BYTES", 1 << 20)
    compressed = gzip.compress(b"\n" * (8 << 20))
    limit = max(1 << 20, len(compressed) * decoding.LARGEST_RATIO)
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
    assert sum(lengths) <= max(decoding.FREE_BYTES, 80 * len(member) * decoding.LARGEST_RATIO)


def test_max_bytes_limits_the_decompressed_size() -> None:
    compressed = gzip.compress(b"a" * 1000)
    assert len(text_of(compressed, DataSettings(max_bytes=1000))) == 1000
    assert "decompresses to more than 999 bytes" in error_of(compressed, DataSettings(max_bytes=999)).cause
