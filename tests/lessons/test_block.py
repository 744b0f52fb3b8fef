"""The Transformer block: its shapes, and the same numbers as the network layers."""

import math
import random
from fractions import Fraction
from typing import Any

import pytest
import torch
from torch import Tensor

from satchel.lessons.block import block
from satchel.nn.attention import MultiHead
from satchel.nn.blocks import Block, FeedForward
from satchel.nn.sites import recording
from tests.lessons.lookup import Lookup

lookup = Lookup(block)
step, matrix, tensor = lookup.step, lookup.matrix, lookup.tensor


def build_block(
    words: str = "the movie was great", width: int = 8, hidden: int = 32, heads: int = 2, seed: int = 0
) -> tuple[Block, Tensor]:
    """Return a network block with the parameters of the lesson, and the embeddings of the words."""
    rng = random.Random(seed)

    def draw(rows: int, columns: int, std: float) -> Tensor:
        return torch.tensor([[rng.gauss(0, 1) * std for _ in range(columns)] for _ in range(rows)])

    embeddings = {word: draw(1, width, 1.0)[0] for word in dict.fromkeys(words.split())}
    w_q, w_k, w_v, w_o = (draw(width, width, 1 / math.sqrt(width)) for _ in range(4))
    w_1, w_2 = draw(width, hidden, 1 / math.sqrt(width)), draw(hidden, width, 1 / math.sqrt(hidden))
    attention, feed_forward = MultiHead(width, heads, bias=False), FeedForward(width, hidden, "relu", bias=False)
    with torch.no_grad():
        attention.project.weight.copy_(torch.cat([w_q.T, w_k.T, w_v.T]))
        attention.out.weight.copy_(w_o.T)
        feed_forward.widen.weight.copy_(w_1.T)
        feed_forward.narrow.weight.copy_(w_2.T)
    network = Block(attention, feed_forward, norm="post", bias=False)
    return network.eval(), torch.stack([embeddings[word] for word in words.split()])


@pytest.mark.item(57)
@pytest.mark.parametrize(
    ("words", "width", "hidden", "heads", "seed"),
    [("the movie was great", 8, 32, 2, 0), ("the cat walks on the street", 6, 5, 3, 7), ("so be it", 4, 16, 1, 2)],
)
def test_the_network_block_gives_the_same_output(words: str, width: int, hidden: int, heads: int, seed: int) -> None:
    settings: dict[str, Any] = {"words": words, "width": width, "hidden": hidden, "heads": heads, "seed": seed}
    network, x = build_block(**settings)
    with torch.no_grad(), recording(network, "attention.weights") as recorded:
        expected = network(x[None])[0]
    torch.testing.assert_close(tensor("The output", "output", **settings), expected)
    torch.testing.assert_close(tensor("Attention weights", "A", **settings), recorded["attention.weights"][0][0, 0])


@pytest.mark.item(57)
def test_the_parts_are_in_the_order_of_the_figure() -> None:
    names = matrix("The shapes", "shapes").rows
    order = ["E", "Q", "A = softmax", "times W^O", "residual: + E", "layer norm", "feed-forward: W_2"]
    assert [name for name in names if name in order] == order
    assert names[-2:] == ("residual: + layer norm", "layer norm: output")


@pytest.mark.item(58)
def test_residual_connections_preserve_the_gradient() -> None:
    assert step("Residual connections").answer == (Fraction(121, 100),)
    for depth, without_residual, with_residual in tensor("Residual connections", "gradient").tolist():
        assert without_residual == pytest.approx(0.1**depth)
        assert with_residual == pytest.approx(1.1**depth)


@pytest.mark.item(59)
def test_layer_normalisation_equals_that_of_torch_and_removes_the_scale() -> None:
    rows = tensor("Layer normalisation", "layer norm")
    torch.testing.assert_close(rows, torch.nn.functional.layer_norm(torch.tensor([[0.0, 2], [0, 4]]), (2,)))
    torch.testing.assert_close(rows[0], rows[1], atol=1e-5, rtol=0)
    assert step("Layer normalisation").answer == (-1, 1)


@pytest.mark.item(60)
def test_the_feed_forward_network_is_applied_to_each_position_separately() -> None:
    assert matrix("The feed-forward", "largest difference").values == ((0, 0),)
    network, x = build_block()
    torch.testing.assert_close(network.feedforward(x[None].flip(1)), network.feedforward(x[None]).flip(1))


@pytest.mark.item(61)
def test_the_feed_forward_network_has_two_thirds_of_the_parameters() -> None:
    assert step("Number of parameters").answer == (Fraction(2, 3),)
    assert step("Number of parameters", width=4, hidden=8).answer == (Fraction(1, 2),)


@pytest.mark.item(61)
@pytest.mark.parametrize(("width", "hidden"), [(8, 32), (12, 20)])
def test_the_parameter_counts_are_those_of_the_network(width: int, hidden: int) -> None:
    network, _ = build_block("a b", width, hidden)
    counts = tuple(
        sum(weight.numel() for weight in part.parameters()) for part in (network.attention, network.feedforward)
    )
    assert matrix("Number of parameters", "parameters", width=width, hidden=hidden).values[0][:2] == counts


@pytest.mark.item(62)
def test_the_shape_of_every_intermediate_result() -> None:
    table = matrix("The shapes", "shapes", words="a b c", width=12, hidden=20, heads=3)
    shapes = {name: row[0] for name, row in zip(table.rows, table.values, strict=True)}
    assert {shapes.pop(name) for name in ("Q", "K", "V", "Z = A V")} == {"3 x 4"}
    assert {shapes.pop(name) for name in ("Q K^T / sqrt(d_k)", "A = softmax")} == {"3 x 3"}
    assert shapes.pop("feed-forward: W_1, ReLU") == "3 x 20"
    assert set(shapes.values()) == {"3 x 12"}
    assert step("The shapes", words="a b c").answer == (3, 3)


@pytest.mark.item(63)
def test_sizes_of_the_first_transformer_and_of_gpt_3() -> None:
    assert matrix("Published models", "sizes").values == (
        (6, 512, 8, 64, 2048, "18,874,368"),
        (96, 12288, 96, 128, 49152, "173,946,175,488"),
    )


@pytest.mark.item(64)
def test_the_output_has_the_shape_of_the_input() -> None:
    shapes = matrix("The shapes", "shapes").values
    assert shapes[0] == shapes[-1]
    network, x = build_block()
    assert network(network(x[None])).shape == (1, *x.shape)


@pytest.mark.item(65)
def test_softmax_relu_and_layer_normalisation_are_not_linear() -> None:
    relu, softmax, norm = tensor("Non-linear parts", "values at two inputs").tolist()
    assert relu == [1, 0]
    assert softmax == [pytest.approx(0.7310586), pytest.approx(0.8807971)]
    assert softmax[1] != pytest.approx(2 * softmax[0])
    assert norm == [pytest.approx(1, abs=1e-5)] * 2
    assert step("Non-linear parts").answer == (3,)
    assert "two" in step("Non-linear parts").text


@pytest.mark.item(66)
def test_self_attention_connects_any_two_words_in_one_layer() -> None:
    rows = matrix("Long-range dependencies", "path length").values
    assert rows == ((4, 3, 1), (10, 9, 1), (100, 99, 1), (1000, 999, 1))
    network, x = build_block()
    x.requires_grad_()
    network(x[None])[0, -1].square()[0].backward()
    assert x.grad is not None
    assert x.grad[0].abs().max() > 0


@pytest.mark.item(67)
def test_the_vector_of_a_word_depends_on_the_other_words() -> None:
    network, x = build_block()
    with torch.no_grad():
        change = (network(x[None])[0, 0] - network(x[None, :-1])[0, 0]).abs().max().item()
    assert matrix("The output", "largest change").values[0][0] == pytest.approx(change, rel=1e-4)
    assert change > 0.1
    assert step("The output").is_correct("an encoding of each word")
    assert not step("The output").is_correct("a single number")


def test_a_repeated_word_has_the_same_output_without_positions() -> None:
    outputs = tensor("The output", "output", words="the cat saw the dog")
    torch.testing.assert_close(outputs[0], outputs[3])
