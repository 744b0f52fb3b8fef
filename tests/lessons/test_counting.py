"""N-gram models by counting: the fractions of the lesson equal the unsmoothed estimates of the package."""

import math
from fractions import Fraction

import numpy as np
import pytest

from satchel.lessons.counting import END, START, context_of, count_ngrams, counting, probability
from satchel.lessons.steps import Matrix
from satchel.ngram.smoothing import NgramSettings, estimate
from tests.lessons.lookup import Lookup

lookup = Lookup(counting)
step, matrix = lookup.step, lookup.matrix

TEXT = "the cat sat. the dog sat. the cat saw the dog."
SENTENCES = [tuple(sentence.split()) for sentence in TEXT.split(".")[:-1]]


def cell(table: Matrix, row: str, column: str) -> object:
    return table.values[table.rows.index(row)][table.columns.index(column)]


@pytest.mark.item(1)
def test_with_full_histories_the_probability_is_the_relative_frequency() -> None:
    assert step("The chain rule").answer == (Fraction(1, 3),)
    twice = step("The chain rule", text="a b. a b. a c. b.")
    assert twice.answer == (Fraction(1, 2),)
    assert [row[1] for row in twice.matrices[0].values] == [Fraction(3, 4), Fraction(2, 3), 1]


@pytest.mark.item(1)
@pytest.mark.parametrize("title", ["The chain rule", "A sentence under"])
def test_log_probabilities_sum_to_the_log_of_the_product(title: str) -> None:
    factors = matrix(title, "factors").values
    product, sum_of_logs, log_of_product = matrix(title, "sentence").values[0]
    assert math.prod(Fraction(row[1]) for row in factors) == product
    assert sum(float(row[2]) for row in factors) == pytest.approx(float(sum_of_logs), rel=1e-12)
    assert float(sum_of_logs) == pytest.approx(float(log_of_product), rel=1e-12)


@pytest.mark.item(2)
def test_the_context_is_exactly_n_minus_one_words() -> None:
    assert context_of(("a", "b", "c"), 3) == ("b", "c")
    assert context_of(("a", "b", "c"), 1) == ()
    assert context_of((START,), 5) == (START,)
    for order in (1, 2, 3):
        rows = matrix("Older words", "P", order=order).values
        assert len(rows) == 3
        assert len(set(rows)) == 1
        assert step("Older words", order=order).answer == (order - 1,)


@pytest.mark.item(2)
def test_the_step_on_older_words_is_omitted_if_every_history_fits_the_context() -> None:
    assert not [step for step in counting("a b. b a.", order=4) if step.title.startswith("Older")]


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
def test_the_fractions_equal_the_estimates_of_the_package(order: int) -> None:
    words = list(dict.fromkeys(word for sentence in SENTENCES for word in sentence))
    ids = {word: number for number, word in enumerate(words)} | {START: len(words), END: len(words)}
    text = [len(words), *(ids[word] for sentence in SENTENCES for word in (*sentence, END))]
    model = estimate(np.array(text), len(words) + 1, NgramSettings(order=order, smoothing="mle"), ends=True).table
    table = count_ngrams(SENTENCES, order)
    for context in table:
        history = np.array([[ids[word] for word in context]], np.int64).reshape(1, -1)
        distribution = model.distribution(model.advance(history, model.start(1)))[0]
        expected = [float(probability(table, context, word)) for word in (*words, END)]
        assert distribution == pytest.approx(expected, abs=1e-12)
    factors = matrix("A sentence under", "factors", order=order).values
    logprobs = model.score(np.array(text)).logprobs[: len(factors)]
    assert logprobs == pytest.approx([float(row[2]) for row in factors], abs=1e-12)


@pytest.mark.item(4)
def test_unseen_ngrams_have_probability_zero() -> None:
    assert step("Zero counts").answer == (27,)
    assert matrix("Zero counts", "cells").values == ((27, 9, 36),)
    assert matrix("Zero counts", "cells", order=1).values == ((0, 6, 6),)


def test_answers_may_be_decimals() -> None:
    assert step("Count and").is_correct("0.5")
    assert not step("Count and").is_correct("0.6")
