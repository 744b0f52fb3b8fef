"""Append-only buffers: adding to one never changes another that shares its memory."""

import pytest
import torch
from torch import Tensor

from satchel.nn.kv_cache import SPARE_POSITIONS, AppendBuffer

PARTS = [1, 3, 1, SPARE_POSITIONS, 1, 2 * SPARE_POSITIONS, 1]


def numbers(places: int, seed: int) -> Tensor:
    return torch.randn(2, 3, places, 4, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("inference", [True, False])
def test_added_values_follow_the_existing_ones(inference: bool) -> None:
    parts = [numbers(places, seed) for seed, places in enumerate(PARTS)]
    with torch.inference_mode(inference):
        grown = AppendBuffer(parts[0])
        for part in parts[1:]:
            grown = grown.add(part)
        assert torch.equal(grown.values, torch.cat(parts, dim=-2))
        assert grown.length == sum(PARTS)


@torch.inference_mode()
def test_two_continuations_of_a_buffer_are_independent() -> None:
    start = AppendBuffer(numbers(2, 0)).add(numbers(1, 1))
    one, other = start.add(numbers(1, 2)), start.add(numbers(1, 3))
    again = one.add(numbers(1, 4))
    assert torch.equal(start.values, torch.cat([numbers(2, 0), numbers(1, 1)], dim=-2))
    assert torch.equal(other.values[..., -1:, :], numbers(1, 3))
    assert torch.equal(one.values[..., -1:, :], numbers(1, 2))
    assert torch.equal(again.values[..., -2:, :], torch.cat([numbers(1, 2), numbers(1, 4)], dim=-2))


@torch.inference_mode()
def test_selected_rows_are_independent_of_the_original() -> None:
    start = AppendBuffer(numbers(2, 0)).add(numbers(1, 1))
    selected = start.select(torch.tensor([1, 1, 0]))
    longer = selected.add(numbers(1, 2)[[0, 1, 0]])
    assert torch.equal(selected.values, start.values[[1, 1, 0]])
    assert torch.equal(longer.values[..., :-1, :], start.values[[1, 1, 0]])
    assert torch.equal(longer.values[..., -1:, :], numbers(1, 2)[[0, 1, 0]])


@torch.inference_mode()
def test_spare_positions_are_allocated() -> None:
    start = AppendBuffer(numbers(2, 0)).add(numbers(1, 1))
    assert start.add(numbers(1, 2)).values.data_ptr() == start.values.data_ptr()


def test_gradients_reach_all_added_values() -> None:
    first = numbers(2, 0).requires_grad_()
    grown = AppendBuffer(first).add(numbers(1, 1))
    squares = grown.values.square().sum()
    grown.add(numbers(1, 2))
    squares.backward()
    torch.testing.assert_close(first.grad, 2 * first.detach())
