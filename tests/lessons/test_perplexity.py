"""Perplexity: the slide's numbers, and the same as the package measures."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from satchel.data.tokens import TokenCounts
from satchel.errors import SettingsError
from satchel.evaluation.likelihood import likelihood
from satchel.lessons.perplexity import perplexity
from satchel.lessons.steps import Lesson, Matrix, Step, is_right
from satchel.predictor import Floats, Ids, Scores


class Fixed:
    """A predictor that gives the same probabilities whatever the text."""

    vocabulary, context = 1, "none"

    def __init__(self, probabilities: tuple[float, ...]) -> None:
        self.logprobs: Floats = np.log(np.array(probabilities))

    def score(self, ids_T: Ids) -> Scores:
        assert len(ids_T) == len(self.logprobs) + 1
        return Scores(self.logprobs)

    def start(self, batch: int) -> Any:
        raise NotImplementedError

    def step(self, ids_BT: Ids, state: Any) -> tuple[Floats, Any]:
        raise NotImplementedError


def step(title: str, **dials: Any) -> Step:
    """Return the one step whose title begins so."""
    (found,) = (each for each in perplexity(**dials) if each.title.startswith(title))
    return found


def matrix(title: str, name: str, **dials: Any) -> Matrix:
    (found,) = (each for each in step(title, **dials).matrices if each.name == name)
    return found


def number(found: Step) -> float:
    return float(found.answer[0])


@pytest.mark.item(87)
def test_the_same_likelihood_goes_with_any_accuracy() -> None:
    assert matrix("Accuracy", "accuracy").values == ((0, 1),)
    assert matrix("Accuracy", "accuracy", probabilities=(0.9, 0.5, 0.6, 0.1)).values == ((Fraction(1, 2), 1),)
    # Four times the same probabilities of the right word, among enough others: never the most likely, and always.
    for right in (1 / 4, 1 / 3):
        beaten = [right, 1 - right]
        winning = [right, *[(1 - right) / 8] * 8]
        assert sum(beaten) == pytest.approx(sum(winning)) == 1
        assert max(beaten) != right
        assert max(winning) == right


@pytest.mark.item(87)
def test_the_average_negative_log_likelihood() -> None:
    average = number(step("Average"))
    assert f"{average:.3f}" == "1.242"
    assert average == pytest.approx(math.log(12) / 2, rel=1e-12)
    assert average == pytest.approx(1.242453, abs=1e-6)
    assert matrix("Average", "average").values[0][0] == -average


@pytest.mark.item(88)
def test_perplexity_is_e_to_the_average() -> None:
    assert number(step("Perplexity")) == pytest.approx(math.exp(number(step("Average"))), rel=1e-12)
    assert number(step("Perplexity", probabilities=(1.0, 1.0))) == 1
    assert number(step("Perplexity", probabilities=(0.125,) * 3)) == pytest.approx(8, rel=1e-12)


@pytest.mark.item(89)
def test_perplexity_is_the_geometric_mean_of_the_denominators() -> None:
    assert f"{number(step('Perplexity')):.3f}" == "3.464"
    assert number(step("Perplexity")) == pytest.approx(math.sqrt(12), rel=1e-12)
    total, geometric, plain = matrix("A geometric", "means").values[0]
    assert step("A geometric").answer == (144,) == (total,)
    assert float(geometric) == pytest.approx(3.464102, abs=1e-6)
    assert plain == 3.5
    assert matrix("A geometric", "1/P").values == ((4, 3, 4, 3),)
    odd = {"probabilities": (0.3, 0.77, 0.123456)}
    assert float(matrix("A geometric", "means", **odd).values[0][1]) == pytest.approx(
        number(step("Perplexity", **odd)), rel=1e-12
    )


@pytest.mark.item(88)
@pytest.mark.parametrize("probabilities", [(0.25, 1 / 3, 0.25, 1 / 3), (0.9, 1e-6, 0.5), (1.0,)])
def test_the_package_measures_the_same(probabilities: tuple[float, ...]) -> None:
    count = len(probabilities)
    counts = TokenCounts(tokens=count, unknown=0, bytes=count, characters=count, documents=1, lossless=True)
    measured = likelihood(Fixed(probabilities), np.zeros(count + 1, np.int64), counts)
    assert measured.nats_per_token == pytest.approx(number(step("Average", probabilities=probabilities)))
    assert measured.perplexity == pytest.approx(number(step("Perplexity", probabilities=probabilities)))


@pytest.mark.item(87)
def test_the_average_does_not_depend_on_the_length() -> None:
    once, twice = matrix("Twice", "text").values
    assert [once[0], twice[0]] == [4, 8]
    assert float(once[1]) == pytest.approx(1 / 144)
    assert float(twice[1]) == pytest.approx(1 / 144**2)
    doubled = (0.25, 1 / 3, 0.25, 1 / 3) * 2
    assert float(twice[2]) == pytest.approx(number(step("Perplexity", probabilities=doubled)), rel=1e-12)


@pytest.mark.item(88)
def test_an_impossible_word_costs_everything() -> None:
    rows = matrix("One impossible", "with one more word").values
    assert rows[-1] == (0, math.inf, math.inf)
    longer = (0.25, 1 / 3, 0.25, 1 / 3, 1e-3)
    assert float(rows[0][2]) == pytest.approx(number(step("Perplexity", probabilities=longer)), rel=1e-12)


def test_answers_may_be_rounded() -> None:
    assert is_right("1.24", step("Average").answer)
    assert is_right("3.46", step("Perplexity").answer)
    assert not is_right("3.6", step("Perplexity").answer)


def test_dials_are_read_as_settings() -> None:
    lesson = Lesson("perplexity", "Perplexity", "slides", (87, 88, 89), perplexity)
    assert number(lesson.run(probabilities=[0.5, 1])[2]) == pytest.approx(math.sqrt(2))
    assert lesson.run() == perplexity()


@pytest.mark.parametrize("probabilities", [(), (0.0,), (1.5, 0.5), (-0.1,), (math.nan,), (0.5,) * 21, (1e-13,)])
def test_bad_dials_are_told(probabilities: tuple[float, ...]) -> None:
    with pytest.raises(SettingsError, match=r"probabilities: found .*, expected 1 to 20 numbers") as caught:
        perplexity(probabilities=probabilities)
    assert "infinite" in caught.value.remedy
