"""Attention compared with PyTorch, with its formulas, and fused with explicit."""

import math
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from satchel.nn.attention import Additive, Dot, General, MultiHead, attend, causal_mask, self_attend, softmax
from satchel.nn.kv_cache import KeyValues
from satchel.nn.positions import Alibi, Rotary
from satchel.nn.sites import hooked, recording

AABA = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 0.0]], dtype=torch.float64)


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


# --- by hand -------------------------------------------------------------------------------------------------


@pytest.mark.item(15, 16, 17, 18)
@pytest.mark.parametrize(
    ("base", "weights", "output"),
    [
        (3.0, [1 / 6, 1 / 6, 1 / 2, 1 / 6], [1 / 2, 1 / 2]),
        (math.e, [0.17488, 0.17488, 0.47537, 0.17488], [0.52463, 0.47537]),
    ],
)
def test_a_query_for_b_in_aaba(base: float, weights: list[float], output: list[float]) -> None:
    query = torch.tensor([[0.0, 1.0]], dtype=torch.float64)
    assert Dot()(query, AABA).tolist() == [[0, 0, 1, 0]]
    outputs, given = attend(query, AABA, AABA, base=base)
    assert given[0].tolist() == pytest.approx(weights, abs=5e-6)
    assert outputs[0].tolist() == pytest.approx(output, abs=5e-6)


@pytest.mark.item(20, 21)
@pytest.mark.parametrize(("base", "most"), [(math.e, 0.999864), (3.0, 0.999949)])
def test_a_larger_query_or_projection_sharpens_the_weights(base: float, most: float) -> None:
    outputs, weights = attend(torch.tensor([[0.0, 10.0]], dtype=torch.float64), AABA, AABA, base=base)
    assert weights[0, 2].item() == pytest.approx(most, abs=5e-7)
    identity = torch.eye(2, dtype=torch.float64)
    scores = (AABA @ identity) @ (10 * identity @ torch.tensor([0.0, 1.0], dtype=torch.float64))
    assert scores.tolist() == [0, 0, 10, 0]
    assert outputs[0].tolist() == pytest.approx([0, 1], abs=5e-4)


@pytest.mark.item(13, 14, 22)
@pytest.mark.parametrize(("b", "right"), [(1.0, 12), (1.0986, 12), (1.0987, 16), (10.0, 16)])
def test_every_string_is_classified_correctly_with_a_large_enough_query(b: float, right: int) -> None:
    letters = {"A": [1.0, 0.0], "B": [0.0, 1.0]}
    count = 0
    for string in product("AB", repeat=4):
        embeddings = torch.tensor([letters[letter] for letter in string], dtype=torch.float64)
        outputs, _ = attend(torch.tensor([[0.0, b]], dtype=torch.float64), embeddings, embeddings)
        says = "B" if outputs[0, 1] > outputs[0, 0] else "A"
        count += says == ("B" if "B" in string else "A")
    assert count == right


@pytest.mark.item(19)
def test_uniform_weights_average_one_b_in_four() -> None:
    assert AABA.mean(dim=0).tolist() == [3 / 4, 1 / 4]
    strings = ["".join(letters) for letters in product("AB", repeat=4)]
    wrong = sum((string.count("B") * 2 <= 4) if "B" in string else False for string in strings)
    assert wrong == 10


@pytest.mark.item(23, 24, 28)
@pytest.mark.parametrize(
    ("base", "of_a", "of_b"),
    [(math.e, [0.89077, 0.10923], [0.52463, 0.47537]), (3.0, [0.9, 0.1], [1 / 2, 1 / 2])],
)
def test_every_token_is_a_query(base: float, of_a: list[float], of_b: list[float]) -> None:
    outputs, weights = self_attend(AABA, base=base)
    scores = AABA @ AABA.T
    assert scores.tolist() == [[1, 1, 0, 1], [1, 1, 0, 1], [0, 0, 1, 0], [1, 1, 0, 1]]
    for row in (0, 1, 3):
        assert outputs[row].tolist() == pytest.approx(of_a, abs=5e-6)
    assert outputs[2].tolist() == pytest.approx(of_b, abs=5e-6)
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(4, dtype=torch.float64))


@pytest.mark.item(25)
def test_larger_keys_divide_the_weight_among_equal_letters() -> None:
    _, weights = attend(AABA, 10 * AABA, AABA)
    assert weights[0].tolist() == pytest.approx([1 / 3, 1 / 3, 2e-5, 1 / 3], abs=1e-5)
    assert weights[2, 2].item() == pytest.approx(0.99986, abs=5e-6)
    literal = (AABA @ torch.ones(2, 1, dtype=torch.float64)) @ (AABA @ torch.full((2, 1), 10.0, dtype=torch.float64)).T
    assert (literal == 10).all()


@pytest.mark.item(29, 30)
def test_without_positions_equal_tokens_have_equal_outputs() -> None:
    words = "the cat walks on the street".split()
    vectors = {word: random(5, seed=number) for number, word in enumerate(sorted(set(words)))}
    x = torch.stack([vectors[word] for word in words])
    outputs, weights = self_attend(x)
    assert torch.equal(outputs[0], outputs[4])
    torch.testing.assert_close(outputs[1], (weights[1][:, None] * x).sum(dim=0))
    order = torch.tensor([3, 1, 5, 0, 4, 2])
    torch.testing.assert_close(self_attend(x[order])[0], outputs[order])
    torch.testing.assert_close(self_attend(x[order])[0].mean(dim=0), outputs.mean(dim=0))


@pytest.mark.item(31)
def test_similar_vectors_have_the_largest_weights() -> None:
    x = torch.tensor([[3.0, 0.0], [2.9, 0.3], [0.0, 3.0], [-3.0, 0.0]])
    _, weights = self_attend(x)
    assert weights[0].argsort(descending=True).tolist() == [0, 1, 2, 3]


@pytest.mark.item(32, 33)
def test_identity_projections_give_self_attention_without_parameters() -> None:
    layer = MultiHead(4, 1, bias=False, scale="none").double()
    x = random(1, 6, 4)
    with torch.no_grad():
        layer.out.weight.copy_(torch.eye(4))
    query, key, value = layer.project.weight.chunk(3)
    expected, _ = attend(x @ query.T, x @ key.T, x @ value.T)
    torch.testing.assert_close(layer(x), expected)
    with torch.no_grad():
        layer.project.weight.copy_(torch.eye(4).repeat(3, 1))
    torch.testing.assert_close(layer(x), self_attend(x)[0])


@pytest.mark.item(34)
def test_the_variance_of_scores_grows_with_the_width_unless_scaled() -> None:
    for width in (16, 64, 256):
        queries, keys = random(2000, width, seed=1), random(2000, width, seed=2)
        scores = (queries * keys).sum(dim=1)
        assert scores.var().item() == pytest.approx(width, rel=0.1)
        assert (scores / math.sqrt(width)).var().item() == pytest.approx(1, rel=0.1)

    def jacobian(scores: Tensor) -> float:
        weights = scores.softmax(dim=-1)
        return float((torch.diag(weights) - torch.outer(weights, weights)).norm())

    scores = random(10, 256, seed=3) @ random(256, seed=4)
    assert jacobian(scores) < 0.01 < 0.1 < jacobian(scores / 16)


@pytest.mark.item(34)
@pytest.mark.parametrize(("scale", "factor"), [("head", 1 / math.sqrt(4)), ("width", 1 / math.sqrt(12)), ("none", 1.0)])
def test_scores_are_divided_by_the_square_root_of_the_head_width_or_the_width(scale: Any, factor: float) -> None:
    layer = MultiHead(12, 3, scale=scale).double()
    x = random(2, 5, 12)
    with recording(layer, "scores", "queries", "keys") as records:
        layer(x)
    raw = records["queries"][0] @ records["keys"][0].transpose(-1, -2)
    torch.testing.assert_close(records["scores"][0], raw * factor)


@pytest.mark.item(17)
def test_the_base_of_the_softmax_scales_the_scores() -> None:
    x = random(2, 5, 12)
    layer = layer_of({"base": 3.0}).double()
    with recording(layer, "queries", "keys", "weights") as records:
        layer(x)
    scores = records["queries"][0] @ records["keys"][0].transpose(-1, -2) / 2
    torch.testing.assert_close(records["weights"][0], softmax(scores, base=3.0))


@pytest.mark.item(35, 36)
def test_outputs_are_weighted_sums_of_the_values_with_fewer_queries_than_keys() -> None:
    queries, keys, values = random(3, 8), random(7, 8, seed=1), random(7, 5, seed=2)
    outputs, weights = attend(queries, keys, values, score=Dot(8))
    assert (outputs.shape, weights.shape) == ((3, 5), (3, 7))
    expected = torch.nn.functional.scaled_dot_product_attention(queries[None], keys[None], values[None])[0]
    torch.testing.assert_close(outputs, expected)
    torch.testing.assert_close(outputs[1], sum((weights[1, j] * values[j] for j in range(7)), torch.zeros(5).double()))


# --- scores --------------------------------------------------------------------------------------------------


def test_general_and_additive_scores_equal_their_formulas_and_gradients() -> None:
    queries, keys = random(2, 3, 4).requires_grad_(), random(2, 5, 6, seed=1).requires_grad_()
    general, additive = General(4, 6).double(), Additive(4, 6, 7).double()
    for b, t, s in product(range(2), range(3), range(5)):
        expected = queries[b, t] @ general.weight @ keys[b, s]
        torch.testing.assert_close(general(queries, keys)[b, t, s], expected)
        inner = additive.query.weight @ queries[b, t] + additive.key.weight @ keys[b, s] + additive.key.bias
        torch.testing.assert_close(additive(queries, keys)[b, t, s], additive.out.weight[0] @ inner.tanh())
    assert torch.autograd.gradcheck(general, (queries, keys))
    assert torch.autograd.gradcheck(additive, (queries, keys))
    assert torch.autograd.gradcheck(Dot(4), (queries, random(2, 5, 4, seed=3).requires_grad_()))


# --- masks ---------------------------------------------------------------------------------------------------


@pytest.mark.item(76, 77)
def test_the_causal_mask_hides_later_positions() -> None:
    assert causal_mask(3).tolist() == [[True, False, False], [True, True, False], [True, True, True]]
    assert causal_mask(2, 4).tolist() == [[True, True, True, False], [True, True, True, True]]
    weights = softmax(random(5, 5), causal_mask(5))
    assert torch.equal(weights.triu(1), torch.zeros(5, 5, dtype=torch.float64))
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(5, dtype=torch.float64))
    assert weights[0].tolist() == [1, 0, 0, 0, 0]


def test_a_masked_score_is_minus_infinity_and_has_no_gradient() -> None:
    scores = (random(4, 4) * 1e6).requires_grad_()
    softmax(scores, causal_mask(4))[2].square().sum().backward()
    assert scores.grad is not None
    assert torch.equal(scores.grad.triu(1), torch.zeros_like(scores))
    # A finite number in place of -inf would exceed scores this low.
    low = torch.full((1, 3), -1e9)
    low[0, 1] = -2e9
    assert softmax(low, torch.tensor([[False, True, False]])).tolist() == [[0, 1, 0]]


@pytest.mark.parametrize("watched", [False, True])
@pytest.mark.parametrize("positions", [None, Alibi(2)])
def test_the_output_of_a_fully_masked_query_is_zero(watched: bool, positions: Alibi | None) -> None:
    layer = MultiHead(8, 2, bias=False, positions=positions).double()
    keep = torch.tensor([[True, True, False], [False, False, False]])[:, None, None, :]
    x = random(2, 3, 8).requires_grad_()
    with hooked(layer, {"weights": lambda value: None} if watched else {}):
        outputs = layer(x, mask=keep)
    assert torch.equal(outputs[1], torch.zeros_like(outputs[1]))
    outputs.sum().backward()
    assert x.grad is not None
    assert torch.isfinite(x.grad).all()
    assert torch.equal(x.grad[1], torch.zeros_like(x.grad[1]))


# --- heads ---------------------------------------------------------------------------------------------------

LAYERS: dict[str, dict[str, Any]] = {
    "canonical": {},
    "one head": {"heads": 1},
    "narrow": {"kind": "narrow"},
    "wide": {"kind": "wide"},
    "own widths": {"key_width": 3, "value_width": 7},
    "no bias": {"bias": False},
    "norms": {"normalise": "rms"},
    "base 3": {"base": 3.0},
    "by width": {"scale": "width"},
    "rotary": {"positions": Rotary(4)},
    "alibi": {"positions": Alibi(3)},
}


def layer_of(options: dict[str, Any]) -> MultiHead:
    torch.manual_seed(0)
    given = {"heads": 3, **options}
    return MultiHead(12, given.pop("heads"), **given)


MASKS: dict[str, dict[str, Any]] = {
    "all": {},
    "causal": {"causal": True},
    "padding": {"mask": torch.tensor([[True] * 6, [True] * 4 + [False] * 2])[:, None, None, :]},
    "both": {"causal": True, "mask": torch.tensor([[True] * 6, [True] * 4 + [False] * 2])[:, None, None, :]},
    "custom": {"mask": (random(6, 6) > -0.3) | torch.eye(6, dtype=torch.bool)},
    "float": {"mask": torch.zeros(6, 6).masked_fill(~causal_mask(6), -math.inf)},
    "float and causal": {"mask": random(6, 6), "causal": True},
}


def test_a_float_mask_is_added_to_the_scores() -> None:
    scores, allowed = random(4, 4), causal_mask(4)
    added = torch.zeros(4, 4, dtype=torch.float64).masked_fill(~allowed, -math.inf)
    torch.testing.assert_close(softmax(scores, added), softmax(scores, allowed))
    torch.testing.assert_close(softmax(scores, random(4, 4, seed=1)), softmax(scores + random(4, 4, seed=1)))
    with pytest.raises(ValueError, match=r"found a mask of torch\.int64, expected bool"):
        MultiHead(8, 2)(torch.ones(1, 4, 8), mask=allowed.long())


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS.keys())
@pytest.mark.parametrize("options", LAYERS.values(), ids=LAYERS.keys())
def test_fused_and_explicit_attention_agree(options: dict[str, Any], mask: dict[str, Any]) -> None:
    layer = layer_of(options)
    x = random(2, 6, 12).float().requires_grad_()
    fast = layer(x, **mask)
    (fast_gradient,) = torch.autograd.grad(fast.square().sum(), x)
    with recording(layer, "weights") as records:
        visible = layer(x, **mask)
        (gradient,) = torch.autograd.grad(visible.square().sum(), x)
    assert (fast - visible).abs().max() <= 1e-6 * visible.abs().max()
    assert (fast_gradient - gradient).abs().max() <= 1e-5 * gradient.abs().max()
    (weights,) = records["weights"]
    assert weights.shape == (2, layer.heads, 6, 6)
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(2, layer.heads, 6))


@pytest.mark.parametrize(("cross", "causal"), [(False, False), (False, True), (True, False)])
def test_multi_head_attention_equals_that_of_torch(cross: bool, causal: bool) -> None:
    ours = MultiHead(12, 3).double()
    theirs = nn.MultiheadAttention(12, 3, batch_first=True, dtype=torch.float64)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(ours.project.weight)
        theirs.in_proj_bias.copy_(ours.project.bias)
        theirs.out_proj.weight.copy_(ours.out.weight)
        theirs.out_proj.bias.copy_(ours.out.bias)
    x = random(2, 5, 12)
    memory = random(2, 7, 12, seed=1) if cross else x
    keep = torch.ones(2, memory.shape[1], dtype=torch.bool)
    keep[1, -2:] = False
    expected, expected_weights = theirs(
        x,
        memory,
        memory,
        key_padding_mask=~keep,
        attn_mask=~causal_mask(5) if causal else None,
        average_attn_weights=False,
    )
    with recording(ours, "weights") as records:
        visible = ours(x, memory if cross else None, mask=keep[:, None, None, :], causal=causal)
    torch.testing.assert_close(visible, expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(records["weights"][0], expected_weights, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(
        ours(x, memory if cross else None, mask=keep[:, None, None, :], causal=causal), expected, rtol=1e-12, atol=1e-12
    )


@pytest.mark.item(51, 53, 54, 55)
@pytest.mark.parametrize(
    ("kind", "projections", "out"),
    [("narrow", 24_576, 65_536), ("canonical", 196_608, 65_536), ("wide", 1_572_864, 524_288)],
)
def test_each_kind_of_heads_has_its_number_of_parameters(kind: Any, projections: int, out: int) -> None:
    layer = MultiHead(256, 8, kind=kind, bias=False)
    assert (layer.project.weight.numel(), layer.out.weight.numel()) == (projections, out)
    k, h = 256, 8
    formulas = {"narrow": 3 * k * k // h + k * k, "canonical": 4 * k * k, "wide": 4 * h * k * k}
    assert sum(parameter.numel() for parameter in layer.parameters()) == formulas[kind]
    one = [tuple(parameter.shape) for parameter in MultiHead(256, 1, kind=kind).parameters()]
    assert one == [tuple(parameter.shape) for parameter in MultiHead(256, 1).parameters()]


@pytest.mark.item(56)
@pytest.mark.parametrize(("kind", "untouched"), [("narrow", True), ("canonical", False), ("wide", False)])
def test_a_narrow_head_depends_on_its_slice_of_the_input_only(kind: Any, untouched: bool) -> None:
    layer = MultiHead(12, 3, kind=kind).double()
    x = random(1, 5, 12)
    changed = x.clone()
    changed[..., :4] += 1
    outputs = []
    for each in (x, changed):
        with recording(layer, "outputs") as records:
            layer(each)
        outputs.append(records["outputs"][0])
    assert not torch.allclose(outputs[0][:, 0], outputs[1][:, 0])
    assert torch.allclose(outputs[0][:, 1:], outputs[1][:, 1:]) == untouched


@pytest.mark.item(52)
def test_one_head_averages_two_values_that_two_heads_keep_separate() -> None:
    """A verb attends to its subject and its object: one head returns their mean, two heads return both."""
    subject, verb, obj = torch.eye(3, dtype=torch.float64)
    x = torch.stack([subject, verb, obj])[None]
    with torch.no_grad():
        one = MultiHead(3, 1, bias=False, scale="none").double()
        one.project.weight.zero_()
        one.project.weight[:3] = 50 * torch.tensor([[0, 1, 0], [0, 0, 0], [0, 1, 0]])  # the verb attends to both
        one.project.weight[3:6] = torch.eye(3)
        one.project.weight[6:] = torch.eye(3)
        one.out.weight.copy_(torch.eye(3))
        torch.testing.assert_close(one(x)[0, 1], (subject + obj) / 2)
        two = MultiHead(3, 2, key_width=3, value_width=3, bias=False, scale="none").double()
        two.project.weight.zero_()
        two.project.weight[:3] = 50 * torch.tensor([[0, 1, 0], [0, 0, 0], [0, 0, 0]])
        two.project.weight[3:6] = 50 * torch.tensor([[0, 0, 0], [0, 0, 0], [0, 1, 0]])
        two.project.weight[6:9] = two.project.weight[9:12] = torch.eye(3)
        two.project.weight[12:15] = two.project.weight[15:18] = torch.eye(3)
        with recording(two, "outputs") as records:
            two(x)
    torch.testing.assert_close(records["outputs"][0][0, :, 1], torch.stack([subject, obj]))


@pytest.mark.item(78)
@pytest.mark.parametrize("options", LAYERS.values(), ids=LAYERS.keys())
def test_decoding_with_a_cache_equals_attention_over_the_whole_sequence(options: dict[str, Any]) -> None:
    layer = layer_of(options).double()
    x = random(2, 7, 12)
    whole = layer(x, causal=True)
    past = KeyValues()
    parts = [layer(x[:, start:stop], causal=True, past=past) for start, stop in ((0, 3), (3, 4), (4, 7))]
    torch.testing.assert_close(torch.cat(parts, dim=1), whole, rtol=1e-12, atol=1e-12)
    rows = torch.tensor([1, 1, 0])
    again = layer(x[rows][:, -1:], causal=True, past=past.select(rows))
    assert again.shape == (3, 1, 12)


def test_heads_must_divide_the_width_unless_key_and_value_widths_are_given() -> None:
    with pytest.raises(ValueError, match="found 5 heads for a width of 12"):
        MultiHead(12, 5)
    assert MultiHead(12, 5, key_width=4, value_width=4)(random(1, 2, 12).float()).shape == (1, 2, 12)
