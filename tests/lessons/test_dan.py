"""Deep averaging and fixed-window networks: the lesson and the encoders of the package agree."""

from fractions import Fraction
from itertools import permutations

import pytest
import torch
from torch import Tensor, nn

from satchel.lessons.dan import dan
from satchel.models.dan import Dan, DanSettings
from satchel.models.window import Window, WindowSettings
from tests.lessons.lookup import Lookup, to_tensor

lookup = Lookup(dan)
step, matrix, tensor = lookup.step, lookup.matrix, lookup.tensor

WORDS = ("the", "cat", "sat", "<new>")


def ids(text: str) -> Tensor:
    return torch.tensor([[WORDS.index(word) for word in text.split()]])


@pytest.fixture
def averaging() -> Dan:
    """A DAN with one-hot embeddings and no layers: it returns the mean."""
    encoder = Dan(DanSettings(width=4, layers=0), 4, causal=True)
    nn.init.eye_(encoder.embedding.weight)
    return encoder


@pytest.fixture
def window() -> Window:
    """A network over three words with the weights of the lesson: 1, 2 and 4 for the three positions."""
    encoder = Window(WindowSettings(width=4, window=3), 4, causal=True)
    nn.init.eye_(encoder.embedding.weight)
    layer = encoder.layers[0]
    assert isinstance(layer, nn.Linear)
    with torch.no_grad():
        layer.weight.copy_(torch.cat([torch.eye(4) * weight for weight in (1, 2, 4)], dim=1))
        layer.bias.zero_()
    return encoder


@pytest.mark.item(5)
def test_every_order_has_the_same_mean(averaging: Dan) -> None:
    assert step("A deep averaging").answer == (Fraction(1, 3), Fraction(1, 3), Fraction(1, 3), 0)
    assert step("All orders").answer == (1,)
    means = matrix("All orders", "mean")
    assert len(means.rows) == 6
    for order, row in zip(means.rows, to_tensor(means.values), strict=True):
        torch.testing.assert_close(averaging.encode(ids(order))[0, -1], row)


@pytest.mark.item(5)
def test_the_mean_is_the_input_of_a_hidden_layer_and_a_softmax() -> None:
    hidden, chances = (tensor("A deep averaging", name, context="a b a")[0] for name in ("hidden", "P(next)"))
    torch.testing.assert_close(hidden, torch.tensor([2.0, 1, 0]))
    torch.testing.assert_close(chances, hidden.softmax(dim=-1))


@pytest.mark.item(6)
def test_concatenated_embeddings_differ_for_each_order(window: Window) -> None:
    assert step("A fixed-window").answer == (6,)
    hidden = matrix("A fixed-window", "hidden")
    assert hidden.values[0] == (1, 2, 4, 0)
    assert len(set(hidden.values)) == 6
    for order, row in zip(hidden.rows, to_tensor(hidden.values), strict=True):
        torch.testing.assert_close(window.encode(ids(order))[0, -1], row)
    torch.testing.assert_close(tensor("A fixed-window", "P(next)"), to_tensor(hidden.values).softmax(dim=-1))


@pytest.mark.item(6)
def test_repeated_words_have_fewer_orders_and_all_are_distinguished() -> None:
    window_step = step("A fixed-window", context="a b b a")
    orders = len(set(permutations("abba")))
    assert window_step.answer == (orders,) == (6,)
    assert len(set(window_step.matrices[1].values)) == orders


@pytest.mark.item(6)
def test_words_before_the_window_are_ignored(window: Window, averaging: Dan) -> None:
    assert step("Only the last").answer == (0,)
    inputs, means = (matrix("Only the last", name) for name in ("concatenation", "mean"))
    assert inputs.values[0] == inputs.values[1]
    assert means.values == ((Fraction(1, 3),) * 3 + (0,), (Fraction(1, 4),) * 4)
    short, longer = ids("the cat sat"), ids("<new> the cat sat")
    assert torch.equal(window.encode(short)[0, -1], window.encode(longer)[0, -1])
    torch.testing.assert_close(averaging.encode(longer)[0, -1], to_tensor(means.values)[1])


def test_a_dan_with_random_parameters_is_invariant_to_the_order_of_the_context() -> None:
    torch.manual_seed(0)
    encoder = Dan(DanSettings(width=4), 4, causal=True)
    encodings = [encoder.encode(ids(" ".join(order)))[0, -1] for order in permutations(WORDS[:3])]
    for encoding in encodings[1:]:
        torch.testing.assert_close(encoding, encodings[0])
