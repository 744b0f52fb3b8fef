"""Self-attention by hand: the numbers of the notes, and the same from the network layers."""

import math
from fractions import Fraction

import pytest
import torch

from satchel.lessons.self_attention import SENTENCE, WORDS, self_attention
from satchel.nn.attention import MultiHead, attend, self_attend
from tests.lessons.lookup import Lookup

lookup = Lookup(self_attention)
step, matrix, tensor = lookup.step, lookup.matrix, lookup.tensor

AABA = torch.tensor([[1.0, 0], [1, 0], [0, 1], [1, 0]])
X = torch.tensor([WORDS[word] for word in SENTENCE], dtype=torch.float32)


@pytest.mark.item(23)
def test_there_is_a_score_for_every_pair_of_letters() -> None:
    assert step("Every letter").answer == (4, 4)
    assert tensor("Scores", "S", sequence="ABBABA").shape == (6, 6)
    torch.testing.assert_close(tensor("Every letter", "E"), AABA)


@pytest.mark.item(24)
def test_the_scores_of_aaba_are_those_of_the_notes() -> None:
    expected = ((1, 1, 0, 1), (1, 1, 0, 1), (0, 0, 1, 0), (1, 1, 0, 1))
    assert matrix("Scores", "S").values == expected
    assert step("Scores").answer == (0, 0, 1, 0)


@pytest.mark.item(24)
def test_weights_and_outputs_with_base_e() -> None:
    a_row, b_row = [0.29692, 0.29692, 0.10923, 0.29692], [0.17488, 0.17488, 0.47537, 0.17488]
    weights = tensor("Softmax", "attention weights")
    torch.testing.assert_close(weights, torch.tensor([a_row, a_row, b_row, a_row]), atol=5e-6, rtol=0)
    a_out, b_out = [0.89077, 0.10923], [0.52463, 0.47537]
    outputs = tensor("Outputs", "E'")
    torch.testing.assert_close(outputs, torch.tensor([a_out, a_out, b_out, a_out]), atol=5e-6, rtol=0)


@pytest.mark.item(24)
def test_weights_and_outputs_with_base_3_are_fractions() -> None:
    tenth = Fraction(1, 10)
    assert matrix("Softmax", "attention weights", base=3).values[0] == (3 * tenth, 3 * tenth, tenth, 3 * tenth)
    assert matrix("Outputs", "E'", base=3).values[0] == (9 * tenth, tenth)
    assert matrix("Outputs", "E'", base=3).values[2] == (Fraction(1, 2), Fraction(1, 2))


@pytest.mark.item(24)
@pytest.mark.parametrize("base", [math.e, 3.0, 1.5])
def test_the_network_gives_the_same_weights_and_outputs(base: float) -> None:
    outputs, weights = self_attend(AABA, base=base)
    torch.testing.assert_close(tensor("Softmax", "attention weights", base=base), weights)
    torch.testing.assert_close(tensor("Outputs", "E'", base=base), outputs)


@pytest.mark.item(25)
def test_keys_ten_times_as_long_give_ten_times_the_scores() -> None:
    assert matrix("Version 2", "S").values == tuple(
        tuple(10 * cell for cell in row) for row in matrix("Scores", "S").values
    )
    weights = tensor("Version 2", "attention weights")
    torch.testing.assert_close(weights[0], torch.tensor([1 / 3, 1 / 3, 1.5e-5, 1 / 3]), atol=1e-5, rtol=0)
    assert weights[2, 2].item() == pytest.approx(0.999864, abs=5e-7)
    outputs, expected = attend(AABA, 10 * AABA, AABA)
    torch.testing.assert_close(weights, expected)
    torch.testing.assert_close(tensor("Version 2", "E'"), outputs)


@pytest.mark.item(25)
def test_the_columns_as_printed_give_equal_scores_and_the_mean() -> None:
    assert set(sum(matrix("The columns", "S").values, ())) == {10}
    torch.testing.assert_close(tensor("The columns", "E'"), torch.tensor([[0.75, 0.25]] * 4))
    literal = AABA @ torch.ones(2, 1) @ (AABA @ torch.full((2, 1), 10.0)).T
    torch.testing.assert_close(tensor("The columns", "S"), literal)


@pytest.mark.item(25)
def test_the_setting_sharp_multiplies_the_keys() -> None:
    assert matrix("Version 2", "S", sharp=2.5).values[2][2] == Fraction(5, 2)
    assert matrix("The columns", "S", sharp=2.5).values[0][0] == Fraction(5, 2)
    assert step("Version 2", sharp=2.5).title.endswith("2.5 times as long")


@pytest.mark.item(26)
def test_another_query_projection_matches_the_other_letter() -> None:
    w_q = tensor("W^Q is not the identity", "W^Q")
    torch.testing.assert_close(tensor("W^Q is not the identity", "S"), AABA @ w_q @ AABA.T)
    assert matrix("W^Q is not the identity", "S").values[0] == (0, 0, 1, 0)


@pytest.mark.item(27)
@pytest.mark.parametrize("length", [1, 2, 4, 8])
def test_scores_grow_with_the_square_of_the_length(length: int) -> None:
    assert tensor("Scores", "S", sequence="A" * length).numel() == length**2
    assert matrix("Quadratic cost", "cost", sequence="A" * length).values[:2] == (
        (length, length**2),
        (2 * length, 4 * length**2),
    )
    assert step("Quadratic cost").answer == (4,)


@pytest.mark.item(28)
@pytest.mark.parametrize("base", [math.e, 3.0])
def test_basic_self_attention_equals_that_of_the_network(base: float) -> None:
    outputs, weights = self_attend(X, base=base)
    torch.testing.assert_close(tensor("Attention weights", "attention weights", base=base), weights)
    torch.testing.assert_close(tensor("No parameters", "y", base=base), outputs)
    assert step("No parameters").answer == (0,)


@pytest.mark.item(29)
def test_a_repeated_word_has_the_same_output_and_every_output_has_a_part_of_all_words() -> None:
    y = matrix("No parameters", "y").values
    assert y[0] == y[4]
    assert step("A repeated word").answer == (5,)
    assert len(set(y)) == 5
    assert all(float(weight) > 0 for weight in matrix("Attention weights", "attention weights").values[1])


@pytest.mark.item(30)
def test_reversing_the_words_reverses_the_outputs_and_keeps_their_mean() -> None:
    outputs, reversed_outputs = tensor("No parameters", "y"), tensor("Permutation", "y")
    torch.testing.assert_close(reversed_outputs, outputs.flip(0))
    means = tensor("Permutation", "mean of y")
    torch.testing.assert_close(means[0], means[1])
    torch.testing.assert_close(means[0], outputs.mean(0))


@pytest.mark.item(31)
def test_similar_words_have_the_largest_weights() -> None:
    weights = tensor("Attention weights", "attention weights")
    assert (weights[1].argsort(descending=True)[:2].sort().values == torch.tensor([1, 5])).all()  # cat: cat, street
    torch.testing.assert_close(weights.sum(-1), torch.ones(6))
    assert step("Attention weights").is_correct("how similar the two words are")
    assert not step("Attention weights").is_correct("their positions")


@pytest.mark.item(32)
def test_queries_keys_and_values_are_those_of_the_network() -> None:
    w_q, w_k, w_v = (tensor("Queries, keys and values", name) for name in ("W_q", "W_k", "W_v"))
    outputs, _ = attend(X @ w_q.T, X @ w_k.T, X @ w_v.T)
    scores = tensor("Queries, keys and values", "scores")
    torch.testing.assert_close(scores, X @ w_q.T @ (X @ w_k.T).T)
    torch.testing.assert_close(tensor("Queries, keys and values", "y"), outputs)
    assert not torch.equal(scores, scores.T)

    layer = MultiHead(3, 1, scale="none", bias=False)
    with torch.no_grad():
        layer.project.weight.copy_(torch.cat([w_q, w_k, w_v]))
        layer.out.weight.copy_(torch.eye(3))
        torch.testing.assert_close(layer(X[None])[0], outputs)


@pytest.mark.item(33)
@pytest.mark.parametrize("base", [math.e, 3.0])
def test_identity_projections_give_basic_self_attention(base: float) -> None:
    assert matrix("Identity projections", "y", base=base).values == matrix("No parameters", "y", base=base).values
    assert step("Identity projections").is_correct("the identity matrix")


def test_the_questions_are_about_the_first_letter_if_there_is_no_b() -> None:
    assert step("Scores", sequence="AAA").answer == (1, 1, 1)
    assert "letter 1, A," in step("Scores", sequence="AAA").question


@pytest.mark.item(27)
def test_the_measured_cost_is_beside_the_counted_operations_and_bytes() -> None:
    table = matrix("Measured time", "counted and measured")
    for n, scores, multiplications, megabytes, milliseconds, peak in table.values:
        assert scores == int(n) ** 2
        assert multiplications == pytest.approx(2 * int(n) ** 2 * 64 / 1e6)
        assert megabytes == pytest.approx(4 * int(n) ** 2 / 1e6)
        assert float(milliseconds) > 0
        # The scores and the weights are in memory at the same time, besides the vectors.
        assert float(peak) > float(megabytes)
    first, last = (float(table.values[place][5]) for place in (-2, -1))
    assert 3.5 < last / first < 4.5
    text = step("Measured time").text
    assert "measured on this machine when the lesson runs" in text
    time, memory = step("Measured time").curves
    assert time.log
    assert [name for name, _ in memory.series] == ["measured peak", "scores"]
