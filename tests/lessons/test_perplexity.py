"""Perplexity: the numbers of the slide, and the same from the evaluation of the package."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from satchel.data.tokens import TokenCounts
from satchel.evaluation.likelihood import likelihood
from satchel.lessons.perplexity import perplexity
from satchel.predictor import Decoder, Floats, Ids, Scores
from tests.lessons.lookup import Lookup

lookup = Lookup(perplexity)
step, matrix = lookup.step, lookup.matrix


class Fixed:
    """A predictor with fixed probabilities for every text."""

    vocabulary, context = 1, "none"

    def __init__(self, probabilities: tuple[float, ...]) -> None:
        self.logprobs: Floats = np.log(np.array(probabilities))

    def score(self, ids_T: Ids, *, ends: bool = True) -> Scores:
        assert len(ids_T) == len(self.logprobs) + 1
        return Scores(self.logprobs)

    def decoder(self) -> Decoder:
        raise NotImplementedError


def answer(title: str, **settings: Any) -> float:
    return float(step(title, **settings).answer[0])


@pytest.mark.item(87)
def test_the_same_likelihood_is_possible_with_different_accuracies() -> None:
    assert matrix("Accuracy", "accuracy").values == ((0, 1),)
    assert matrix("Accuracy", "accuracy", probabilities=(0.9, 0.5, 0.6, 0.1)).values == ((Fraction(1, 2), 1),)
    # The same probability of the correct word, with another word that is more probable, and without.
    for correct in (1 / 4, 1 / 3):
        with_larger = [correct, 1 - correct]
        without_larger = [correct, *[(1 - correct) / 8] * 8]
        assert sum(with_larger) == pytest.approx(sum(without_larger)) == 1
        assert max(with_larger) != correct
        assert max(without_larger) == correct


@pytest.mark.item(87)
def test_the_average_negative_log_likelihood() -> None:
    average = answer("Average")
    assert f"{average:.3f}" == "1.242"
    assert average == pytest.approx(math.log(12) / 2, rel=1e-12)
    assert average == pytest.approx(1.242453, abs=1e-6)
    assert matrix("Average", "average").values[0][0] == -average


@pytest.mark.item(88)
def test_perplexity_is_the_exponential_of_the_average() -> None:
    assert answer("Perplexity") == pytest.approx(math.exp(answer("Average")), rel=1e-12)
    assert answer("Perplexity", probabilities=(1.0, 1.0)) == 1
    assert answer("Perplexity", probabilities=(0.125,) * 3) == pytest.approx(8, rel=1e-12)


@pytest.mark.item(89)
def test_perplexity_is_the_geometric_mean_of_the_denominators() -> None:
    assert f"{answer('Perplexity'):.3f}" == "3.464"
    assert answer("Perplexity") == pytest.approx(math.sqrt(12), rel=1e-12)
    total, geometric, plain = matrix("Geometric mean", "means").values[0]
    assert step("Geometric mean").answer == (144,) == (total,)
    assert float(geometric) == pytest.approx(3.464102, abs=1e-6)
    assert plain == 3.5
    assert matrix("Geometric mean", "1/P").values == ((4, 3, 4, 3),)
    odd = {"probabilities": (0.3, 0.77, 0.123456)}
    assert float(matrix("Geometric mean", "means", **odd).values[0][1]) == pytest.approx(
        answer("Perplexity", **odd), rel=1e-12
    )


@pytest.mark.item(88)
@pytest.mark.parametrize("probabilities", [(0.25, 1 / 3, 0.25, 1 / 3), (0.9, 1e-6, 0.5), (1.0,)])
def test_the_evaluation_of_the_package_gives_the_same(probabilities: tuple[float, ...]) -> None:
    count = len(probabilities)
    counts = TokenCounts(tokens=count, unknown=0, bytes=count, characters=count, documents=1, lossless=True)
    result = likelihood(Fixed(probabilities), np.zeros(count + 1, np.int64), counts)
    assert result.nats_per_token == pytest.approx(answer("Average", probabilities=probabilities))
    assert result.perplexity == pytest.approx(answer("Perplexity", probabilities=probabilities))


@pytest.mark.item(87)
def test_perplexity_does_not_depend_on_the_length() -> None:
    once, twice = matrix("A text twice", "text").values
    assert [once[0], twice[0]] == [4, 8]
    assert float(once[1]) == pytest.approx(1 / 144)
    assert float(twice[1]) == pytest.approx(1 / 144**2)
    doubled = (0.25, 1 / 3, 0.25, 1 / 3) * 2
    assert float(twice[2]) == pytest.approx(answer("Perplexity", probabilities=doubled), rel=1e-12)


@pytest.mark.item(88)
def test_a_word_with_probability_zero_makes_the_perplexity_infinite() -> None:
    rows = matrix("A word with probability zero", "with one more word").values
    assert rows[-1] == (0, math.inf, math.inf)
    longer = (0.25, 1 / 3, 0.25, 1 / 3, 1e-3)
    assert float(rows[0][2]) == pytest.approx(answer("Perplexity", probabilities=longer), rel=1e-12)


def test_answers_may_be_rounded() -> None:
    assert step("Average").is_correct("1.24")
    assert step("Perplexity").is_correct("3.46")
    assert not step("Perplexity").is_correct("3.6")
