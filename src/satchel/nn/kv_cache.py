"""Numbers that grow along time, a little at a time, without being copied each time. Letters: T time, K width."""

import torch
from torch import Tensor

# So many places are there before they are needed.
ROOM = 16


class AppendBuffer:
    """(..., T, K) numbers to which more are added along T; what is there never changes.

    Adding returns another one, and both share memory: the first to add writes where there is room, and whoever adds
    to the same beginning later gets a copy. Where gradients are kept, everybody does.
    """

    def __init__(self, values: Tensor) -> None:
        self._room, self._taken, self.length = values, [values.shape[-2]], values.shape[-2]

    @property
    def values(self) -> Tensor:
        """All of them."""
        return self._room if self._room.shape[-2] == self.length else self._room[..., : self.length, :]

    def add(self, more: Tensor) -> "AppendBuffer":
        """Return these and, after them, more."""
        if not torch.is_inference_mode_enabled():
            return AppendBuffer(torch.cat([self.values, more], dim=-2))
        length = self.length + more.shape[-2]
        room, taken = self._room, self._taken
        if taken[0] != self.length or length > room.shape[-2]:
            room, taken = self._room.new_empty((*more.shape[:-2], length + ROOM, more.shape[-1])), [self.length]
            room[..., : self.length, :] = self.values
        room[..., self.length : length, :] = more
        taken[0] = length
        return _within(room, taken, length)

    def select(self, rows: Tensor) -> "AppendBuffer":
        """Return those of some rows of the batch, in that order."""
        # Several times as quick as self._room[rows].
        return _within(self._room.index_select(0, rows), [self.length], self.length)


def _within(room: Tensor, taken: list[int], length: int) -> AppendBuffer:
    """Return the first numbers of a room, of which so many are taken, maybe by others."""
    made = AppendBuffer(room)
    made._taken, made.length = taken, length
    return made
