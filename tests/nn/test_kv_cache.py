"""What grows is never changed by who goes on with it, however many do."""

import pytest
import torch
from torch import Tensor

from satchel.nn.kv_cache import SPARE_POSITIONS, AppendBuffer

PARTS = [1, 3, 1, SPARE_POSITIONS, 1, 2 * SPARE_POSITIONS, 1]


def numbers(places: int, seed: int) -> Tensor:
    return torch.randn(2, 3, places, 4, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("inference", [True, False])
def test_what_was_added_comes_after_what_was_there(inference: bool) -> None:
    parts = [numbers(places, seed) for seed, places in enumerate(PARTS)]
    with torch.inference_mode(inference):
        grown = AppendBuffer(parts[0])
        for part in parts[1:]:
            grown = grown.add(part)
        assert torch.equal(grown.values, torch.cat(parts, dim=-2))
        assert grown.length == sum(PARTS)


@torch.inference_mode()
def test_two_who_go_on_from_the_same_beginning_do_not_see_each_other() -> None:
    start = AppendBuffer(numbers(2, 0)).add(numbers(1, 1))
    one, other = start.add(numbers(1, 2)), start.add(numbers(1, 3))
    again = one.add(numbers(1, 4))
    assert torch.equal(start.values, torch.cat([numbers(2, 0), numbers(1, 1)], dim=-2))
    assert torch.equal(other.values[..., -1:, :], numbers(1, 3))
    assert torch.equal(one.values[..., -1:, :], numbers(1, 2))
    assert torch.equal(again.values[..., -2:, :], torch.cat([numbers(1, 2), numbers(1, 4)], dim=-2))


@torch.inference_mode()
def test_rows_that_were_selected_go_on_by_themselves() -> None:
    start = AppendBuffer(numbers(2, 0)).add(numbers(1, 1))
    some = start.select(torch.tensor([1, 1, 0]))
    longer = some.add(numbers(1, 2)[[0, 1, 0]])
    assert torch.equal(some.values, start.values[[1, 1, 0]])
    assert torch.equal(longer.values[..., :-1, :], start.values[[1, 1, 0]])
    assert torch.equal(longer.values[..., -1:, :], numbers(1, 2)[[0, 1, 0]])


@torch.inference_mode()
def test_there_is_room_for_more() -> None:
    start = AppendBuffer(numbers(2, 0)).add(numbers(1, 1))
    assert start.add(numbers(1, 2)).values.data_ptr() == start.values.data_ptr()


def test_gradients_reach_what_was_added_first_whatever_is_added_later() -> None:
    first = numbers(2, 0).requires_grad_()
    grown = AppendBuffer(first).add(numbers(1, 1))
    squares = grown.values.square().sum()
    grown.add(numbers(1, 2))
    squares.backward()
    torch.testing.assert_close(first.grad, 2 * first.detach())
