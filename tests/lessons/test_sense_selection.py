"""That trick was sick: the printed matrices, the computed result, its problems, and constructions that give 1000."""

import math
from fractions import Fraction
from typing import Any

import pytest
import torch

from satchel.lessons import sense_selection as lesson
from satchel.lessons.arithmetic import matmul, mean, softmax
from satchel.lessons.sense_selection import PRINTED_ONE, PRINTED_ONE_8X7, PRINTED_Q, ROWS, WORDS, sense_selection
from satchel.nn import attention
from tests.lessons.lookup import Lookup, to_tensor

lookup = Lookup(sense_selection, torch.float64)
step, matrix = lookup.step, lookup.matrix

HALF, THIRD = Fraction(1, 2), Fraction(1, 3)
# Largest accepted error of a construction that is exact in the limit of large scores.
LIMIT = 1e-4
MASKED = "Approximate solution: large scores"
SINK = "Approximate solution: a sink"

X, V, K, Q = (to_tensor(rows, torch.float64) for rows in (lesson.X, lesson.V, lesson.K, PRINTED_Q))
OWN_WORD = torch.eye(4, dtype=torch.bool).repeat_interleave(2, dim=1)


def row(title: str, name: str, **settings: Any) -> list[float]:
    """Return the only row of a matrix."""
    (numbers,) = lookup.tensor(title, name, **settings).tolist()
    return list(numbers)


def error(sums: list[float]) -> float:
    """Return the largest distance from 1000."""
    return max(abs(number - expected) for number, expected in zip(sums[:4], (1, 0, 0, 0), strict=True))


# --- the slide --------------------------------------------------------------------------------------------


@pytest.mark.item(97)
def test_each_word_has_two_sense_vectors() -> None:
    expected = torch.zeros(8, 4, dtype=torch.float64)
    expected[2, 2] = expected[6, 0] = expected[6, 2] = expected[7, 1] = expected[7, 3] = 1
    assert torch.equal(X, expected)
    assert ROWS[2] == "trick 0"
    assert ROWS[6:] == ("sick 0", "sick 1")


@pytest.mark.item(98)
def test_sense_weights_are_the_shares_of_the_topics_of_the_other_words() -> None:
    assert {word: lesson.sense_weights(word) for word in WORDS} == {
        "that": [2 * THIRD, THIRD],
        "trick": [HALF, HALF],
        "was": [2 * THIRD, THIRD],
        "sick": [1, 0],
    }
    assert step("Sense weights").answer == (1, 0)


@pytest.mark.item(99)
def test_values_are_the_sentiment_dimensions() -> None:
    expected = torch.zeros(8, 4, dtype=torch.float64)
    expected[6, 0] = expected[7, 1] = 1
    assert torch.equal(V, expected)
    assert torch.equal(V, X @ torch.diag(torch.tensor([1.0, 1, 0, 0], dtype=torch.float64)))
    assert step("Values").answer == (1, 0, 0, 0, 0, 1, 0, 0)


@pytest.mark.item(100)
def test_keys_are_the_topic_dimensions() -> None:
    expected = torch.zeros(8, 4, dtype=torch.float64)
    expected[2, 2] = expected[6, 2] = expected[7, 3] = 1
    assert torch.equal(K, expected)
    assert torch.equal(K, X @ torch.diag(torch.tensor([0, 0, 1.0, 1], dtype=torch.float64)))
    assert step("Keys").answer == (0, 0, 1, 0, 0, 0, 0, 1)


@pytest.mark.item(101)
def test_queries_are_the_sense_weights() -> None:
    for label, printed, computed in zip(ROWS, PRINTED_Q, lesson.Q, strict=True):
        assert list(printed) == ([0, 0, 1, 0] if label.startswith("sick") else [0, 0, 2 * THIRD, THIRD])
        assert (list(printed) == computed) == (not label.startswith("trick"))
    assert step("Queries").answer == (0, 0, 1, 0)


@pytest.mark.item(102)
def test_the_printed_softmax_times_the_values_gives_1000() -> None:
    assert lesson.summed_output(lesson.printed_softmax(PRINTED_ONE)) == [1, 0, 0, 0]
    assert row("The printed result", "printed, times V, summed") == [1, 0, 0, 0]


@pytest.mark.item(102)
def test_the_8_x_7_matrix_cannot_be_multiplied_and_selects_a_value_of_zero() -> None:
    with pytest.raises(ValueError, match="zip"):
        matmul(lesson.printed_softmax(PRINTED_ONE_8X7, 7), lesson.V)
    assert ROWS[PRINTED_ONE_8X7[1]] == "was 1"
    assert row("The printed result", "8 x 7, with an eighth column of 0") == [0, 0, 0, 0]


# --- the arithmetic of the slide --------------------------------------------------------------------------


@pytest.mark.item(102)
def test_the_scores() -> None:
    scores = matrix("Check: the scores", "Q K^T").values
    assert set(scores[:6]) == {(0, 0, 2 * THIRD, 0, 0, 0, 2 * THIRD, THIRD)}
    assert set(scores[6:]) == {(0, 0, 1, 0, 0, 0, 1, 0)}


@pytest.mark.item(102)
def test_the_softmax_of_the_scores() -> None:
    weights = matrix("Check: the softmax", "attention weights").values
    for weights_of_row in weights[:6]:
        expected = (0.1115, 0.1115, 0.1555, 0.1115, 0.1115, 0.1115, 0.1555, 0.1317)
        assert weights_of_row == pytest.approx(expected, abs=5e-5)
    for weights_of_row in weights[6:]:
        expected = (0.1076, 0.1076, 0.1773, 0.1076, 0.1076, 0.1076, 0.1773, 0.1076)
        assert weights_of_row == pytest.approx(expected, abs=5e-5)
    assert step("Check: the softmax").answer == (weights[6][6],)


@pytest.mark.item(102)
@pytest.mark.parametrize(("scale", "expected"), [(True, [1.2879, 1.0051, 0, 0]), (False, [1.6110, 0.9886, 0, 0])])
def test_the_attention_of_the_slide_does_not_give_1000(scale: bool, expected: list[float]) -> None:
    sums = row("Check: the softmax", "times V, summed", scale=scale)
    assert sums == pytest.approx(expected, abs=5e-5)
    assert error(sums) > 0.9
    outputs, _ = attention.attend(Q, K, V, score=attention.Dot(4)) if scale else attention.attend(Q, K, V)
    assert sums == pytest.approx(outputs.sum(dim=0).tolist(), rel=1e-12)
    if scale:
        assert row("Check: the softmax", "share of the positive dimension") == pytest.approx([0.56], abs=5e-3)


@pytest.mark.item(102)
def test_larger_scores_do_not_give_1000() -> None:
    assert set(matrix("Check: larger", "limit").values) == {(0, 0, HALF, 0, 0, 0, HALF, 0)}
    assert row("Check: larger", "limit, summed") == [4, 0, 0, 0]
    assert row("Check: larger", "limit, row of sick") == [0.5, 0, 0, 0]
    assert row("Check: larger", "scores divided by sqrt(4), times 100", b=100.0) == pytest.approx(
        [4, 0, 0, 0], abs=LIMIT
    )
    for b in (0.5, 1.0, 10.0, 100.0, 1e6):
        assert error(row("Check: larger", "scores divided", b=b)) > 0.5


@pytest.mark.item(102)
def test_larger_scores_are_divided_by_the_square_root_like_the_scores_before_them() -> None:
    once = row("Check: larger", "scores divided by sqrt(4), times 1", b=1.0)
    assert once == pytest.approx([1.2879, 1.0051, 0, 0], abs=5e-5)
    assert row("Check: larger", "unscaled scores, times 1", b=1.0, scale=False) == pytest.approx(
        [1.6110, 0.9886, 0, 0], abs=5e-5
    )
    assert "scores divided by sqrt(4), multiplied by 10" in step("Check: larger").text


# --- problems ---------------------------------------------------------------------------------------------


@pytest.mark.item(102)
def test_no_row_of_a_softmax_is_zero() -> None:
    assert row("Problem: the rows", "softmax of eight zeros") == [1 / 8] * 8
    assert row("Problem: the rows", "row sums of the printed matrix") == [0, 0, 0, 0, 0, 0, 1, 0]
    assert all(sum(map(float, weights)) == pytest.approx(1) for weights in lesson.slide_weights(HALF))


@pytest.mark.item(102)
@pytest.mark.parametrize("b", [0.5, 1, 10, 100, 1e6])
def test_trick_and_sick_have_the_same_key_and_the_same_weight(b: float) -> None:
    assert lesson.K[2] == lesson.K[6]
    for weights in lesson.slide_weights(b):
        assert weights[2] == weights[6]
        assert float(weights[6]) <= 1 / 2


@pytest.mark.item(102)
def test_two_queries_per_word_count_it_twice() -> None:
    assert PRINTED_Q[6] == PRINTED_Q[7]
    twice = row("Problem: other words", "other words masked, two queries per word")
    once = row("Problem: other words", "other words masked, one query per word")
    assert twice == pytest.approx([2, 0, 0, 0], abs=LIMIT)
    assert [number / 2 for number in twice] == pytest.approx(once)
    assert error(once) < LIMIT
    assert step("Problem: other words").answer == (2,)


@pytest.mark.item(98)
def test_a_sum_of_ratios_is_undefined_for_some_words_and_not_normalised() -> None:
    assert {word: lesson.sum_of_ratios(word) for word in WORDS} == {
        "that": ([Fraction(3, 2), HALF], 1),
        "trick": ([HALF, HALF], 2),
        "was": ([Fraction(3, 2), HALF], 1),
        "sick": ([1, 0], 2),
    }
    assert step("Problem: equation 5").answer == (Fraction(3, 2), HALF)
    assert all(sum(lesson.sense_weights(word)) == 1 for word in WORDS)


@pytest.mark.item(101)
def test_the_printed_queries_of_trick_are_those_of_all_words() -> None:
    assert lesson.normalise([lesson.topics(word) for word in WORDS]) == [2 * THIRD, THIRD] == list(PRINTED_Q[2][2:])
    assert lesson.sense_weights("trick") == [HALF, HALF]
    assert not any(number for values in lesson.V[2:4] for number in values)


@pytest.mark.item(101)
def test_the_queries_are_not_a_linear_function_of_the_sense_vectors() -> None:
    (residual,) = row("Problem: the queries", "least-squares residual of Q = X W")
    assert residual == pytest.approx(5 / 3, rel=1e-12)
    nearest = X @ (torch.linalg.pinv(X) @ Q)
    assert float((nearest - Q).norm()) == pytest.approx(residual, rel=1e-9)
    assert lesson.residual_norm(lesson.K, lesson.X) == 0
    assert lesson.residual_norm([[1], [0]], [[1], [1]]) == pytest.approx(math.sqrt(1 / 2))


@pytest.mark.item(101)
def test_uniform_attention_to_the_other_words_is_proportional_to_the_queries() -> None:
    rows = ((2 * THIRD, THIRD), (THIRD, THIRD), (2 * THIRD, THIRD), (THIRD, 0))
    assert matrix("Problem: the queries", "mean topics").values == rows
    for word in WORDS:
        assert lesson.normalise([mean(lesson.topics_of_others(word))]) == lesson.sense_weights(word)


@pytest.mark.item(98)
def test_the_topics_are_dimensions_two_and_three_summed_over_the_senses() -> None:
    topics = {word: lesson.topics(word) for word in WORDS}
    assert topics == {"that": [0, 0], "trick": [1, 0], "was": [0, 0], "sick": [1, 1]}
    assert lesson.SENSES["trick"][0].index(1) == 2


@pytest.mark.item(102)
def test_the_misprints_of_the_editions_are_named() -> None:
    assert len(lesson.printed_softmax(PRINTED_ONE)[0]) == len(lesson.V) == 8
    assert len(lesson.printed_softmax(PRINTED_ONE_8X7, 7)[0]) == 7
    text = " ".join(step.text for step in sense_selection())
    assert "8 x 7" in text
    assert "five of the rows" in text
    assert "scateboarding" in text


@pytest.mark.item(99)
def test_sums_of_whole_sense_vectors_include_the_topic() -> None:
    assert row("Problem: sums", "sense weights times X") == [1, 0, 1.5, 0]
    assert row("Problem: sums", "sense weights times V") == [1, 0, 0, 0]
    assert step("Problem: sums").answer == (1, 0, Fraction(3, 2), 0)


# --- solutions --------------------------------------------------------------------------------------------


@pytest.mark.item(102)
def test_a_diagonal_gate_gives_1000() -> None:
    diagonal = matrix("Solution: a diagonal", "diagonal").values[0]
    assert diagonal == (2 * THIRD, THIRD, HALF, HALF, 2 * THIRD, THIRD, 1, 0)
    outputs = matrix("Solution: a diagonal", "A V").values
    assert outputs == ((0, 0, 0, 0),) * 6 + ((1, 0, 0, 0), (0, 0, 0, 0))
    assert row("Solution: a diagonal", "A V, summed") == [1, 0, 0, 0, 0]


@pytest.mark.item(102)
def test_log_sense_weights_with_a_mask_give_1000() -> None:
    weights = to_tensor(lesson.log_weight_attention(), torch.float64)
    expected = torch.tensor([[2 / 3, 1 / 3], [0.5, 0.5], [2 / 3, 1 / 3], [1, 0]]).double()
    torch.testing.assert_close(weights.reshape(4, 4, 2)[range(4), range(4)], expected, rtol=1e-6, atol=0)
    assert float(weights.sum()) == pytest.approx(4)
    assert row("Solution: log", "times V, summed") == [1, 0, 0, 0, 0]
    scores = to_tensor([lesson.ALPHA] * 4, torch.float64).log()
    torch.testing.assert_close(attention.softmax(scores, OWN_WORD), weights, rtol=1e-6, atol=0)


def sigmoid(number: float) -> float:
    return 1 / (1 + math.exp(-number))


@pytest.mark.item(102)
@pytest.mark.parametrize(("b", "weight"), [(0.5, 0.622), (1.0, 0.731), (10.0, 0.99995)])
def test_with_a_mask_the_weights_are_sigmoids_of_the_score(b: float, weight: float) -> None:
    table = matrix(MASKED, "sick", b=b)
    weights = table.values[table.rows.index(f"b = {b:g}")]
    assert weights == pytest.approx((sigmoid(b), sigmoid(-b)), rel=1e-12)
    assert float(weights[0]) == pytest.approx(weight, abs=5e-4)
    sums = row(MASKED, "times V, summed", b=b)
    assert sums[:4] == pytest.approx([sigmoid(b), sigmoid(-b), 0, 0], rel=1e-12)
    assert sums[4] == pytest.approx(error(sums))


@pytest.mark.item(102)
def test_with_a_mask_large_scores_approach_1000() -> None:
    assert error(row(MASKED, "times V, summed", b=10.0)) < LIMIT
    assert error(row(MASKED, "times V, summed", b=1.0)) > 0.2
    outputs, _ = attention.attend(to_tensor(lesson.Q[::2], torch.float64) * 10, K, V, OWN_WORD)
    assert row(MASKED, "times V, summed")[:4] == pytest.approx(outputs.sum(dim=0).tolist())


@pytest.mark.item(102)
def test_with_a_sink_key_large_scores_approach_1000() -> None:
    weights = lesson.sink_attention(Fraction(10))
    assert (float(weights[6][6]), float(weights[7][7])) == pytest.approx((0.9933, 0.0067), abs=5e-5)
    assert all(float(weights[index][index]) == pytest.approx(4.54e-5, rel=1e-2) for index in range(6))
    assert all(sum(map(float, weights_of_row)) == pytest.approx(1) for weights_of_row in weights)
    assert row(SINK, "times V, summed")[:4] == pytest.approx([0.9933, 0.0067, 0, 0], abs=5e-5)
    assert error(row(SINK, "times V, summed", b=100.0)) < 1e-15


@pytest.mark.item(102)
def test_the_weights_with_a_sink_key_approach_the_printed_matrix() -> None:
    printed = to_tensor(lesson.printed_softmax(PRINTED_ONE), torch.float64)
    small, large = (to_tensor(lesson.sink_attention(Fraction(b)), torch.float64)[:, :8] for b in (1, 100))
    assert float((large - printed).abs().max()) < 1e-15
    assert float((small - printed).abs().max()) > 0.3


@pytest.mark.item(102)
@pytest.mark.parametrize("sink", ["was", "that"])
def test_a_backpack_gives_the_sentiment_1000(sink: str) -> None:
    assert lesson.backpack_output("sick", lesson.sense_weights("sick"), sink) == [1, 0, 1, 0]
    selected, both = matrix("Solution: the Backpack", "o of sick").values
    assert selected == (1, 0, 1, 0)
    assert both == (1, 1, 1, 1)
    assert row("Solution: the Backpack", "sentiment of the first row") == [1, 0, 0, 0, 0]


@pytest.mark.item(102)
def test_a_backpack_sums_the_senses_by_their_weights() -> None:
    assert lesson.backpack_output("sick", (0.25, 0.75)) == pytest.approx([0.25, 0.75, 0.25, 0.75])
    # A sink with a sense vector that is not 0 contributes to the output: trick's first sense is skateboarding.
    assert lesson.backpack_output("sick", (0.25, 0), sink="trick") == pytest.approx([0.25, 0, 1, 0])


# --- questions --------------------------------------------------------------------------------------------


@pytest.mark.item(104)
def test_the_questions_of_the_slides_are_asked() -> None:
    questions = " ".join(step.question for step in sense_selection())
    for question in ("What are the values?", "What are the keys?", "But what are the queries?"):
        assert question in questions
    assert "How can you make this happen with attention?" in questions
    assert step("Queries").is_correct("0 0 1 0")
    assert step("Values").is_correct("[1, 0, 0, 0] [0, 1, 0, 0]")
    assert step("Solution: a diagonal").is_correct("mask the other words")


def test_a_softmax_sums_to_one_for_large_scores() -> None:
    assert float(sum(softmax([1e6, 0, -math.inf]))) == 1
