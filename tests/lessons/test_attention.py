"""Attention by hand: the fractions of the lecture, and the same weights as the network layers."""

import math
from fractions import Fraction

import pytest
import torch

from satchel.lessons import LESSONS
from satchel.lessons.arithmetic import softmax
from satchel.lessons.attention import attention
from satchel.nn.attention import softmax as network_softmax
from tests.lessons.lookup import Lookup

lookup = Lookup(attention)
step, matrix = lookup.step, lookup.matrix

HALF, SIXTH = Fraction(1, 2), Fraction(1, 6)


@pytest.mark.item(13, 14, 15, 16, 17, 18)
def test_scores_weights_and_output_are_the_fractions_of_the_lecture() -> None:
    assert matrix("1.", "scores").values == ((0, 0, 1, 0),)
    assert matrix("2.", "attention weights").values == ((SIXTH, SIXTH, HALF, SIXTH),)
    assert matrix("3.", "output").values == ((HALF, HALF),)


@pytest.mark.item(17, 18)
def test_weights_and_output_with_base_e() -> None:
    weights, output = matrix("2.", base=math.e).values[0], matrix("3.", base=math.e).values[0]
    assert weights == pytest.approx([0.17488, 0.17488, 0.47537, 0.17488], abs=5e-6)
    assert output == pytest.approx([0.52463, 0.47537], abs=5e-6)


@pytest.mark.item(19, 20, 21, 22)
def test_the_mean_the_longer_query_and_all_strings() -> None:
    assert matrix("Comparison", "mean").values == ((Fraction(3, 4), Fraction(1, 4)),)
    assert matrix("A query 10", "scores").values == ((0, 0, 10, 0),)
    assert float(matrix("A query 10", "attention weights").values[0][2]) == pytest.approx(0.999949, abs=5e-7)
    assert matrix("Separate projections", "scores").values == ((0, 0, 10, 0),)
    assert [row[1] for row in matrix("How long", "accuracy").values] == ["12 of 16", "16 of 16", "16 of 16"]
    assert "1.0986" in step("How long").text


@pytest.mark.parametrize("base", [3.0, math.e, 2.5])
def test_the_softmax_equals_that_of_the_network(base: float) -> None:
    scores = [0, 3, -2, 0.5, -math.inf]
    expected = network_softmax(torch.tensor(scores, dtype=torch.float64), base=base)
    assert [float(weight) for weight in softmax(scores, base)] == pytest.approx(expected.tolist())
    assert softmax([-math.inf, -math.inf]) == [0, 0]


def test_the_steps_follow_the_settings() -> None:
    steps = Lookup(LESSONS["attention"].run)
    assert steps.matrix("1.", sequence="BB", q=[0, 2], base=3).values == ((2, 2),)
    assert steps.matrix("2.", sequence="BB", q=[0, 2], base=3).values == ((HALF, HALF),)
