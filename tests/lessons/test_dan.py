"""What averages and windows see: the lesson's numbers, and the same from the package's encoders."""

from fractions import Fraction
from itertools import permutations
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from satchel.errors import SettingsError
from satchel.lessons.dan import dan
from satchel.lessons.steps import Lesson, Matrix, Step
from satchel.models.dan import Dan, DanSettings
from satchel.models.window import Window, WindowSettings

WORDS = ("the", "cat", "sat", "<new>")


def step(title: str, **dials: Any) -> Step:
    """Return the one step whose title begins so."""
    (found,) = (each for each in dan(**dials) if each.title.startswith(title))
    return found


def matrix(title: str, name: str, **dials: Any) -> Matrix:
    (found,) = (each for each in step(title, **dials).matrices if each.name == name)
    return found


def tensor(table: Matrix) -> Tensor:
    return torch.tensor([[float(number) for number in row] for row in table.values])


def ids(text: str) -> Tensor:
    return torch.tensor([[WORDS.index(word) for word in text.split()]])


@pytest.fixture
def averaging() -> Dan:
    """A DAN whose embeddings are the lesson's, with the mean as it is."""
    encoder = Dan(DanSettings(width=4, layers=0), 4, causal=True)
    nn.init.eye_(encoder.embedding.weight)
    return encoder


@pytest.fixture
def window() -> Window:
    """A net over three words whose weights are the lesson's: 1, 2 and 4 times the word at each place."""
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
    assert step("Every order").answer == (1,)
    means = matrix("Every order", "mean")
    assert len(means.rows) == 6
    for order, row in zip(means.rows, tensor(means), strict=True):
        torch.testing.assert_close(averaging.encode(ids(order))[0, -1], row)


@pytest.mark.item(5)
def test_the_mean_goes_through_a_net_and_a_softmax() -> None:
    hidden, chances = (tensor(matrix("A deep averaging", name, context="a b a"))[0] for name in ("hidden", "P(next)"))
    torch.testing.assert_close(hidden, torch.tensor([2.0, 1, 0]))
    torch.testing.assert_close(chances, hidden.softmax(dim=-1))


@pytest.mark.item(6)
def test_side_by_side_each_order_is_seen(window: Window) -> None:
    assert step("A position-sensitive").answer == (6,)
    hidden = matrix("A position-sensitive", "hidden")
    assert hidden.values[0] == (1, 2, 4, 0)
    assert len(set(hidden.values)) == 6
    for order, row in zip(hidden.rows, tensor(hidden), strict=True):
        torch.testing.assert_close(window.encode(ids(order))[0, -1], row)
    torch.testing.assert_close(tensor(matrix("A position-sensitive", "P(next)")), tensor(hidden).softmax(dim=-1))


@pytest.mark.item(6)
def test_words_that_repeat_make_fewer_orders_and_all_are_told_apart() -> None:
    found = step("A position-sensitive", context="a b b a")
    orders = len(set(permutations("abba")))
    assert found.answer == (orders,) == (6,)
    assert len(set(found.matrices[1].values)) == orders


@pytest.mark.item(6)
def test_what_lies_further_back_is_not_seen(window: Window, averaging: Dan) -> None:
    blind = step("Only the last")
    assert blind.answer == (0,)
    assert blind.matrices[0].values[0] == blind.matrices[0].values[1]
    assert blind.matrices[1].values == ((Fraction(1, 3),) * 3 + (0,), (Fraction(1, 4),) * 4)
    short, longer = ids("the cat sat"), ids("<new> the cat sat")
    assert torch.equal(window.encode(short)[0, -1], window.encode(longer)[0, -1])
    torch.testing.assert_close(averaging.encode(longer)[0, -1], tensor(blind.matrices[1])[1])


def test_a_trained_looking_dan_does_not_see_order_either() -> None:
    torch.manual_seed(0)
    encoder = Dan(DanSettings(width=4), 4, causal=True)
    last = [encoder.encode(ids(" ".join(order)))[0, -1] for order in permutations(WORDS[:3])]
    for each in last[1:]:
        torch.testing.assert_close(each, last[0])


def test_the_context_is_a_dial() -> None:
    assert Lesson("dan", "Two nets", "notes", (5, 6), dan).run(context="a b")[0].matrices[0].rows == ("a", "b")


@pytest.mark.parametrize("context", ["", "one", "a b c d e f"])
def test_bad_dials_are_told(context: str) -> None:
    with pytest.raises(SettingsError, match=r"context: found . words, expected 2 to 5") as caught:
        dan(context=context)
    assert caught.value.remedy
