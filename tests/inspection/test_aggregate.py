"""Sums of contributions over a file."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from satchel.errors import RunError, SettingsError
from satchel.inspection.aggregate import KEYS, Totals
from tests.inspection.conftest import train


def test_sums_are_grouped_by_the_given_keys() -> None:
    values = np.array([[1.0, 2.0], [3.0, -4.0], [0.5, 0.0]])
    expected: dict[tuple[str, ...], dict[tuple[Any, ...], tuple[float, int]]] = {
        ("word",): {("a",): (3.5, 4), ("b",): (-1, 2)},
        ("sense",): {(0,): (4.5, 3), (1,): (-2, 3)},
        ("position",): {(0,): (3, 2), (1,): (-0.5, 4)},
        ("word", "sense"): {("a", 0): (1.5, 2), ("a", 1): (2, 2), ("b", 0): (3, 1), ("b", 1): (-4, 1)},
    }
    for by, sums in expected.items():
        totals = Totals(by)
        # A word is counted without the white space around it.
        totals.add(["a", " b"], values[:2], np.array([0, 1]))
        totals.add([" a"], values[2:], np.array([1]))
        listed = totals.listed()
        # Without senses in the key, the contributions of all senses of a word are one summand.
        counts = {key: (total, count if "sense" in by else count // 2) for key, (total, count) in sums.items()}
        assert {tuple(each.key.values()): (each.total, each.times) for each in listed} == counts
        assert [each.total for each in listed] == sorted((each.total for each in listed), reverse=True)
        assert all(each.mean == each.total / each.times for each in listed)
        assert all(list(each.key) == list(by) for each in listed)


@pytest.mark.parametrize("by", [(), ("word", "letter")])
def test_unknown_keys_are_an_error(by: tuple[str, ...]) -> None:
    with pytest.raises(SettingsError, match=f"expected one or more of {', '.join(KEYS)}"):
        Totals(by)


def test_the_raw_sums_of_a_language_model_are_those_of_its_logits(folder: Path) -> None:
    model = train(folder, model="backpack", tokenizer="word", settings={"data.documents": "line"})
    text = "the cat sat on the mat"
    (folder / "line.txt").write_text(f"{text}\n")
    ids = [*model.tokenizer.encode(text).ids, model.tokenizer.boundary]
    logits_T = model.trace(text).logits[range(7), ids]
    words = text.split()
    centred = [model.contributions(" ".join(words[:length]), ids[length]).centred.sum() for length in range(7)]
    for by in (["word"], ["sense", "position"]):
        totals = {raw: model.contribution_totals(folder / "line.txt", by, raw=raw) for raw in (True, False)}
        assert sum(each.total for each in totals[True]) == pytest.approx(logits_T.sum(), abs=1e-4)
        assert sum(each.total for each in totals[False]) == pytest.approx(sum(centred), abs=1e-4)
    distances = {each.key["position"] for each in model.contribution_totals(folder / "line.txt", ["position"])}
    assert distances == set(range(7))


def test_the_sums_of_a_classifier_are_those_of_its_labels(folder: Path) -> None:
    model = train(folder, "rows.tsv", model="backpack", tokenizer="word")
    for raw in (True, False):
        totals = model.contribution_totals(folder / "rows.tsv", ["word"], raw=raw)
        for label, contributions in zip(model.labels, model.contributions("the cat sat"), strict=True):
            by_word = {each.key["word"]: each.mean for each in totals if each.key["label"] == label}
            assert set(by_word) == {"the", "cat", "sat", "dog", "ran"}
            expected = (contributions.values if raw else contributions.centred)[1].sum()
            assert by_word["cat"] == pytest.approx(expected, abs=1e-6)
    with pytest.raises(SettingsError, match="for language models"):
        model.contribution_totals(folder / "rows.tsv", ["word"], "good")


def test_models_without_summed_contributions_are_an_error(folder: Path) -> None:
    tagger = train(folder, "@roles", model="backpack", task="tag", settings={"data.size": 50, "model.context": 32})
    with pytest.raises(RunError, match="has no summed contributions"):
        tagger.contribution_totals(folder / "rows.tsv", ["word"])
    transformer = train(folder, model="transformer", tokenizer="word")
    with pytest.raises(RunError, match="has no sense vectors"):
        transformer.contribution_totals(folder / "text.txt", ["word"])


def test_at_most_the_given_number_of_tokens_is_used_and_reported(folder: Path) -> None:
    settings = {"model.senses": 2}
    model = train(folder, model="backpack", tokenizer="word", name="counted", settings=settings)
    total = len(model.tokens_of(folder / "text.txt")) - 1
    whole = model.contribution_totals(folder / "text.txt", ["word"])
    assert (whole.tokens, whole.total_tokens, whole.notes) == (total, total, ())
    for most in (1, 5, 100):
        part = model.contribution_totals(folder / "text.txt", ["word"], tokens=most)
        assert most / 2 < part.tokens <= most
        assert part.notes == (f"{part.tokens:,} of {total:,} tokens of the file are used, a random sample",)
    classifier = train(folder, "rows.tsv", model="backpack", tokenizer="word", name="counted-rows", settings=settings)
    part = classifier.contribution_totals(folder / "rows.tsv", ["word"], tokens=30)
    assert (part.tokens, part.total_tokens) == (30, 120)
    assert sum(each.times for each in part) == 30 * 2  # labels
    with pytest.raises(SettingsError, match="--tokens 0: expected 1 or more"):
        model.contribution_totals(folder / "text.txt", ["word"], tokens=0)
