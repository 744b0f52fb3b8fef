"""Preallocated memory of a KV cache. Shapes: L layers, R rows, H heads, S positions, K width of a head."""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

# Minimum number of positions allocated.
MIN_POSITIONS = 256


class RowBuffer:
    """One tensor (L, R, H, S, K) for the keys or values of all layers and rows.

    Memory for more rows or positions is allocated when it is needed; their numbers double, so that rows that are added
    one after another are seldom copied, that of positions up to `context`.
    It is zeroed: attention multiplies masked values by 0, which is NaN for a value that is not finite.
    """

    def __init__(self, layers: int, heads: int, width: int, context: int, like: Tensor) -> None:
        self._context = context
        self.values = like.detach().new_empty(layers, 0, heads, 0, width)
        self._update_arrays()

    @property
    def positions(self) -> int:
        """Number of positions with memory."""
        return self.values.shape[3]

    def allocate(self, rows: int, positions: int) -> None:
        """Provide memory for this number of rows and positions."""
        layers, old_rows, heads, old_positions, width = self.values.shape
        if rows <= old_rows and positions <= old_positions:
            return
        if rows > old_rows:
            rows = max(rows, 2 * old_rows)
        if positions > old_positions:
            positions = min(self._context, max(2 * positions, MIN_POSITIONS))
        values = self.values.new_zeros(layers, max(rows, old_rows), heads, max(positions, old_positions), width)
        values[:, :old_rows, :, :old_positions] = self.values
        self.values = values
        self._update_arrays()

    def select(self, rows: npt.NDArray[np.int64], length: int) -> None:
        """Move the first `length` positions of these rows to the rows 0, 1, ..."""
        moved = np.flatnonzero(rows != np.arange(len(rows)))
        contents = self.values[:, torch.from_numpy(rows[moved]), :, :length]
        self.allocate(len(rows), length)
        self.values[:, torch.from_numpy(moved), :, :length] = contents

    def _update_arrays(self) -> None:
        """Set `arrays`, the values (H, S, K) of the first row for each layer."""
        self.arrays: list[npt.NDArray[Any]] = [layer[0].numpy() for layer in self.values if len(layer)]
