"""Self-attention by hand: the notes' numbers, and the same as the layers give."""

import math
from fractions import Fraction
from typing import Any

import pytest
import torch
from torch import Tensor

from satchel.errors import SettingsError
from satchel.lessons.self_attention import SENTENCE, WORDS, self_attention
from satchel.lessons.steps import Lesson, Matrix, Step, is_right, lines, shown
from satchel.nn.attention import MultiHead, attend, self_attend

AABA = torch.tensor([[1.0, 0], [1, 0], [0, 1], [1, 0]])
X = torch.tensor([WORDS[word] for word in SENTENCE], dtype=torch.float32)


def step(title: str, **dials: Any) -> Step:
    """Return the one step of that title."""
    (found,) = (each for each in self_attention(**dials) if each.title.startswith(title))
    return found


def matrix(title: str, name: str, **dials: Any) -> Matrix:
    (found,) = (each for each in step(title, **dials).matrices if each.name == name)
    return found


def tensor(title: str, name: str, **dials: Any) -> Tensor:
    return torch.tensor([[float(cell) for cell in row] for row in matrix(title, name, **dials).values])


@pytest.mark.item(23)
def test_there_is_a_score_for_every_pair_of_letters() -> None:
    assert step("Every letter").answer == (4, 4)
    assert tensor("Scores", "S", sequence="ABBABA").shape == (6, 6)
    torch.testing.assert_close(tensor("Every letter", "E"), AABA)


@pytest.mark.item(24)
def test_scores_of_aaba_are_those_of_the_notes() -> None:
    expected = ((1, 1, 0, 1), (1, 1, 0, 1), (0, 0, 1, 0), (1, 1, 0, 1))
    assert matrix("Scores", "S").values == expected
    assert step("Scores").answer == (0, 0, 1, 0)


@pytest.mark.item(24)
def test_weights_and_outputs_with_the_true_e() -> None:
    a_row, b_row = [0.29692, 0.29692, 0.10923, 0.29692], [0.17488, 0.17488, 0.47537, 0.17488]
    weights = tensor("Softmax", "weights")
    torch.testing.assert_close(weights, torch.tensor([a_row, a_row, b_row, a_row]), atol=5e-6, rtol=0)
    a_out, b_out = [0.89077, 0.10923], [0.52463, 0.47537]
    outputs = tensor("Outputs", "E'")
    torch.testing.assert_close(outputs, torch.tensor([a_out, a_out, b_out, a_out]), atol=5e-6, rtol=0)


@pytest.mark.item(24)
def test_with_e_as_three_fractions_come_out() -> None:
    tenth = Fraction(1, 10)
    assert matrix("Softmax", "weights", base=3).values[0] == (3 * tenth, 3 * tenth, tenth, 3 * tenth)
    assert matrix("Outputs", "E'", base=3).values[0] == (9 * tenth, tenth)
    assert matrix("Outputs", "E'", base=3).values[2] == (Fraction(1, 2), Fraction(1, 2))


@pytest.mark.item(24)
@pytest.mark.parametrize("base", [math.e, 3.0, 1.5])
def test_the_layer_gives_the_same(base: float) -> None:
    outputs, weights = self_attend(AABA, base=base)
    torch.testing.assert_close(tensor("Softmax", "weights", base=base), weights)
    torch.testing.assert_close(tensor("Outputs", "E'", base=base), outputs)


@pytest.mark.item(25)
def test_keys_ten_times_as_long_give_ten_times_the_scores() -> None:
    assert matrix("Version 2", "S").values == tuple(
        tuple(10 * cell for cell in row) for row in matrix("Scores", "S").values
    )
    weights = tensor("Version 2", "weights")
    torch.testing.assert_close(weights[0], torch.tensor([1 / 3, 1 / 3, 1.5e-5, 1 / 3]), atol=1e-5, rtol=0)
    assert weights[2, 2].item() == pytest.approx(0.999864, abs=5e-7)
    outputs, same = attend(AABA, 10 * AABA, AABA)
    torch.testing.assert_close(weights, same)
    torch.testing.assert_close(tensor("Version 2", "E'"), outputs)


@pytest.mark.item(25)
def test_the_columns_as_printed_give_ten_everywhere_and_the_plain_average() -> None:
    assert set(sum(matrix("The columns", "S").values, ())) == {10}
    torch.testing.assert_close(tensor("The columns", "E'"), torch.tensor([[0.75, 0.25]] * 4))
    literal = AABA @ torch.ones(2, 1) @ (AABA @ torch.full((2, 1), 10.0)).T
    torch.testing.assert_close(tensor("The columns", "S"), literal)


@pytest.mark.item(25)
def test_the_dial_says_how_many_times_as_long() -> None:
    assert matrix("Version 2", "S", sharp=2.5).values[2][2] == Fraction(5, 2)
    assert matrix("The columns", "S", sharp=2.5).values[0][0] == Fraction(5, 2)
    assert step("Version 2", sharp=2.5).title.endswith("2.5 times as long")


@pytest.mark.item(26)
def test_another_query_matrix_finds_the_other_kind() -> None:
    swapped = tensor("Not the identity", "W^Q")
    torch.testing.assert_close(tensor("Not the identity", "S"), AABA @ swapped @ AABA.T)
    assert matrix("Not the identity", "S").values[0] == (0, 0, 1, 0)


@pytest.mark.item(27)
@pytest.mark.parametrize("length", [1, 2, 4, 8])
def test_scores_grow_with_the_square_of_the_length(length: int) -> None:
    assert tensor("Scores", "S", sequence="A" * length).numel() == length**2
    assert matrix("This is quadratic", "cost", sequence="A" * length).values[:2] == (
        (length, length**2),
        (2 * length, 4 * length**2),
    )
    assert step("This is quadratic").answer == (4,)


@pytest.mark.item(28)
@pytest.mark.parametrize("base", [math.e, 3.0])
def test_basic_self_attention_is_that_of_the_layer(base: float) -> None:
    outputs, weights = self_attend(X, base=base)
    torch.testing.assert_close(tensor("What the weights mean", "weights", base=base), weights)
    torch.testing.assert_close(tensor("No parameters", "y", base=base), outputs)
    assert step("No parameters").answer == (0,)


@pytest.mark.item(29)
def test_both_the_get_one_output_and_cat_takes_from_all_six() -> None:
    y = matrix("No parameters", "y").values
    assert y[0] == y[4]
    assert step("The same word twice").answer == (5,)
    assert len(set(y)) == 5
    assert all(float(weight) > 0 for weight in matrix("What the weights mean", "weights").values[1])


@pytest.mark.item(30)
def test_turning_the_words_round_turns_the_outputs_round_and_keeps_their_mean() -> None:
    forwards, backwards = tensor("No parameters", "y"), tensor("In another order", "y")
    torch.testing.assert_close(backwards, forwards.flip(0))
    means = tensor("In another order", "mean of y")
    torch.testing.assert_close(means[0], means[1])
    torch.testing.assert_close(means[0], forwards.mean(0))


@pytest.mark.item(31)
def test_a_word_takes_most_from_itself_and_what_is_similar() -> None:
    weights = tensor("What the weights mean", "weights")
    assert (weights[1].argsort(descending=True)[:2].sort().values == torch.tensor([1, 5])).all()  # cat: cat, street
    torch.testing.assert_close(weights.sum(-1), torch.ones(6))
    asked = step("What the weights mean")
    assert is_right("how similar the two words are", asked.answer)
    assert not is_right("their positions", asked.answer)


@pytest.mark.item(32)
def test_three_roles_are_those_of_the_layer() -> None:
    w_q, w_k, w_v = (tensor("Three roles", name) for name in ("W_q", "W_k", "W_v"))
    outputs, _ = attend(X @ w_q.T, X @ w_k.T, X @ w_v.T)
    scores = tensor("Three roles", "scores")
    torch.testing.assert_close(scores, X @ w_q.T @ (X @ w_k.T).T)
    torch.testing.assert_close(tensor("Three roles", "y"), outputs)
    assert not torch.equal(scores, scores.T)

    layer = MultiHead(3, 1, scale="none", bias=False)
    with torch.no_grad():
        layer.project.weight.copy_(torch.cat([w_q, w_k, w_v]))
        layer.out.weight.copy_(torch.eye(3))
        torch.testing.assert_close(layer(X[None])[0], outputs)


@pytest.mark.item(33)
@pytest.mark.parametrize("base", [math.e, 3.0])
def test_the_identity_in_all_roles_is_basic_self_attention(base: float) -> None:
    assert matrix("The basic form", "y", base=base).values == matrix("No parameters", "y", base=base).values
    assert is_right("the identity matrix", step("The basic form").answer)


def test_a_sequence_without_b_asks_about_its_first_letter() -> None:
    assert step("Scores", sequence="AAA").answer == (1, 1, 1)
    assert "letter 1, A," in step("Scores", sequence="AAA").question


@pytest.mark.parametrize(
    ("dial", "value"),
    [("sequence", ""), ("sequence", "AAC"), ("sequence", "A" * 17), ("base", 1.0), ("base", -3.0), ("sharp", 0.0)],
)
def test_a_bad_dial_is_named_with_a_remedy(dial: str, value: Any) -> None:
    with pytest.raises(SettingsError, match=f"^{dial}: found") as refused:
        self_attention(**{dial: value})
    assert refused.value.remedy


def test_dials_are_strict_and_what_is_shown_as_the_answer_is_right() -> None:
    lesson = Lesson("self-attention", "Self-attention", "notes", (23,), self_attention)
    assert set(lesson.dials.model_fields) == {"sequence", "base", "sharp"}
    for each in lesson.run(sequence="BA", base=3, sharp=1e300):
        assert all(lines(each_matrix) for each_matrix in each.matrices)
        assert bool(each.question) == bool(each.answer)
        assert not each.answer or is_right(" ".join(map(shown, each.answer)), each.answer)
    with pytest.raises(SettingsError, match="sharp"):
        lesson.run(sharp="ten")
