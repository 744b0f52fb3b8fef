"""Heads: one averages, two do not, and three ways to share a width."""

from fractions import Fraction

import pytest
import torch

from satchel.errors import SettingsError
from satchel.lessons.heads import AFTER, BEFORE, CANONICAL, NARROW, heads
from satchel.lessons.steps import Lesson, Matrix, Step, is_right, lines, shown
from satchel.nn.attention import Heads, MultiHead
from satchel.nn.sites import recording

HALF = Fraction(1, 2)
KINDS: tuple[Heads, ...] = ("narrow", "canonical", "wide")


def step(title: str, **dials: int) -> Step:
    """Return the one step of that title."""
    (found,) = (each for each in heads(**dials) if each.title.startswith(title))
    return found


def matrix(title: str, name: str, **dials: int) -> Matrix:
    (found,) = (each for each in step(title, **dials).matrices if each.name == name)
    return found


def tensor(title: str, name: str) -> torch.Tensor:
    return torch.tensor([[float(cell) for cell in row] for row in matrix(title, name).values])


@pytest.mark.item(51)
def test_outputs_stand_side_by_side_and_are_mapped_back_to_the_width() -> None:
    joined = tensor("Two heads", "outputs, side by side") @ tensor("A linear map", "W^O")
    torch.testing.assert_close(tensor("A linear map", "joined"), joined)
    assert matrix("A linear map", "joined").values == ((1, -1), (-1, 1))


@pytest.mark.item(52)
def test_one_head_loses_who_did_what_and_two_heads_keep_it() -> None:
    assert matrix("One head", "output at the verb").values == ((HALF, HALF), (HALF, HALF))
    assert step("One head").answer == (HALF, HALF)
    assert matrix("Two heads", "outputs, side by side").values == ((1, 0, 0, 1), (0, 1, 1, 0))
    assert is_right("1/2 1/2", step("One head").answer)
    assert not is_right("1 1", step("One head").answer)


@pytest.mark.item(53, 54, 55)
@pytest.mark.parametrize(("width", "number"), [(256, 8), (12, 3), (8, 1)])
def test_shapes_and_counts_are_those_of_the_layer(width: int, number: int) -> None:
    shapes = dict(zip(KINDS, matrix("Narrow,", "shapes", width=width, heads=number).values, strict=True))
    counts = dict(zip(KINDS, matrix("Weights", "weights", width=width, heads=number).values, strict=True))
    for kind in KINDS:
        layer = MultiHead(width, number, kind=kind, bias=False)
        assert counts[kind][1:] == (
            layer.project.weight.numel(),
            layer.out.weight.numel(),
            layer.project.weight.numel() + layer.out.weight.numel(),
        )
        one = layer.project.weight.view(3, number, -1, layer.project.in_features)[0, 0]
        assert shapes[kind][1:] == (
            f"{one.shape[1]} x {one.shape[0]}",
            f"{layer.out.in_features}",
            f"{layer.out.in_features} x {layer.out.out_features}",
        )


@pytest.mark.item(55)
def test_counts_for_a_width_of_256_and_eight_heads() -> None:
    rows = matrix("Weights", "weights").values
    assert [row[1:3] for row in rows] == [(24_576, 65_536), (196_608, 65_536), (1_572_864, 524_288)]
    assert step("Weights").answer == (196_608,)
    assert step("Narrow,").answer == (2048,)


@pytest.mark.item(55)
@pytest.mark.parametrize(("k", "h"), [(256, 8), (30, 5)])
def test_the_formulas_give_the_counts(k: int, h: int) -> None:
    rows = matrix("Weights", "weights", width=k, heads=h).values
    assert [row[0] for row in rows] == ["3k^2/h + k^2", "3k^2 + k^2", "3hk^2 + hk^2"]
    assert [row[3] for row in rows] == [3 * k * k // h + k * k, 4 * k * k, 4 * h * k * k]


@pytest.mark.item(55)
def test_for_one_head_all_three_are_the_same() -> None:
    assert len({row[1:] for row in matrix("Narrow,", "shapes", heads=1).values}) == 1
    assert len({row[1:] for row in matrix("Weights", "weights", heads=1).values}) == 1


@pytest.mark.item(56)
def test_a_narrow_head_does_not_see_the_other_parts() -> None:
    before, after = (matrix("What a narrow", name).values for name in ("narrow", "narrow, changed"))
    assert [row[:2] for row in before] == [row[:2] for row in after]
    assert all(one[2:] != other[2:] for one, other in zip(before, after, strict=True))
    assert step("What a narrow").answer == (2,)


@pytest.mark.item(56)
def test_canonical_heads_all_see_the_change() -> None:
    before, after = (matrix("What a narrow", name).values for name in ("canonical", "canonical, changed"))
    for one, other in zip(before, after, strict=True):
        assert one[:2] != other[:2]
        assert one[2:] != other[2:]


@pytest.mark.item(56)
@pytest.mark.parametrize("kind", ["narrow", "canonical"])
def test_the_layer_gives_the_same(kind: Heads) -> None:
    layer = MultiHead(4, 2, kind=kind, scale="none", base=3, bias=False)
    by_head = [NARROW, NARROW] if kind == "narrow" else [(weight,) * 3 for weight in CANONICAL]
    # The layer keeps all queries, then all keys, then all values; each head's matrix transposed.
    rows = [torch.tensor(weights[role]).T for role in range(3) for weights in by_head]
    with torch.no_grad():
        layer.project.weight.copy_(torch.cat(rows))
    for x, name in ((BEFORE, kind), (AFTER, f"{kind}, changed")):
        with recording(layer, "outputs") as found:
            layer(torch.tensor([x], dtype=torch.float32))
        side_by_side = found["outputs"][0].transpose(1, 2).flatten(2)[0]
        torch.testing.assert_close(tensor("What a narrow", name), side_by_side)


@pytest.mark.parametrize(
    ("dials", "named"),
    [({"width": 0}, "width"), ({"width": 10**7}, "width"), ({"heads": 0}, "heads"), ({"heads": 7}, "heads")],
)
def test_a_bad_dial_is_named_with_a_remedy(dials: dict[str, int], named: str) -> None:
    with pytest.raises(SettingsError, match=f"^{named}: found") as refused:
        heads(**dials)
    assert refused.value.remedy


def test_dials_are_strict_and_what_is_shown_as_the_answer_is_right() -> None:
    lesson = Lesson("heads", "Heads", "slides", (51,), heads)
    for each in lesson.run(width=6, heads=2):
        assert all(lines(each_matrix) for each_matrix in each.matrices)
        assert bool(each.question) == bool(each.answer)
        assert not each.answer or is_right(" ".join(map(shown, each.answer)), each.answer)
    with pytest.raises(SettingsError, match="heads"):
        lesson.run(heads="many")
