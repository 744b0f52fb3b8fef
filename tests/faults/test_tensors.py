"""Hostile and damaged safetensors files are refused quickly; valid ones are read as by the safetensors library."""

import hashlib
import io
import json
import os
import pickle
import re
import socket
import struct
import tempfile
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from satchel import durable, tensors
from satchel.errors import RunError

pytestmark = pytest.mark.timeout(20)

ARRAYS: dict[str, tensors.Array] = {
    "a": np.arange(6, dtype=np.float64).reshape(2, 3),
    "b": np.arange(5, dtype=np.uint16),
    "c": np.empty((0, 3), np.int64),
    "d": np.array(7, np.int32),
    "e": np.arange(12, dtype=np.float32).reshape(3, 4)[:, ::2],
    "f": np.array([2**64 - 1], np.uint64),
    "g": np.array([1, 2], ">i8"),
}


def entry(dtype: Any, shape: Any, offsets: Any) -> dict[str, Any]:
    """Return a header entry of a tensor."""
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


def write_file(path: Path, header: bytes | dict[str, Any], body: bytes = b"", length: int | None = None) -> Path:
    """Write a file with an arbitrary header; a dictionary gets the correct sha256 unless it has its own metadata."""
    if isinstance(header, dict):
        header = json.dumps({"__metadata__": {"sha256": hashlib.sha256(body).hexdigest()}, **header}).encode()
    path.write_bytes(struct.pack("<Q", len(header) if length is None else length) + header + body)
    return path


def write_valid(path: Path) -> Path:
    """Write a valid file with all supported types."""
    with durable.new_file(path) as handle:
        tensors.write(handle, ARRAYS, {"note": "é"})
    return path


@contextmanager
def expect_refusal(match: str = ".") -> Iterator[None]:
    """Expect a RunError that names the file, within a second."""
    began = time.perf_counter()
    with pytest.raises(RunError, match=match) as error:
        yield
    assert time.perf_counter() - began < 1
    assert "/" in error.value.where
    assert len(str(error.value)) < 1000


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """Return the path for an invalid file."""
    return tmp_path / "hostile.safetensors"


EIGHT_BYTES = b"\0" * 8
ONE = entry("F64", [1], [0, 8])
# Header and body of each invalid file.
INVALID: dict[str, tuple[bytes | dict[str, Any], bytes]] = {
    "no header": (b"", b""),
    "not JSON": (b"{{", b""),
    "not UTF-8": (b'{"\xff": 1}', b""),
    "UTF-16": ('{"a": 1}'.encode("utf-16"), b""),
    "a list": (b"[]", b""),
    "a number": (b"1", b""),
    "deep lists": (b"[" * 50_000 + b"]" * 50_000, b""),
    "deep tables": (b'{"a":' * 50_000 + b"1" + b"}" * 50_000, b""),
    "a number of 5000 digits": (b'{"a":' + b"9" * 5000 + b"}", b""),
    "a key twice": (b'{"a":%b,"a":%b}' % ((json.dumps(ONE).encode(),) * 2), EIGHT_BYTES),
    "metadata twice": (b'{"__metadata__":{},"__metadata__":{},"a":%b}' % json.dumps(ONE).encode(), EIGHT_BYTES),
    "no sha256": (json.dumps({"a": ONE}).encode(), EIGHT_BYTES),
    "metadata of numbers": ({"__metadata__": {"sha256": 1}, "a": ONE}, EIGHT_BYTES),
    "metadata a list": ({"__metadata__": [], "a": ONE}, EIGHT_BYTES),
    "another sha256": ({"__metadata__": {"sha256": "0" * 64}, "a": ONE}, EIGHT_BYTES),
    "a NaN size": (b'{"a":{"dtype":"F64","shape":[NaN],"data_offsets":[0,8]}}', EIGHT_BYTES),
    "a negative dimension": ({"a": entry("F64", [-1], [0, 8])}, EIGHT_BYTES),
    "two negative dimensions": ({"a": entry("F64", [-1, -1], [0, 8])}, EIGHT_BYTES),
    "a dimension that overflows": ({"a": entry("F64", [2**61 + 1], [0, 8])}, EIGHT_BYTES),
    "dimensions whose product overflows": ({"a": entry("F64", [2**32, 2**32, 2**32, 1], [0, 8])}, EIGHT_BYTES),
    "a huge empty shape": ({"a": entry("F64", [2**62, 0], [0, 0])}, b""),
    "a large empty shape": ({"a": entry("F64", [2**39, 0], [0, 0])}, b""),
    "large dimensions of an empty shape": ({"a": entry("F64", [2**30, 0, 2**30], [0, 0])}, b""),
    "too many dimensions": ({"a": entry("F64", [1] * 5, [0, 8])}, EIGHT_BYTES),
    "100,000 dimensions": ({"a": entry("F64", [1] * 100_000, [0, 8])}, EIGHT_BYTES),
    "a boolean dimension": ({"a": entry("F64", [True], [0, 8])}, EIGHT_BYTES),
    "a float dimension": ({"a": entry("F64", [1.0], [0, 8])}, EIGHT_BYTES),
    "no shape": ({"a": entry("F64", None, [0, 8])}, EIGHT_BYTES),
    "a shape that is text": ({"a": entry("F64", "1", [0, 8])}, EIGHT_BYTES),
    "float offsets": ({"a": entry("F64", [1], [0.0, 8.0])}, EIGHT_BYTES),
    "negative offsets": ({"a": entry("F64", [1], [-8, 0])}, EIGHT_BYTES),
    "offsets past the end": ({"a": entry("F64", [2], [0, 16])}, EIGHT_BYTES),
    "reversed offsets": ({"a": entry("F64", [1], [8, 0])}, EIGHT_BYTES),
    "overlapping": ({"a": ONE, "b": entry("F64", [1], [4, 12])}, EIGHT_BYTES + b"\0" * 4),
    "the same bytes twice": ({"a": ONE, "b": ONE}, EIGHT_BYTES),
    "a gap": ({"a": ONE, "b": entry("F64", [1], [16, 24])}, EIGHT_BYTES * 3),
    "a gap at the beginning": ({"a": entry("F64", [1], [8, 16])}, EIGHT_BYTES * 2),
    "bytes at the end": ({"a": ONE}, EIGHT_BYTES + b"x"),
    "an empty array at the offset of another array": ({"a": ONE, "b": entry("F64", [0], [0, 0])}, EIGHT_BYTES),
    "an empty array inside another": ({"a": ONE, "b": entry("F64", [0], [4, 4])}, EIGHT_BYTES),
    "an unknown dtype": ({"a": entry("F63", [1], [0, 8])}, EIGHT_BYTES),
    "an unsupported dtype of the safetensors library": ({"a": entry("BF16", [4], [0, 8])}, EIGHT_BYTES),
    "a dtype that is a list": ({"a": entry(["F64"], [1], [0, 8])}, EIGHT_BYTES),
    "a dtype that is a table": ({"a": entry({}, [1], [0, 8])}, EIGHT_BYTES),
    "no dtype": ({"a": {"shape": [1], "data_offsets": [0, 8]}}, EIGHT_BYTES),
    "one key too many": ({"a": {**ONE, "code": "os.system"}}, EIGHT_BYTES),
    "an entry that is a list": ({"a": [1]}, EIGHT_BYTES),
    "10,000 tensors too many": ({f"t{i}": entry("U8", [0], [0, 0]) for i in range(15_000)}, b""),
    "a name with parent folders": ({"../../x": ONE}, EIGHT_BYTES),
    "an absolute name": ({"/etc/passwd": ONE}, EIGHT_BYTES),
    "a name with NUL": ({"a\0b": ONE}, EIGHT_BYTES),
    "a name that is a script": ({"<script>alert(1)</script>": ONE}, EIGHT_BYTES),
    "a name with a Cyrillic letter": ({"а": ONE}, EIGHT_BYTES),
    "a name with a newline": ({"a\n": ONE}, EIGHT_BYTES),
    "a name with a surrogate": ({"\ud800": ONE}, EIGHT_BYTES),
    "an empty name": ({"": ONE}, EIGHT_BYTES),
    "a name of 201 characters": ({"x" * 201: ONE}, EIGHT_BYTES),
    "a name of 500,000 characters": ({"x" * 500_000: ONE}, EIGHT_BYTES),
    "NaN": ({"a": ONE}, struct.pack("<d", float("nan"))),
    "infinity": ({"a": ONE}, struct.pack("<d", float("inf"))),
    "minus infinity in float32": ({"a": entry("F32", [2], [0, 8])}, struct.pack("<ff", 1, float("-inf"))),
}


@pytest.mark.parametrize("kind", INVALID)
def test_an_invalid_file_is_refused(kind: str, hostile: Path) -> None:
    write_file(hostile, *INVALID[kind])
    with expect_refusal():
        tensors.read(hostile)


def test_the_valid_file_behind_the_invalid_ones_is_read(hostile: Path) -> None:
    arrays, _ = tensors.read(write_file(hostile, {"a": ONE, "b": entry("F64", [0], [8, 8])}, EIGHT_BYTES))
    assert arrays["a"].tolist() == [0.0]
    assert arrays["b"].shape == (0,)


@pytest.mark.parametrize("length", [1, 9, 1 << 20, (1 << 20) + 1, 100_000_001, 1 << 63, (1 << 64) - 1, (1 << 64) - 8])
def test_a_wrong_header_length_is_refused(length: int, hostile: Path) -> None:
    write_file(hostile, {"a": ONE}, EIGHT_BYTES, length=length)
    with expect_refusal():
        tensors.read(hostile)


def test_a_huge_file_is_refused_before_it_is_read(hostile: Path) -> None:
    for header in (b"", json.dumps({"a": ONE}).encode()):
        write_file(hostile, header)
        os.truncate(hostile, 1 << 40)
        with expect_refusal():
            tensors.read(hostile)
        os.truncate(hostile, tensors.LARGEST_FILE - 1)
        with expect_refusal():
            tensors.read(hostile)
        with expect_refusal():
            tensors.map_array(hostile, "a")


def test_a_truncated_or_extended_file_is_refused(hostile: Path) -> None:
    data = write_valid(hostile).read_bytes()
    for part in range(50):
        hostile.write_bytes(data[: len(data) * part // 50])
        with expect_refusal():
            tensors.read(hostile)
    for damaged in (b"", b"\0" * len(data), data + b"\0", data + data):
        hostile.write_bytes(damaged)
        with expect_refusal():
            tensors.read(hostile)


def test_a_flipped_bit_in_the_arrays_is_detected(hostile: Path) -> None:
    data = bytearray(write_valid(hostile).read_bytes())
    start = 8 + struct.unpack("<Q", data[:8])[0]
    for bit in range(start * 8, len(data) * 8, 7):
        data[bit // 8] ^= 1 << bit % 8
        hostile.write_bytes(data)
        with expect_refusal("is damaged"):
            tensors.read(hostile)
        data[bit // 8] ^= 1 << bit % 8


def test_pickle_files_are_refused_and_never_executed(hostile: Path, tmp_path: Path) -> None:
    canary = tmp_path / "canary"

    class Bomb:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.mkdir, (str(canary),)

    bomb = pickle.dumps(Bomb())
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("archive/data.pkl", bomb)
    array = io.BytesIO()
    np.save(array, np.array([Bomb()], dtype=object), allow_pickle=True)
    for data in (bomb, archive.getvalue(), array.getvalue()):
        hostile.write_bytes(data)
        with expect_refusal():
            tensors.read(hostile)
        with expect_refusal():
            tensors.map_array(hostile, "ids")
    assert not canary.exists()
    # Unpickling would have executed the payload.
    pickle.loads(bomb)
    assert canary.exists()


def test_symlinks_pipes_devices_and_folders_are_refused_without_blocking(
    hostile: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile.symlink_to(write_valid(tmp_path / "valid"))
    kinds = {
        "link": hostile,
        "device": Path("/dev/zero"),
        "pipe": tmp_path / "hostile-pipe",
        "socket": tmp_path / "hostile-socket",
        "folder": tmp_path / "hostile-folder",
        "nothing": tmp_path / "hostile-nothing",
    }
    os.mkfifo(kinds["pipe"])
    kinds["folder"].mkdir()
    with socket.socket(socket.AF_UNIX) as listening:
        monkeypatch.chdir(tmp_path)  # the path of a socket has a maximum length
        listening.bind(kinds["socket"].name)
        for path in kinds.values():
            for read in (tensors.read, lambda path: tensors.map_array(path, "ids")):
                with expect_refusal(re.escape(str(path))):
                    read(path)


# --- valid files ---------------------------------------------------------------------------------


def test_written_arrays_are_read_back_by_satchel_and_by_the_safetensors_library(tmp_path: Path) -> None:
    path = write_valid(tmp_path / "model.safetensors")
    by_library = load_file(path)
    arrays, metadata = tensors.read(path)
    assert metadata["note"] == "é"
    assert list(arrays) == list(ARRAYS)
    for name, array in ARRAYS.items():
        for result in (arrays[name], by_library[name]):
            assert result.dtype == array.dtype.newbyteorder("<")
            assert result.shape == array.shape
            np.testing.assert_array_equal(result, array)


def test_the_same_arrays_give_the_same_bytes(tmp_path: Path) -> None:
    assert write_valid(tmp_path / "one").read_bytes() == write_valid(tmp_path / "two").read_bytes()


@pytest.mark.parametrize("chunks", [[], [0], [1], [3, 0, 5], [70_000, 1]])
@pytest.mark.parametrize("dtype", [np.uint16, np.uint32, np.float64])
def test_an_array_written_in_chunks_is_read_back_by_every_reader(chunks: list[int], dtype: Any, tmp_path: Path) -> None:
    path = tmp_path / "ids.safetensors"
    values = [np.arange(length) % 60_000 for length in chunks]
    with durable.new_file(path) as handle:
        writer = tensors.ArrayWriter(handle, "ids", dtype)
        for chunk in values:
            writer.append(chunk)
        writer.finish({"note": "x"})
    expected = np.concatenate([*values, np.empty(0)]).astype(dtype)
    mapped, metadata = tensors.map_array(path, "ids")
    assert metadata["note"] == "x"
    for result in (mapped, load_file(path)["ids"], tensors.read(path)[0]["ids"]):
        assert result.dtype == expected.dtype
        np.testing.assert_array_equal(result, expected)


def test_mapping_a_file_with_other_arrays_is_refused(hostile: Path) -> None:
    for header in ({"a": ONE}, {"ids": entry("F64", [1, 1], [0, 8])}, {"ids": ONE, "a": entry("F64", [0], [8, 8])}, {}):
        write_file(hostile, header, EIGHT_BYTES if header else b"")
        with expect_refusal():
            tensors.map_array(hostile, "ids")


def test_metadata_larger_than_the_reserved_header_is_refused() -> None:
    with tempfile.TemporaryFile() as handle:
        writer = tensors.ArrayWriter(handle, "ids", np.uint16)
        with pytest.raises(AssertionError):
            writer.finish({"note": "x" * tensors.ArrayWriter.HEADER_SIZE})
