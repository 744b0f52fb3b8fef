"""That trick was sick: what the slide prints, what its arithmetic gives, and what gives 1000."""

import math
from fractions import Fraction
from typing import Any

import pytest
import torch
from torch import Tensor

from satchel.errors import SettingsError
from satchel.lessons import sense_selection as lesson
from satchel.lessons.sense_selection import OTHER_PLACE, PRINTED_PLACE, PRINTED_Q, ROWS, WORDS, sense_selection
from satchel.lessons.steps import Lesson, Matrix, Rows, Step, is_right, product, softmax
from satchel.nn import attention

THOUSAND = (1, 0, 0, 0)
THIRD = Fraction(1, 3)
LIMIT = 1e-4


def step(title: str, **dials: Any) -> Step:
    """Return the one step whose title begins so."""
    (found,) = (each for each in sense_selection(**dials) if each.title.startswith(title))
    return found


def matrix(title: str, name: str, **dials: Any) -> Matrix:
    (found,) = (each for each in step(title, **dials).matrices if each.name == name)
    return found


def row(title: str, name: str, **dials: Any) -> list[float]:
    """Return the only row of a matrix."""
    (found,) = matrix(title, name, **dials).values
    return [float(number) for number in found]


def tensor(rows: Rows) -> Tensor:
    return torch.tensor([[float(number) for number in row] for row in rows], dtype=torch.float64)


def off(found: list[float]) -> float:
    """Return the largest distance from 1000."""
    return max(abs(number - wanted) for number, wanted in zip(found[:4], THOUSAND, strict=True))


V, K, Q = tensor(lesson.values()), tensor(lesson.keys()), tensor(PRINTED_Q)


# --- what the slide prints --------------------------------------------------------------------------------


@pytest.mark.item(97)
def test_each_word_has_two_senses() -> None:
    senses = tensor(lesson.stacked())
    expected = torch.zeros(8, 4, dtype=torch.float64)
    expected[2, 2] = expected[6, 0] = expected[6, 2] = expected[7, 1] = expected[7, 3] = 1
    assert torch.equal(senses, expected)
    assert ROWS[2] == "trick 0"
    assert ROWS[6:] == ("sick 0", "sick 1")


@pytest.mark.item(98)
def test_the_weights_are_shares_of_what_the_other_words_are_about() -> None:
    assert {word: lesson.alphas(word) for word in WORDS} == {
        "that": [2 * THIRD, THIRD],
        "trick": [Fraction(1, 2), Fraction(1, 2)],
        "was": [2 * THIRD, THIRD],
        "sick": [1, 0],
    }
    assert step("Selecting").answer == (1, 0)


@pytest.mark.item(99)
def test_values_are_the_sentiment_of_the_senses() -> None:
    expected = torch.zeros(8, 4, dtype=torch.float64)
    expected[6, 0] = expected[7, 1] = 1
    assert torch.equal(V, expected)
    assert torch.equal(V, tensor(lesson.stacked()) @ torch.diag(torch.tensor([1.0, 1, 0, 0], dtype=torch.float64)))
    assert step("Values").answer == (1, 0, 0, 0, 0, 1, 0, 0)


@pytest.mark.item(100)
def test_keys_are_the_topics_of_the_senses() -> None:
    expected = torch.zeros(8, 4, dtype=torch.float64)
    expected[2, 2] = expected[6, 2] = expected[7, 3] = 1
    assert torch.equal(K, expected)
    assert torch.equal(K, tensor(lesson.stacked()) @ torch.diag(torch.tensor([0, 0, 1.0, 1], dtype=torch.float64)))
    assert step("Keys").answer == (0, 0, 1, 0, 0, 0, 0, 1)


@pytest.mark.item(101)
def test_queries_are_the_weights() -> None:
    computed = lesson.queries()
    for place, printed in enumerate(PRINTED_Q):
        assert list(printed) == ([0, 0, 2 * THIRD, THIRD] if place < 6 else [0, 0, 1, 0])
        assert (list(printed) == computed[place]) == (ROWS[place].split()[0] != "trick")
    assert step("Queries").answer == (0, 0, 1, 0)


@pytest.mark.item(102)
def test_the_printed_softmax_times_the_values_gives_it() -> None:
    printed = lesson.one_at(PRINTED_PLACE, 8)
    assert lesson.summed(product(printed, lesson.values())) == [1, 0, 0, 0]
    assert row("What the slide", "printed, times V") == [1, 0, 0, 0]


@pytest.mark.item(102)
def test_the_other_edition_cannot_be_multiplied_and_selects_nothing() -> None:
    with pytest.raises(ValueError, match="zip"):
        product(lesson.one_at(OTHER_PLACE, 7), lesson.values())
    assert ROWS[OTHER_PLACE[1]] == "was 1"
    assert row("What the slide", "8 x 7, its 1 in the same column") == [0, 0, 0, 0]


# --- what its arithmetic gives ----------------------------------------------------------------------------


@pytest.mark.item(102)
def test_the_scores() -> None:
    scores = matrix("Does it hold?", "Q K^T").values
    assert set(scores[:6]) == {(0, 0, 2 * THIRD, 0, 0, 0, 2 * THIRD, THIRD)}
    assert set(scores[6:]) == {(0, 0, 1, 0, 0, 0, 1, 0)}


@pytest.mark.item(102)
def test_the_softmax_of_the_slide() -> None:
    weights = matrix("The softmax", "weights").values
    for found in weights[:6]:
        assert found == pytest.approx((0.1115, 0.1115, 0.1555, 0.1115, 0.1115, 0.1115, 0.1555, 0.1317), abs=5e-5)
    for found in weights[6:]:
        assert found == pytest.approx((0.1076, 0.1076, 0.1773, 0.1076, 0.1076, 0.1076, 0.1773, 0.1076), abs=5e-5)
    assert step("The softmax").answer == (weights[6][6],)


@pytest.mark.item(102)
def test_the_literal_slide_does_not_give_a_thousand() -> None:
    sums = row("The softmax", "times V, summed")
    assert sums == pytest.approx([1.2879, 1.0051, 0, 0], abs=5e-5)
    assert off(sums) > 1
    assert row("The softmax", "share of the positive dimension") == pytest.approx([0.56], abs=5e-3)
    expected, _ = attention.attend(Q, K, V, score=attention.Dot(4))
    assert sums == pytest.approx(expected.sum(dim=0).tolist(), rel=1e-12)


@pytest.mark.item(102)
def test_nor_does_it_without_the_root_of_d() -> None:
    sums = row("The softmax", "times V, summed", scale=False)
    assert sums == pytest.approx([1.6110, 0.9886, 0, 0], abs=5e-5)
    assert off(sums) > 0.5
    expected, _ = attention.attend(Q, K, V)
    assert sums == pytest.approx(expected.sum(dim=0).tolist(), rel=1e-12)


@pytest.mark.item(102)
def test_nor_does_it_however_sharp() -> None:
    limit = matrix("Sharper", "in the limit").values
    assert set(limit) == {(0, 0, Fraction(1, 2), 0, 0, 0, Fraction(1, 2), 0)}
    assert row("Sharper", "in the limit, summed") == [4, 0, 0, 0]
    assert row("Sharper", "in the limit, the row of sick") == [0.5, 0, 0, 0]
    assert row("Sharper", "scores times 100", b=100.0) == pytest.approx([4, 0, 0, 0], abs=LIMIT)
    for b in (0.5, 1.0, 10.0, 100.0, 1e6):
        assert off(row("Sharper", f"scores times {b:g}", b=b)) > 0.5


# --- where it is loose ------------------------------------------------------------------------------------


@pytest.mark.item(102)
def test_l1_no_row_of_a_softmax_is_zero() -> None:
    assert row("Loose: rows", "softmax of eight zeros") == [1 / 8] * 8
    assert row("Loose: rows", "sums of the printed rows") == [0, 0, 0, 0, 0, 0, 1, 0]
    assert all(sum(map(float, found)) == pytest.approx(1) for found in lesson.literal(Fraction(1, 2)))


@pytest.mark.item(102)
@pytest.mark.parametrize("b", [0.5, 1, 10, 100, 1e6])
def test_l2_the_tie_of_trick_and_sick_stays(b: float) -> None:
    assert lesson.keys()[2] == lesson.keys()[6]
    for found in lesson.literal(b):
        assert found[2] == found[6]
        assert float(found[6]) <= 1 / 2


@pytest.mark.item(102)
def test_l3_two_queries_for_a_word_count_it_twice() -> None:
    assert PRINTED_Q[6] == PRINTED_Q[7]
    twice = row("Loose: only", "own word only, two queries for each")
    once = row("Loose: only", "own word only, one query for each")
    assert twice == pytest.approx([2, 0, 0, 0], abs=LIMIT)
    assert [number / 2 for number in twice] == pytest.approx(once)
    assert off(once) < LIMIT
    assert step("Loose: only").answer == (2,)


@pytest.mark.item(98)
def test_l4_a_sum_of_ratios_is_not_defined_and_not_normalised() -> None:
    assert {word: lesson.sums_of_ratios(word) for word in WORDS} == {
        "that": ([Fraction(3, 2), Fraction(1, 2)], 1),
        "trick": ([Fraction(1, 2), Fraction(1, 2)], 2),
        "was": ([Fraction(3, 2), Fraction(1, 2)], 1),
        "sick": ([1, 0], 2),
    }
    assert step("Loose: a sum").answer == (Fraction(3, 2), Fraction(1, 2))
    assert all(sum(lesson.alphas(word)) == 1 for word in WORDS)


@pytest.mark.item(101)
def test_l5_the_printed_queries_of_trick_are_those_of_all_words() -> None:
    assert lesson.alphas("trick", others=WORDS) == [2 * THIRD, THIRD] == list(PRINTED_Q[2][2:])
    assert lesson.alphas("trick") == [Fraction(1, 2), Fraction(1, 2)]
    assert not any(number for place in (2, 3) for number in lesson.values()[place])


@pytest.mark.item(101)
def test_l6_queries_are_no_linear_map_of_the_senses() -> None:
    (distance,) = row("Loose: where", "distance of Q from any X W")
    assert distance == pytest.approx(5 / 3, rel=1e-12)
    senses = tensor(lesson.stacked())
    nearest = senses @ (torch.linalg.pinv(senses) @ Q)
    assert float((nearest - Q).norm()) == pytest.approx(distance, rel=1e-9)
    assert lesson.unexplained(lesson.keys(), lesson.stacked()) == 0
    assert lesson.unexplained([[1], [0]], [[1], [1]]) == pytest.approx(math.sqrt(1 / 2))


@pytest.mark.item(101)
def test_l6_an_earlier_layer_that_looks_around_makes_them() -> None:
    assert matrix("Loose: where", "mean of the others' topics").values == (
        (2 * THIRD, THIRD),
        (THIRD, THIRD),
        (2 * THIRD, THIRD),
        (THIRD, 0),
    )
    for word in WORDS:
        around = lesson.around(word)
        assert [each / sum(around) for each in around] == lesson.alphas(word)


@pytest.mark.item(98)
def test_l7_the_topics_are_dimensions_two_and_three_of_all_senses_together() -> None:
    assert {word: lesson.topics(word) for word in WORDS} == {
        "that": [0, 0],
        "trick": [1, 0],
        "was": [0, 0],
        "sick": [1, 1],
    }
    assert lesson.SENSES["trick"][0].index(1) == 2


@pytest.mark.item(102)
def test_l8_eight_columns_fit_and_seven_do_not() -> None:
    assert len(lesson.one_at(PRINTED_PLACE, 8)[0]) == len(lesson.values()) == 8
    assert len(lesson.one_at(OTHER_PLACE, 7)[0]) == 7
    said = " ".join(each.text for each in sense_selection())
    assert "8 x 7" in said
    assert "five of its rows" in said
    assert "scateboarding" in said


@pytest.mark.item(99)
def test_l9_whole_senses_bring_skateboarding_along() -> None:
    assert row("Loose: what", "weights times X") == [1, 0, 1.5, 0]
    assert row("Loose: what", "weights times V") == [1, 0, 0, 0]
    assert step("Loose: what").answer == (1, 0, Fraction(3, 2), 0)


# --- what gives 1000 --------------------------------------------------------------------------------------


@pytest.mark.item(102)
def test_right_a_diagonal_gate() -> None:
    diagonal = matrix("Right: a gate", "diagonal").values[0]
    assert diagonal == (2 * THIRD, THIRD, Fraction(1, 2), Fraction(1, 2), 2 * THIRD, THIRD, 1, 0)
    found = matrix("Right: a gate", "A V").values
    assert found[6] == (1, 0, 0, 0)
    assert all(each == (0, 0, 0, 0) for place, each in enumerate(found) if place != 6)
    assert row("Right: a gate", "A V, summed") == [1, 0, 0, 0, 0]


@pytest.mark.item(102)
def test_right_log_weights_within_the_word() -> None:
    weights = tensor(lesson.log_weights())
    by_word = weights.reshape(4, 4, 2)
    own = by_word[range(4), range(4)]
    torch.testing.assert_close(
        own, torch.tensor([[2 / 3, 1 / 3], [0.5, 0.5], [2 / 3, 1 / 3], [1, 0]]).double(), rtol=1e-6, atol=0
    )
    assert float(weights.sum()) == pytest.approx(4)
    assert row("Right: log", "times V, summed") == [1, 0, 0, 0, 0]
    logs = torch.tensor([math.log(float(a)) if a else -math.inf for word in WORDS for a in lesson.alphas(word)])
    mask = torch.eye(4, dtype=torch.bool).repeat_interleave(2, dim=1)
    torch.testing.assert_close(attention.softmax(logs.double().expand(4, 8), mask), weights, rtol=1e-6, atol=0)


def sigmoid(number: float) -> float:
    return 1 / (1 + math.exp(-number))


@pytest.mark.item(102)
@pytest.mark.parametrize(("b", "weight"), [(0.5, 0.622), (1.0, 0.731), (10.0, 0.99995)])
def test_right_if_sharp_the_scores_within_the_word(b: float, weight: float) -> None:
    table = matrix("Right, if sharp: the slide", "sick", b=b)
    found = table.values[table.rows.index(f"b = {b:g}")]
    assert found == pytest.approx((sigmoid(b), sigmoid(-b)), rel=1e-12)
    assert float(found[0]) == pytest.approx(weight, abs=5e-4)
    sums = row("Right, if sharp: the slide", "times V, summed", b=b)
    assert sums[:4] == pytest.approx([sigmoid(b), sigmoid(-b), 0, 0], rel=1e-12)
    assert sums[4] == pytest.approx(off(sums))


@pytest.mark.item(102)
def test_right_if_sharp_the_scores_within_the_word_reach_the_limit() -> None:
    assert off(row("Right, if sharp: the slide", "times V, summed", b=10.0)) < LIMIT
    assert off(row("Right, if sharp: the slide", "times V, summed", b=1.0)) > 0.2
    mask = torch.eye(4, dtype=torch.bool).repeat_interleave(2, dim=1)
    queries = tensor(lesson.queries())[::2] * 10
    found, _ = attention.attend(queries, K, V, mask)
    assert row("Right, if sharp: the slide", "times V, summed")[:4] == pytest.approx(found.sum(dim=0).tolist())


@pytest.mark.item(102)
def test_right_if_sharp_a_sink() -> None:
    weights = lesson.with_sink(Fraction(10))
    assert (float(weights[6][6]), float(weights[7][7])) == pytest.approx((0.9933, 0.0067), abs=5e-5)
    assert all(float(weights[place][place]) == pytest.approx(4.54e-5, rel=1e-2) for place in range(6))
    assert all(sum(map(float, each)) == pytest.approx(1) for each in weights)
    assert row("Right, if sharp: a place", "times V, summed")[:4] == pytest.approx([0.9933, 0.0067, 0, 0], abs=5e-5)


@pytest.mark.item(102)
def test_right_the_sink_becomes_the_printed_matrix() -> None:
    printed = tensor(lesson.one_at(PRINTED_PLACE, 8))
    weights = tensor(lesson.with_sink(Fraction(100)))
    assert float((weights[:, :8] - printed).abs().max()) < 1e-15
    assert off(row("Right, if sharp: a place", "times V, summed", b=100.0)) < 1e-15
    assert float((tensor(lesson.with_sink(Fraction(1)))[:, :8] - printed).abs().max()) > 0.3


@pytest.mark.item(102)
@pytest.mark.parametrize("empty", ["was", "that"])
def test_right_as_a_backpack_does_it(empty: str) -> None:
    assert lesson.backpack("sick", lesson.alphas("sick"), empty) == [1, 0, 1, 0]
    chosen, both = matrix("Right: as a Backpack", "o of sick").values
    assert chosen == (1, 0, 1, 0)
    assert both == (1, 1, 1, 1)
    assert row("Right: as a Backpack", "sentiment of the first") == [1, 0, 0, 0, 0]


@pytest.mark.item(102)
def test_a_backpack_weighs_senses_as_it_is_told() -> None:
    assert lesson.backpack("sick", (0.25, 0.75)) == pytest.approx([0.25, 0.75, 0.25, 0.75])
    # A word that is not empty would be heard: trick's first sense is skateboarding.
    assert lesson.backpack("sick", (0.25, 0), empty="trick") == pytest.approx([0.25, 0, 1, 0])


# --- dials and questions ----------------------------------------------------------------------------------


@pytest.mark.item(104)
def test_the_questions_of_the_slides_are_asked() -> None:
    asked = " ".join(each.question for each in sense_selection())
    for question in ("What are the values?", "What are the keys?", "But what are the queries?"):
        assert question in asked
    assert "How can you make this happen with attention?" in asked
    assert is_right("0 0 1 0", step("Queries").answer)
    assert is_right("[1, 0, 0, 0] [0, 1, 0, 0]", step("Values").answer)
    assert is_right("mask the other words", step("Right: a gate").answer)


def test_dials_are_read_as_settings() -> None:
    made = Lesson("sense-selection", "Senses", "slides", tuple(range(97, 103)), sense_selection)
    assert made.run() == sense_selection()
    assert made.run(b=1) == sense_selection(b=1.0)
    assert made.run(scale=False) != made.run()
    with pytest.raises(SettingsError, match="scale"):
        made.run(scale="no")


@pytest.mark.parametrize("b", [0.0, -1.0, 1e7, math.inf, math.nan])
def test_bad_dials_are_told(b: float) -> None:
    with pytest.raises(SettingsError, match=r"b: found .*, expected more than 0") as caught:
        sense_selection(b=b)
    assert caught.value.remedy


def test_the_sum_of_a_softmax_is_one_whatever_the_sharpness() -> None:
    assert float(sum(softmax([1e6, 0, -math.inf]))) == 1
