"""Position encodings: the formulas of the lecture, and their effect on attention scores."""

import math

import pytest
import torch

from satchel.nn.attention import MultiHead
from satchel.nn.positions import Alibi, Learned, Rotary, Sinusoidal, alibi_slopes, sinusoids


@pytest.mark.item(71)
def test_sines_and_cosines_alternate() -> None:
    assert sinusoids(1, 6)[0].tolist() == [0, 1, 0, 1, 0, 1]
    assert sinusoids(2, 4)[1].tolist() == pytest.approx([0.84147, 0.54030, 0.01000, 0.99995], abs=5e-6)
    table = sinusoids(50, 8)
    for position in (3, 17, 49):
        for i in range(4):
            angle = position / 10000 ** (2 * i / 8)
            assert table[position, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-6)
            assert table[position, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-6)
    torch.testing.assert_close(table.square().sum(dim=1), torch.full((50,), 4.0))


@pytest.mark.item(73)
@pytest.mark.parametrize(("width", "rises"), [(64, 6), (512, 44)])
def test_nearer_positions_have_larger_dot_products_up_to_a_distance(width: int, rises: int) -> None:
    table = sinusoids(200, width).double()
    products = table @ table.T
    for distance in (1, 5, 30):
        along = torch.diagonal(products, distance)
        torch.testing.assert_close(along, along[:1].expand_as(along), rtol=1e-5, atol=1e-5)
    from_first = products[0]
    assert next(d for d in range(1, 200) if from_first[d] > from_first[d - 1]) == rises


@pytest.mark.item(69, 70, 72)
def test_position_encodings_have_the_width_of_embeddings() -> None:
    for encoding in (Learned(20, 8), Sinusoidal(8)):
        assert encoding(0, 5).shape == (5, 8)
        assert torch.equal(encoding(3, 4), encoding(0, 9)[3:7])
    learned = Learned(20, 8)
    assert torch.equal(learned(2, 1)[0], learned.embedding(torch.tensor(2)))


def test_rotary_scores_depend_on_the_distance_only() -> None:
    turn = Rotary(6)
    query, key = torch.randn(2, 1, 1, 1, 6, dtype=torch.float64)
    for distance in (0, 1, 7):
        scores = [(turn(query, start + distance) @ turn(key, start).transpose(-1, -2)).item() for start in (0, 3, 50)]
        assert scores == pytest.approx([scores[0]] * 3)
    assert torch.equal(turn(query, 0), query)
    torch.testing.assert_close(turn(query, 9).norm(), query.norm())
    with pytest.raises(ValueError, match="expected an even one"):
        Rotary(5)


def test_alibi_subtracts_a_multiple_of_the_distance() -> None:
    assert alibi_slopes(8) == [2.0**-n for n in range(1, 9)]
    # If the number of heads is not a power of two, slopes of twice as many heads fill the gap.
    assert alibi_slopes(12) == [*alibi_slopes(8), *alibi_slopes(16)[::2][:4]]
    costs = Alibi(2)(3, 3)
    assert costs[0].tolist() == [[-0.0, -1 / 16, -2 / 16], [-1 / 16, 0, -1 / 16], [-2 / 16, -1 / 16, 0]]
    assert torch.equal(Alibi(2)(1, 5), Alibi(2)(5, 5)[:, -1:])


@pytest.mark.item(68)
def test_the_output_depends_on_the_order_only_with_positions() -> None:
    x = torch.randn(1, 5, 8)
    order = torch.tensor([2, 0, 4, 1, 3])
    plain = MultiHead(8, 2)
    torch.testing.assert_close(plain(x[:, order]), plain(x)[:, order])
    for positions in (Rotary(4), Alibi(2)):
        layer = MultiHead(8, 2, positions=positions)
        assert not torch.allclose(layer(x[:, order]), layer(x)[:, order], atol=1e-4)
