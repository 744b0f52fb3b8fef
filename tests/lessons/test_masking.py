"""Causal masking: weights and outputs equal those of the package, and no output depends on later positions."""

import math
import random

import pytest
import torch
from torch import Tensor

from satchel.lessons import arithmetic
from satchel.lessons.masking import copied_words, masking
from satchel.lessons.steps import text_lines
from satchel.nn.attention import attend, causal_mask, softmax
from tests.lessons.lookup import Lookup, to_tensor

lookup = Lookup(masking, torch.float64)
step, matrix, tensor = lookup.step, lookup.matrix, lookup.tensor

WORDS = ("<s>", "I", "saw", "the", "dog")


@pytest.mark.item(75)
def test_without_a_mask_all_targets_but_the_last_can_be_copied() -> None:
    inputs, targets, copied = matrix("A language model", "copying").values
    assert inputs == WORDS
    assert targets == copied == ("I", "saw", "the", "dog", "?")
    assert step("Accuracy of copying").answer == (4,)
    assert copied_words(("a", "b", "a", "?", "b")) == ("b", "a", "?", "b", "?")
    assert step("Accuracy of copying", words="who is it ? me").answer == (4,)


@pytest.mark.item(75)
def test_attention_to_the_next_position_copies_the_next_word() -> None:
    # Keys and values are one-hot positions; each query matches the key of the next position.
    positions = torch.eye(5, dtype=torch.float64)
    queries = positions.roll(1, dims=1) * 100
    queries[-1] = 0
    outputs, weights = attend(queries, positions, positions)
    assert outputs.argmax(dim=-1)[:-1].tolist() == [1, 2, 3, 4]
    assert float(weights[-1].max()) == pytest.approx(1 / 5)


@pytest.mark.item(76)
def test_scores_above_the_diagonal_are_masked_before_the_softmax() -> None:
    scores, masked = tensor("Scores without", "scores"), tensor("The causal mask", "masked scores")
    assert torch.equal(masked, scores + torch.triu(torch.ones(5, 5) * float("-inf"), diagonal=1))
    assert torch.equal(masked == -math.inf, ~causal_mask(5))
    assert not torch.equal(scores, scores.triu())
    # The mistake named in the lesson: 0 times -inf is NaN.
    assert bool((torch.triu(torch.ones(5, 5), diagonal=1) * float("-inf")).isnan().any())


@pytest.mark.item(77)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_masked_weights_are_exactly_zero_and_rows_sum_to_one(seed: int) -> None:
    weights = tensor("Softmax of", "attention weights", seed=seed)
    assert torch.equal(weights == 0, ~causal_mask(5))
    assert weights[0].tolist() == [1, 0, 0, 0, 0]
    assert step("Softmax of", seed=seed).answer == (1, 0, 0, 0, 0)
    torch.testing.assert_close(weights.sum(dim=1), torch.ones(5, dtype=torch.float64))
    torch.testing.assert_close(tensor("Softmax of", "row sums", seed=seed)[0], weights.sum(dim=1))
    torch.testing.assert_close(weights, softmax(tensor("Scores without", "scores", seed=seed), causal_mask(5)))


@pytest.mark.item(76)
def test_rows_masked_after_the_softmax_do_not_sum_to_one() -> None:
    sums = tensor("Masking after", "row sums")[0]
    torch.testing.assert_close(sums, softmax(tensor("Scores without", "scores")).tril().sum(dim=1))
    assert float(sums[0]) < 0.99
    assert float(sums[-1]) == pytest.approx(1)


@pytest.mark.item(77)
def test_a_later_word_does_not_change_earlier_outputs() -> None:
    rows = [[1, 0], [0, 2], [1, 1]]
    before = arithmetic.attend(rows, rows, rows, causal=True).outputs
    after = arithmetic.attend([*rows[:2], [5, 5]], [*rows[:2], [-3, 1]], [*rows[:2], [9, 9]], causal=True).outputs
    assert before[:2] == after[:2]
    assert before[2] != after[2]


@pytest.mark.item(77)
def test_an_output_has_no_gradient_from_later_inputs() -> None:
    inputs = torch.randn(4, 3, generator=torch.Generator().manual_seed(0), requires_grad=True)
    outputs, _ = attend(inputs, inputs, inputs, causal_mask(4))
    (gradient,) = torch.autograd.grad(outputs[1].sum(), inputs)
    assert torch.equal(gradient[2:], torch.zeros(2, 3))
    assert bool((gradient[:2] != 0).any())


@pytest.mark.item(78)
@pytest.mark.parametrize("seed", [0, 5])
@pytest.mark.parametrize("words", ["a b", "<s> I saw the dog", "the the the the the the the"])
def test_incremental_decoding_gives_the_same_outputs(words: str, seed: int) -> None:
    decoding = step("Incremental", words=words, seed=seed)
    assert decoding.answer == (0,)
    assert decoding.matrices[0].values == decoding.matrices[1].values
    assert len(decoding.matrices[0].values) == len(words.split())


@pytest.mark.item(78)
def test_the_outputs_equal_those_of_the_package() -> None:
    queries, keys, values = [[1, 0], [2, -1], [0, 1]], [[1, 1], [-1, 2], [0, 2]], [[1, 0], [0, 1], [2, 2]]
    expected, _ = attend(to_tensor(queries), to_tensor(keys), to_tensor(values), causal_mask(3))
    outputs = arithmetic.attend(queries, keys, values, causal=True).outputs
    torch.testing.assert_close(to_tensor(outputs), expected, rtol=1e-6, atol=1e-6)


def test_the_mask_allows_a_triangle_of_pairs() -> None:
    assert step("Encoder and decoder").answer == (15,) == (int(causal_mask(5).sum()),)
    assert matrix("Encoder and decoder", "query-key pairs", words="a b c").values == ((6, 9),)
    assert arithmetic.causal_mask([[1, 2], [3, 4]]) == [[1, -math.inf], [3, 4]]
    assert "-inf" in text_lines(matrix("The causal mask", "masked scores"))[1]


@pytest.mark.item(104)
def test_the_answers_on_perfect_accuracy_and_on_the_mask_are_checked() -> None:
    assert step("A language model").is_correct("each position can look at the next word")
    assert not step("A language model").is_correct("because it is large")
    assert step("The causal mask").is_correct("with a causal mask")


@pytest.mark.item(77)
@pytest.mark.parametrize("seed", [0, 3])
def test_the_gradients_are_those_of_autograd_and_exactly_zero_above_the_diagonal(seed: int) -> None:
    rng = random.Random(seed)
    count = 5
    queries, keys, values = (
        torch.tensor([[float(rng.randint(-2, 2)) for _ in range(2)] for _ in range(count)], dtype=torch.float64)
        for _ in range(3)
    )
    for name, is_causal in (("gradient with", True), ("gradient without", False)):
        mask = torch.ones(count, count, dtype=torch.bool).tril() if is_causal else None

        def outputs(k: Tensor, v: Tensor, mask: Tensor | None = mask) -> Tensor:
            scores = queries @ k.T
            scores = scores if mask is None else scores.masked_fill(~mask, -torch.inf)
            return scores.softmax(dim=-1) @ v

        by_key, by_value = torch.autograd.functional.jacobian(outputs, (keys, values))
        expected = (by_key.square().sum(dim=(1, 3)) + by_value.square().sum(dim=(1, 3))).sqrt()
        shown = torch.tensor(matrix("Gradients of masked", name, seed=seed).values, dtype=torch.float64)
        torch.testing.assert_close(shown, expected)
        assert bool((shown.triu(1) == 0).all()) == is_causal
