"""Hostile and damaged safetensors files are refused at once and named; sound ones are what the library itself reads."""

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
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


def file(path: Path, header: bytes | dict[str, Any], body: bytes = b"", length: int | None = None) -> Path:
    """Write a file with a header of any kind, whose sha256 is right where it can be."""
    if isinstance(header, dict):
        header = json.dumps({"__metadata__": {"sha256": hashlib.sha256(body).hexdigest()}, **header}).encode()
    path.write_bytes(struct.pack("<Q", len(header) if length is None else length) + header + body)
    return path


def sound(path: Path) -> Path:
    with durable.new_file(path) as handle:
        tensors.write(handle, ARRAYS, {"note": "é"})
    return path


@contextmanager
def refusal(match: str = ".") -> Iterator[None]:
    """Expect a refusal that names the file and takes less than a second."""
    began = time.perf_counter()
    with pytest.raises(RunError, match=match) as refused:
        yield
    assert time.perf_counter() - began < 1
    assert "/" in refused.value.where
    assert len(str(refused.value)) < 1000


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    return tmp_path / "hostile.safetensors"


EIGHT = b"\0" * 8
ONE = entry("F64", [1], [0, 8])
HEADERS: dict[str, tuple[bytes | dict[str, Any], bytes]] = {
    "no header": (b"", b""),
    "not JSON": (b"{{", b""),
    "not UTF-8": (b'{"\xff": 1}', b""),
    "UTF-16": ('{"a": 1}'.encode("utf-16"), b""),
    "a list": (b"[]", b""),
    "a number": (b"1", b""),
    "deep lists": (b"[" * 50_000 + b"]" * 50_000, b""),
    "deep tables": (b'{"a":' * 50_000 + b"1" + b"}" * 50_000, b""),
    "a number of 5000 digits": (b'{"a":' + b"9" * 5000 + b"}", b""),
    "a key twice": (b'{"a":%b,"a":%b}' % ((json.dumps(ONE).encode(),) * 2), EIGHT),
    "metadata twice": (b'{"__metadata__":{},"__metadata__":{},"a":%b}' % json.dumps(ONE).encode(), EIGHT),
    "no sha256": (json.dumps({"a": ONE}).encode(), EIGHT),
    "metadata of numbers": ({"__metadata__": {"sha256": 1}, "a": ONE}, EIGHT),
    "metadata a list": ({"__metadata__": [], "a": ONE}, EIGHT),
    "another sha256": ({"__metadata__": {"sha256": "0" * 64}, "a": ONE}, EIGHT),
    "a NaN size": (b'{"a":{"dtype":"F64","shape":[NaN],"data_offsets":[0,8]}}', EIGHT),
    "a negative side": ({"a": entry("F64", [-1], [0, 8])}, EIGHT),
    "two negative sides": ({"a": entry("F64", [-1, -1], [0, 8])}, EIGHT),
    "a side that overflows": ({"a": entry("F64", [2**61 + 1], [0, 8])}, EIGHT),
    "sides that overflow": ({"a": entry("F64", [2**32, 2**32, 2**32, 1], [0, 8])}, EIGHT),
    "a huge empty shape": ({"a": entry("F64", [2**62, 0], [0, 0])}, b""),
    "a large empty shape": ({"a": entry("F64", [2**39, 0], [0, 0])}, b""),
    "large empty sides": ({"a": entry("F64", [2**30, 0, 2**30], [0, 0])}, b""),
    "too many sides": ({"a": entry("F64", [1] * 5, [0, 8])}, EIGHT),
    "100,000 sides": ({"a": entry("F64", [1] * 100_000, [0, 8])}, EIGHT),
    "a true side": ({"a": entry("F64", [True], [0, 8])}, EIGHT),
    "a float side": ({"a": entry("F64", [1.0], [0, 8])}, EIGHT),
    "no shape": ({"a": entry("F64", None, [0, 8])}, EIGHT),
    "a shape that is text": ({"a": entry("F64", "1", [0, 8])}, EIGHT),
    "float offsets": ({"a": entry("F64", [1], [0.0, 8.0])}, EIGHT),
    "negative offsets": ({"a": entry("F64", [1], [-8, 0])}, EIGHT),
    "offsets past the end": ({"a": entry("F64", [2], [0, 16])}, EIGHT),
    "offsets backwards": ({"a": entry("F64", [1], [8, 0])}, EIGHT),
    "overlapping": ({"a": ONE, "b": entry("F64", [1], [4, 12])}, EIGHT + b"\0" * 4),
    "the same bytes twice": ({"a": ONE, "b": ONE}, EIGHT),
    "a hole": ({"a": ONE, "b": entry("F64", [1], [16, 24])}, EIGHT * 3),
    "a hole at the beginning": ({"a": entry("F64", [1], [8, 16])}, EIGHT * 2),
    "bytes at the end": ({"a": ONE}, EIGHT + b"x"),
    "an empty array at another's place": ({"a": ONE, "b": entry("F64", [0], [0, 0])}, EIGHT),
    "an empty array inside another": ({"a": ONE, "b": entry("F64", [0], [4, 4])}, EIGHT),
    "an unknown dtype": ({"a": entry("F63", [1], [0, 8])}, EIGHT),
    "a dtype of the library that is not ours": ({"a": entry("BF16", [4], [0, 8])}, EIGHT),
    "a dtype that is a list": ({"a": entry(["F64"], [1], [0, 8])}, EIGHT),
    "a dtype that is a table": ({"a": entry({}, [1], [0, 8])}, EIGHT),
    "no dtype": ({"a": {"shape": [1], "data_offsets": [0, 8]}}, EIGHT),
    "one key too many": ({"a": {**ONE, "code": "os.system"}}, EIGHT),
    "an entry that is a list": ({"a": [1]}, EIGHT),
    "10,000 tensors too many": ({f"t{i}": entry("U8", [0], [0, 0]) for i in range(15_000)}, b""),
    "a name that climbs": ({"../../x": ONE}, EIGHT),
    "an absolute name": ({"/etc/passwd": ONE}, EIGHT),
    "a name with NUL": ({"a\0b": ONE}, EIGHT),
    "a name that is a script": ({"<script>alert(1)</script>": ONE}, EIGHT),
    "a name of another alphabet": ({"а": ONE}, EIGHT),
    "a name with a newline": ({"a\n": ONE}, EIGHT),
    "a name with a surrogate": ({"\ud800": ONE}, EIGHT),
    "no name": ({"": ONE}, EIGHT),
    "a name of 201 characters": ({"x" * 201: ONE}, EIGHT),
    "a name of 500,000 characters": ({"x" * 500_000: ONE}, EIGHT),
    "NaN": ({"a": ONE}, struct.pack("<d", float("nan"))),
    "infinity": ({"a": ONE}, struct.pack("<d", float("inf"))),
    "minus infinity in float32": ({"a": entry("F32", [2], [0, 8])}, struct.pack("<ff", 1, float("-inf"))),
}


@pytest.mark.parametrize("kind", HEADERS)
def test_a_file_that_is_not_sound_is_refused_and_named(kind: str, hostile: Path) -> None:
    file(hostile, *HEADERS[kind])
    with refusal():
        tensors.read(hostile)


def test_the_sound_file_that_these_are_made_of_is_read(hostile: Path) -> None:
    arrays, _ = tensors.read(file(hostile, {"a": ONE, "b": entry("F64", [0], [8, 8])}, EIGHT))
    assert arrays["a"].tolist() == [0.0]
    assert arrays["b"].shape == (0,)


@pytest.mark.parametrize("length", [1, 9, 1 << 20, (1 << 20) + 1, 100_000_001, 1 << 63, (1 << 64) - 1, (1 << 64) - 8])
def test_a_header_that_claims_to_be_longer_than_it_is_is_refused(length: int, hostile: Path) -> None:
    file(hostile, {"a": ONE}, EIGHT, length=length)
    with refusal():
        tensors.read(hostile)


def test_a_file_larger_than_the_memory_is_refused_before_it_is_read(hostile: Path) -> None:
    for header in (b"", json.dumps({"a": ONE}).encode()):
        file(hostile, header)
        os.truncate(hostile, 1 << 40)
        with refusal():
            tensors.read(hostile)
        os.truncate(hostile, tensors.LARGEST_FILE - 1)
        with refusal():
            tensors.read(hostile)
        with refusal():
            tensors.map_array(hostile, "a")


def test_a_file_that_was_cut_short_or_grew_is_refused(hostile: Path) -> None:
    data = sound(hostile).read_bytes()
    for part in range(50):
        hostile.write_bytes(data[: len(data) * part // 50])
        with refusal():
            tensors.read(hostile)
    for other in (b"", b"\0" * len(data), data + b"\0", data + data):
        hostile.write_bytes(other)
        with refusal():
            tensors.read(hostile)


def test_every_flipped_bit_of_the_arrays_is_noticed(hostile: Path) -> None:
    data = bytearray(sound(hostile).read_bytes())
    start = 8 + struct.unpack("<Q", data[:8])[0]
    for place in range(start * 8, len(data) * 8, 7):
        data[place // 8] ^= 1 << place % 8
        hostile.write_bytes(data)
        with refusal("is damaged"):
            tensors.read(hostile)
        data[place // 8] ^= 1 << place % 8


def test_a_pickle_by_another_name_is_refused_and_never_runs(hostile: Path, tmp_path: Path) -> None:
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
        with refusal():
            tensors.read(hostile)
        with refusal():
            tensors.map_array(hostile, "ids")
    assert not canary.exists()
    # The bomb is armed: whoever unpickles it finds out.
    pickle.loads(bomb)
    assert canary.exists()


def test_links_pipes_devices_and_folders_are_refused_without_waiting(
    hostile: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile.symlink_to(sound(tmp_path / "elsewhere"))
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
        monkeypatch.chdir(tmp_path)  # a socket's name has to be short
        listening.bind(kinds["socket"].name)
        for path in kinds.values():
            for read in (tensors.read, lambda path: tensors.map_array(path, "ids")):
                with refusal(re.escape(str(path))):
                    read(path)


# --- sound files ---------------------------------------------------------------------------------


def test_what_is_written_is_what_the_library_reads_and_what_comes_back(tmp_path: Path) -> None:
    path = sound(tmp_path / "model.safetensors")
    theirs = load_file(path)
    ours, metadata = tensors.read(path)
    assert metadata["note"] == "é"
    assert list(ours) == list(ARRAYS)
    for name, array in ARRAYS.items():
        for found in (ours[name], theirs[name]):
            assert found.dtype == array.dtype.newbyteorder("<")
            assert found.shape == array.shape
            np.testing.assert_array_equal(found, array)


def test_the_same_arrays_give_the_same_bytes(tmp_path: Path) -> None:
    assert sound(tmp_path / "one").read_bytes() == sound(tmp_path / "two").read_bytes()


@pytest.mark.parametrize("chunks", [[], [0], [1], [3, 0, 5], [70_000, 1]])
@pytest.mark.parametrize("dtype", [np.uint16, np.uint32, np.float64])
def test_an_array_written_as_it_comes_is_what_everybody_reads(chunks: list[int], dtype: Any, tmp_path: Path) -> None:
    path = tmp_path / "ids.safetensors"
    values = [np.arange(length) % 60_000 for length in chunks]
    with durable.new_file(path) as handle:
        writer = tensors.ArrayWriter(handle, "ids", dtype)
        for part in values:
            writer.append(part)
        writer.finish({"note": "x"})
    expected = np.concatenate([*values, np.empty(0)]).astype(dtype)
    mapped, metadata = tensors.map_array(path, "ids")
    assert metadata["note"] == "x"
    for found in (mapped, load_file(path)["ids"], tensors.read(path)[0]["ids"]):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


def test_a_mapped_file_of_other_arrays_is_refused(hostile: Path) -> None:
    for header in ({"a": ONE}, {"ids": entry("F64", [1, 1], [0, 8])}, {"ids": ONE, "a": entry("F64", [0], [8, 8])}, {}):
        file(hostile, header, EIGHT if header else b"")
        with refusal():
            tensors.map_array(hostile, "ids")


def test_metadata_is_never_written_over_the_array() -> None:
    with tempfile.TemporaryFile() as handle:
        writer = tensors.ArrayWriter(handle, "ids", np.uint16)
        with pytest.raises(AssertionError):
            writer.finish({"note": "x" * tensors.ArrayWriter.HEADER_SIZE})
