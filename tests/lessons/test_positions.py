"""Position encodings: the formula of the slides, its dot products, and the same from the network layers."""

import math

import pytest
import torch

from satchel.lessons.positions import positions
from satchel.nn.attention import self_attend
from satchel.nn.positions import Learned, sinusoids
from tests.lessons.lookup import Lookup

lookup = Lookup(positions)
step, matrix, tensor = lookup.step, lookup.matrix, lookup.tensor


@pytest.mark.item(68)
@pytest.mark.parametrize("words", ["the movie was great", "the cat walks on the street"])
def test_without_positions_the_output_of_a_word_does_not_depend_on_the_order(words: str) -> None:
    embeddings, outputs, reversed_outputs = (
        tensor("No notion", name, words=words, width=6)
        for name in ("word embeddings", "outputs", "outputs, reversed words")
    )
    torch.testing.assert_close(outputs, reversed_outputs.flip(0))
    torch.testing.assert_close(outputs, self_attend(embeddings)[0])
    assert step("No notion").is_correct("nothing at all")
    assert not step("No notion").is_correct("it is reversed")


@pytest.mark.item(68)
def test_distinct_words_have_distinct_embeddings_even_if_there_are_more_words_than_columns() -> None:
    vectors = matrix("No notion", "word embeddings", words="a b c d e a", width=2).values
    assert len(set(vectors)) == 5
    assert vectors[0] == vectors[5]


@pytest.mark.item(69)
def test_the_position_embedding_is_added_to_the_word_embedding() -> None:
    words = tensor("No notion", "word embeddings")
    layer = Learned(4, 4)
    with torch.no_grad():
        layer.embedding.weight.copy_(tensor("Learned", "position embeddings"))
        torch.testing.assert_close(tensor("Learned", "words + positions"), words + layer(0, 4))


@pytest.mark.item(69)
def test_the_dot_product_of_two_sums_has_four_terms() -> None:
    (terms,) = tensor("Learned", "the . movie").tolist()
    assert sum(terms[:4]) == pytest.approx(terms[4])
    sums = tensor("Learned", "words + positions")
    assert terms[4] == pytest.approx((sums[0] @ sums[1]).item())
    assert step("Learned").is_correct("the same word gets a different vector in another place")


@pytest.mark.item(70)
def test_the_encodings_to_choose_from() -> None:
    choices = [row[0] for row in matrix("Choice", "examples").values]
    assert choices == ["the number itself", "one-hot", "learned", "sinusoids"]


@pytest.mark.item(71)
def test_the_first_two_positions_of_width_four() -> None:
    encodings = tensor("Sines", "PE")
    assert encodings[0].tolist() == [0, 1, 0, 1]
    torch.testing.assert_close(encodings[1], torch.tensor([0.84147, 0.54030, 0.01000, 0.99995]), atol=5e-6, rtol=0)
    assert step("Sines").is_correct("0 1 0.84 0.54")


@pytest.mark.item(71)
@pytest.mark.parametrize(("width", "length"), [(4, 12), (6, 20), (10, 64)])
def test_the_sinusoids_equal_those_of_the_network(width: int, length: int) -> None:
    torch.testing.assert_close(tensor("Sines", "PE", width=width, length=length), sinusoids(length, width))


@pytest.mark.item(71)
def test_only_the_first_columns_of_a_wide_matrix_are_shown() -> None:
    truncated = tensor("Sines", "PE, 10 of 64 columns", width=64)
    torch.testing.assert_close(truncated, sinusoids(12, 64)[:, :10])


@pytest.mark.item(71)
@pytest.mark.parametrize("width", [2, 4, 64])
def test_all_encodings_have_the_same_norm(width: int) -> None:
    norms = tensor("Constant norm", "|PE|^2", width=width)
    torch.testing.assert_close(norms, torch.full_like(norms, width / 2))
    assert step("Constant norm", width=width).answer == (width // 2,)


@pytest.mark.item(72)
def test_the_sum_has_the_width_of_the_word_embedding_and_depends_on_the_order() -> None:
    words = tensor("No notion", "word embeddings")
    sums = words + sinusoids(4, 4)
    torch.testing.assert_close(tensor("Position encodings are added", "words + PE"), sums)
    torch.testing.assert_close(tensor("Position encodings are added", "outputs"), self_attend(sums)[0])
    reversed_outputs = self_attend(words.flip(0) + sinusoids(4, 4))[0].flip(0)
    torch.testing.assert_close(tensor("Position encodings are added", "outputs, reversed words"), reversed_outputs)
    assert (tensor("Position encodings are added", "outputs") - reversed_outputs).abs().max() > 0.1
    assert step("Position encodings are added", width=64).answer == (64,)


@pytest.mark.item(73)
@pytest.mark.parametrize("width", [4, 64])
def test_the_dot_product_depends_on_the_distance_only(width: int) -> None:
    rows = tensor("Dot products", "PE(p) . PE(p + distance)", width=width)
    torch.testing.assert_close(rows[1], rows[0])
    torch.testing.assert_close(rows[2], rows[0])
    waves = [sum(math.cos(distance / 10_000 ** (2 * i / width)) for i in range(width // 2)) for distance in range(10)]
    torch.testing.assert_close(rows[0], torch.tensor(waves))


@pytest.mark.item(73)
def test_dot_products_decrease_up_to_a_distance_that_grows_with_the_width() -> None:
    assert matrix("Closer", "first increase").values == ((4, 4), (64, 6), (512, 44))
    assert matrix("Closer", "first increase", width=128).values == ((4, 4), (64, 6), (128, 12), (512, 44))
    assert "tendency" in step("Closer").text


@pytest.mark.item(73)
@pytest.mark.parametrize("width", [4, 64, 512])
def test_the_dot_products_of_the_network_first_increase_at_the_same_distance(width: int) -> None:
    encodings = sinusoids(60, width).double()
    products = encodings @ encodings[0]
    assert (width, int((products.diff() > 0).nonzero()[0]) + 1) in matrix("Closer", "first increase").values
