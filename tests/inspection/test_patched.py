"""Patched networks: copies with other values at some sites, which leave the network unchanged."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from satchel.errors import SettingsError
from satchel.inspection.ablation import heads_of, zero_heads
from satchel.inspection.patched import patched
from satchel.nn.inference import inference
from satchel.nn.sites import hooked, recording
from satchel.tasks.language import LanguageNetwork, NetworkPredictor
from tests.decoders import stepwise_logprobs
from tests.inspection.conftest import train
from tests.models.encoders import make

IDS_BT = torch.tensor([[10, 3, 1, 4, 1, 5, 9, 2]])


@pytest.mark.parametrize(
    "name", ["usual", "alibi", "narrow", "wide", "own widths", "post-norm", "no residuals", "backpack"]
)
def test_a_patched_network_computes_the_same_as_a_network_with_a_hook(name: str) -> None:
    network = LanguageNetwork(make(name)).eval()
    unchanged = network(IDS_BT)
    layer, head = heads_of(network)[-1]
    patches = zero_heads(network, [(layer, head)])
    copy = patched(network, patches)
    ((site, patch),) = patches.items()
    with hooked(network, {f"encoder.{site}": patch}):
        expected = network(IDS_BT)
    torch.testing.assert_close(copy(IDS_BT), expected, rtol=1e-12, atol=1e-12)
    assert not torch.allclose(expected, unchanged, rtol=1e-9)
    assert torch.equal(network(IDS_BT), unchanged)
    # Incremental decoding gives the same log-probabilities as the whole text.
    ids = np.append(IDS_BT[0].numpy(), 10)
    predictor = NetworkPredictor(copy, 10)
    np.testing.assert_allclose(predictor.score(ids).logprobs, stepwise_logprobs(predictor, ids), rtol=1e-9)


def test_a_copy_shares_parameters_and_buffers() -> None:
    network = LanguageNetwork(make("backpack")).eval()
    copy = patched(network, zero_heads(network, [(0, 1)]))
    for shared, copied in (
        (network.named_parameters(), dict(copy.named_parameters())),
        (network.named_buffers(), dict(copy.named_buffers())),
    ):
        assert all(value is copied.pop(name) for name, value in shared)
        assert not copied
    before = copy(IDS_BT)
    with torch.no_grad():
        network.encoder.embedding.weight[3] += 1
    assert not torch.allclose(copy(IDS_BT), before)


@pytest.mark.parametrize("site", ["sense_network.block.hidden", "senses"])
@pytest.mark.parametrize("first", ["original", "copy"])
def test_a_patch_of_the_senses_affects_the_copy_alone_whichever_is_used_first(site: str, first: str) -> None:
    network = LanguageNetwork(make("backpack")).eval()
    copy = patched(network, {site: torch.zeros_like})
    original, changed = NetworkPredictor(network, 10), NetworkPredictor(copy, 10)
    ids = IDS_BT[0].numpy()
    if first == "copy":
        changed.score(ids)
    before = original.score(ids).logprobs
    assert not np.allclose(changed.score(ids).logprobs, before, rtol=0, atol=1e-9)
    np.testing.assert_array_equal(original.score(ids).logprobs, before)
    with inference(network), hooked(network, {f"encoder.{site}": torch.zeros_like}):
        expected = network(IDS_BT)
    with inference(copy):
        torch.testing.assert_close(copy(IDS_BT), expected, rtol=1e-12, atol=1e-12)
    # Every step of a generation computes with the patch.
    np.testing.assert_allclose(changed.score(ids).logprobs, stepwise_logprobs(changed, ids), rtol=1e-9)


def test_a_recorded_site_of_the_sense_network_has_one_row_for_each_distinct_token() -> None:
    network = LanguageNetwork(make("backpack")).eval()
    name = "encoder.sense_network.block.hidden"
    for _ in range(2):
        with inference(network), recording(network, name) as recorded:
            network(IDS_BT)
            network(IDS_BT[:, :2])
        assert [len(values) for values in recorded[name]] == [len(IDS_BT.unique()), 2]


def test_the_senses_of_a_patched_model_are_those_of_its_network(bpe_backpack: Any) -> None:
    word = "the"
    before = bpe_backpack.senses(word)
    doubled = bpe_backpack.edit(patches={"senses": lambda senses_UND: 2 * senses_UND})
    without = bpe_backpack.edit(patches={"sense_network.block.hidden": torch.zeros_like})
    scores, twice, others = (
        [each.promotes[0][1] for each in model.senses(word).senses] for model in (bpe_backpack, doubled, without)
    )
    np.testing.assert_allclose(twice, 2 * np.array(scores), rtol=1e-5)
    assert not np.allclose(others, scores)
    assert without.similarity("the", "and") != bpe_backpack.similarity("the", "and")
    np.testing.assert_allclose(
        doubled.contributions("so").values,
        2 * bpe_backpack.contributions("so", doubled.contributions("so").target).values,
        rtol=1e-5,
    )
    assert bpe_backpack.senses(word) == before


def test_the_ngram_table_is_shared(folder: Path) -> None:
    model = train(folder, model="transformer", tokenizer="word", settings={"model.ngram": 2})
    assert model.network.ngram is not None
    assert model.edit(zero=[(0, 0)]).network.ngram is model.network.ngram


def test_without_patches_the_network_itself_is_returned() -> None:
    network = LanguageNetwork(make("usual"))
    assert patched(network, {}) is network
    assert zero_heads(network, []) == {}


def test_patching_a_patched_network_applies_both_patches_and_hooks_see_the_result() -> None:
    network = LanguageNetwork(make("usual")).eval()
    first = patched(network, zero_heads(network, [(0, 0)]))
    both = patched(first, zero_heads(first, [(0, 2)]))
    together = patched(network, zero_heads(network, [(0, 0), (0, 2)]))
    torch.testing.assert_close(both(IDS_BT), together(IDS_BT), rtol=1e-12, atol=1e-12)
    with recording(both, "*blocks.0.attention.outputs") as recorded:
        both(IDS_BT)
    ((outputs_BHTV,),) = recorded.values()
    assert [bool(outputs_BHTV[:, head].any()) for head in range(3)] == [False, True, False]


def test_sites_that_several_modules_refer_to_can_be_patched() -> None:
    network = LanguageNetwork(make("backpack")).eval()
    with torch.inference_mode():
        unchanged = network(IDS_BT)
        doubled = patched(network, {"senses": lambda senses_UND: 2 * senses_UND})
        torch.testing.assert_close(doubled(IDS_BT), 2 * unchanged, rtol=1e-12, atol=1e-12)
        assert torch.equal(network(IDS_BT), unchanged)


def test_zero_attention_weights_equal_zero_heads() -> None:
    network = LanguageNetwork(make("usual")).eval()
    weights = patched(network, {"blocks.0.attention.weights": torch.zeros_like})
    outputs = patched(network, zero_heads(network, [(0, head) for head in range(3)]))
    torch.testing.assert_close(weights(IDS_BT), outputs(IDS_BT), rtol=1e-12, atol=1e-12)


def test_an_unknown_site_is_an_error_that_lists_the_sites() -> None:
    with pytest.raises(SettingsError, match=r"unknown site nowhere\nexpected one of embedded"):
        patched(LanguageNetwork(make("usual")), {"nowhere": torch.zeros_like})
