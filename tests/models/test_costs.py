"""Costs counted on the meta device equal those of a real network."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from satchel.models.build import SIZES, build_encoder, size_tree
from satchel.models.costs import count
from satchel.models.presets import PRESETS, Preset
from satchel.models.transformer import Transformer, gpt2
from satchel.nn.sites import hooked, sites
from satchel.tasks.language import LanguageNetwork
from tests.models.encoders import SETTINGS, VOCABULARY


@pytest.mark.parametrize("name", SETTINGS)
def test_the_parameters_equal_those_of_the_modules(name: str) -> None:
    with torch.device("meta"):
        counted = count(build_encoder(SETTINGS[name], VOCABULARY, causal=True), 16)
    encoder = build_encoder(SETTINGS[name], VOCABULARY, causal=True)
    assert counted.parameters == sum(parameter.numel() for parameter in encoder.parameters())
    network = LanguageNetwork(encoder)
    assert count(network, 16).parameters == counted.parameters, "tied vectors are counted once"
    assert "other" not in {cost.component for cost in counted.components}


def _look(value: torch.Tensor) -> None:
    del value


@pytest.mark.parametrize("name", ["learned", "narrow", "wide", "own widths", "modern", "post-norm", "dan", "window"])
def test_the_operations_equal_those_counted_by_torch(name: str) -> None:
    length = 12
    # A DAN that is not causal computes one mean per text; the count assumes one per token.
    encoder = build_encoder(SETTINGS[name], VOCABULARY, causal=name == "dan")
    network = LanguageNetwork(encoder)
    # PyTorch does not count fused attention on CPUs; recording the weights selects explicit products.
    watched = {name: _look for name in sites(network) if name.endswith("attention.weights")}
    with hooked(network, watched), FlopCounterMode(display=False) as counter:
        network(torch.zeros(1, length, dtype=torch.long))
    counted = count(encoder, length, tied_logits=encoder.embedding)
    assert counter.get_total_flops() == length * counted.operations
    assert counted.training_operations == 3 * counted.operations


@pytest.mark.item(61)
def test_the_feed_forward_network_has_two_thirds_of_a_block() -> None:
    settings = gpt2(width=512, layers=6, heads=8, bias=False, norm="none", positions="none")
    with torch.device("meta"):
        costs = {cost.component: cost for cost in count(Transformer(settings, 1000, causal=True), 128).components}
    assert costs["feed-forward"].parameters == 2 * costs["QKVO"].parameters == 6 * 8 * 512**2
    assert costs["embeddings"].parameters == 512_000
    assert costs["attention"].parameters == 0
    assert costs["attention"].operations == 6 * 4 * 128 * 512


@pytest.mark.item(63)
@pytest.mark.parametrize(
    "preset", [each for each in PRESETS.values() if each.name != "gpt3-xl"], ids=lambda each: each.name
)
def test_the_presets_have_about_the_published_number_of_parameters(preset: Preset) -> None:
    assert preset.count().parameters == pytest.approx(preset.published, rel=0.07)


@pytest.mark.item(63)
def test_the_sizes_of_gpt3_and_two_misprints() -> None:
    names = [name for name in PRESETS if name.startswith("gpt3")]
    assert len(names) == 8
    assert PRESETS["gpt3-small"].count().parameters == 125_226_240
    assert PRESETS["gpt3-175b"].count().parameters == pytest.approx(174.6e9, rel=1e-3)
    assert PRESETS["gpt3-xl"].count().parameters == pytest.approx(1.517e9, rel=1e-3)
    settings = gpt2(width=2048, layers=24, heads=16, context=2048)
    with torch.device("meta"):
        assert count(Transformer(settings, 50257, causal=True), 1).parameters == pytest.approx(1.3e9, rel=0.02)
    assert "16 heads" in PRESETS["gpt3-xl"].note
    assert "5120" in PRESETS["gpt3-13b"].note


def test_the_named_sizes_have_the_documented_number_of_parameters() -> None:
    assert {name: size_tree("transformer", name)["width"] for name in SIZES} == {
        "nano": 128, "tiny": 256, "micro": 384, "mini": 640, "small": 768,
    }  # fmt: skip
    assert size_tree("lstm", "mini") == {"width": 650, "layers": 2}
    # The paper's Transformers: V 50264, 512 positions.
    for name, total in (("micro", 30_145_536), ("mini", 71_886_080), ("small", 124_051_968)):
        settings = gpt2(**size_tree("transformer", name))
        with torch.device("meta"):
            assert count(Transformer(settings, 50264, causal=True), 1).parameters == total
