"""A classifier by hand: the lesson's numbers, and the same from the package's parts."""

from fractions import Fraction
from typing import Any

import pytest
import torch

from satchel.errors import SettingsError
from satchel.lessons.classifier import SCALE, block, classifier, embedded, mean, probabilities, weights
from satchel.lessons.steps import Step
from satchel.nn.attention import attend
from satchel.tasks.classification import pooled

WORDS = ("not", "bad", ",", "a", "lovely", "film")


def step(title: str, **dials: Any) -> Step:
    (found,) = (each for each in classifier(**dials) if each.title.startswith(title))
    return found


def tensor(rows: Any) -> torch.Tensor:
    return torch.tensor([[float(number) for number in row] for row in rows], dtype=torch.float64)


@pytest.mark.item(91)
def test_a_label_is_the_softmax_of_a_linear_map_of_the_mean() -> None:
    # `not bad` is good once, `lovely` twice: 3 of 6 words.
    assert mean(block(embedded(WORDS), True)) == [Fraction(1, 2), 0, 0]
    assert step("The mean").answer == (Fraction(1, 2),)
    assert step("A linear map").answer == ("positive",)
    expected = torch.tensor([SCALE * 0.5, 0.0], dtype=torch.float64).softmax(dim=0)
    assert probabilities(WORDS, True) == pytest.approx(expected.tolist())
    assert step("A linear map", text="not lovely").answer == ("negative",)


@pytest.mark.parametrize("positions", [True, False])
def test_the_lessons_attention_and_mean_are_the_packages(positions: bool) -> None:
    vectors = tensor(embedded(WORDS))
    looked = tensor(weights(len(WORDS), positions))
    scores = torch.where(looked > 0, 0.0, -torch.inf)
    found, given = attend(
        torch.zeros(6, 1, dtype=torch.float64), torch.zeros(6, 1, dtype=torch.float64), vectors, scores == 0
    )
    torch.testing.assert_close(given, looked)
    torch.testing.assert_close(found, tensor(step("Who looks", positions=positions).matrices[1].values))
    encoded = tensor(block(embedded(WORDS), positions))
    assert pooled(encoded[None])[0].tolist() == pytest.approx(
        [float(each) for each in mean(block(embedded(WORDS), positions))]
    )


@pytest.mark.item(92)
def test_padding_enters_neither_the_attention_nor_the_mean() -> None:
    right, wrong = step("Padding", padding=6).matrices[0].values
    assert right == (Fraction(1, 2), 0, 0)
    assert wrong == (Fraction(1, 4), 0, 0)
    encoded = tensor(block(embedded((*WORDS, "<pad>")), True))[None]
    keep = torch.tensor([[True] * 6 + [False]])
    assert pooled(encoded, keep)[0, 0] == 0.5
    assert step("Padding", padding=0).matrices[0].values == ((Fraction(1, 2), 0, 0), (Fraction(1, 2), 0, 0))


@pytest.mark.item(93)
def test_only_with_positions_can_another_order_get_another_label() -> None:
    with_positions, without = step("The same words", text="not bad").matrices[0].values
    assert float(with_positions[0]) > 0.5 > float(with_positions[1])
    assert without[0] == without[1]


@pytest.mark.parametrize("dials", [{"text": "good"}, {"text": "a " * 13}, {"padding": -1}, {"padding": 13}])
def test_what_does_not_fit_is_told(dials: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match="expected 2 to 12"):
        classifier(**dials)
