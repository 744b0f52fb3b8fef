"""Classifying by counting equals one table per class; its probabilities mean what they say."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from satchel.data.examples import stratified_folds
from satchel.errors import RunError
from satchel.ngram import classes
from satchel.ngram.classes import ClassNgramSettings, ClassTables, calibrate, class_tables_from_arrays, estimate_classes
from satchel.ngram.smoothing import estimate

SIZE = 7  # six tokens and the boundary
END = SIZE - 1


def flat(texts: list[list[int]]) -> Any:
    return np.array([END, *(id_ for text in texts for id_ in [*text, END])])


texts = st.lists(st.lists(st.integers(0, END - 1), max_size=6), min_size=1, max_size=6)
corpora = st.lists(texts, min_size=2, max_size=4)
settings = st.builds(
    ClassNgramSettings,
    order=st.integers(1, 4),
    smoothing=st.sampled_from(["kneser-ney", "witten-bell", "add-k", "mle"]),
    background=st.sampled_from([0.0, 0.2, 0.9]),
)


def counted(corpus: list[list[list[int]]], chosen: ClassNgramSettings) -> ClassTables:
    """Return the classifier of texts by class, given in turn so that the classes are mixed up."""
    rows = [(label, text) for label, of_class in enumerate(corpus) for text in of_class]
    rows.sort(key=lambda row: len(row[1]))
    labels = np.array([label for label, _ in rows])
    return estimate_classes(flat([text for _, text in rows]), labels, SIZE, len(corpus), chosen)


@given(corpora, settings, texts)
def test_the_evidence_is_that_of_a_table_of_its_own_for_each_class(
    corpus: list[list[list[int]]], chosen: ClassNgramSettings, asked: list[list[int]]
) -> None:
    found, lengths = counted(corpus, chosen).evidence(flat(asked))
    everything = flat([text for of_class in corpus for text in of_class])
    background = estimate(everything, SIZE, chosen, ends=True).table
    total = sum(map(len, corpus))
    for label, of_class in enumerate(corpus):
        table = estimate(flat(of_class), SIZE, chosen, ends=True).table
        for number, text in enumerate(asked):
            own, common = (np.exp(part.score(flat([text])).logprobs) for part in (table, background))
            mixed = (1 - chosen.background) * own + chosen.background * common
            expected = np.log(len(of_class) / total) + np.log(np.maximum(mixed, classes.TINY)).sum()
            assert found[number, label] == pytest.approx(expected, rel=1e-12, abs=1e-12)
    assert lengths.tolist() == [len(text) + 1 for text in asked]


@given(corpora, settings, texts, st.integers(1, 9))
def test_many_texts_at_once_are_the_same_as_one_by_one(
    corpus: list[list[list[int]]], chosen: ClassNgramSettings, asked: list[list[int]], block: int
) -> None:
    model = counted(corpus, chosen)
    at_once = model.label(flat(asked))
    one_by_one = np.concatenate([model.label(flat([text])) for text in asked])
    np.testing.assert_allclose(at_once, one_by_one, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(np.exp(at_once).sum(axis=1), 1, rtol=1e-12)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(classes, "BLOCK", block)
        np.testing.assert_allclose(model.label(flat(asked)), at_once, rtol=1e-12, atol=1e-12)


def skewed(rows: int, labels: int, length: int, seed: int) -> tuple[Any, Any]:
    """Return texts of words that come in runs of four, so that a model of single words is far too sure."""
    generator = np.random.default_rng(seed)
    numbers = generator.integers(0, labels, rows)
    made = []
    for label in numbers:
        words = np.where(generator.random(length) < 0.4, label, generator.integers(0, labels, length))
        made.append(np.repeat(words, 4).tolist())
    return made, numbers


def test_tempered_probabilities_are_right_as_often_as_they_say() -> None:
    chosen = ClassNgramSettings(order=1, background=0.0)
    training, labels = skewed(400, 6, 8, 0)
    asked, gold = skewed(2000, 6, 8, 1)
    ids = flat(training)
    raw = replace(estimate_classes(ids, labels, SIZE, 6, chosen), temperature=classes.Temperature(1.0, 0.0))
    model, check = calibrate(raw, ids, labels, stratified_folds(labels, 10, 0), chosen)

    def sureness(found: ClassTables) -> tuple[float, float]:
        logprobs = found.label(flat(asked))
        return float(np.exp(logprobs.max(axis=1)).mean()), float((logprobs.argmax(axis=1) == gold).mean())

    (raw_sure, raw_right), (sure, right) = sureness(raw), sureness(model)
    assert raw_right == right
    assert raw_sure - raw_right > 0.1
    assert abs(sure - right) < 0.03
    assert check is not None
    assert check.examples == pytest.approx(200, abs=10)  # five folds of ten
    assert check.accuracy == pytest.approx(right, abs=0.08)


def test_a_row_is_cross_checked_by_models_that_have_not_seen_it() -> None:
    """Each text is its own label's only one of its kind: whoever has seen it gets it right, and nobody else does."""
    generator = np.random.default_rng(0)
    training = [generator.integers(0, END, 12).tolist() for _ in range(60)]
    labels = generator.integers(0, 2, 60)
    chosen = ClassNgramSettings(order=3)
    ids = flat(training)
    model = estimate_classes(ids, labels, SIZE, 2, chosen)
    assert (model.label(ids).argmax(axis=1) == labels).mean() > 0.9
    _, check = calibrate(model, ids, labels, stratified_folds(labels, 10, 0), chosen)
    assert check is not None
    assert check.accuracy < 0.7


def test_labels_with_one_row_each_leave_nothing_to_check_and_work() -> None:
    chosen = ClassNgramSettings()
    ids, labels = flat([[0, 1], [2, 3], []]), np.array([0, 1, 2])
    model, check = calibrate(
        estimate_classes(ids, labels, SIZE, 3, chosen), ids, labels, stratified_folds(labels, 10, 0), chosen
    )
    assert check is None
    assert model.label(flat([[0, 1], [2, 3], []])).argmax(axis=1).tolist() == [0, 1, 2]


def test_an_empty_text_is_answered_by_how_common_labels_and_their_empty_texts_are() -> None:
    ids, labels = flat([[0, 1]] * 9 + [[2, 3]]), np.array([0] * 9 + [1])
    assert estimate_classes(ids, labels, SIZE, 2, ClassNgramSettings()).label(flat([[]])).argmax() == 0
    ids, labels = flat([[0, 1]] * 9 + [[]]), np.array([0] * 9 + [1])
    assert estimate_classes(ids, labels, SIZE, 2, ClassNgramSettings()).label(flat([[]])).argmax() == 1


def saved(order: int = 2) -> tuple[dict[str, Any], ClassNgramSettings]:
    chosen = ClassNgramSettings(order=order)
    return dict(counted([[[0, 1], [1]], [[2, 3, 2]]], chosen).arrays()), chosen


def test_saved_arrays_give_the_same_answers() -> None:
    arrays, chosen = saved()
    again = class_tables_from_arrays(arrays, SIZE, chosen, 2, "model")
    asked = flat([[0, 1], [3], [], [5, 5, 0]])
    assert np.array_equal(again.label(asked), counted([[[0, 1], [1]], [[2, 3, 2]]], chosen).label(asked))


def changed(name: str, change: Any) -> Any:
    def apply(arrays: dict[str, Any]) -> None:
        arrays[name] = change(arrays[name].copy())

    return apply


def put(place: int, value: float) -> Any:
    def apply(array: Any) -> Any:
        array[place] = value
        return array

    return apply


FAULTS = {
    "a tensor too few": lambda arrays: arrays.pop("floors"),
    "a background too few": lambda arrays: arrays.pop("background.1.keys"),
    "a prior of no probability": changed("prior", put(0, 0.0)),
    "a prior that sums to more": changed("prior", put(0, 0.9)),
    "a prior of other classes": changed("prior", lambda array: array[:1]),
    "a floor above one": changed("floors", put(0, 1.5)),
    "a temper below nothing": changed("temper", put(0, -1.0)),
    "places that go back": changed("classes.1.starts", put(2, 9)),
    "places that end early": changed("classes.1.starts", put(-1, 1)),
    "a class that is none": changed("classes.2.classes", put(0, 2)),
    "a class below nothing": changed("classes.2.classes", put(0, -1)),
    "a probability above one": changed("classes.2.probabilities", put(0, 2.0)),
    "a weight below nothing": changed("classes.1.weights", put(0, -0.5)),
    "too few weights": changed("classes.1.weights", lambda array: array[:-1]),
    "too few probabilities": changed("classes.2.probabilities", lambda array: array[:-1]),
    "numbers of another kind": changed("classes.2.probabilities", lambda array: array.astype(np.float32)),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
def test_arrays_that_are_no_classifier_are_refused(fault: Any) -> None:
    arrays, chosen = saved()
    fault(arrays)
    with pytest.raises(RunError):
        class_tables_from_arrays(arrays, SIZE, chosen, 2, "model")


def test_a_few_rows_that_were_all_right_do_not_make_it_certain() -> None:
    training, labels = [[0, 1], [1, 0], [0, 0], [2, 3], [3, 2], [2, 2]] * 2, np.array([0, 0, 0, 1, 1, 1] * 2)
    chosen = ClassNgramSettings(order=1)
    ids = flat(training)
    model, check = calibrate(
        estimate_classes(ids, labels, SIZE, 2, chosen), ids, labels, stratified_folds(labels, 10, 0), chosen
    )
    assert check is not None
    assert check.accuracy == 1
    assert 0.75 < np.exp(model.label(flat([[0, 1]])).max()) < 0.99
