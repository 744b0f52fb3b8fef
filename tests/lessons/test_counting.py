"""Counting: the lesson's fractions are the probabilities that the package estimates without smoothing."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from satchel.errors import SettingsError
from satchel.lessons.counting import END, START, context_of, counted, counting, probability
from satchel.lessons.steps import Lesson, Matrix, Step, is_right
from satchel.ngram.smoothing import NgramSettings, estimate

TEXT = "the cat sat. the dog sat. the cat saw the dog."
SENTENCES = [tuple(sentence.split()) for sentence in TEXT.split(".")[:-1]]


def step(title: str, **dials: Any) -> Step:
    """Return the one step whose title begins so."""
    (found,) = (each for each in counting(**dials) if each.title.startswith(title))
    return found


def matrix(title: str, name: str, **dials: Any) -> Matrix:
    (found,) = (each for each in step(title, **dials).matrices if each.name == name)
    return found


def cell(table: Matrix, row: str, column: str) -> object:
    return table.values[table.rows.index(row)][table.columns.index(column)]


@pytest.mark.item(1)
def test_with_whole_histories_a_sentence_is_as_likely_as_it_was_frequent() -> None:
    assert step("The chain rule").answer == (Fraction(1, 3),)
    twice = step("The chain rule", text="a b. a b. a c. b.")
    assert twice.answer == (Fraction(1, 2),)
    assert [row[1] for row in twice.matrices[0].values] == [Fraction(3, 4), Fraction(2, 3), 1]


@pytest.mark.item(1)
@pytest.mark.parametrize("title", ["The chain rule", "A sentence under"])
def test_the_logs_of_the_steps_sum_to_the_log_of_the_sequence(title: str) -> None:
    steps = matrix(title, "step by step").values
    total, of_logs, log = matrix(title, "all steps").values[0]
    assert math.prod(Fraction(row[1]) for row in steps) == total
    assert sum(float(row[2]) for row in steps) == pytest.approx(float(of_logs), rel=1e-12)
    assert float(of_logs) == pytest.approx(float(log), rel=1e-12)


@pytest.mark.item(2)
def test_the_context_is_exactly_n_minus_one_words() -> None:
    assert context_of(("a", "b", "c"), 3) == ("b", "c")
    assert context_of(("a", "b", "c"), 1) == ()
    assert context_of((START,), 5) == (START,)
    for order in (1, 2, 3):
        same = matrix("Older words", "P", order=order)
        assert len(same.values) == 3
        assert len(set(same.values)) == 1
        assert step("Older words", order=order).answer == (order - 1,)


@pytest.mark.item(2)
def test_where_every_history_fits_there_is_nothing_older() -> None:
    assert not [each for each in counting("a b. b a.", order=4) if each.title.startswith("Older")]


@pytest.mark.item(3)
def test_the_bigrams_of_a_small_text() -> None:
    counts, table = matrix("An n-gram", "counts"), matrix("Count and", "P")
    assert cell(counts, "<s>", "the") == 3
    assert cell(counts, "the", "dog") == 2
    assert cell(table, "the", "cat") == Fraction(1, 2)
    assert cell(table, "cat", "saw") == Fraction(1, 2)
    assert cell(table, "dog", "</s>") == Fraction(1, 2)
    assert cell(table, "sat", "</s>") == 1
    assert step("Count and").answer == (Fraction(1, 2),)
    assert step("A sentence under").answer == (Fraction(1, 4),)


@pytest.mark.item(4)
@pytest.mark.parametrize("order", [1, 2, 3, 4, 5])
def test_every_row_sums_to_one(order: int) -> None:
    table = matrix("Count and", "P", order=order)
    assert table.columns[-1] == "sum"
    assert all(row[-1] == sum(Fraction(number) for number in row[:-1]) == 1 for row in table.values)


@pytest.mark.item(3, 4)
@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_the_fractions_are_what_the_package_estimates(order: int) -> None:
    words = list(dict.fromkeys(word for sentence in SENTENCES for word in sentence))
    ids = {word: number for number, word in enumerate(words)} | {START: len(words), END: len(words)}
    text = [len(words), *(ids[word] for sentence in SENTENCES for word in (*sentence, END))]
    model = estimate(np.array(text), len(words) + 1, NgramSettings(order=order, smoothing="mle"), ends=True).table
    lesson = counted(SENTENCES, order)
    for context in lesson:
        history = np.array([[ids[word] for word in context]], np.int64).reshape(1, -1)
        answered = model.distribution(model.advance(history, model.start(1)))[0]
        expected = [float(probability(lesson, context, word)) for word in (*words, END)]
        assert answered == pytest.approx(expected, abs=1e-12)
    shown = matrix("A sentence under", "step by step", order=order)
    scores = model.score(np.array(text)).logprobs[: len(shown.values)]
    assert scores == pytest.approx([float(row[2]) for row in shown.values], abs=1e-12)


@pytest.mark.item(4)
def test_what_was_never_counted_is_impossible() -> None:
    assert step("What was never").answer == (27,)
    assert matrix("What was never", "cells").values == ((27, 9, 36),)
    assert matrix("What was never", "cells", order=1).values == ((0, 6, 6),)


def test_a_reader_may_answer_in_decimals() -> None:
    assert is_right("0.5", step("Count and").answer)
    assert not is_right("0.6", step("Count and").answer)


def test_dials_are_read_as_settings() -> None:
    lesson = Lesson("counting", "Counting", "notes", (1, 2, 3, 4), counting)
    assert lesson.run(order=3) == counting(order=3)
    with pytest.raises(SettingsError, match="order"):
        lesson.run(order="two")


@pytest.mark.parametrize(
    ("dials", "cause"),
    [
        ({"text": " . . "}, "text: found 0 words"),
        ({"text": "a " * 201}, "text: found 201 words, expected 1 to 200"),
        ({"order": 0}, "order: found 0, expected 1 to 5"),
        ({"order": 6}, "order: found 6"),
    ],
)
def test_bad_dials_are_told(dials: dict[str, Any], cause: str) -> None:
    with pytest.raises(SettingsError, match=cause) as caught:
        counting(**dials)
    assert caught.value.remedy
