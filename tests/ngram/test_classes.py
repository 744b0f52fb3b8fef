"""N-gram classifiers: equality with one table per class, calibration, and validation of saved arrays."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from satchel.data.splits import stratified_folds
from satchel.errors import RunError
from satchel.ngram import classes
from satchel.ngram.classes import ClassNgramSettings, ClassTables, calibrate, class_tables_from_arrays, estimate_classes
from satchel.ngram.smoothing import estimate

SIZE = 7  # six tokens and the boundary
END = SIZE - 1


def join(texts: list[list[int]]) -> Any:
    """Return the ids of texts with boundaries between them."""
    return np.array([END, *(id_ for text in texts for id_ in [*text, END])])


texts = st.lists(st.lists(st.integers(0, END - 1), max_size=6), min_size=1, max_size=6)
corpora = st.lists(texts, min_size=2, max_size=4)
settings = st.builds(
    ClassNgramSettings,
    order=st.integers(1, 4),
    smoothing=st.sampled_from(["kneser-ney", "witten-bell", "add-k", "mle"]),
    background=st.sampled_from([0.0, 0.2, 0.9]),
)


def fit(corpus: list[list[list[int]]], model_settings: ClassNgramSettings) -> ClassTables:
    """Return a classifier of texts by class. The texts are sorted by length, so that classes are interleaved."""
    rows = [(label, text) for label, of_class in enumerate(corpus) for text in of_class]
    rows.sort(key=lambda row: len(row[1]))
    labels = np.array([label for label, _ in rows])
    return estimate_classes(join([text for _, text in rows]), labels, SIZE, len(corpus), model_settings)


@given(corpora, settings, texts)
def test_the_evidence_of_each_class_equals_that_of_a_separate_table(
    corpus: list[list[list[int]]], model_settings: ClassNgramSettings, queries: list[list[int]]
) -> None:
    evidence, lengths = fit(corpus, model_settings).evidence(join(queries))
    everything = join([text for of_class in corpus for text in of_class])
    background = estimate(everything, SIZE, model_settings, ends=True).table
    total = sum(map(len, corpus))
    for label, of_class in enumerate(corpus):
        table = estimate(join(of_class), SIZE, model_settings, ends=True).table
        for number, text in enumerate(queries):
            by_class, common = (np.exp(part.score(join([text])).logprobs) for part in (table, background))
            mixed = (1 - model_settings.background) * by_class + model_settings.background * common
            expected = np.log(len(of_class) / total) + np.log(np.maximum(mixed, classes.TINY)).sum()
            assert evidence[number, label] == pytest.approx(expected, rel=1e-12, abs=1e-12)
    assert lengths.tolist() == [len(text) + 1 for text in queries]


@given(corpora, settings, texts, st.integers(1, 9))
def test_a_batch_and_any_block_size_give_the_same_result_as_single_texts(
    corpus: list[list[list[int]]], model_settings: ClassNgramSettings, queries: list[list[int]], block: int
) -> None:
    model = fit(corpus, model_settings)
    batched = model.label(join(queries))
    single = np.concatenate([model.label(join([text])) for text in queries])
    np.testing.assert_allclose(batched, single, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(np.exp(batched).sum(axis=1), 1, rtol=1e-12)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(classes, "BLOCK", block)
        np.testing.assert_allclose(model.label(join(queries)), batched, rtol=1e-12, atol=1e-12)


def skewed(rows: int, labels: int, length: int, seed: int) -> tuple[Any, Any]:
    """Return texts and labels. Every word is repeated four times, so that a unigram model is overconfident."""
    generator = np.random.default_rng(seed)
    numbers = generator.integers(0, labels, rows)
    texts = []
    for label in numbers:
        words = np.where(generator.random(length) < 0.4, label, generator.integers(0, labels, length))
        texts.append(np.repeat(words, 4).tolist())
    return texts, numbers


def test_calibration_makes_confidence_equal_to_accuracy() -> None:
    model_settings = ClassNgramSettings(order=1, background=0.0)
    training, labels = skewed(400, 6, 8, 0)
    queries, gold = skewed(2000, 6, 8, 1)
    ids = join(training)
    raw = replace(estimate_classes(ids, labels, SIZE, 6, model_settings), temperature=classes.Temperature(1.0, 0.0))
    model, check = calibrate(raw, ids, labels, stratified_folds(labels, 10, 0), model_settings)

    def confidence_and_accuracy(tables: ClassTables) -> tuple[float, float]:
        logprobs = tables.label(join(queries))
        return float(np.exp(logprobs.max(axis=1)).mean()), float((logprobs.argmax(axis=1) == gold).mean())

    raw_confidence, raw_accuracy = confidence_and_accuracy(raw)
    confidence, accuracy = confidence_and_accuracy(model)
    assert raw_accuracy == accuracy
    assert raw_confidence - raw_accuracy > 0.1
    assert abs(confidence - accuracy) < 0.03
    assert check is not None
    assert check.examples == pytest.approx(200, abs=10)  # five folds of ten
    assert check.accuracy == pytest.approx(accuracy, abs=0.08)


def test_cross_validation_excludes_the_validated_row_from_training() -> None:
    """Labels are random: a model predicts them only for texts that it was trained on."""
    generator = np.random.default_rng(0)
    training = [generator.integers(0, END, 12).tolist() for _ in range(60)]
    labels = generator.integers(0, 2, 60)
    model_settings = ClassNgramSettings(order=3)
    ids = join(training)
    model = estimate_classes(ids, labels, SIZE, 2, model_settings)
    assert (model.label(ids).argmax(axis=1) == labels).mean() > 0.9
    _, check = calibrate(model, ids, labels, stratified_folds(labels, 10, 0), model_settings)
    assert check is not None
    assert check.accuracy < 0.7


def test_labels_with_one_row_each_are_learned_without_cross_validation() -> None:
    model_settings = ClassNgramSettings()
    ids, labels = join([[0, 1], [2, 3], []]), np.array([0, 1, 2])
    model, check = calibrate(
        estimate_classes(ids, labels, SIZE, 3, model_settings),
        ids,
        labels,
        stratified_folds(labels, 10, 0),
        model_settings,
    )
    assert check is None
    assert model.label(join([[0, 1], [2, 3], []])).argmax(axis=1).tolist() == [0, 1, 2]


def test_an_empty_text_gets_the_most_frequent_label_unless_another_label_has_empty_texts() -> None:
    ids, labels = join([[0, 1]] * 9 + [[2, 3]]), np.array([0] * 9 + [1])
    assert estimate_classes(ids, labels, SIZE, 2, ClassNgramSettings()).label(join([[]])).argmax() == 0
    ids, labels = join([[0, 1]] * 9 + [[]]), np.array([0] * 9 + [1])
    assert estimate_classes(ids, labels, SIZE, 2, ClassNgramSettings()).label(join([[]])).argmax() == 1


def saved_arrays(order: int = 2) -> tuple[dict[str, Any], ClassNgramSettings]:
    """Return the arrays of a small classifier and its settings."""
    model_settings = ClassNgramSettings(order=order)
    return dict(fit([[[0, 1], [1]], [[2, 3, 2]]], model_settings).arrays()), model_settings


def test_a_classifier_from_saved_arrays_gives_the_same_labels() -> None:
    arrays, model_settings = saved_arrays()
    loaded = class_tables_from_arrays(arrays, SIZE, model_settings, 2, "model")
    queries = join([[0, 1], [3], [], [5, 5, 0]])
    assert np.array_equal(loaded.label(queries), fit([[[0, 1], [1]], [[2, 3, 2]]], model_settings).label(queries))


def replace_array(name: str, change: Any) -> Any:
    """Return a function that applies a change to one of several arrays."""

    def apply(arrays: dict[str, Any]) -> None:
        arrays[name] = change(arrays[name].copy())

    return apply


def assign(index: int, value: float) -> Any:
    """Return a function that sets one element of an array."""

    def apply(array: Any) -> Any:
        array[index] = value
        return array

    return apply


FAULTS = {
    "a missing tensor": lambda arrays: arrays.pop("floors"),
    "a missing tensor of the background": lambda arrays: arrays.pop("background.1.keys"),
    "a prior of zero": replace_array("prior", assign(0, 0.0)),
    "a prior with a sum above one": replace_array("prior", assign(0, 0.9)),
    "a prior with too few classes": replace_array("prior", lambda array: array[:1]),
    "a floor above one": replace_array("floors", assign(0, 1.5)),
    "a negative temperature": replace_array("temper", assign(0, -1.0)),
    "decreasing starts": replace_array("classes.1.starts", assign(2, 9)),
    "starts that end too early": replace_array("classes.1.starts", assign(-1, 1)),
    "a class out of range": replace_array("classes.2.classes", assign(0, 2)),
    "a negative class": replace_array("classes.2.classes", assign(0, -1)),
    "a probability above one": replace_array("classes.2.probabilities", assign(0, 2.0)),
    "a negative weight": replace_array("classes.1.weights", assign(0, -0.5)),
    "too few weights": replace_array("classes.1.weights", lambda array: array[:-1]),
    "too few probabilities": replace_array("classes.2.probabilities", lambda array: array[:-1]),
    "another dtype": replace_array("classes.2.probabilities", lambda array: array.astype(np.float32)),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
def test_invalid_arrays_are_refused(fault: Any) -> None:
    arrays, model_settings = saved_arrays()
    fault(arrays)
    with pytest.raises(RunError):
        class_tables_from_arrays(arrays, SIZE, model_settings, 2, "model")


def test_perfect_cross_validation_on_few_rows_does_not_give_full_confidence() -> None:
    training, labels = [[0, 1], [1, 0], [0, 0], [2, 3], [3, 2], [2, 2]] * 2, np.array([0, 0, 0, 1, 1, 1] * 2)
    model_settings = ClassNgramSettings(order=1)
    ids = join(training)
    model, check = calibrate(
        estimate_classes(ids, labels, SIZE, 2, model_settings),
        ids,
        labels,
        stratified_folds(labels, 10, 0),
        model_settings,
    )
    assert check is not None
    assert check.accuracy == 1
    assert 0.75 < np.exp(model.label(join([[0, 1]])).max()) < 0.99
