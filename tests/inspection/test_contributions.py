"""Contributions: those of all senses of all words sum to a logit of a Backpack."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from satchel.errors import RunError
from satchel.inspection.contributions import Contributions, by_position, project
from satchel.inspection.targets import logit
from satchel.models.backpack import Backpack
from satchel.models.settings import Pooling
from satchel.nn.inference import inference
from satchel.nn.sites import recording
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
    assert contributions.positions == tuple(range(words)) or not contributions.words
    tolerance = 1e-6 * (np.abs(contributions.values).sum() + abs(contributions.constant))
    assert contributions.logit == pytest.approx(score, abs=tolerance)
    assert contributions.centred.sum() + contributions.bias == pytest.approx(score, abs=tolerance)
    assert sum(contributions.bias_parts.values()) == pytest.approx(contributions.bias, abs=tolerance)
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
    np.testing.assert_allclose(by_position(network, IDS).sum(axis=(1, 2)), logits_TV[range(9), IDS[1:]], atol=1e-5)
    last = contributions_of(network, IDS[:9], IDS[9]).centred
    centred = by_position(network, IDS, means_ND=encoder.mean_senses())[-1]
    np.testing.assert_allclose(centred, last, atol=1e-5 * np.abs(last).sum())


@pytest.mark.parametrize("name", KINDS)
def test_centred_contributions_follow_their_definition(name: str) -> None:
    encoder = large(name, causal=True)
    network = LanguageNetwork(encoder).eval()
    with inference(encoder), recording(encoder, "senses", "sense_weights") as recorded:
        encoder.encode(torch.from_numpy(IDS)[None])
    w_SN = recorded["sense_weights"][0][0, :, -1].T.double().numpy() * encoder.scale
    c_SND = recorded["senses"][0][np.unique(IDS, return_inverse=True)[1]].double().numpy()
    m_ND = encoder.lookup(torch.arange(encoder.embedding.num_embeddings)).double().mean(dim=0).numpy()
    outputs_VD = network.head.weight.detach().double().numpy()
    e_D, u_D = outputs_VD[3], outputs_VD.mean(axis=0)
    result = contributions_of(network, IDS, 3)
    tolerance = {"atol": 1e-6 * np.abs(result.values).sum()}
    np.testing.assert_allclose(result.values, w_SN * (c_SND @ e_D), **tolerance)
    np.testing.assert_allclose(result.centred, w_SN * ((c_SND - m_ND) @ (e_D - u_D)), **tolerance)
    np.testing.assert_allclose(result.shared_senses, (w_SN.sum(axis=0) * (m_ND @ (e_D - u_D))).sum(), **tolerance)
    np.testing.assert_allclose(result.mean_logit, (w_SN * (c_SND @ u_D)).sum(), **tolerance)
    versus = contributions_of(network, IDS, 3, 5)
    np.testing.assert_allclose(versus.centred, w_SN * ((c_SND - m_ND) @ (e_D - outputs_VD[5])), **tolerance)
    assert versus.mean_logit == 0


def test_only_the_logits_of_a_backpack_are_sums_over_senses(folder: Path) -> None:
    with pytest.raises(AssertionError, match="only the logits of a Backpack"):
        contributions_of(LanguageNetwork(make("rotary")).eval(), IDS, 3)
    with pytest.raises(RunError, match=r"has no sense vectors \(task=lm, model.kind=transformer\)"):
        train(folder, model="transformer", tokenizer="word").contributions("the cat")


# --- results --------------------------------------------------------------------------------------------


def contributions_to(target: str, value: float) -> Contributions:
    values = np.array([[value, 1.0], [-2.0, 0.5]])
    return Contributions(("a", "b"), target, None, values, values - 1, 3.0, 1.0, constant=value)


def test_a_difference_of_contributions_is_that_of_all_parts() -> None:
    first, second = contributions_to("x", 3.0), contributions_to("y", 1.0)
    difference = first - second
    assert (difference.target, difference.versus) == ("x", "y")
    assert difference.values.tolist() == difference.centred.tolist() == [[2, 0], [0, 0]]
    assert difference.logit == first.logit - second.logit == 4
    assert difference.bias_parts == {"shared_senses": 0, "mean_logit": 0, "constant": 2}


def test_the_largest_contributions_are_sorted_by_magnitude() -> None:
    contributions = contributions_to("x", 3.0)
    assert contributions.decomposition(raw=True).largest(2) == [("a", 0, 0, 3.0), ("b", 1, 0, -2.0)]
    assert contributions.decomposition().largest(2) == [("b", 1, 0, -3.0), ("a", 0, 0, 2.0)]


def test_displays_are_centred_with_the_bias_as_a_row_and_state_the_sum() -> None:
    contributions = contributions_to("x", 3.0)
    page = contributions._repr_html_()
    assert "logit +5.5000 = centred contributions -1.5000 + bias +7.0000" in page
    assert (
        contributions.decomposition(raw=True).summary == "logit +5.5000 = raw contributions +2.5000 + head bias +3.0000"
    )
    for raw, bias in ((False, 7.0), (True, 3.0)):
        cells = json.dumps(contributions.picture(raw=raw).spec())
        assert f"{bias:+.2f}" in cells
        assert "bias" in cells
