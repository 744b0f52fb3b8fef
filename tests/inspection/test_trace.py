"""Traces: the values at the sites of every network, and the targets of every task."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from satchel.charts.figures import Figure
from satchel.errors import DataError, SettingsError
from satchel.inspection.trace import Trace, one_pair, text_batch
from satchel.tasks.classification import ClassificationNetwork
from satchel.tasks.language import LanguageNetwork
from satchel.tasks.tagging import TaggingNetwork
from satchel.tasks.translation import TranslationNetwork
from satchel.text.windows import Window
from tests.inspection.conftest import BLOCKS, count_ngrams, train
from tests.models import test_pair
from tests.models.encoders import SETTINGS, make

IDS = np.array([10, 3, 1, 4, 1, 5, 9, 2])
TOKENS = ("<start>", *"three one four one five nine two".split())
# The context of the trained models is shorter than the longest text.
SHORT: dict[str, Any] = {**BLOCKS, "model.context": 8}


def traced(name: str) -> tuple[LanguageNetwork, Trace]:
    network = LanguageNetwork(make(name)).eval()
    return network, Trace(TOKENS, network, text_batch(network, IDS))


def recorded(trace: Trace, *suffixes: str) -> list[str]:
    return [name for name in trace._values if name.endswith(suffixes)]


@pytest.mark.parametrize("name", SETTINGS)
def test_every_site_of_every_encoder_has_a_value_and_the_logits_are_unchanged(name: str) -> None:
    network, trace = traced(name)
    values = trace.read("*")
    with torch.inference_mode():
        logits_TV = network(torch.from_numpy(IDS)[None])[0].numpy()
    np.testing.assert_allclose(trace.logits, logits_TV, rtol=1e-12, atol=1e-12)
    assert "encoded" in values
    for site, value in values.items():
        assert torch.isfinite(value).all()
        # Values have an axis of positions; sense vectors have one of unique tokens.
        assert len(IDS) in value.shape or site in ("senses", "sense_network.block.hidden")


@pytest.mark.item(37)
@pytest.mark.parametrize("name", ["usual", "learned", "alibi", "backpack", "wide"])
def test_each_layer_and_head_has_causal_attention_weights_that_sum_to_one(name: str) -> None:
    network, trace = traced(name)
    blocks = [module for module in network.modules() if type(module).__name__ == "Block"]
    maps = trace.attention
    assert (len(maps), maps.heads) == (len(blocks), 3)
    for layer, head, weights_TT in maps.each():
        assert weights_TT.shape == (8, 8)
        np.testing.assert_allclose(weights_TT.sum(axis=1), 1)
        assert not np.triu(weights_TT, 1).any()
        np.testing.assert_array_equal(weights_TT, maps[layer, head])
    np.testing.assert_allclose(maps.mean(), np.mean([maps[layer] for layer in range(len(maps))], axis=(0, 1)))
    np.testing.assert_allclose(maps.mean(0), maps[0].mean(axis=0))


def test_values_of_quadratic_size_are_recorded_on_access_only() -> None:
    _, trace = traced("usual")
    assert not recorded(trace, "weights", "scores", "logits")
    for _ in trace.attention.each():
        assert len(recorded(trace, "weights")) <= 1
    assert not recorded(trace, "weights")
    assert trace.attention[1].shape == (3, 8, 8)
    assert recorded(trace, "weights") == ["blocks.1.attention.weights"]
    trace.discard("*.weights")
    assert not recorded(trace, "weights")


def test_values_are_arrays_or_tensors_without_the_batch_axis() -> None:
    _, trace = traced("lstm")
    assert isinstance(trace["embedded"], np.ndarray)
    assert isinstance(trace.tensor("embedded"), torch.Tensor)
    assert trace["embedded"].shape == (8, 12)
    assert list(trace.hidden) == ["embedded", "layers.0.states", "layers.1.states", "encoded"]
    shapes = {name: gates.shape for name, gates in trace.gates.items()}
    assert shapes == {f"layers.{layer}.gates": (8, 4, 12) for layer in range(2)}


@pytest.mark.parametrize(
    ("name", "access", "message"),
    [
        ("usual", lambda trace: trace["blocks.9.output"], r"unknown site blocks\.9"),
        ("usual", lambda trace: trace.attention[2], "layers 0 to 1"),
        ("usual", lambda trace: trace.attention[0, 3], "heads 0 to 2"),
        ("usual", lambda trace: trace.attention.select(None, 1), "give the layer too"),
        ("usual", lambda trace: trace.maps("other"), "own, source, cross or senses"),
        ("lstm", lambda trace: trace.attention[0], "no self-attention"),
    ],
)
def test_values_that_do_not_exist_are_an_error(name: str, access: Any, message: str) -> None:
    _, trace = traced(name)
    with pytest.raises(SettingsError, match=message):
        access(trace)


@pytest.mark.parametrize("network_of", [TaggingNetwork, ClassificationNetwork])
@pytest.mark.parametrize("name", ["usual", "lstm", "backpack", "dan"])
def test_the_logits_of_labels_are_traced(network_of: Any, name: str) -> None:
    network = network_of(make(name, causal=False), 3).double().eval()
    trace = Trace(TOKENS, network, text_batch(network, IDS))
    with torch.inference_mode():
        np.testing.assert_allclose(trace.logits, network(torch.from_numpy(IDS)[None])[0].numpy(), rtol=1e-12)
    assert len(trace["encoded"]) == len(IDS)


@pytest.mark.parametrize("name", test_pair.SETTINGS)
def test_translators_are_traced_with_their_cross_attention(name: str) -> None:
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


# --- trained models -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def transformer(folder: Path) -> Any:
    return train(folder, name="transformer", model="transformer", tokenizer="word", small=SHORT)


def test_the_targets_of_a_language_model_are_the_next_tokens(transformer: Any) -> None:
    trace = transformer.trace("the cat sat on")
    assert trace.tokens == ("<start>", "the", "cat", "sat", "on")
    assert trace.targets.tokens == ("the", "cat", "sat", "on")
    np.testing.assert_allclose(-trace.surprise, transformer.score("the cat sat on").logprobs, rtol=1e-6)


def test_several_texts_have_a_trace_each(transformer: Any) -> None:
    traces = transformer.trace(["the cat sat on", "on"])
    assert [each.tokens for each in traces] == [("<start>", "the", "cat", "sat", "on"), ("<start>", "on")]
    np.testing.assert_array_equal(traces[0]["encoded"], transformer.trace("the cat sat on")["encoded"])


def test_a_window_of_a_text_longer_than_the_context_is_traced(transformer: Any) -> None:
    text = "the cat sat on the mat and the dog sat on the cat"
    logprobs = transformer.score(text).logprobs
    last, first, later = transformer.trace(text), transformer.trace(text, start=0), transformer.trace(text, start=5)
    assert last.tokens == tuple(text.split()[-8:])
    assert last.window == Window(6, 8, 14)
    assert first.tokens == ("<start>", *text.split()[:7])
    assert first.attention[0, 0].shape == (8, 8)
    assert later.tokens == tuple(text.split()[4:12])
    assert "tokens 5 to 12 of 14" in later.notes[0]
    np.testing.assert_allclose(-later.surprise, logprobs[5:13], rtol=1e-6)
    for start, message in ((14, "expected 0 to 13"), (-1, "expected 0 to 13")):
        with pytest.raises(SettingsError, match=message):
            transformer.trace(text, start=start)


def test_a_target_is_for_translators(transformer: Any) -> None:
    with pytest.raises(SettingsError, match="expected a translator, but the task is lm"):
        transformer.trace("the cat", "sat")


def test_an_ngram_model_has_back_off_orders_and_no_sites(folder: Path) -> None:
    ngram = count_ngrams(folder)
    trace = ngram.trace("the cat sat")
    assert trace.sites == ()
    assert trace.targets.notes["order"].tolist()[0] <= 2
    np.testing.assert_allclose(-trace.surprise, ngram.score("the cat sat").logprobs)
    with pytest.raises(SettingsError, match="it has no sites"):
        trace["embedded"]


def test_a_network_interpolated_with_an_ngram_model_has_gates(folder: Path) -> None:
    model = train(folder, model="transformer", tokenizer="word", small=SHORT, settings={"model.ngram": 2})
    gates = model.trace("the cat sat").targets.notes["gate"]
    # A weight rounds to 0 or 1 where the logit of the gate is large.
    assert ((gates >= 0) & (gates <= 1)).all()
    assert len(gates) == 3


def test_the_target_of_a_classifier_is_its_label(folder: Path) -> None:
    model = train(folder, "rows.tsv", model="transformer", tokenizer="word", small=SHORT)
    trace = model.trace("the cat sat")
    assert trace.tokens == ("the", "cat", "sat")
    prediction = model.classify("the cat sat")
    assert trace.targets.tokens == (prediction.label,)
    assert trace.surprise == pytest.approx([-np.log(prediction.probability)])
    window = model.trace("the cat sat " * 5, start=5)
    assert len(window.tokens) == 8
    assert len(window.targets.tokens) == 1


def test_the_targets_of_a_tagger_are_its_tags(folder: Path) -> None:
    tagger = train(folder, "@counting", task="tag", small=SHORT, settings={"data.size": 50})
    trace = tagger.trace("a cat")
    assert trace.targets.tokens == tagger.tag("a cat").tags
    assert trace.surprise == pytest.approx(-np.log(tagger.tag("a cat").probabilities))
    window = tagger.trace("a cat sat here", start=4)
    assert window.targets.tokens == tagger.tag("a cat sat here").tags[4:12]
    with pytest.raises(DataError, match="the text is empty"):
        tagger.trace("")


def test_a_translator_traces_a_given_target_or_its_own_translation(folder: Path) -> None:
    model = train(folder, "@reverse", settings={"data.size": 50, "model.context": 64})
    trace = model.trace("abcde", "edcba")
    assert trace.source == (*"abcde", "<end>")
    assert trace.targets.tokens == (*"edcba", "<end>")
    np.testing.assert_allclose(-trace.surprise, model.score("abcde", "edcba").logprobs, rtol=1e-5)
    assert trace.cross[0].shape == (2, 6, 6)
    assert model.trace("abcde").targets.tokens[-1] == "<end>"
    long = model.trace("a" * 100, "b")
    assert len(long.source) == 64
    assert long.notes == ("source: only tokens 0 to 62 of 100 are used (the first token is 0)",)
    assert model.align("a" * 100, "b").notes == long.notes
    scored = model.score("abc", "b" * 100)
    assert (scored.tokens, scored.window, len(scored.logprobs)) == (("b",) * 63, Window(0, 63, 100), 63)
    with pytest.raises(SettingsError, match="reads source and translation from their start"):
        model.trace("abc", "cba", start=1)


# --- figures --------------------------------------------------------------------------------------------


def test_a_trace_draws_one_head_or_all_heads(transformer: Any) -> None:
    trace = transformer.trace("the cat sat")
    one = trace.attention_map(layer=1, head=0)
    assert "layer 1, head 0" in one.title
    drawn = [row["value"] for rows in one.spec()["datasets"].values() for row in rows if "value" in row]
    np.testing.assert_allclose(drawn, [trace.attention[1, 0].reshape(-1)], atol=1e-3)
    names = {parameter["name"]: parameter for parameter in trace.attention_map().spec()["params"]}
    chosen = trace.attention.choose()
    assert (names["layer"]["value"], names["head"]["value"]) == (f"layer {chosen.layer}", f"head {chosen.head}")
    assert len(names["layer"]["bind"]["options"]) == 3
    assert len(names["head"]["bind"]["options"]) == 3
    assert "bind" not in {each["name"]: each for each in trace.attention_map(layer=1).spec()["params"]}["layer"]
    for figure in (trace.head_lines(), trace.head_lines(0, 1), trace.grid(), trace.grid(1), trace.surprise_strip()):
        assert isinstance(figure, Figure)


def test_a_translator_draws_its_cross_attention(folder: Path) -> None:
    trace = train(folder, "@reverse", settings={"data.size": 50, "model.context": 64}).trace("abc", "cba")
    maps = trace.maps("cross")
    assert (maps.rows, maps.columns) == (trace.tokens, trace.source)
    for figure in (trace.attention_map(which="cross"), trace.head_lines(which="source"), trace.grid(which="own")):
        assert isinstance(figure, Figure)


def test_unknown_layers_heads_and_texts_cannot_be_drawn(transformer: Any) -> None:
    trace = transformer.trace("the cat sat")
    for layer, head, message in ((None, 1, "give the layer too"), (7, None, "layers 0 to 1"), (0, 7, "heads 0 to 1")):
        with pytest.raises(SettingsError, match=message):
            trace.attention_map(layer, head)
    with pytest.raises(SettingsError, match="own, source, cross or senses"):
        trace.attention_map(which="other")
    for draw in (Trace.attention_map, Trace.head_lines, Trace.grid):
        with pytest.raises(SettingsError, match="no self-attention"):
            draw(Trace(["a"]))
