"""Attention by hand: the fractions of the lecture, and the same weights as the network layers."""

import math
from fractions import Fraction
from itertools import product

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
    assert matrix("Score", "scores").values == ((0, 0, 1, 0),)
    assert matrix("Softmax", "attention weights").values == ((SIXTH, SIXTH, HALF, SIXTH),)
    assert matrix("Output", "output").values == ((HALF, HALF),)


@pytest.mark.item(17, 18)
def test_weights_and_output_with_base_e() -> None:
    weights, output = matrix("Softmax", base=math.e).values[0], matrix("Output", base=math.e).values[0]
    assert weights == pytest.approx([0.17488, 0.17488, 0.47537, 0.17488], abs=5e-6)
    assert output == pytest.approx([0.52463, 0.47537], abs=5e-6)


@pytest.mark.item(19, 20, 21)
def test_the_mean_and_the_longer_query() -> None:
    assert matrix("Comparison", "mean").values == ((Fraction(3, 4), Fraction(1, 4)),)
    assert matrix("A query 10", "scores").values == ((0, 0, 10, 0),)
    assert float(matrix("A query 10", "attention weights").values[0][2]) == pytest.approx(0.999949, abs=5e-7)
    assert matrix("Separate projections", "scores").values == ((0, 0, 10, 0),)


@pytest.mark.parametrize("base", [3.0, math.e, 2.5])
def test_the_softmax_equals_that_of_the_network(base: float) -> None:
    scores = [0, 3, -2, 0.5, -math.inf]
    expected = network_softmax(torch.tensor(scores, dtype=torch.float64), base=base)
    assert [float(weight) for weight in softmax(scores, base)] == pytest.approx(expected.tolist())
    assert softmax([-math.inf, -math.inf]) == [0, 0]


def test_the_steps_follow_the_settings() -> None:
    steps = Lookup(LESSONS["attention"].run)
    assert steps.matrix("Score", sequence="BB", q=[0, 2], base=3).values == ((2, 2),)
    assert steps.matrix("Softmax", sequence="BB", q=[0, 2], base=3).values == ((HALF, HALF),)


def predictions(string: str, b: float, base: float) -> str:
    """Return the letter with the larger attention weight, computed from the attention weights; "" for a tie."""
    weights = [float(weight) for weight in softmax([b if letter == "B" else 0.0 for letter in string], base)]
    of_b = sum(weight for weight, letter in zip(weights, string, strict=True) if letter == "B")
    return "" if math.isclose(of_b, 0.5) else "B" if of_b > 0.5 else "A"


@pytest.mark.item(22)
@pytest.mark.parametrize("base", [math.e, 3.0])
@pytest.mark.parametrize("length", [2, 4, 5])
def test_predictions_for_all_strings_are_those_of_the_attention_weights(length: int, base: float) -> None:
    strings = ["".join(letters) for letters in product("AB", repeat=length)]
    table = matrix("How long", f"predictions for all {2**length} strings, base {'e' if base == math.e else 3}",
                   sequence="A" * length)  # fmt: skip
    assert len(table.values) >= 6
    for b, *counts in table.values:
        guesses = [(predictions(string, float(b), base), "B" if "B" in string else "A") for string in strings]
        correct = sum(guess == answer for guess, answer in guesses)
        tied = sum(guess == "" for guess, _ in guesses)
        assert counts == [correct, tied, len(strings) - correct - tied]


@pytest.mark.item(22)
def test_all_strings_are_correct_above_the_logarithm_of_3_only() -> None:
    for b, correct, tied, _ in matrix("How long", "predictions").values:
        assert (correct == 16) == (float(b) > math.log(3))
        assert (tied == 4) == math.isclose(float(b), math.log(3))
    # The mean, with b = 0, is wrong or tied on 10 of 16 strings.
    assert matrix("How long", "predictions").values[0] == (0, 6, 6, 4)
    (curves,) = step("How long").curves
    assert curves.marks == ((math.log(3), "ln 3 = 1.0986"),)
    ((_, points),) = curves.series
    assert all((accuracy == 100) == (b > math.log(3)) for b, accuracy in points if not math.isclose(b, math.log(3)))


def test_a_base_typed_with_a_few_digits_is_called_e() -> None:
    steps = LESSONS["attention"].run(base="2.718281828")
    assert "base e." in steps[2].text
    assert "base 3" not in " ".join(step.text + step.question for step in steps)
    assert len(steps[-1].matrices) == 1
    assert "base 2.5 instead of e (the lecture uses 3" in LESSONS["attention"].run(base=2.5)[2].text


def test_lessons_without_scaling_state_it() -> None:
    for name in ("attention", "self-attention"):
        assert any("not divided by the square root" in step.text for step in LESSONS[name].run())
