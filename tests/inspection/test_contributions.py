"""Contributions: those of all senses of all words sum to a logit of a Backpack."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from satchel.errors import RunError
from satchel.inspection.contributions import Contributions, above_mean, by_position, project
from satchel.inspection.targets import logit
from satchel.models.backpack import Backpack
from satchel.models.settings import Pooling
from satchel.tasks.classification import ClassificationNetwork
from satchel.tasks.language import LanguageNetwork
from satchel.tasks.tagging import TaggingNetwork
from tests.inspection.conftest import enlarge, train
from tests.models.encoders import make

IDS = np.array([10, 3, 1, 4, 1, 5, 9, 2, 6, 5])
KINDS = ["backpack", "mean of senses", "lstm backpack", "uniform backpack", "table of senses"]


def check(contributions: Contributions, score: float, words: int, senses: int) -> None:
    """Check the shapes, and that both decompositions sum to the score."""
    assert contributions.values.shape == contributions.centred.shape == (words, senses)
    assert contributions.shared.shape == (senses,)
    tolerance = 1e-6 * (np.abs(contributions.values).sum() + abs(contributions.constant))
    assert contributions.logit == pytest.approx(score, abs=tolerance)
    centred = contributions.centred.sum() + contributions.bias + contributions.constant
    assert centred == pytest.approx(score, abs=tolerance)
    assert words == 0 or np.abs(contributions.values).sum() > 1e-6


def contributions_of(network: Any, ids: np.ndarray, *target: int, **options: Any) -> Contributions:
    (contributions,) = project([logit(network, ids, *target, **options)])
    return contributions


def large(name: str, *, causal: bool) -> Backpack:
    encoder = make(name, causal=causal)
    assert isinstance(encoder, Backpack)
    return enlarge(encoder).float()


@pytest.mark.parametrize("name", KINDS)
def test_contributions_sum_to_the_logit_of_the_next_token(name: str) -> None:
    encoder = large(name, causal=True)
    network = LanguageNetwork(encoder).eval()
    with torch.no_grad():
        logits_V = network(torch.from_numpy(IDS)[None])[0, -1]
    for target in (0, 7):
        check(contributions_of(network, IDS, target), logits_V[target].item(), 10, encoder.settings.senses)
    difference = contributions_of(network, IDS, 2, 5)
    check(difference, (logits_V[2] - logits_V[5]).item(), 10, encoder.settings.senses)


@pytest.mark.parametrize("pooling", ["mean", "root"])
@pytest.mark.parametrize("length", [0, 1, 10, 16, 17, 40])
@pytest.mark.parametrize("name", KINDS)
def test_contributions_sum_to_the_logits_of_labels_of_texts_of_any_length(
    name: str, length: int, pooling: Pooling
) -> None:
    encoder = large(name, causal=False)
    network = ClassificationNetwork(encoder, 3, pooling).eval()
    ids = np.resize(IDS, length)
    with torch.no_grad():
        # The logits of an empty text are the bias of the head.
        logits_C = network(torch.from_numpy(ids)[None])[0] if length else network.head.bias
    for label, contributions in enumerate(project([logit(network, ids, label) for label in range(3)])):
        assert contributions.constant == network.head.bias[label].item()
        check(contributions, logits_C[label].item(), length, encoder.settings.senses)


@pytest.mark.parametrize("name", KINDS)
def test_contributions_sum_to_the_logit_of_a_tag(name: str) -> None:
    encoder = large(name, causal=False)
    network = TaggingNetwork(encoder, 4).eval()
    with torch.no_grad():
        logits_TC = network(torch.from_numpy(IDS)[None])[0]
    for position in (0, 5, 9):
        contributions = contributions_of(network, IDS, 2, position=position)
        check(contributions, logits_TC[position, 2].item(), 10, encoder.settings.senses)


@pytest.mark.parametrize("name", KINDS)
def test_contributions_at_a_position_are_those_of_the_text_up_to_it(name: str) -> None:
    encoder = large(name, causal=True)
    network = LanguageNetwork(encoder).eval()
    values_TSN = by_position(network, IDS, target=2, versus=5)
    assert values_TSN.shape == (9, 9, encoder.settings.senses)
    for stop in (1, 4, 9):
        prefix = contributions_of(network, IDS[:stop], 2, 5).values
        np.testing.assert_allclose(values_TSN[stop - 1, :stop], prefix, atol=1e-5 * np.abs(prefix).sum())
        assert not values_TSN[stop - 1, stop:].any()
    with torch.no_grad():
        logits_TV = network(torch.from_numpy(IDS[:-1])[None])[0]
        above_mean_T = logits_TV[range(9), IDS[1:]] - logits_TV.mean(dim=-1)
    np.testing.assert_allclose(by_position(network, IDS).sum(axis=(1, 2)), above_mean_T, atol=1e-5)


def test_only_the_logits_of_a_backpack_are_sums_over_senses(folder: Path) -> None:
    with pytest.raises(AssertionError, match="only the logits of a Backpack"):
        contributions_of(LanguageNetwork(make("rotary")).eval(), IDS, 3)
    with pytest.raises(RunError, match=r"has no sense vectors \(task=lm, model.kind=transformer\)"):
        train(folder, model="transformer", tokenizer="word").contributions("the cat")


# --- results --------------------------------------------------------------------------------------------


def contributions_to(target: str, value: float) -> Contributions:
    values = np.array([[value, 1.0], [-2.0, 0.5]])
    return Contributions(("a", "b"), target, None, values, values - 1, np.full(2, 2.0), constant=value)


def test_a_difference_of_contributions_is_that_of_all_parts() -> None:
    first, second = contributions_to("x", 3.0), contributions_to("y", 1.0)
    difference = first - second
    assert (difference.target, difference.versus) == ("x", "y")
    assert difference.values.tolist() == [[2, 0], [0, 0]]
    assert difference.logit == first.logit - second.logit == 4
    assert difference.bias == 0
    centred = above_mean([first, second])
    assert [each.logit for each in centred] == [2, -2]
    assert [each.target for each in centred] == ["x", "y"]


def test_the_largest_contributions_are_sorted_by_magnitude() -> None:
    assert contributions_to("x", 3.0).largest(2) == [("a", 0, 3.0), ("b", 0, -2.0)]
