"""Positions: the slides' formula, what it does to dot products, and the same as the layers give."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from satchel.errors import SettingsError
from satchel.lessons.positions import positions
from satchel.lessons.steps import Lesson, Matrix, Step, is_right, lines, shown
from satchel.nn.attention import self_attend
from satchel.nn.positions import Learned, sinusoids


def step(title: str, **dials: Any) -> Step:
    """Return the one step of that title."""
    (found,) = (each for each in positions(**dials) if each.title.startswith(title))
    return found


def matrix(title: str, name: str, **dials: Any) -> Matrix:
    (found,) = (each for each in step(title, **dials).matrices if each.name == name)
    return found


def tensor(title: str, name: str, **dials: Any) -> Tensor:
    return torch.tensor([[float(cell) for cell in row] for row in matrix(title, name, **dials).values])


@pytest.mark.item(68)
@pytest.mark.parametrize("words", ["the movie was great", "the cat walks on the street"])
def test_without_positions_a_word_gets_the_same_in_any_order(words: str) -> None:
    forwards, backwards = (
        tensor("No notion", name, words=words, width=6) for name in ("outputs", "outputs, backwards")
    )
    torch.testing.assert_close(forwards, backwards.flip(0))
    torch.testing.assert_close(forwards, self_attend(tensor("No notion", "words", words=words, width=6))[0])
    asked = step("No notion", words=words)
    assert is_right("nothing at all", asked.answer)
    assert not is_right("it is reversed", asked.answer)


@pytest.mark.item(68)
def test_distinct_words_have_distinct_vectors_even_where_there_are_more_words_than_columns() -> None:
    vectors = matrix("No notion", "words", words="a b c d e a", width=2).values
    assert len(set(vectors)) == 5
    assert vectors[0] == vectors[5]


@pytest.mark.item(69)
def test_an_embedding_of_the_position_is_added_to_that_of_the_word() -> None:
    words, places = tensor("No notion", "words"), tensor("Learned", "positions")
    layer = Learned(4, 4)
    with torch.no_grad():
        layer.embedding.weight.copy_(places)
        torch.testing.assert_close(tensor("Learned", "words + positions"), words + layer(0, 4))


@pytest.mark.item(69)
def test_the_dot_product_of_two_sums_has_four_terms() -> None:
    (terms,) = tensor("Learned", "the . movie").tolist()
    assert sum(terms[:4]) == pytest.approx(terms[4])
    summed = tensor("Learned", "words + positions")
    assert terms[4] == pytest.approx((summed[0] @ summed[1]).item())
    assert is_right("the same word gets a different vector in another place", step("Learned").answer)


@pytest.mark.item(70)
def test_the_encoding_is_a_choice() -> None:
    choices = [row[0] for row in matrix("Any f", "some choices").values]
    assert choices == ["the number itself", "one-hot", "learned", "sinusoids"]


@pytest.mark.item(71)
def test_the_first_two_positions_of_width_four() -> None:
    encoded = tensor("Sines", "PE")
    assert encoded[0].tolist() == [0, 1, 0, 1]
    torch.testing.assert_close(encoded[1], torch.tensor([0.84147, 0.54030, 0.01000, 0.99995]), atol=5e-6, rtol=0)
    assert is_right("0 1 0.84 0.54", step("Sines").answer)


@pytest.mark.item(71)
@pytest.mark.parametrize(("width", "length"), [(4, 12), (6, 20), (10, 64)])
def test_the_layers_sinusoids_are_the_same(width: int, length: int) -> None:
    torch.testing.assert_close(tensor("Sines", "PE", width=width, length=length), sinusoids(length, width))


@pytest.mark.item(71)
def test_of_many_columns_the_first_are_shown() -> None:
    shown = tensor("Sines", "PE, 10 of 64 columns", width=64)
    torch.testing.assert_close(shown, sinusoids(12, 64)[:, :10])


@pytest.mark.item(71)
@pytest.mark.parametrize("width", [2, 4, 64])
def test_all_encodings_have_one_length(width: int) -> None:
    lengths = tensor("All of one", "|PE|^2", width=width)
    torch.testing.assert_close(lengths, torch.full_like(lengths, width / 2))
    assert step("All of one", width=width).answer == (width // 2,)


@pytest.mark.item(72)
def test_the_sum_is_as_wide_as_the_word_and_tells_the_orders_apart() -> None:
    words = tensor("No notion", "words")
    summed = words + sinusoids(4, 4)
    torch.testing.assert_close(tensor("Added", "words + PE"), summed)
    torch.testing.assert_close(tensor("Added", "outputs"), self_attend(summed)[0])
    backwards = self_attend(words.flip(0) + sinusoids(4, 4))[0].flip(0)
    torch.testing.assert_close(tensor("Added", "outputs of the words backwards"), backwards)
    assert (tensor("Added", "outputs") - backwards).abs().max() > 0.1
    assert step("Added", width=64).answer == (64,)


@pytest.mark.item(73)
@pytest.mark.parametrize("width", [4, 64])
def test_the_dot_product_depends_on_the_distance_only(width: int) -> None:
    rows = tensor("Only the distance", "PE(p) . PE(p + distance)", width=width)
    torch.testing.assert_close(rows[1], rows[0])
    torch.testing.assert_close(rows[2], rows[0])
    waves = [sum(math.cos(distance / 10_000 ** (2 * i / width)) for i in range(width // 2)) for distance in range(10)]
    torch.testing.assert_close(rows[0], torch.tensor(waves))


@pytest.mark.item(73)
def test_closer_is_higher_up_to_a_distance_that_grows_with_the_width() -> None:
    assert matrix("Closer", "first rise").values == ((4, 4), (64, 6), (512, 44))
    assert matrix("Closer", "first rise", width=128).values == ((4, 4), (64, 6), (128, 12), (512, 44))
    assert "tendency" in step("Closer").text


@pytest.mark.item(73)
@pytest.mark.parametrize("width", [4, 64, 512])
def test_the_layers_sinusoids_rise_first_at_the_same_distance(width: int) -> None:
    encoded = sinusoids(60, width).double()
    products = encoded @ encoded[0]
    assert (width, int((products.diff() > 0).nonzero()[0]) + 1) in matrix("Closer", "first rise").values


@pytest.mark.parametrize(
    ("dial", "value"),
    [
        *[("words", ""), ("words", "alone"), ("words", "a " * 13), ("width", 0), ("width", 5), ("width", 2000)],
        *[("length", 3), ("length", 100)],
    ],
)
def test_a_bad_dial_is_named_with_a_remedy(dial: str, value: Any) -> None:
    with pytest.raises(SettingsError, match=f"^{dial}: found") as refused:
        positions(**{dial: value})
    assert refused.value.remedy


def test_dials_are_strict_and_what_is_shown_as_the_answer_is_right() -> None:
    lesson = Lesson("positions", "Positions", "slides", (68,), positions)
    for each in lesson.run(words="a b", width=2, length=2):
        assert all(lines(each_matrix) for each_matrix in each.matrices)
        assert bool(each.question) == bool(each.answer)
        assert not each.answer or is_right(" ".join(map(shown, each.answer)), each.answer)
    with pytest.raises(SettingsError, match="length"):
        lesson.run(length="long")
