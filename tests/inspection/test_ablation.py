"""Ablation of attention heads: models without heads, and the cost of removing each."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import satchel
from satchel.errors import RunError, SettingsError
from satchel.inspection import ablation
from satchel.inspection.ablation import heads_of, zero_heads
from satchel.nn.sites import hooked
from satchel.tasks.language import LanguageNetwork
from tests.inspection.conftest import BLOCKS, TEXT, count_ngrams, train
from tests.models.encoders import SETTINGS, make


@pytest.mark.parametrize("name", SETTINGS)
def test_all_heads_of_all_blocks_are_listed(name: str) -> None:
    network = LanguageNetwork(make(name))
    blocks = [module for module in network.modules() if type(module).__name__ == "Block"]
    heads = 5 if name == "own widths" else 3
    assert heads_of(network) == [(layer, head) for layer in range(len(blocks)) for head in range(heads)]
    with pytest.raises(SettingsError, match=r"head 7 of layer 0 does not exist"):
        zero_heads(network, [(0, 7)])


# --- models without heads -------------------------------------------------------------------------------

TINY: dict[str, Any] = {**BLOCKS, "model.context": 8, "training.learning_rate": 0.02}


def trained(folder: Path, name: str, data: str = "text.txt", **options: Any) -> Any:
    """Train a model, or load it if an earlier test has trained it."""
    if (folder / name).exists():
        return satchel.load(folder / name)
    return train(folder, data, name=name, small=TINY, **{"steps": 30, **options})


def language_model(folder: Path, kind: str = "transformer") -> Any:
    settings = {"data.documents": "line", "data.valid": 0.2}
    return trained(folder, kind, model=kind, tokenizer="word", settings=settings)


def tagger_of(folder: Path) -> Any:
    return trained(folder, "tagger", "@roles", task="tag", settings={"data.size": 200, "model.context": 32})


def classifier_of(folder: Path) -> Any:
    return trained(folder, "classifier", "rows.tsv", model="transformer", tokenizer="word")


def translator_of(folder: Path) -> Any:
    return trained(folder, "pairs", "@reverse", settings={"data.size": 50, "model.context": 32})


@pytest.mark.parametrize("kind", ["transformer", "backpack"])
def test_an_edited_language_model_has_all_methods_and_leaves_the_model_unchanged(folder: Path, kind: str) -> None:
    model = language_model(folder, kind)
    before = model.score("the cat sat").logprobs.tolist()
    edited = model.edit(zero=[(0, 0), (1, 1)])
    assert type(edited) is type(model)
    logprobs = edited.score("the cat sat").logprobs
    patches = zero_heads(model.network, [(0, 0), (1, 1)])
    with hooked(model.network, {f"encoder.{site}": patch for site, patch in patches.items()}):
        np.testing.assert_allclose(model.score("the cat sat").logprobs, logprobs, rtol=1e-6)
        valid = model.evaluate()
        probabilities = model.next("the cat").probabilities
        generated = model.generate("the cat", tokens=5, temperature=0).text
    assert not np.allclose(before, logprobs, rtol=1e-6)
    assert edited.evaluate().bits_per_byte == pytest.approx(valid.bits_per_byte, rel=1e-6)
    assert edited.next("the cat").probabilities == pytest.approx(probabilities, rel=1e-5)
    assert edited.generate("the cat", tokens=5, temperature=0).text == generated
    trace = edited.trace("the cat sat")
    np.testing.assert_allclose(-trace.surprise, logprobs, rtol=1e-6)
    assert not any(trace[site][head].any() for head, site in enumerate(patches))
    assert model.score("the cat sat").logprobs.tolist() == before


def test_contributions_of_an_edited_backpack_sum_to_its_logit(folder: Path) -> None:
    model = language_model(folder, "backpack")
    whole = model.contributions("the cat", "sat")
    edited = model.edit(zero=[(0, 0), (0, 1), (1, 0), (1, 1)])
    contributions = edited.contributions("the cat", "sat")
    assert contributions.logit != pytest.approx(whole.logit, rel=1e-4)
    logits_TV = edited.trace("the cat").logits
    assert contributions.logit == pytest.approx(logits_TV[-1, model.tokenizer.encode("sat").ids[0]], rel=1e-4)


@pytest.mark.parametrize(
    ("trained_model", "answer"),
    [
        (classifier_of, lambda model: list(model.classify("the cat sat").probabilities.values())),
        (tagger_of, lambda model: model.tag("the king greeted his nuns").probabilities),
        (translator_of, lambda model: model.score("abc", "cba").logprobs.tolist()),
    ],
)
def test_models_of_other_tasks_can_be_edited(folder: Path, trained_model: Any, answer: Any) -> None:
    model = trained_model(folder)
    before = answer(model)
    assert answer(model.edit(zero=heads_of(model.network))) != pytest.approx(before, rel=1e-6)
    assert answer(model) == before


def test_the_heads_of_a_translator_are_those_of_the_target(folder: Path) -> None:
    translator = translator_of(folder)
    traced = [(layer, head) for layer, head, _ in translator.trace("abc", "cba").attention.each()]
    assert heads_of(translator.network) == traced


def test_an_edit_without_heads_shares_the_network(folder: Path) -> None:
    model = language_model(folder)
    copy = model.edit()
    assert copy is not model
    assert copy.network is model.network
    assert copy.predictor is model.predictor
    ngram = count_ngrams(folder)
    assert ngram.edit(zero=[]).score("the cat").total_logprob == ngram.score("the cat").total_logprob
    with pytest.raises(RunError, match="has no attention heads"):
        ngram.edit(zero=[(0, 0)])


@pytest.mark.parametrize("head", [(1, 2), (2, 0), (-1, 0), (0, -1)])
def test_an_unknown_head_is_an_error(folder: Path, head: tuple[int, int]) -> None:
    with pytest.raises(SettingsError, match="does not exist; expected layers 0 to 1 with heads 0 to 1"):
        language_model(folder).edit(zero=[head])


# --- cost of removing a head ----------------------------------------------------------------------------


def test_the_cost_of_a_head_is_the_increase_in_bits_per_byte_without_it(folder: Path) -> None:
    model = language_model(folder)
    costs = model.head_costs()
    assert costs.measure == "bits_per_byte"
    assert costs.whole == pytest.approx(model.evaluate().bits_per_byte, rel=1e-9)
    assert [(row.layer, row.head) for row in costs.rows] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    for row in costs.rows:
        value = model.edit(zero=[(row.layer, row.head)]).evaluate().bits_per_byte
        assert row.value == pytest.approx(value, rel=1e-9)
        assert row.cost == pytest.approx(value - costs.whole, abs=1e-9)
    of_file = model.head_costs(folder / "text.txt")
    assert of_file.whole == pytest.approx(model.evaluate(folder / "text.txt").bits_per_byte, rel=1e-9)


def test_a_long_text_is_cut_at_the_end_of_a_document(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = language_model(folder)
    monkeypatch.setattr(ablation, "SAMPLED_TOKENS", 34)
    (folder / "two.txt").write_text("\n".join(TEXT.split("\n")[:2]))
    expected = model.evaluate(folder / "two.txt").bits_per_byte
    assert model.head_costs(folder / "text.txt").whole == pytest.approx(expected, rel=1e-9)


def test_a_text_with_unknown_words_is_measured_in_bits_per_token(folder: Path) -> None:
    model = language_model(folder)
    (folder / "odd.txt").write_text("the bat sat on\nthe cat\n")
    costs = model.head_costs(folder / "odd.txt")
    assert costs.measure == "bits_per_token"
    assert costs.whole == pytest.approx(model.evaluate(folder / "odd.txt").nats_per_token / math.log(2), rel=1e-9)


@pytest.mark.parametrize(("trained_model", "data"), [(tagger_of, "@roles"), (classifier_of, "rows.tsv")])
def test_classifiers_and_taggers_are_measured_by_accuracy(folder: Path, trained_model: Any, data: str) -> None:
    model, data = trained_model(folder), data if data.startswith("@") else str(folder / data)
    costs = model.head_costs(data)
    assert (costs.measure, costs.whole) == ("accuracy", model.evaluate(data).accuracy)
    assert len(costs.rows) == 4
    for row in costs.rows:
        assert row.value == model.edit(zero=[(row.layer, row.head)]).evaluate(data).accuracy
        assert row.cost == pytest.approx(costs.whole - row.value)


def test_translators_have_no_head_costs(folder: Path) -> None:
    with pytest.raises(RunError, match="task=translate"):
        translator_of(folder).head_costs()
