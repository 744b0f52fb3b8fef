"""Bytes to text: gzip decompression with limits, and incremental decoding with exact error positions."""

import codecs
import gzip
import zlib
from collections.abc import Iterator
from itertools import chain
from typing import IO

from satchel.errors import DataError
from satchel.text.sources import CHUNK, Source

# Protection against gzip bombs: maximum compression ratio, applied above a number of decompressed bytes.
LARGEST_RATIO = 200
FREE_BYTES = 1 << 27
# Encodings whose decoders remove the byte order mark.
BOM_ENCODINGS = ("utf-16", "utf-32", "utf-8-sig")


class DecodingErrors:
    """Codec error handler that replaces or skips invalid byte sequences and counts them, or raises the error."""

    def __init__(self, policy: str) -> None:
        self.policy = policy
        self.count = 0

    def __call__(self, error: UnicodeError) -> tuple[str, int]:
        if self.policy == "strict" or not isinstance(error, UnicodeDecodeError):
            raise error
        self.count += 1
        return "\ufffd" if self.policy == "replace" else "", error.end


def decode(chunks: Iterator[bytes], encoding: str, errors: DecodingErrors, where: str) -> Iterator[str]:
    """Yield the decoded text of chunks of bytes, without the byte order mark."""
    decoder = codecs.getincrementaldecoder(encoding)("satchel-decoding")
    offset = lines_before = 0
    may_have_bom = codecs.lookup(encoding).name not in BOM_ENCODINGS
    start = b""
    for chunk in chain(chunks, [b""]):
        # Error handlers are global, by name: register the handler of this source before each decoding step.
        codecs.register_error("satchel-decoding", errors)
        buffered = len(decoder.getstate()[0])
        start = (start + chunk)[:4]
        try:
            text = decoder.decode(chunk, final=not chunk)
        except UnicodeDecodeError as error:
            line = lines_before + error.object[: error.start].count(b"\n") + 1
            byte, position = error.object[error.start], offset - buffered + error.start
            raise DataError(
                f"byte {byte:#04x} at offset {position} is not valid {encoding}",
                _encoding_remedy(start),
                where=f"{where}, line {line}",
            ) from None
        except UnicodeError as error:  # some codecs raise errors without a position
            raise DataError(f"is not valid {encoding}: {error}", _encoding_remedy(start), where=where) from None
        offset += len(chunk)
        lines_before += text.count("\n")
        if may_have_bom and text:
            text = text.removeprefix("\ufeff")
            may_have_bom = False
        if text:
            yield text


def _encoding_remedy(start: bytes) -> str:
    """Return the remedy for a file that starts with these bytes."""
    if start in (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE):
        return "it starts with the byte order mark of UTF-32: use --encoding utf-32"
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "it starts with the byte order mark of UTF-16: use --encoding utf-16"
    return "set the encoding (for example --encoding latin-1), or use --encoding-errors replace or skip"


def decompress(handle: IO[bytes], source: Source, max_bytes: int) -> Iterator[bytes]:
    """Yield the bytes of a source in chunks, decompressed if they are gzip; raise DataError above the limits."""
    start = handle.read(2)
    handle.seek(0)
    if start != b"\x1f\x8b":
        if source.name.endswith(".gz") and start:
            raise DataError(
                "has the extension .gz but is not a gzip file", "rename it, or compress it", where=source.where
            )
        while chunk := handle.read(CHUNK):
            yield chunk
        return
    count = 0
    limit = min(max_bytes, max(FREE_BYTES, source.size * LARGEST_RATIO))
    try:
        with gzip.GzipFile(fileobj=handle) as decompressed:
            while chunk := decompressed.read(CHUNK):
                count += len(chunk)
                if count > limit:
                    raise DataError(
                        f"decompresses to more than {limit:,} bytes from {source.size:,}",
                        "if this is expected, decompress it and use the plain file",
                        where=source.where,
                    )
                yield chunk
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"is a damaged gzip file: {error}", "download or copy it again", where=source.where) from error
