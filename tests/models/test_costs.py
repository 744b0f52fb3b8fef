"""Counting a network without making it gives what the made one has and does."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from satchel.models.build import SIZES, build_encoder, size_tree
from satchel.models.costs import count, meta_device
from satchel.models.presets import PRESETS, Preset
from satchel.models.transformer import Transformer, gpt2
from satchel.nn.sites import hooked, sites
from satchel.tasks.language import LanguageNetwork
from tests.models.encoders import SETTINGS, VOCABULARY


@pytest.mark.parametrize("name", SETTINGS)
def test_the_parameters_are_those_of_the_modules(name: str) -> None:
    with meta_device():
        counted = count(build_encoder(SETTINGS[name], VOCABULARY, causal=True), 16)
    made = build_encoder(SETTINGS[name], VOCABULARY, causal=True)
    assert counted.parameters == sum(parameter.numel() for parameter in made.parameters())
    network = LanguageNetwork(made)
    assert count(network, 16).parameters == counted.parameters, "tied vectors are counted once"
    assert "other" not in {cost.component for cost in counted.components}


def _look(value: torch.Tensor) -> None:
    del value


@pytest.mark.parametrize("name", ["learned", "narrow", "wide", "own widths", "modern", "post-norm", "dan", "window"])
def test_the_operations_are_those_that_torch_counts(name: str) -> None:
    length = 12
    # Averaging all words takes one vector through the net, not one for each word: counted is the other.
    encoder = build_encoder(SETTINGS[name], VOCABULARY, causal=name == "dan")
    network = LanguageNetwork(encoder)
    # torch has no count for its fused attention on a processor: what is watched is done with plain products.
    watched = {name: _look for name in sites(network) if name.endswith("attention.weights")}
    with hooked(network, watched), FlopCounterMode(display=False) as counter:
        network(torch.zeros(1, length, dtype=torch.long))
    counted = count(encoder, length, tied_logits=encoder.embedding)
    assert counter.get_total_flops() == length * counted.operations
    assert counted.training_operations == 3 * counted.operations


@pytest.mark.item(61)
def test_by_component_the_feed_forward_net_has_two_thirds_of_a_block() -> None:
    settings = gpt2(width=512, layers=6, heads=8, bias=False, norm="none", positions="none")
    with meta_device():
        costs = {cost.component: cost for cost in count(Transformer(settings, 1000, causal=True), 128).components}
    assert costs["feed-forward"].parameters == 2 * costs["QKVO"].parameters == 6 * 8 * 512**2
    assert costs["embeddings"].parameters == 512_000
    assert costs["attention"].parameters == 0
    assert costs["attention"].operations == 6 * 4 * 128 * 512


@pytest.mark.item(63)
@pytest.mark.parametrize(
    "preset", [each for each in PRESETS.values() if each.name != "gpt3-xl"], ids=lambda each: each.name
)
def test_the_presets_have_about_what_the_papers_print(preset: Preset) -> None:
    assert preset.count().parameters == pytest.approx(preset.published, rel=0.07)


@pytest.mark.item(63)
def test_the_sizes_of_gpt3_and_their_two_misprints() -> None:
    names = [name for name in PRESETS if name.startswith("gpt3")]
    assert len(names) == 8
    assert PRESETS["gpt3-small"].count().parameters == 125_226_240
    assert PRESETS["gpt3-175b"].count().parameters == pytest.approx(174.6e9, rel=1e-3)
    assert PRESETS["gpt3-xl"].count().parameters == pytest.approx(1.517e9, rel=1e-3)
    settings = gpt2(width=2048, layers=24, heads=16, context=2048)
    with meta_device():
        assert count(Transformer(settings, 50257, causal=True), 1).parameters == pytest.approx(1.3e9, rel=0.02)
    assert "16 heads" in PRESETS["gpt3-xl"].note
    assert "5120" in PRESETS["gpt3-13b"].note


def test_the_named_sizes_are_the_promised_ones() -> None:
    assert {name: size_tree("transformer", name)["width"] for name in SIZES} == {
        "nano": 128, "tiny": 256, "micro": 384, "mini": 640, "small": 768,
    }  # fmt: skip
    assert size_tree("lstm", "mini") == {"width": 650, "layers": 2}
    # The paper's Transformers: V 50264, 512 positions.
    for name, total in (("micro", 30_145_536), ("mini", 71_886_080), ("small", 124_051_968)):
        settings = gpt2(**size_tree("transformer", name))
        with meta_device():
            assert count(Transformer(settings, 50264, causal=True), 1).parameters == total
