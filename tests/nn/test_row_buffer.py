"""Buffers of rows: values are kept when memory is allocated, and rows can be moved and repeated."""

import numpy as np
import pytest
import torch
from torch import Tensor

from satchel.nn.row_buffer import MIN_POSITIONS, RowBuffer

LAYERS, HEADS, WIDTH, CONTEXT = 2, 3, 4, 1000


def filled(rows: int, positions: int) -> tuple[RowBuffer, Tensor]:
    """Return a buffer with random values, and these values (L, R, H, S, K)."""
    buffer = RowBuffer(LAYERS, HEADS, WIDTH, CONTEXT, torch.empty(0, dtype=torch.float64))
    buffer.allocate(rows, positions)
    values = torch.randn(
        LAYERS, rows, HEADS, positions, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    )
    buffer.values[:, :rows, :, :positions] = values
    return buffer, values


def test_allocation_keeps_values_and_fills_new_memory_with_zeros() -> None:
    buffer, values = filled(2, 5)
    assert buffer.positions == MIN_POSITIONS
    for rows, positions in ((2, 5), (4, 5), (3, MIN_POSITIONS + 1), (5, CONTEXT)):
        buffer.allocate(rows, positions)
        assert buffer.values.shape[1] >= rows
        assert buffer.positions >= positions
        assert torch.equal(buffer.values[:, :2, :, :5], values)
        assert not buffer.values[:, 2:].any()
        assert not buffer.values[:, :, :, 5:].any()


def test_positions_double_up_to_the_context() -> None:
    buffer, _ = filled(1, MIN_POSITIONS + 1)
    assert buffer.positions == 2 * (MIN_POSITIONS + 1)
    buffer.allocate(1, buffer.positions + 1)
    assert buffer.positions == CONTEXT


@pytest.mark.parametrize("rows", [[0, 1, 2], [2, 1, 0], [1], [2, 2, 0, 1, 1], [0, 2], [1, 0], []])
def test_rows_are_selected_moved_and_repeated(rows: list[int]) -> None:
    buffer, values = filled(3, 7)
    buffer.select(np.array(rows, np.int64), 6)
    assert torch.equal(buffer.values[:, : len(rows), :, :6], values[:, rows, :, :6])


def test_arrays_share_the_memory_of_the_first_row() -> None:
    buffer, values = filled(2, 5)
    for rows in (2, 6):
        buffer.allocate(rows, 5)
        assert len(buffer.arrays) == LAYERS
        for layer, array in enumerate(buffer.arrays):
            np.testing.assert_array_equal(array[:, :5], values[layer, 0].numpy())
            array[0, 0, 0] = values[layer, 0, 0, 0, 0] = layer
            assert buffer.values[layer, 0, 0, 0, 0] == layer


def test_rows_double_when_they_are_added_one_after_another() -> None:
    buffer, _ = filled(3, 5)
    assert buffer.values.shape[1] == 3
    buffer.allocate(4, 5)
    assert buffer.values.shape[1] == 6
    buffer.allocate(13, 5)
    assert buffer.values.shape[1] == 13
