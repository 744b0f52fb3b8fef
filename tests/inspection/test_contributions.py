"""Every score of a Backpack is the sum of what the senses of words add to it."""

from typing import Any

import numpy as np
import pytest
import torch

from satchel.inspection.contributions import Contributions, by_position, project
from satchel.inspection.targets import logit
from satchel.models.backpack import Backpack
from satchel.models.settings import Pooling
from satchel.tasks.classification import ClassificationNetwork
from satchel.tasks.language import LanguageNetwork
from satchel.tasks.tagging import TaggingNetwork
from tests.models.encoders import make

IDS = np.array([10, 3, 1, 4, 1, 5, 9, 2, 6, 5])
KINDS = ["backpack", "mean of senses", "lstm backpack", "uniform backpack", "table of senses"]


def check(found: Contributions, score: float, words: int, senses: int) -> None:
    assert found.values.shape == found.centred.shape == (words, senses)
    assert found.shared.shape == (senses,)
    tolerance = 1e-6 * (np.abs(found.values).sum() + abs(found.constant))
    assert found.logit == pytest.approx(score, abs=tolerance)
    again = found.centred.sum() + found.shared.sum() + found.constant
    assert again == pytest.approx(score, abs=tolerance)
    assert words == 0 or np.abs(found.values).sum() > 1e-6


def one(*arguments: Any, **options: Any) -> Contributions:
    (found,) = project([logit(*arguments, **options)])
    return found


def encoder(name: str, *, causal: bool) -> Backpack:
    made = make(name, causal=causal)
    assert isinstance(made, Backpack)
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return made.float()


@pytest.mark.parametrize("name", KINDS)
def test_contributions_add_up_to_the_score_of_what_comes_next(name: str) -> None:
    own = encoder(name, causal=True)
    network = LanguageNetwork(own).eval()
    with torch.no_grad():
        scores = network(torch.from_numpy(IDS)[None])[0, -1]
    for target in (0, 7):
        check(one(network, IDS, target), scores[target].item(), 10, own.settings.senses)
    contrast = one(network, IDS, 2, versus=5)
    check(contrast, (scores[2] - scores[5]).item(), 10, own.settings.senses)


@pytest.mark.parametrize("pooling", ["mean", "root"])
@pytest.mark.parametrize("length", [0, 1, 10, 16, 17, 40])
@pytest.mark.parametrize("name", KINDS)
def test_contributions_add_up_to_the_score_of_a_label_also_of_long_texts(
    name: str, length: int, pooling: Pooling
) -> None:
    own = encoder(name, causal=False)
    network = ClassificationNetwork(own, 3, pooling).eval()
    ids = np.resize(IDS, length)
    with torch.no_grad():
        # A text without a word has the head's bias, and nothing else.
        scores = network(torch.from_numpy(ids)[None])[0] if length else network.head.bias
    for label, found in enumerate(project([logit(network, ids, number) for number in range(3)])):
        assert found.constant == pytest.approx(network.head.bias[label].item())
        check(found, scores[label].item(), length, own.settings.senses)


@pytest.mark.parametrize("name", KINDS)
def test_contributions_add_up_to_the_score_of_a_tag(name: str) -> None:
    own = encoder(name, causal=False)
    network = TaggingNetwork(own, 4).eval()
    with torch.no_grad():
        scores = network(torch.from_numpy(IDS)[None])[0]
    for place in (0, 5, 9):
        check(one(network, IDS, 2, position=place), scores[place, 2].item(), 10, own.settings.senses)


@pytest.mark.parametrize("name", KINDS)
def test_contributions_at_every_position_of_a_text_are_those_after_each_of_its_beginnings(name: str) -> None:
    own = encoder(name, causal=True)
    network = LanguageNetwork(own).eval()
    found = by_position(network, IDS, target=2, versus=5)
    assert found.shape == (9, 9, own.settings.senses)
    for stop in (1, 4, 9):
        alone = one(network, IDS[:stop], 2, versus=5).values
        np.testing.assert_allclose(found[stop - 1, :stop], alone, atol=1e-5 * np.abs(alone).sum())
        assert not found[stop - 1, stop:].any()
    with torch.no_grad():
        scores = network(torch.from_numpy(IDS[:-1])[None])[0]
        leads = scores[range(9), IDS[1:]] - scores.mean(dim=-1)
    np.testing.assert_allclose(by_position(network, IDS).sum(axis=(1, 2)), leads, atol=1e-5)


def test_what_comes_later_adds_nothing() -> None:
    network = LanguageNetwork(encoder("backpack", causal=True)).eval()
    whole, part = (one(network, ids, 3) for ids in (IDS, IDS[:6]))
    assert whole.values.shape[0] == 10
    assert part.values.shape[0] == 6


def test_only_a_backpack_has_them() -> None:
    network = LanguageNetwork(make("rotary")).eval()
    with pytest.raises(AssertionError, match="only the logits of a Backpack"):
        one(network, IDS, 3)
