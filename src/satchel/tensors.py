"""Reading and writing arrays in safetensors files, with stricter checks than the safetensors library.

A file carries the sha256 of its array bytes in its own header. Reading parses exactly the bytes that were hashed, and
rejects duplicate keys, unusual names, gaps between arrays and values that are not finite.
"""

import hashlib
import io
import json
import math
import os
import re
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt
import safetensors

from satchel import durable
from satchel.errors import RunError

Array = npt.NDArray[Any]

DTYPES: dict[str, npt.DTypeLike] = {
    "F64": np.float64, "F32": np.float32, "I64": np.int64, "I32": np.int32,
    "U64": np.uint64, "U32": np.uint32, "U16": np.uint16, "U8": np.uint8,
}  # fmt: skip
NAMES = {np.dtype(dtype): name for name, dtype in DTYPES.items()}
GOOD_NAME = re.compile(r"[a-zA-Z0-9_][a-zA-Z0-9_.\-]{0,199}")
LARGEST_HEADER = 1 << 20
LARGEST_FILE = 1 << 36
MOST_TENSORS = 10_000


class ArrayInfo(NamedTuple):
    """Type and shape of an array."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


def write(handle: BinaryIO, arrays: Mapping[str, Array], metadata: Mapping[str, str]) -> None:
    """Write arrays one after another without copying them."""
    little = {name: np.asarray(array, array.dtype.newbyteorder("<"), order="C") for name, array in arrays.items()}
    digest = hashlib.sha256()
    for array in little.values():
        digest.update(array.data.cast("B") if array.size else b"")
    header = _header(
        {name: (array.dtype, array.shape, array.nbytes) for name, array in little.items()},
        {**metadata, "sha256": digest.hexdigest()},
    )
    header += b" " * (-len(header) % 8)
    handle.write(struct.pack("<Q", len(header)) + header)
    for array in little.values():
        if array.size:
            handle.write(array.data.cast("B"))


def _header(tensors: Mapping[str, tuple[np.dtype[Any], tuple[int, ...], int]], metadata: Mapping[str, str]) -> bytes:
    entries: dict[str, Any] = {"__metadata__": dict(metadata)}
    start = 0
    for name, (dtype, shape, size) in tensors.items():
        entries[name] = {
            "dtype": NAMES[dtype.newbyteorder("=")], "shape": list(shape), "data_offsets": [start, start + size],
        }  # fmt: skip
        start += size
    return json.dumps(entries, ensure_ascii=False).encode()


def read(path: Path, entry: durable.ManifestEntry | None = None) -> tuple[dict[str, Array], dict[str, str]]:
    """Return the arrays and the metadata of a file after verifying the checksum of the manifest or of the header."""
    with durable.open_regular(path) as handle:
        # Check the header before allocating memory for the arrays it claims.
        _read_header(handle, path)
        handle.seek(0)
        data = handle.read(os.fstat(handle.fileno()).st_size)
    header, start = _parse_header(data[: 8 + LARGEST_HEADER], len(data), str(path))
    metadata = header.pop("__metadata__")
    if entry is not None:
        durable.check_intact(path, io.BytesIO(data), entry)
    elif hashlib.sha256(memoryview(data)[start:]).hexdigest() != metadata.get("sha256"):
        raise _damaged(path)
    try:
        tensors = dict(safetensors.deserialize(data))  # type: ignore[no-untyped-call]
    except safetensors.SafetensorError as error:
        raise RunError(f"is not a safetensors file: {error}", where=str(path)) from error
    arrays = {}
    for name, info in header.items():
        array = np.frombuffer(tensors[name]["data"], _dtype(info))
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise RunError(f"{name} contains NaN or infinity", where=str(path))
        arrays[name] = array.reshape(info["shape"])
    return arrays, metadata


def read_header(path: Path, entry: durable.ManifestEntry | None = None) -> tuple[dict[str, ArrayInfo], dict[str, str]]:
    """Return the type and shape of each array in a file by name, and the metadata.

    With a manifest entry, the file is compared with it first; otherwise only the header is read.
    """
    with durable.open_regular(path) as handle:
        if entry is not None:
            durable.check_intact(path, handle, entry)
        header, _ = _read_header(handle, path)
    metadata = header.pop("__metadata__")
    return {name: ArrayInfo(_dtype(entry).name, tuple(entry["shape"])) for name, entry in header.items()}, metadata


def _dtype(entry: dict[str, Any]) -> np.dtype[Any]:
    return np.dtype(DTYPES[entry["dtype"]]).newbyteorder("<")


def _read_header(handle: BinaryIO, path: Path) -> tuple[dict[str, Any], int]:
    return _parse_header(handle.read(8 + LARGEST_HEADER), os.fstat(handle.fileno()).st_size, str(path))


def _damaged(path: Path) -> RunError:
    return RunError(
        "is damaged: the sha256 of its arrays differs from the one in its header",
        "restore the folder from a copy, or train it again",
        where=str(path),
    )


def _parse_header(data: bytes, size: int, where: str) -> tuple[dict[str, Any], int]:
    """Return the validated header of a file that begins with `data`, and the offset of its first array."""
    if not 8 <= size <= LARGEST_FILE:
        raise RunError(f"has {size} bytes, expected a safetensors file", where=where)
    length = struct.unpack("<Q", data[:8])[0]
    if length > LARGEST_HEADER or 8 + length > size:
        raise RunError(f"is not a safetensors file: its header claims {length} bytes", where=where)
    header = durable.from_json(data[8 : 8 + length], where)
    if not isinstance(header, dict) or len(header) > MOST_TENSORS:
        raise RunError("is not a safetensors file: its header is not a table of tensors", where=where)
    metadata = header.setdefault("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise RunError("its metadata is not a table of strings", where=where)
    start = 0
    for name, entry in header.items():
        if name != "__metadata__":
            start = _check_entry(name, entry, start, where)
    if start != size - 8 - length:
        raise RunError(f"has {size - 8 - length} bytes of arrays, expected {start}", where=where)
    return header, 8 + length


def _check_entry(name: str, entry: Any, start: int, where: str) -> int:
    """Return the end offset of a tensor that begins at `start`; raise RunError if its entry is inconsistent."""
    if not GOOD_NAME.fullmatch(name):
        raise RunError(f"{name[:40]!r} is not a valid tensor name", where=where)
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise RunError(f"{name} is not described by dtype, shape and data_offsets", where=where)
    shape, dtype = entry["shape"], entry["dtype"]
    is_shape = isinstance(shape, list) and len(shape) <= 4 and all(type(size) is int and size >= 0 for size in shape)
    # An array with a dimension of 0 is empty; its other dimensions are bounded too.
    is_known = isinstance(dtype, str) and dtype in DTYPES
    if not is_known or not is_shape or math.prod(filter(None, shape)) > LARGEST_FILE:
        raise RunError(f"{name} has the invalid shape {str(shape)[:60]} or dtype {str(dtype)[:20]}", where=where)
    end = start + math.prod(shape) * np.dtype(DTYPES[dtype]).itemsize
    if entry["data_offsets"] != [start, end]:
        raise RunError(
            f"{name} has data_offsets {str(entry['data_offsets'])[:60]}, expected {[start, end]}", where=where
        )
    return end


class ArrayWriter:
    """Writes a one-dimensional array whose length is not known in advance."""

    HEADER_SIZE = 4096  # reserved bytes: the header is written last

    def __init__(self, handle: BinaryIO, name: str, dtype: npt.DTypeLike) -> None:
        self.handle = handle
        self.name = name
        self.dtype = np.dtype(dtype).newbyteorder("<")
        self.length = 0
        self._digest = hashlib.sha256()
        handle.write(struct.pack("<Q", self.HEADER_SIZE) + b" " * self.HEADER_SIZE)

    def append(self, values: Array) -> None:
        """Append values to the array."""
        data = np.ascontiguousarray(values, self.dtype).data.cast("B") if len(values) else b""
        self._digest.update(data)
        self.handle.write(data)
        self.length += len(values)

    def finish(self, metadata: Mapping[str, str]) -> None:
        """Write the header."""
        size = self.length * self.dtype.itemsize
        header = _header(
            {self.name: (self.dtype, (self.length,), size)}, {**metadata, "sha256": self._digest.hexdigest()}
        )
        assert len(header) <= self.HEADER_SIZE, "the metadata does not fit into the reserved header"
        self.handle.seek(8)
        self.handle.write(header.ljust(self.HEADER_SIZE))


def map_array(path: Path, name: str, entry: durable.ManifestEntry | None = None) -> tuple[Array, dict[str, str]]:
    """Return the only array of a file as a memory map, and the metadata.

    The header is always validated; the whole file, which must be read for this, is compared with a manifest entry.
    """
    with durable.open_regular(path) as handle:
        if entry is not None:
            durable.check_intact(path, handle, entry)
        header, start = _read_header(handle, path)
        metadata = header.pop("__metadata__")
        if list(header) != [name] or len(header[name]["shape"]) != 1:
            raise RunError(f"contains the tensors {list(header)}, expected only {name}", where=str(path))
        dtype = _dtype(header[name])
        if header[name]["shape"] == [0]:
            return np.empty(0, dtype), metadata
        return np.memmap(handle, dtype, "r", start, tuple(header[name]["shape"])), metadata
