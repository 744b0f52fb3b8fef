"""Scaled dot-product attention: the effect of scaling on the softmax and its gradient."""

import math
import random
import statistics
from fractions import Fraction

import pytest
import torch

from satchel.lessons.scaling import KEYS, scaling
from satchel.nn.attention import Dot, MultiHead, attend, softmax
from tests.lessons.lookup import Lookup

lookup = Lookup(scaling, torch.float64)
step, matrix, tensor = lookup.step, lookup.matrix, lookup.tensor


@pytest.mark.item(34)
@pytest.mark.parametrize("seed", [0, 1])
def test_the_variance_of_a_dot_product_is_the_width(seed: int) -> None:
    rows = tensor("The variance", "variance of q . k", seed=seed, width=128, heads=1).tolist()
    assert [width for width, _ in rows] == [4, 16, 64, 128]
    for width, measured in rows:
        assert measured == pytest.approx(width, rel=0.2)
    assert step("The variance", width=128, heads=1).answer == (128,)


@pytest.mark.item(34)
def test_the_scores_are_those_of_the_seed() -> None:
    rng = random.Random(5)
    query = [rng.gauss(0, 1) for _ in range(64)]
    keys = [[rng.gauss(0, 1) for _ in query] for _ in range(KEYS)]
    scores = torch.tensor(keys, dtype=torch.float64) @ torch.tensor(query, dtype=torch.float64)
    scaled = tensor("Saturation", "scores", seed=5)
    torch.testing.assert_close(scaled, torch.stack([scores, scores / 8]))
    torch.testing.assert_close(tensor("Saturation", "attention weights", seed=5), softmax(scaled))


@pytest.mark.item(34)
def test_the_gradient_of_a_saturated_softmax_vanishes() -> None:
    rows = tensor("The gradient of", "gradient").tolist()
    for s, p, gradient in rows:
        score = torch.tensor(s, dtype=torch.float64, requires_grad=True)
        weight = softmax(torch.stack([score, torch.zeros_like(score)]))[0]
        weight.backward()
        assert score.grad is not None
        assert [p, gradient] == pytest.approx([weight.item(), score.grad.item()])
    assert rows[0] == [0, 0.5, 0.25]
    assert rows[-1][2] < 2e-7
    assert step("The gradient of").answer == (Fraction(1, 4),)


@pytest.mark.item(34)
def test_the_norm_is_that_of_the_jacobian_of_the_network_softmax() -> None:
    scores = tensor("Saturation", "scores")
    norms = [torch.autograd.functional.jacobian(softmax, row).norm().item() for row in scores]
    assert tensor("The gradient by width", "norm for the query above").tolist()[0] == pytest.approx(norms)


@pytest.mark.item(34)
def test_scaling_preserves_the_gradient_at_every_width() -> None:
    rows = tensor("The gradient by width", "medians", width=256).tolist()
    unscaled, scaled = [row[2] for row in rows], [row[4] for row in rows]
    assert unscaled == sorted(unscaled, reverse=True)
    assert unscaled[-1] < 0.02
    assert statistics.pstdev(scaled) < 0.01
    assert min(scaled) > 0.3
    # Nearly all of the weight on one key, or about a third.
    assert rows[-1][1] > 0.97
    assert 0.3 < rows[-1][3] < 0.4


@pytest.mark.item(35)
def test_cross_attention_gives_one_output_per_query() -> None:
    q, k, v = (tensor("Attention(", name) for name in ("Q", "K", "V"))
    outputs, _ = attend(q, k, v, score=Dot(4), base=3)
    torch.testing.assert_close(tensor("Attention(", "output"), outputs)
    assert matrix("Attention(", "output").values == (
        (Fraction(4, 5), Fraction(2, 5)),
        (Fraction(10, 13), Fraction(12, 13)),
    )
    assert step("Attention(").answer == tuple(outputs.shape) == (2, 2)


@pytest.mark.item(34)
@pytest.mark.parametrize(("width", "heads"), [(64, 8), (64, 1), (12, 3)])
def test_the_divisors_are_those_of_the_network(width: int, heads: int) -> None:
    by_width, by_head = step("The square root", width=width, heads=heads).answer
    assert float(by_width) == pytest.approx(1 / MultiHead(width, heads, scale="width").factor)
    assert float(by_head) == pytest.approx(1 / MultiHead(width, heads, scale="head").factor)
    assert (by_width == by_head) == (heads == 1)


@pytest.mark.item(34)
def test_dividing_by_the_model_width_gives_more_uniform_weights() -> None:
    rows = tensor("The square root", "divisors for width 64").tolist()
    assert rows[0] == [1, 8, 8, 1]
    assert rows[3] == [8, 8, pytest.approx(math.sqrt(8)), pytest.approx(0.35355, abs=5e-6)]
    by_width, by_head = tensor("Effect", "attention weights").tolist()
    assert max(by_width) < max(by_head)
    same = tensor("Effect", "attention weights", heads=1).tolist()
    assert same[0] == same[1]
