"""Masking: the lesson's weights are those of the package's attention, and no row sees what comes later."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from satchel.errors import SettingsError
from satchel.lessons.masking import causal, copied, masking, outputs
from satchel.lessons.steps import Lesson, Matrix, Step, is_right, lines
from satchel.nn.attention import attend, causal_mask, softmax

WORDS = ("<s>", "I", "saw", "the", "dog")


def step(title: str, **dials: Any) -> Step:
    """Return the one step whose title begins so."""
    (found,) = (each for each in masking(**dials) if each.title.startswith(title))
    return found


def matrix(title: str, name: str, **dials: Any) -> Matrix:
    (found,) = (each for each in step(title, **dials).matrices if each.name == name)
    return found


def tensor(title: str, name: str, **dials: Any) -> Tensor:
    rows = matrix(title, name, **dials).values
    return torch.tensor([[float(number) for number in row] for row in rows], dtype=torch.float64)


@pytest.mark.item(75)
def test_without_a_mask_all_targets_but_the_last_are_copied() -> None:
    copying = matrix("Training", "copying")
    inputs, targets, found = copying.values
    assert inputs == WORDS
    assert targets == found == ("I", "saw", "the", "dog", "?")
    assert step("How far").answer == (4,)
    assert copied(("a", "b", "a", "?", "b")) == ("b", "a", "?", "b", "?")
    assert step("How far", words="who is it ? me").answer == (4,)


@pytest.mark.item(75)
def test_copying_is_what_attention_to_the_next_place_does() -> None:
    # One-hot positions as queries, the same one place on as keys, words as values.
    places = torch.eye(5, dtype=torch.float64)
    queries = places.roll(1, dims=1) * 100
    queries[-1] = 0
    found, weights = attend(queries, places, places)
    assert found.argmax(dim=-1)[:-1].tolist() == [1, 2, 3, 4]
    assert float(weights[-1].max()) == pytest.approx(1 / 5)


@pytest.mark.item(76)
def test_everything_above_the_diagonal_is_masked_before_the_softmax() -> None:
    scores, masked = tensor("Scores", "scores"), tensor("The mask", "masked scores")
    slide = torch.triu(torch.ones(5, 5) * float("-inf"), diagonal=1)
    assert torch.equal(masked, scores + slide)
    assert torch.equal(masked == -math.inf, ~causal_mask(5))
    assert not torch.equal(scores, scores.triu())
    # What the lesson warns of.
    assert bool((torch.triu(torch.ones(5, 5), diagonal=1) * float("-inf")).isnan().any())


@pytest.mark.item(77)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_masked_weights_are_exactly_zero_and_rows_sum_to_one(seed: int) -> None:
    weights = tensor("Softmax", "weights", seed=seed)
    assert torch.equal(weights == 0, ~causal_mask(5))
    assert weights[0].tolist() == [1, 0, 0, 0, 0]
    assert step("Softmax", seed=seed).answer == (1, 0, 0, 0, 0)
    torch.testing.assert_close(weights.sum(dim=1), torch.ones(5, dtype=torch.float64))
    torch.testing.assert_close(tensor("Softmax", "sums of rows", seed=seed)[0], weights.sum(dim=1))
    torch.testing.assert_close(weights, softmax(tensor("Scores", "scores", seed=seed), causal_mask(5)))


@pytest.mark.item(76)
def test_masking_after_the_softmax_leaves_rows_that_do_not_sum_to_one() -> None:
    sums = tensor("Not after", "sums of rows")[0]
    expected = softmax(tensor("Scores", "scores")).tril().sum(dim=1)
    torch.testing.assert_close(sums, expected)
    assert float(sums[0]) < 0.99
    assert float(sums[-1]) == pytest.approx(1)


@pytest.mark.item(77)
def test_a_later_word_changes_nothing_earlier() -> None:
    queries, keys, values = ([[1, 0], [0, 2], [1, 1]] for _ in range(3))
    before = outputs(queries, keys, values)
    after = outputs([*queries[:2], [5, 5]], [*keys[:2], [-3, 1]], [*values[:2], [9, 9]])
    assert before[:2] == after[:2]
    assert before[2] != after[2]


@pytest.mark.item(77)
def test_an_output_has_no_gradient_from_later_inputs() -> None:
    inputs = torch.randn(4, 3, generator=torch.Generator().manual_seed(0), requires_grad=True)
    found, _ = attend(inputs, inputs, inputs, causal_mask(4))
    (gradient,) = torch.autograd.grad(found[1].sum(), inputs)
    assert torch.equal(gradient[2:], torch.zeros(2, 3))
    assert bool((gradient[:2] != 0).any())


@pytest.mark.item(78)
@pytest.mark.parametrize("seed", [0, 5])
@pytest.mark.parametrize("words", ["a b", "<s> I saw the dog", "the the the the the the the"])
def test_word_by_word_gives_the_same_rows(words: str, seed: int) -> None:
    found = step("It behaves", words=words, seed=seed)
    assert found.answer == (0,)
    assert found.matrices[0].values == found.matrices[1].values
    assert len(found.matrices[0].values) == len(words.split())


@pytest.mark.item(78)
def test_the_rows_are_those_of_the_package() -> None:
    queries = [[1, 0], [2, -1], [0, 1]]
    keys = [[1, 1], [-1, 2], [0, 2]]
    values = [[1, 0], [0, 1], [2, 2]]
    as_tensors = [torch.tensor(each).double() for each in (queries, keys, values)]
    expected, _ = attend(as_tensors[0], as_tensors[1], as_tensors[2], causal_mask(3))
    found = torch.tensor([[float(number) for number in row] for row in outputs(queries, keys, values)])
    torch.testing.assert_close(found.double(), expected, rtol=1e-6, atol=1e-6)


def test_the_mask_leaves_a_triangle_of_pairs() -> None:
    assert step("What is left").answer == (15,) == (int(causal_mask(5).sum()),)
    assert matrix("What is left", "pairs of words", words="a b c").values == ((6, 9),)
    assert causal([[1, 2], [3, 4]]) == [[1, -math.inf], [3, 4]]
    assert "-inf" in lines(matrix("The mask", "masked scores"))[1]


@pytest.mark.item(104)
def test_why_accuracy_is_perfect_can_be_answered() -> None:
    assert is_right("each position can look at the next word", step("Training").answer)
    assert not is_right("because it is large", step("Training").answer)
    assert is_right("with a causal mask", step("The mask").answer)


def test_seeds_are_dials() -> None:
    lesson = Lesson("masking", "Masking", "slides", (75, 76, 77, 78), masking)
    assert lesson.run(seed=3) == lesson.run(seed=3)
    assert lesson.run(seed=3) != lesson.run(seed=4)


@pytest.mark.parametrize("words", ["", "alone", "a " * 13])
def test_bad_dials_are_told(words: str) -> None:
    with pytest.raises(SettingsError, match=r"words: found .* of them, expected 2 to 12") as caught:
        masking(words=words)
    assert caught.value.remedy
