"""Multi-head attention: one head averages, two do not; narrow, canonical and wide heads."""

from fractions import Fraction

import pytest
import torch

from satchel.lessons.heads import AFTER, BEFORE, CANONICAL, NARROW, WIDE, heads
from satchel.nn.attention import Heads, MultiHead
from satchel.nn.sites import recording
from tests.lessons.lookup import Lookup

lookup = Lookup(heads)
step, matrix, tensor = lookup.step, lookup.matrix, lookup.tensor

HALF = Fraction(1, 2)
KINDS: tuple[Heads, ...] = ("narrow", "canonical", "wide")


@pytest.mark.item(51)
def test_concatenated_outputs_are_projected_to_the_width() -> None:
    expected = tensor("Two heads", "concatenated outputs") @ tensor("The output projection", "W^O")
    torch.testing.assert_close(tensor("The output projection", "projected outputs"), expected)
    assert matrix("The output projection", "projected outputs").values == ((1, -1), (-1, 1))


@pytest.mark.item(52)
def test_one_head_does_not_distinguish_subject_and_object_and_two_heads_do() -> None:
    assert matrix("A single head", "output at the verb").values == ((HALF, HALF), (HALF, HALF))
    assert step("A single head").answer == (HALF, HALF)
    assert matrix("Two heads", "concatenated outputs").values == ((1, 0, 0, 1), (0, 1, 1, 0))
    assert step("A single head").is_correct("1/2 1/2")
    assert not step("A single head").is_correct("1 1")


@pytest.mark.item(53, 54, 55)
@pytest.mark.parametrize(("width", "number"), [(256, 8), (12, 3), (8, 1)])
def test_shapes_and_counts_are_those_of_the_layer(width: int, number: int) -> None:
    shapes = matrix("Narrow", "shapes", width=width, heads=number).values
    counts = matrix("Number of parameters", "parameters", width=width, heads=number).values
    for kind, shape, count in zip(KINDS, shapes, counts, strict=True):
        layer = MultiHead(width, number, kind=kind, bias=False)
        assert count[1:] == (
            layer.project.weight.numel(),
            layer.out.weight.numel(),
            layer.project.weight.numel() + layer.out.weight.numel(),
        )
        one = layer.project.weight.view(3, number, -1, layer.project.in_features)[0, 0]
        assert shape[1:] == (
            f"{one.shape[1]} x {one.shape[0]}",
            f"{layer.out.in_features}",
            f"{layer.out.in_features} x {layer.out.out_features}",
        )


@pytest.mark.item(55)
def test_counts_for_a_width_of_256_and_eight_heads() -> None:
    rows = matrix("Number of parameters", "parameters").values
    assert [row[1:3] for row in rows] == [(24_576, 65_536), (196_608, 65_536), (1_572_864, 524_288)]
    assert step("Number of parameters").answer == (196_608,)
    assert step("Narrow").answer == (2048,)


@pytest.mark.item(55)
@pytest.mark.parametrize(("k", "h"), [(256, 8), (30, 5)])
def test_the_formulas_give_the_counts(k: int, h: int) -> None:
    rows = matrix("Number of parameters", "parameters", width=k, heads=h).values
    assert [row[0] for row in rows] == ["3k^2/h + k^2", "3k^2 + k^2", "3 h k^2 + h k^2"]
    assert [row[3] for row in rows] == [3 * k * k // h + k * k, 4 * k * k, 4 * h * k * k]


@pytest.mark.item(55)
def test_for_one_head_all_three_are_the_same() -> None:
    assert len({row[1:] for row in matrix("Narrow", "shapes", heads=1).values}) == 1
    assert len({row[1:] for row in matrix("Number of parameters", "parameters", heads=1).values}) == 1


@pytest.mark.item(56)
def test_a_narrow_head_ignores_the_other_chunks() -> None:
    before, after = (matrix("The input of a narrow", name).values for name in ("narrow", "narrow, changed"))
    assert [row[:2] for row in before] == [row[:2] for row in after]
    assert all(one[2:] != other[2:] for one, other in zip(before, after, strict=True))
    assert step("The input of a narrow").answer == (2,)


@pytest.mark.item(56)
@pytest.mark.parametrize("chunk", [1, 2])
def test_the_change_of_one_chunk_changes_all_canonical_and_wide_heads(chunk: int) -> None:
    narrow, canonical, wide = matrix("The input of a narrow", "largest change", chunk=chunk).values
    assert narrow[2 - chunk] == 0
    assert all(float(change) > 0.1 for change in (narrow[chunk - 1], *canonical, *wide))
    assert step("The input of a narrow", chunk=chunk).answer == (chunk,)


@pytest.mark.item(56)
@pytest.mark.parametrize("kind", ["narrow", "canonical", "wide"])
@pytest.mark.parametrize("chunk", [1, 2])
def test_the_network_layer_gives_the_same_outputs(kind: Heads, chunk: int) -> None:
    layer = MultiHead(4, 2, kind=kind, scale="none", base=3, bias=False)
    by_head = (
        [NARROW, NARROW]
        if kind == "narrow"
        else [(weight,) * 3 for weight in (CANONICAL if kind == "canonical" else WIDE)]
    )
    # The layer stores the transposed matrices of all queries, then of all keys, then of all values.
    rows = [torch.tensor(weights[role]).T for role in range(3) for weights in by_head]
    with torch.no_grad():
        layer.project.weight.copy_(torch.cat(rows))
    for x, name in ((BEFORE, kind), (AFTER[chunk], f"{kind}, changed")):
        with recording(layer, "outputs") as recorded:
            layer(torch.tensor([x], dtype=torch.float32))
        expected = recorded["outputs"][0].transpose(1, 2).flatten(2)[0]
        torch.testing.assert_close(tensor("The input of a narrow", name, chunk=chunk), expected)
