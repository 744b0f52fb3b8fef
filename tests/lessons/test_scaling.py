"""Dividing by the square root of a width: what it does to softmax and its gradient."""

import math
import random
import statistics
from fractions import Fraction

import pytest
import torch

from satchel.errors import SettingsError
from satchel.lessons.scaling import KEYS, scaling
from satchel.lessons.steps import Lesson, Matrix, Step, is_right, lines, shown
from satchel.nn.attention import Dot, MultiHead, attend, softmax


def step(title: str, **dials: int) -> Step:
    """Return the one step of that title."""
    (found,) = (each for each in scaling(**dials) if each.title.startswith(title))
    return found


def matrix(title: str, name: str, **dials: int) -> Matrix:
    (found,) = (each for each in step(title, **dials).matrices if each.name == name)
    return found


def numbers(title: str, name: str, **dials: int) -> list[list[float]]:
    return [[float(cell) for cell in row] for row in matrix(title, name, **dials).values]


@pytest.mark.item(34)
@pytest.mark.parametrize("seed", [0, 1])
def test_the_variance_of_a_dot_product_is_its_width(seed: int) -> None:
    rows = numbers("How far", "variance of q . k", seed=seed, width=128, heads=1)
    assert [width for width, _ in rows] == [4, 16, 64, 128]
    for width, measured in rows:
        assert measured == pytest.approx(width, rel=0.2)
    assert step("How far", width=128, heads=1).answer == (128,)


@pytest.mark.item(34)
def test_the_first_query_is_the_one_the_seed_draws() -> None:
    draw = random.Random(5)
    query = [draw.gauss(0, 1) for _ in range(64)]
    keys = [[draw.gauss(0, 1) for _ in query] for _ in range(KEYS)]
    scores = torch.tensor(keys, dtype=torch.float64) @ torch.tensor(query, dtype=torch.float64)
    shown = torch.tensor(numbers("Softmax of", "scores", seed=5), dtype=torch.float64)
    torch.testing.assert_close(shown, torch.stack([scores, scores / 8]))
    weights = torch.tensor(numbers("Softmax of", "weights", seed=5), dtype=torch.float64)
    torch.testing.assert_close(weights, softmax(shown))


@pytest.mark.item(34)
def test_the_gradient_of_a_sure_softmax_vanishes() -> None:
    rows = numbers("The gradient", "gradient")
    for s, p, gradient in rows:
        score = torch.tensor(s, dtype=torch.float64, requires_grad=True)
        weight = softmax(torch.stack([score, torch.zeros_like(score)]))[0]
        weight.backward()
        assert score.grad is not None
        assert [p, gradient] == pytest.approx([weight.item(), score.grad.item()])
    assert rows[0] == [0, 0.5, 0.25]
    assert rows[-1][2] < 2e-7
    assert step("The gradient").answer == (Fraction(1, 4),)


@pytest.mark.item(34)
def test_the_norm_is_that_of_the_jacobian_of_the_layers_softmax() -> None:
    scores = torch.tensor(numbers("Softmax of", "scores"), dtype=torch.float64)
    norms = [torch.autograd.functional.jacobian(softmax, row).norm().item() for row in scores]
    assert numbers("How much", "norm for the query above")[0] == pytest.approx(norms)


@pytest.mark.item(34)
def test_dividing_keeps_the_gradient_at_every_width() -> None:
    rows = numbers("How much", "medians", width=256)
    plain, divided = [row[2] for row in rows], [row[4] for row in rows]
    assert plain == sorted(plain, reverse=True)
    assert plain[-1] < 0.02
    assert statistics.pstdev(divided) < 0.01
    assert min(divided) > 0.3
    # Nearly all of the weight on one key, or about a third.
    assert rows[-1][1] > 0.97
    assert 0.3 < rows[-1][3] < 0.4


@pytest.mark.item(35)
def test_queries_of_another_sequence_give_an_output_each() -> None:
    q, k, v = (torch.tensor(numbers("Attention(", name)) for name in ("Q", "K", "V"))
    outputs, _ = attend(q, k, v, score=Dot(4), base=3)
    torch.testing.assert_close(torch.tensor(numbers("Attention(", "output")), outputs)
    assert matrix("Attention(", "output").values == (
        (Fraction(4, 5), Fraction(2, 5)),
        (Fraction(10, 13), Fraction(12, 13)),
    )
    assert step("Attention(").answer == tuple(outputs.shape) == (2, 2)


@pytest.mark.item(34)
@pytest.mark.parametrize(("width", "heads"), [(64, 8), (64, 1), (12, 3)])
def test_the_divisors_are_those_of_the_layer(width: int, heads: int) -> None:
    by_width, by_head = step("The square root", width=width, heads=heads).answer
    assert float(by_width) == pytest.approx(1 / MultiHead(width, heads, scale="width").factor)
    assert float(by_head) == pytest.approx(1 / MultiHead(width, heads, scale="head").factor)
    assert (by_width == by_head) == (heads == 1)


@pytest.mark.item(34)
def test_many_heads_are_flatter_when_divided_by_the_whole_width() -> None:
    rows = numbers("The square root", "divisors for a width of 64")
    assert rows[0] == [1, 8, 8, 1]
    assert rows[3] == [8, 8, pytest.approx(math.sqrt(8)), pytest.approx(0.35355, abs=5e-6)]
    by_width, by_head = numbers("What it does", "weights")
    assert max(by_width) < max(by_head)
    same = numbers("What it does", "weights", heads=1)
    assert same[0] == same[1]


def test_a_seed_gives_the_same_lesson_and_another_seed_another() -> None:
    assert scaling(width=8) == scaling(width=8, seed=0)
    assert scaling(width=8) != scaling(width=8, seed=1)


@pytest.mark.parametrize(
    ("dials", "named"),
    [({"width": 0}, "width"), ({"width": 2000}, "width"), ({"heads": 0}, "heads"), ({"width": 8, "heads": 3}, "heads")],
)
def test_a_bad_dial_is_named_with_a_remedy(dials: dict[str, int], named: str) -> None:
    with pytest.raises(SettingsError, match=f"^{named}: found") as refused:
        scaling(**dials)
    assert refused.value.remedy


def test_dials_are_strict_and_what_is_shown_as_the_answer_is_right() -> None:
    lesson = Lesson("scaling", "Scaling", "slides", (34, 35), scaling)
    for each in lesson.run(width=1, heads=1):
        assert all(lines(each_matrix) for each_matrix in each.matrices)
        assert bool(each.question) == bool(each.answer)
        assert not each.answer or is_right(" ".join(map(shown, each.answer)), each.answer)
    with pytest.raises(SettingsError, match="width"):
        lesson.run(width=1.5)
