"""One forward pass, everything it did: read by site, for every encoder and every pair model."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import satchel
from satchel.errors import DataError, SettingsError
from satchel.inspection.lens import logit_lens
from satchel.inspection.trace import Targets, Trace, one_pair, text_batch
from satchel.nn.sites import sites
from satchel.tasks.classification import ClassificationNetwork
from satchel.tasks.language import LanguageNetwork
from satchel.tasks.tagging import TaggingNetwork
from satchel.tasks.translation import TranslationNetwork
from tests.inspection.conftest import untrained
from tests.models import test_pair
from tests.models.encoders import SETTINGS, make

IDS = np.array([10, 3, 1, 4, 1, 5, 9, 2])
TEXTS = tuple("|three one four one five nine two".replace("|", "<start> ").split())
NAMES = [f"word {number}" for number in range(11)]


def traced(name: str, **options: Any) -> tuple[LanguageNetwork, Trace]:
    network = LanguageNetwork(make(name)).eval()
    targets = Targets(TEXTS[1:], tuple(IDS[1:].tolist()), np.zeros(7))
    return network, Trace(TEXTS, network, text_batch(network, IDS), targets=targets, **options)


@pytest.mark.parametrize("name", SETTINGS)
def test_every_site_of_every_encoder_can_be_read_and_none_changes_what_is_said(name: str) -> None:
    network, trace = traced(name)
    assert len(trace.sites) == len(sites(network))
    passed = trace.read("*")
    with torch.inference_mode():
        plain_TV = network(torch.from_numpy(IDS)[None])[0].numpy()
    np.testing.assert_allclose(trace.logits, plain_TV, rtol=1e-12, atol=1e-12)
    assert "encoded" in passed
    for each in passed.values():
        assert torch.isfinite(each).all()
    for site, value in passed.items():
        # Values have an axis of positions; sense vectors have one of unique tokens.
        assert len(IDS) in value.shape or site in ("senses", "sense_network.block.hidden")


@pytest.mark.item(37)
@pytest.mark.parametrize("name", ["usual", "learned", "alibi", "backpack", "wide"])
def test_attention_is_a_map_for_each_layer_and_head(name: str) -> None:
    network, trace = traced(name)
    blocks = [part for part in network.modules() if type(part).__name__ == "Block"]
    maps = trace.attention
    assert (len(maps), maps.heads) == (len(blocks), 3)
    for layer, head, map_TT in maps.each():
        assert map_TT.shape == (8, 8)
        np.testing.assert_allclose(map_TT.sum(axis=1), 1)
        assert not np.triu(map_TT, 1).any()
        np.testing.assert_array_equal(map_TT, maps[layer, head])
    np.testing.assert_allclose(maps.mean(), np.mean([maps[layer] for layer in range(len(maps))], axis=(0, 1)))
    np.testing.assert_allclose(maps.mean(0), maps[0].mean(axis=0))


def test_nothing_of_the_size_of_a_map_is_kept_that_nobody_asked_for() -> None:
    _, trace = traced("usual")
    assert not [name for name in trace._values if name.endswith(("weights", "scores", "logits"))]
    for _ in trace.attention.each():
        assert len([name for name in trace._values if name.endswith("weights")]) <= 1
    assert not [name for name in trace._values if name.endswith("weights")]
    assert trace.attention[1].shape == (3, 8, 8)
    assert [name for name in trace._values if name.endswith("weights")] == ["blocks.1.attention.weights"]
    trace.forget("*.weights")
    assert not [name for name in trace._values if name.endswith("weights")]


def test_values_are_arrays_or_tensors_without_the_axis_of_the_batch() -> None:
    _, trace = traced("lstm")
    assert isinstance(trace["embedded"], np.ndarray)
    assert isinstance(trace.tensor("embedded"), torch.Tensor)
    assert trace["embedded"].shape == (8, 12)
    assert list(trace.hidden) == ["embedded", "layers.0.states", "layers.1.states", "encoded"]
    assert {name: gates.shape for name, gates in trace.gates.items()} == {
        f"layers.{layer}.gates": (8, 4, 12) for layer in range(2)
    }


def test_what_is_not_there_is_told_with_what_there_is() -> None:
    _, trace = traced("usual")
    with pytest.raises(SettingsError, match=r"unknown site blocks\.9"):
        trace["blocks.9.output"]
    with pytest.raises(SettingsError, match="layers 0 to 1"):
        trace.attention[2]
    with pytest.raises(SettingsError, match="heads 0 to 2"):
        trace.attention[0, 3]
    _, other = traced("lstm")
    with pytest.raises(SettingsError, match="no self-attention"):
        other.attention[0]


@pytest.mark.parametrize("network_of", [TaggingNetwork, ClassificationNetwork])
@pytest.mark.parametrize("name", ["usual", "lstm", "backpack", "dan"])
def test_labels_are_traced_too(network_of: Any, name: str) -> None:
    network = network_of(make(name, causal=False), 3).double().eval()
    trace = Trace(TEXTS, network, text_batch(network, IDS))
    with torch.inference_mode():
        np.testing.assert_allclose(trace.logits, network(torch.from_numpy(IDS)[None])[0].numpy(), rtol=1e-12)
    assert len(trace["encoded"]) == len(IDS)


@pytest.mark.parametrize("name", test_pair.SETTINGS)
def test_translators_are_traced_with_what_they_look_at_in_the_source(name: str) -> None:
    network = TranslationNetwork(test_pair.make_pair(test_pair.SETTINGS[name])).double().eval()
    source, target = np.array([1, 2, 3]), np.array([4, 5])
    trace = Trace("<de", network, one_pair(network, source, target, (12, 10)), source="abc.")
    assert trace.logits.shape == (3, 11)
    assert all(torch.isfinite(value).all() for value in trace.read("*").values())
    if "none" in name or name in ("lstm mean", "lstm max", "decoder-only"):
        assert not len(trace.cross) or not trace.read(trace.cross.names[0])
        return
    assert trace.cross[0].shape[1:] == (3, 4)
    np.testing.assert_allclose(trace.cross[0].sum(axis=-1), 1)
    if name.startswith(("transformer", "backpack")):
        assert trace.attention[0].shape[1:] == (3, 3)
        assert trace.source_attention[0].shape[1:] == (4, 4)


# --- the lens


@pytest.mark.parametrize("name", ["usual", "post-norm", "lstm", "no norm"])
def test_the_last_layer_of_a_lens_says_what_the_network_says(name: str) -> None:
    network, trace = traced(name)
    found = logit_lens(untrained(network), trace)
    logprobs_TV = torch.from_numpy(trace.logits).log_softmax(dim=-1)
    assert found.said[-1] == tuple(NAMES[place] for place in logprobs_TV.argmax(dim=-1))
    np.testing.assert_allclose(found.chances[-1], logprobs_TV.amax(dim=-1).exp())
    np.testing.assert_allclose(found.nats[-1, :-1], -logprobs_TV[torch.arange(7), torch.from_numpy(IDS[1:])])
    order_TV = logprobs_TV.argsort(dim=-1, descending=True)
    assert found.ranks[-1, :-1].tolist() == [
        1 + order_TV[place].tolist().index(id_) for place, id_ in enumerate(IDS[1:])
    ]
    # What follows the last word was not asked for.
    assert found.ranks[-1, -1] == 0
    assert np.isnan(found.nats[-1, -1])
    assert found.layers[0] == "embedded"
    assert len(found.layers) == 3


def test_a_backpack_has_no_lens_and_is_told_what_it_has() -> None:
    network, trace = traced("backpack")
    with pytest.raises(SettingsError, match="contributions"):
        logit_lens(untrained(network), trace)


# --- of models


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("traces")
    (path / "text.txt").write_text("the cat sat on the mat and the dog sat on the cat\n" * 40)
    rows = "label\ttext\ngood\tthe cat sat\nbad\tthe dog ran\n" * 20
    (path / "rows.tsv").write_text("label\ttext\n" + rows.replace("label\ttext\n", ""))
    return path


def trained(folder: Path, data: str, **options: Any) -> Any:
    return satchel.train(folder / data, out=folder / "run", steps=2, force=True, **options)


SMALL: dict[str, Any] = {"model.width": 16, "model.layers": 2, "model.heads": 2, "model.context": 8}


def test_the_trace_of_a_language_model_says_how_surprising_each_token_was(folder: Path) -> None:
    model = trained(folder, "text.txt", model="transformer", tokenizer="word", settings=SMALL)
    trace = model.trace("the cat sat on")
    assert trace.tokens == ("<start>", "the", "cat", "sat", "on")
    np.testing.assert_allclose(-trace.surprise, model.score("the cat sat on").logprobs, rtol=1e-6)
    assert trace.targets.tokens == ("the", "cat", "sat", "on")
    both = model.trace(["the cat sat on", "on"])
    assert [each.tokens for each in both] == [trace.tokens, ("<start>", "on")]
    np.testing.assert_array_equal(both[0]["encoded"], trace["encoded"])
    found = model.lens("the cat sat on")
    np.testing.assert_allclose(found.nats[-1, :-1], trace.surprise, rtol=1e-5)


def test_a_text_longer_than_the_context_is_read_from_a_token_on(folder: Path) -> None:
    model = trained(folder, "text.txt", model="transformer", tokenizer="word", settings=SMALL)
    text = "the cat sat on the mat and the dog sat on the cat"
    whole = model.score(text).logprobs
    first, later = model.trace(text), model.trace(text, start=5)
    assert first.tokens == ("<start>", *text.split()[:7])
    assert first.attention[0, 0].shape == (8, 8)
    assert later.tokens == tuple(text.split()[4:12])
    assert "tokens 5 to 12 of 14" in later.notes[0]
    np.testing.assert_allclose(-later.surprise, whole[5:13], rtol=1e-6)
    with pytest.raises(SettingsError, match="less than 14"):
        model.trace(text, start=14)


def test_an_ngram_says_which_order_answered_and_a_network_on_one_whom_it_believed(folder: Path) -> None:
    counted = satchel.train(
        folder / "text.txt", model="ngram", tokenizer="word", out=folder / "counted", force=True, task="lm"
    )
    trace = counted.trace("the cat sat")
    assert trace.sites == ()
    assert trace.targets.notes["order"].tolist()[0] <= 2
    np.testing.assert_allclose(-trace.surprise, counted.score("the cat sat").logprobs)
    with pytest.raises(SettingsError, match="it has no sites"):
        trace["embedded"]
    both = trained(folder, "text.txt", tokenizer="word", settings={**SMALL, "model.ngram": 2}, model="transformer")
    trace = both.trace("the cat sat")
    assert ((trace.targets.notes["gate"] > 0) & (trace.targets.notes["gate"] < 1)).all()


def test_labels_and_tags_are_what_was_asked_for(folder: Path) -> None:
    model = trained(folder, "rows.tsv", model="transformer", tokenizer="word", settings=SMALL)
    trace = model.trace("the cat sat")
    assert trace.tokens == ("the", "cat", "sat")
    assert trace.targets.tokens == (model.classify("the cat sat").label,)
    tagger = satchel.train(
        "@counting", steps=2, out=folder / "tagger", settings={"data.size": 50, **SMALL}, force=True, task="tag"
    )
    trace = tagger.trace("a cat")
    assert trace.targets.tokens == tagger.tag("a cat").tags
    assert tagger.lens("a cat").said[-1] == tagger.tag("a cat").tags
    with pytest.raises(DataError):
        tagger.trace("")


def test_a_translator_traces_its_own_translation_or_a_given_one(folder: Path) -> None:
    model: Any = satchel.train(
        "@reverse", steps=2, out=folder / "pairs", settings={"data.size": 50, **SMALL, "model.context": 64}, force=True
    )
    trace = model.trace("abcde", "edcba")
    assert trace.source == (*"abcde", "<end>")
    assert trace.targets.tokens == (*"edcba", "<end>")
    np.testing.assert_allclose(-trace.surprise, model.score("abcde", "edcba").logprobs, rtol=1e-5)
    assert trace.cross[0].shape == (2, 6, 6)
    assert model.trace("abcde").targets.tokens[-1] == "<end>"
