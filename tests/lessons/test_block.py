"""The Transformer block by hand: the shapes of every arrow, and the same numbers as the layers give."""

import math
import random
from fractions import Fraction
from typing import Any

import pytest
import torch
from torch import Tensor

from satchel.errors import SettingsError
from satchel.lessons.block import block
from satchel.lessons.steps import Lesson, Matrix, Step, is_right, lines, shown
from satchel.nn.attention import MultiHead
from satchel.nn.blocks import Block, FeedForward
from satchel.nn.sites import recording


def step(title: str, **dials: Any) -> Step:
    """Return the one step of that title."""
    (found,) = (each for each in block(**dials) if each.title.startswith(title))
    return found


def matrix(title: str, name: str, **dials: Any) -> Matrix:
    (found,) = (each for each in step(title, **dials).matrices if each.name.startswith(name))
    return found


def tensor(title: str, name: str, **dials: Any) -> Tensor:
    return torch.tensor([[float(cell) for cell in row] for row in matrix(title, name, **dials).values])


def layers(words: str, width: int, hidden: int, heads: int, seed: int) -> tuple[Block, Tensor]:
    """Return a block of layers with the weights that the seed draws, and the embeddings of the words."""
    source = random.Random(seed)

    def drawn(rows: int, columns: int, spread: float) -> Tensor:
        return torch.tensor([[source.gauss(0, 1) * spread for _ in range(columns)] for _ in range(rows)])

    vectors = {word: drawn(1, width, 1.0)[0] for word in dict.fromkeys(words.split())}
    square = [drawn(width, width, 1 / math.sqrt(width)) for _ in range(4)]
    widen, narrow = drawn(width, hidden, 1 / math.sqrt(width)), drawn(hidden, width, 1 / math.sqrt(hidden))
    made = Block(
        MultiHead(width, heads, bias=False), FeedForward(width, hidden, "relu", bias=False), norm="post", bias=False
    )
    with torch.no_grad():
        made.attention.project.weight.copy_(torch.cat([weight.T for weight in square[:3]]))
        made.attention.out.weight.copy_(square[3].T)
        made.feedforward.widen.weight.copy_(widen.T)
        made.feedforward.narrow.weight.copy_(narrow.T)
    return made.eval(), torch.stack([vectors[word] for word in words.split()])


@pytest.mark.item(57)
@pytest.mark.parametrize(
    ("words", "width", "hidden", "heads", "seed"),
    [("the movie was great", 8, 32, 2, 0), ("the cat walks on the street", 6, 5, 3, 7), ("so be it", 4, 16, 1, 2)],
)
def test_a_block_of_layers_gives_the_same(words: str, width: int, hidden: int, heads: int, seed: int) -> None:
    made, x = layers(words, width, hidden, heads, seed)
    with torch.no_grad(), recording(made, "attention.weights") as found:
        expected = made(x[None])[0]
    dials: dict[str, Any] = {"words": words, "width": width, "hidden": hidden, "heads": heads, "seed": seed}
    torch.testing.assert_close(tensor("What comes out", "out", **dials), expected)
    torch.testing.assert_close(tensor("A map", "A", **dials), found["attention.weights"][0][0, 0])


@pytest.mark.item(57)
def test_the_parts_come_in_the_order_of_the_figure() -> None:
    arrows = matrix("The arrows", "shapes").rows
    order = ["E", "Q", "A = softmax", "times W^O", "+ E", "layer norm", "W_1, ReLU: explode", "W_2: collapse"]
    assert [arrow for arrow in arrows if arrow in order] == order
    assert arrows[-1] == "layer norm: out"


@pytest.mark.item(58)
def test_sums_keep_the_gradient_of_weak_layers() -> None:
    assert step("Sums keep").answer == (Fraction(121, 100),)
    for depth, without, along in tensor("Sums keep", "gradient").tolist():
        x = torch.tensor(1.0, dtype=torch.float64)
        plain, summed = x, x
        for _ in range(int(depth)):
            plain, summed = plain / 10, summed + summed / 10
        assert (without, along) == (pytest.approx(plain.item()), pytest.approx(summed.item()))


@pytest.mark.item(59)
def test_layer_norm_is_that_of_the_layers_and_forgets_the_scale() -> None:
    rows = tensor("Layer norm", "norm")
    torch.testing.assert_close(rows, torch.nn.functional.layer_norm(torch.tensor([[0.0, 2], [0, 4]]), (2,)))
    torch.testing.assert_close(rows[0], rows[1], atol=1e-5, rtol=0)
    assert step("Layer norm").answer == (-1, 1)


@pytest.mark.item(60)
def test_the_feed_forward_net_sees_one_word_at_a_time() -> None:
    assert matrix("The feed-forward", "largest").values == ((0, 0),)
    made, x = layers("the movie was great", 8, 32, 2, 0)
    torch.testing.assert_close(made.feedforward(x[None].flip(1)), made.feedforward(x[None]).flip(1))


@pytest.mark.item(61)
def test_the_feed_forward_net_has_two_thirds_of_the_weights() -> None:
    assert step("Where the weights").answer == (Fraction(2, 3),)
    assert step("Where the weights", width=4, hidden=8).answer == (Fraction(1, 2),)


@pytest.mark.item(61)
@pytest.mark.parametrize(("width", "hidden"), [(8, 32), (12, 20)])
def test_the_counts_are_those_of_the_layers(width: int, hidden: int) -> None:
    made, _ = layers("a b", width, hidden, 2, 0)
    attention = sum(weight.numel() for weight in made.attention.parameters())
    forward = sum(weight.numel() for weight in made.feedforward.parameters())
    assert matrix("Where the weights", "weights", width=width, hidden=hidden).values[0][:2] == (attention, forward)


@pytest.mark.item(62)
def test_the_shape_of_every_arrow() -> None:
    shapes = matrix("The arrows", "shapes", words="a b c", width=12, hidden=20, heads=3)
    found = {name: row[0] for name, row in zip(shapes.rows, shapes.values, strict=True)}
    of_one_head = {name: found.pop(name) for name in ("Q", "K", "V", "Z = A V")}
    assert set(of_one_head.values()) == {"3 x 4"}
    of_pairs = {name: found.pop(name) for name in ("Q K^T / sqrt(d_k)", "A = softmax")}
    assert set(of_pairs.values()) == {"3 x 3"}
    assert found.pop("W_1, ReLU: explode") == "3 x 20"
    assert set(found.values()) == {"3 x 12"}
    assert step("The arrows", words="a b c").answer == (3, 3)


@pytest.mark.item(63)
def test_sizes_of_the_first_transformer_and_of_gpt_3() -> None:
    assert matrix("Two that", "sizes").values == (
        (6, 512, 8, 64, 2048, "18,874,368"),
        (96, 12288, 96, 128, 49152, "173,946,175,488"),
    )


@pytest.mark.item(64)
def test_what_comes_out_has_the_shape_of_what_goes_in() -> None:
    shapes = matrix("The arrows", "shapes").values
    assert shapes[0] == shapes[-1]
    made, x = layers("the movie was great", 8, 32, 2, 0)
    assert made(made(x[None])).shape == (1, *x.shape)


@pytest.mark.item(65)
def test_softmax_relu_and_layer_norm_are_not_linear() -> None:
    relu, softmax, norm = tensor("What is not", "two").tolist()
    assert relu == [1, 0]
    assert softmax == [pytest.approx(0.7310586), pytest.approx(0.8807971)]
    assert softmax[1] != pytest.approx(2 * softmax[0])
    assert norm == [pytest.approx(1, abs=1e-5)] * 2
    assert step("What is not").answer == (3,)
    assert "two" in step("What is not").text


@pytest.mark.item(66)
def test_attention_reaches_any_word_in_one_layer() -> None:
    rows = matrix("One layer", "steps").values
    assert rows == ((4, 3, 1), (10, 9, 1), (100, 99, 1), (1000, 999, 1))
    made, x = layers("the movie was great", 8, 32, 2, 0)
    x.requires_grad_()
    made(x[None])[0, -1].square()[0].backward()
    assert x.grad is not None
    assert x.grad[0].abs().max() > 0


@pytest.mark.item(67)
def test_a_vector_for_each_word_depends_on_the_others() -> None:
    made, x = layers("the movie was great", 8, 32, 2, 0)
    with torch.no_grad():
        moved = (made(x[None])[0, 0] - made(x[None, :-1])[0, 0]).abs().max().item()
    assert matrix("What comes out", "largest change").values[0][0] == pytest.approx(moved, rel=1e-4)
    assert moved > 0.1
    assert is_right("an encoding of each word", step("What comes out").answer)
    assert not is_right("a single number", step("What comes out").answer)


def test_a_word_that_comes_twice_has_one_embedding_and_without_positions_one_output() -> None:
    out = tensor("What comes out", "out", words="the cat saw the dog")
    torch.testing.assert_close(out[0], out[3])


@pytest.mark.parametrize(
    ("dial", "value"),
    [
        *[("words", "alone"), ("words", "a " * 13), ("width", 1), ("width", 65)],
        *[("hidden", 0), ("hidden", 1000), ("heads", 0), ("heads", 3)],
    ],
)
def test_a_bad_dial_is_named_with_a_remedy(dial: str, value: Any) -> None:
    with pytest.raises(SettingsError, match=f"^{dial}: found") as refused:
        block(**{dial: value})
    assert refused.value.remedy


def test_dials_are_strict_and_what_is_shown_as_the_answer_is_right() -> None:
    lesson = Lesson("block", "The block", "slides", (57,), block)
    assert lesson.run() == block()
    assert lesson.run(seed=1) != block()
    for each in lesson.run(words="a b", width=2, hidden=1, heads=1):
        assert all(lines(each_matrix) for each_matrix in each.matrices)
        assert bool(each.question) == bool(each.answer)
        assert not each.answer or is_right(" ".join(map(shown, each.answer)), each.answer)
    with pytest.raises(SettingsError, match="seed"):
        lesson.run(seed="zero")
