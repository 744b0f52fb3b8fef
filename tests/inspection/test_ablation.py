"""Views: the same weights without some heads. Whatever is asked of a view, its model notices nothing."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import satchel
from satchel.errors import RunError, SettingsError
from satchel.inspection import ablation
from satchel.inspection.ablation import heads_of, zero_heads
from satchel.inspection.patched import patched
from satchel.nn.sites import hooked, recording
from satchel.tasks.language import LanguageNetwork, NetworkPredictor
from tests.models.encoders import SETTINGS, make

IDS_BT = torch.tensor([[10, 3, 1, 4, 1, 5, 9, 2]])
WITH_HEADS = ["usual", "alibi", "narrow", "wide", "own widths", "post-norm", "no residuals", "backpack"]


def zeroed(head: int) -> Any:
    def watcher(outputs_BHTV: torch.Tensor) -> torch.Tensor:
        changed = outputs_BHTV.clone()
        changed[:, head] = 0
        return changed

    return watcher


@pytest.mark.parametrize("name", WITH_HEADS)
def test_a_view_says_what_the_network_says_without_the_head(name: str) -> None:
    network = LanguageNetwork(make(name)).eval()
    plain = network(IDS_BT)
    (layer, head) = heads_of(network)[-1]
    without = patched(network, zero_heads(network, [(layer, head)]))
    prefix = "encoder.contextualiser" if name == "backpack" else "encoder"
    with hooked(network, {f"{prefix}.blocks.{layer}.attention.outputs": zeroed(head)}):
        expected = network(IDS_BT)
    torch.testing.assert_close(without(IDS_BT), expected, rtol=1e-12, atol=1e-12)
    assert not torch.allclose(expected, plain, rtol=1e-9)
    assert torch.equal(network(IDS_BT), plain)
    # The next tokens, one after another, are those of the whole.
    ids = np.append(IDS_BT[0].numpy(), 10)
    asked = NetworkPredictor(without, 10)
    state, steps = asked.start(1), []
    for place in range(len(ids) - 1):
        logprobs, state = asked.step(ids[None, place : place + 1], state)
        steps.append(logprobs[0, ids[place + 1]])
    np.testing.assert_allclose(asked.score(ids).logprobs, steps, rtol=1e-9)


def test_a_view_shares_the_parameters_but_not_the_sense_cache() -> None:
    network = LanguageNetwork(make("backpack")).eval()
    with torch.inference_mode():
        network(IDS_BT)  # now senses are kept
    without = patched(network, zero_heads(network, [(0, 1)]))
    ours, theirs = dict(network.named_parameters()), dict(without.named_parameters())
    assert list(ours) == list(theirs)
    assert all(parameter is theirs[name] for name, parameter in ours.items())
    for name, value in network.named_buffers():
        assert dict(without.named_buffers())[name] is value
    assert network.encoder.sense_cache._rows_VND is not None  # type: ignore[union-attr]
    assert without.encoder.sense_cache._rows_VND is None  # type: ignore[union-attr]
    before = without(IDS_BT)
    with torch.no_grad():
        network.encoder.embedding.weight[3] += 1
    assert not torch.allclose(without(IDS_BT), before)


def test_the_ngram_a_network_stands_on_is_shared(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("the cat sat on the mat\n" * 50)
    options = {"model.ngram": 2, **SMALL}
    model = satchel.train(
        tmp_path / "text.txt", model="transformer", tokenizer="word", steps=2, settings=options, out=tmp_path / "run"
    )
    without = model.edit(zero=[(0, 0)])
    assert model.network.ngram is not None
    assert without.network.ngram is model.network.ngram


def test_without_a_change_it_is_the_network_itself() -> None:
    network = LanguageNetwork(make("usual"))
    assert patched(network, {}) is network
    assert zero_heads(network, []) == {}


def test_a_view_of_a_view_has_the_changes_of_both_and_who_watches_sees_them() -> None:
    network = LanguageNetwork(make("usual")).eval()
    one = patched(network, zero_heads(network, [(0, 0)]))
    both = patched(one, zero_heads(one, [(0, 2)]))
    at_once = patched(network, zero_heads(network, [(0, 0), (0, 2)]))
    torch.testing.assert_close(both(IDS_BT), at_once(IDS_BT), rtol=1e-12, atol=1e-12)
    with recording(both, "*blocks.0.attention.outputs") as found:
        both(IDS_BT)
    ((outputs_BHTV,),) = found.values()
    assert [bool(outputs_BHTV[:, head].any()) for head in range(3)] == [False, True, False]


def test_any_site_can_be_changed_also_those_that_others_hold() -> None:
    network = LanguageNetwork(make("backpack")).eval()
    with torch.inference_mode():
        plain = network(IDS_BT)
        doubled = patched(network, {"senses": lambda senses_UND: 2 * senses_UND})
        torch.testing.assert_close(doubled(IDS_BT), 2 * plain, rtol=1e-12, atol=1e-12)
        assert torch.equal(network(IDS_BT), plain)
        usual = LanguageNetwork(make("usual")).eval()
        own = patched(usual, {"blocks.0.attention.weights": torch.zeros_like})
        none = patched(usual, zero_heads(usual, [(0, head) for head in range(3)]))
        torch.testing.assert_close(own(IDS_BT), none(IDS_BT), rtol=1e-12, atol=1e-12)
    with pytest.raises(SettingsError, match=r"unknown site nowhere\nexpected one of"):
        patched(network, {"nowhere": torch.zeros_like})


@pytest.mark.parametrize("name", SETTINGS)
def test_heads_are_those_that_a_trace_has_maps_of(name: str) -> None:
    network = LanguageNetwork(make(name))
    blocks = [part for part in network.modules() if type(part).__name__ == "Block"]
    heads = 5 if name == "own widths" else 3
    assert heads_of(network) == [(layer, head) for layer in range(len(blocks)) for head in range(heads)]
    with pytest.raises(SettingsError, match=r"head 7 of layer 0 does not exist"):
        zero_heads(network, [(0, 7)])


# --- of models -----------------------------------------------------------------------------------------

SMALL: dict[str, Any] = {"model.width": 16, "model.layers": 2, "model.heads": 2, "model.context": 8}
TEXT = "the cat sat on the mat and the dog sat on the cat\n" * 40


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ablation")
    (path / "text.txt").write_text(TEXT)
    (path / "rows.tsv").write_text("label\ttext\n" + "good\tthe cat sat\nbad\tthe dog ran\n" * 20)
    return path


def trained(folder: Path, name: str, data: str = "text.txt", **options: Any) -> Any:
    if (folder / name).exists():
        return satchel.load(folder / name)
    settings = {**SMALL, "training.learning_rate": 0.02, **options.pop("settings", {})}
    where = data if data.startswith("@") else folder / data
    return satchel.train(where, steps=30, settings=settings, out=folder / name, **options)


def language(folder: Path, kind: str = "transformer") -> Any:
    return trained(folder, kind, model=kind, tokenizer="word", settings={"data.documents": "line", "data.valid": 0.2})


@pytest.mark.parametrize("kind", ["transformer", "backpack"])
def test_an_edited_language_model_answers_like_any_other_and_the_model_stays_as_it_is(folder: Path, kind: str) -> None:
    model = language(folder, kind)
    before = model.score("the cat sat").logprobs.tolist()
    without = model.edit(zero=[(0, 0), (1, 1)])
    assert type(without) is type(model)
    changed = without.score("the cat sat").logprobs
    site = "encoder.contextualiser.blocks" if kind == "backpack" else "encoder.blocks"
    sites = {f"{site}.0.attention.outputs": zeroed(0), f"{site}.1.attention.outputs": zeroed(1)}
    with hooked(model.network, sites):
        np.testing.assert_allclose(model.score("the cat sat").logprobs, changed, rtol=1e-6)
        valid = model.evaluate()
        likeliest = model.next("the cat").probabilities
        written = model.generate("the cat", tokens=5, temperature=0).text
    assert not np.allclose(before, changed, rtol=1e-6)
    assert without.evaluate().bits_per_byte == pytest.approx(valid.bits_per_byte, rel=1e-6)
    assert without.next("the cat").probabilities == pytest.approx(likeliest, rel=1e-5)
    assert without.generate("the cat", tokens=5, temperature=0).text == written
    np.testing.assert_allclose(-without.trace("the cat sat").surprise, changed, rtol=1e-6)
    assert not without.trace("the cat sat")[f"{site.removeprefix('encoder.')}.0.attention.outputs"][0].any()
    assert model.score("the cat sat").logprobs.tolist() == before


def test_what_adds_to_a_score_is_that_of_the_edited_backpack(folder: Path) -> None:
    model = language(folder, "backpack")
    whole = model.contributions("the cat", "sat")
    without = model.edit(zero=[(0, 0), (0, 1), (1, 0), (1, 1)])
    found = without.contributions("the cat", "sat")
    assert found.values.sum() + found.constant == pytest.approx(found.logit, rel=1e-4)
    assert found.logit != pytest.approx(whole.logit, rel=1e-4)
    logits_TV = without.trace("the cat").logits
    assert found.logit == pytest.approx(logits_TV[-1, model.tokenizer.encode("sat").ids[0]], rel=1e-4)


def test_classifiers_taggers_and_translators_can_be_edited(folder: Path) -> None:
    classifier = trained(folder, "classifier", "rows.tsv", model="transformer", tokenizer="word")
    heads = heads_of(classifier.network)
    before = classifier.classify("the cat sat").probabilities
    assert classifier.edit(zero=heads).classify("the cat sat").probabilities != pytest.approx(before, rel=1e-6)
    assert classifier.classify("the cat sat").probabilities == before
    tagger = trained(folder, "tagger", "@roles", task="tag", settings={"data.size": 200, "model.context": 32})
    tagged = tagger.tag("the king greeted his nuns")
    assert tagger.edit(zero=heads).tag("the king greeted his nuns").probabilities != pytest.approx(
        tagged.probabilities, rel=1e-6
    )
    assert tagger.tag("the king greeted his nuns") == tagged
    translator = trained(folder, "pairs", "@reverse", settings={"data.size": 50, "model.context": 32})
    # Those that read the source are other ones.
    assert heads_of(translator.network) == [
        (layer, head) for layer, head, _ in translator.trace("abc", "cba").attention.each()
    ]
    scored = translator.score("abc", "cba").logprobs.tolist()
    assert translator.edit(zero=[(0, 0)]).score("abc", "cba").logprobs != pytest.approx(scored, rel=1e-6)
    assert translator.score("abc", "cba").logprobs.tolist() == scored


def test_an_empty_edit_changes_nothing(folder: Path) -> None:
    model = language(folder)
    same = model.edit()
    assert same is not model
    assert same.network is model.network
    assert same.predictor is model.predictor
    counted = satchel.train(folder / "text.txt", task="lm", model="ngram", tokenizer="word", out=folder / "counted")
    assert counted.edit(zero=[]).score("the cat").total_logprob == counted.score("the cat").total_logprob
    with pytest.raises(RunError, match="has no attention heads"):
        counted.edit(zero=[(0, 0)])
    with pytest.raises(
        SettingsError, match=r"head 2 of layer 1 does not exist; expected layers 0 to 1 with heads 0 to 1"
    ):
        model.edit(zero=[(1, 2)])
    with pytest.raises(SettingsError, match="head 0 of layer -1"):
        model.edit(zero=[(-1, 0)])


# --- what heads are worth --------------------------------------------------------------------------------


def test_a_heads_cost_is_what_its_loss_adds_to_the_bits(folder: Path) -> None:
    model = language(folder)
    found = model.head_costs()
    assert found.measure == "bits_per_byte"
    assert found.whole == pytest.approx(model.evaluate().bits_per_byte, rel=1e-9)
    assert [(row.layer, row.head) for row in found.rows] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    for row in found.rows:
        value = model.edit(zero=[(row.layer, row.head)]).evaluate().bits_per_byte
        assert (row.value, row.cost) == (pytest.approx(value, rel=1e-9), pytest.approx(value - found.whole, abs=1e-9))
    given = model.head_costs(folder / "text.txt")
    assert given.whole == pytest.approx(model.evaluate(folder / "text.txt").bits_per_byte, rel=1e-9)


def test_of_a_long_text_whole_documents_are_enough(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = language(folder)
    monkeypatch.setattr(ablation, "SAMPLED_TOKENS", 34)
    (folder / "two.txt").write_text("\n".join(TEXT.split("\n")[:2]))
    expected = model.evaluate(folder / "two.txt").bits_per_byte
    assert model.head_costs(folder / "text.txt").whole == pytest.approx(expected, rel=1e-9)


def test_where_words_are_unknown_it_is_bits_per_token(folder: Path) -> None:
    model = language(folder)
    (folder / "odd.txt").write_text("the bat sat on\nthe cat\n")
    found = model.head_costs(folder / "odd.txt")
    assert found.measure == "bits_per_token"
    assert found.whole == pytest.approx(model.evaluate(folder / "odd.txt").nats_per_token / math.log(2), rel=1e-9)


def test_labels_are_measured_by_accuracy_and_fewer_right_answers_cost(folder: Path) -> None:
    tagger = trained(folder, "tagger", "@roles", task="tag", settings={"data.size": 200, "model.context": 32})
    found = tagger.head_costs("@roles")
    assert (found.measure, found.whole) == ("accuracy", tagger.evaluate("@roles").accuracy)
    for row in found.rows:
        assert row.value == tagger.edit(zero=[(row.layer, row.head)]).evaluate("@roles").accuracy
        assert row.cost == pytest.approx(found.whole - row.value)
    classifier = trained(folder, "classifier", "rows.tsv", model="transformer", tokenizer="word")
    assert len(classifier.head_costs(folder / "rows.tsv").rows) == 4
    translator = trained(folder, "pairs", "@reverse", settings={"data.size": 50, "model.context": 32})
    with pytest.raises(RunError, match="task=translate"):
        translator.head_costs()
