"""KV cache: append-only buffers for incremental decoding. Shapes: T time, K width."""

import torch
from torch import Tensor

# Number of positions allocated beyond the current length.
SPARE_POSITIONS = 16


class AppendBuffer:
    """Append-only tensor (..., T, K) with spare capacity along T.

    `add` returns a new buffer and leaves this one unchanged. Both share memory: the first `add` to a buffer writes into
    its spare capacity, a later one to the same buffer copies. Outside of inference mode, `add` always copies.
    """

    def __init__(self, values: Tensor) -> None:
        # `_used` is the number of positions of the memory in use, in a list because buffers share it.
        self._memory, self._used, self.length = values, [values.shape[-2]], values.shape[-2]

    @property
    def values(self) -> Tensor:
        """The values (..., T, K)."""
        return self._memory if self._memory.shape[-2] == self.length else self._memory[..., : self.length, :]

    def add(self, more: Tensor) -> "AppendBuffer":
        """Return a buffer with more values at the end."""
        if not torch.is_inference_mode_enabled():
            return AppendBuffer(torch.cat([self.values, more], dim=-2))
        length = self.length + more.shape[-2]
        memory, used = self._memory, self._used
        if used[0] != self.length or length > memory.shape[-2]:
            shape = (*more.shape[:-2], length + SPARE_POSITIONS, more.shape[-1])
            memory, used = self._memory.new_empty(shape), [self.length]
            memory[..., : self.length, :] = self.values
        memory[..., self.length : length, :] = more
        used[0] = length
        return _buffer(memory, used, length)

    def select(self, rows: Tensor) -> "AppendBuffer":
        """Return a buffer with the given rows of the batch, in that order."""
        # index_select is several times as fast as indexing.
        return _buffer(self._memory.index_select(0, rows), [self.length], self.length)


def _buffer(memory: Tensor, used: list[int], length: int) -> AppendBuffer:
    """Return a buffer on the first `length` positions of the memory, of which `used[0]` are in use."""
    buffer = AppendBuffer(memory)
    buffer._used, buffer.length = used, length
    return buffer


class KeyValues:
    """The keys and values of all positions so far, of one attention layer."""

    def __init__(self, keys: Tensor | None = None, values: Tensor | None = None) -> None:
        self._keys = None if keys is None else AppendBuffer(keys)
        self._values = None if values is None else AppendBuffer(values)

    @property
    def keys(self) -> Tensor | None:
        return None if self._keys is None else self._keys.values

    @property
    def values(self) -> Tensor | None:
        return None if self._values is None else self._values.values

    @property
    def length(self) -> int:
        return 0 if self._keys is None else self._keys.length

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Add the keys and values of new positions, and return those of all positions."""
        self._keys = AppendBuffer(keys) if self._keys is None else self._keys.add(keys)
        self._values = AppendBuffer(values) if self._values is None else self._values.add(values)
        return self._keys.values, self._values.values

    def select(self, rows: Tensor) -> "KeyValues":
        """Return the keys and values of the given rows of the batch, in that order."""
        selected = KeyValues()
        if self._keys is not None and self._values is not None:
            selected._keys, selected._values = self._keys.select(rows), self._values.select(rows)
        return selected

    def __copy__(self) -> "KeyValues":
        """Return a copy; appending to it leaves this one unchanged."""
        copied = KeyValues()
        copied._keys, copied._values = self._keys, self._values
        return copied
