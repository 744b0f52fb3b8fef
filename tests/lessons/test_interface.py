"""The interface of encoders, with the encoders of the package."""

import pytest
import torch

from satchel.lessons.interface import KINDS, WIDTH, interface
from satchel.models.build import build_encoder
from satchel.models.recurrent import RecurrentSettings
from tests.lessons.lookup import Lookup

lookup = Lookup(interface)
step, matrix, tensor = lookup.step, lookup.matrix, lookup.tensor


@pytest.mark.item(12)
@pytest.mark.parametrize("kind", KINDS)
def test_the_output_has_one_vector_per_word(kind: str) -> None:
    for words in ("the cat", "the cat sat on the mat"):
        count = len(words.split())
        assert step(f"h_{count} =", words=words, kind=kind).answer == (count,)
        assert tensor(f"h_{count} =", words=words, kind=kind).shape == (count, WIDTH)


@pytest.mark.item(12)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_an_encoding_depends_on_its_word_and_the_previous_words(kind: str, seed: int) -> None:
    second, third = tensor("Encodings depend", kind=kind, seed=seed).tolist()
    assert second[0] == third[0] == third[1] == 0
    assert second[2] > 1e-3
    assert third[2] > 1e-3


@pytest.mark.item(7, 12)
@pytest.mark.parametrize("kind", KINDS)
def test_encoding_one_word_at_a_time_gives_the_same_vectors(kind: str) -> None:
    incremental, at_once = tensor("Incremental encoding", kind=kind), tensor("h_3 =", kind=kind)
    torch.testing.assert_close(incremental, at_once, rtol=1e-5, atol=1e-6)


@pytest.mark.item(7)
def test_only_position_embeddings_grow_with_the_length() -> None:
    table = matrix("Encoders are interchangeable")
    rows = dict(zip(table.rows, table.values, strict=True))
    assert set(rows) == set(KINDS)
    assert all(row[0] == f"3 x {WIDTH}" for row in rows.values())
    assert [kind for kind, row in rows.items() if row[1] != row[2]] == ["transformer"]
    assert int(rows["transformer"][2]) - int(rows["transformer"][1]) == 3 * WIDTH
    encoder = build_encoder(RecurrentSettings(kind="gru", width=WIDTH), 4, causal=True)
    assert rows["gru"][1] == sum(parameter.numel() for parameter in encoder.parameters())


@pytest.mark.item(12)
@pytest.mark.parametrize("kind", KINDS)
def test_the_output_of_one_encoder_is_the_input_of_another(kind: str) -> None:
    stacked = matrix("Encoders can be stacked", kind=kind)
    upper = "lstm" if kind == "transformer" else "transformer"
    assert stacked.name == f"{upper} on top of {kind}"
    assert [len(row) for row in stacked.values] == [WIDTH] * 3
    assert stacked.values != matrix("h_3 =", kind=kind).values


@pytest.mark.item(67)
def test_the_prediction_is_the_softmax_of_the_last_encoding_with_the_embeddings() -> None:
    assert matrix("Prediction").columns == ("the", "cat", "sat", "<other>")
    logits = tensor("Word embeddings") @ tensor("h_3 =")[-1]
    chances = tensor("Prediction")[0]
    assert float(chances.sum()) == pytest.approx(1, abs=1e-6)
    torch.testing.assert_close((chances[1] / chances[0]).log(), logits[1] - logits[0])


def test_the_lesson_does_not_change_the_global_random_state() -> None:
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    interface()
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.item(104)
def test_the_answer_on_interchangeable_encoders_is_checked() -> None:
    assert step("Encoders are interchangeable").is_correct("Nothing at all")
    assert not step("Encoders are interchangeable").is_correct("everything")


@pytest.mark.item(80)
def test_the_softmax_of_the_logits_equals_the_quotient_of_exponentials() -> None:
    by_softmax, by_word = matrix("Prediction").values
    assert by_word == pytest.approx(by_softmax, abs=1e-6)
    assert sum(map(float, by_word)) == pytest.approx(1)


@pytest.mark.item(86)
@pytest.mark.parametrize("seed", [0, 5])
def test_the_layers_of_pytorch_give_the_same_encodings_with_a_mask_only(seed: int) -> None:
    ((masked, unmasked),) = matrix("Parity", words="the cat sat on the mat", seed=seed).values
    assert float(masked) < 1e-12
    assert float(unmasked) > 0.1
