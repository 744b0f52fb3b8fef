"""Blocks against torch's own, and what each part is for."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from satchel.nn.attention import MultiHead
from satchel.nn.blocks import Block, FeedForward
from satchel.nn.dropout import Dropout
from satchel.nn.sites import recording


def block(norm: Any = "pre", activation: Any = "gelu", **options: Any) -> Block:
    torch.manual_seed(0)
    return Block(MultiHead(12, 3), FeedForward(12, 40, activation), norm=norm, **options)


@pytest.mark.item(57)
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_a_block_is_torchs_own_encoder_layer(norm: Any, activation: Any) -> None:
    ours = block(norm, activation).double()
    theirs = nn.TransformerEncoderLayer(
        12, 3, 40, dropout=0.0, activation=activation, batch_first=True, norm_first=norm == "pre", dtype=torch.float64
    )
    with torch.no_grad():
        theirs.self_attn.in_proj_weight.copy_(ours.attention.project.weight)
        theirs.self_attn.in_proj_bias.copy_(ours.attention.project.bias)
        theirs.self_attn.out_proj.load_state_dict(ours.attention.out.state_dict())
        theirs.linear1.load_state_dict(ours.feedforward.widen.state_dict())
        theirs.linear2.load_state_dict(ours.feedforward.narrow.state_dict())
    x = torch.randn(2, 6, 12, dtype=torch.float64)
    mask = nn.Transformer.generate_square_subsequent_mask(6, dtype=torch.float64)
    torch.testing.assert_close(ours(x, causal=True), theirs(x, src_mask=mask), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(ours(x), theirs(x), rtol=1e-12, atol=1e-12)


@pytest.mark.item(60, 65)
def test_the_feed_forward_net_sees_each_position_by_itself() -> None:
    net = FeedForward(12, 40)
    x = torch.randn(2, 6, 12)
    order = torch.randperm(6)
    torch.testing.assert_close(net(x[:, order]), net(x)[:, order])
    torch.testing.assert_close(net(x)[:, 2:3], net(x[:, 2:3]))
    # Without the norms, only the feed-forward net and the softmax keep a block from being linear.
    assert not torch.allclose(net(2 * x), 2 * net(x), atol=1e-3)


@pytest.mark.item(61, 62)
def test_the_feed_forward_net_holds_two_thirds_of_the_parameters() -> None:
    attention, net = MultiHead(64, 4, bias=False), FeedForward(64, 256, bias=False)
    counts = [sum(p.numel() for p in part.parameters()) for part in (attention, net)]
    assert counts == [4 * 64**2, 8 * 64**2]
    assert counts[1] / sum(counts) == pytest.approx(2 / 3)
    assert net.widen.weight.shape == (256, 64)
    assert net.narrow.weight.shape == (64, 256)
    assert MultiHead(64, 4, key_width=8, value_width=24).out.weight.shape == (64, 4 * 24)


@pytest.mark.parametrize(
    ("activation", "function"),
    [
        ("relu", F.relu),
        ("gelu", F.gelu),
        ("gelu-tanh", lambda x: F.gelu(x, approximate="tanh")),
        ("squared-relu", lambda x: F.relu(x) ** 2),
        ("swiglu", lambda x: F.silu(x[..., :10]) * x[..., 10:]),
    ],
)
def test_the_activations_are_what_they_are_called(activation: Any, function: Any) -> None:
    net = FeedForward(6, 10, activation).double()
    x = torch.randn(3, 6, dtype=torch.float64)
    torch.testing.assert_close(net(x), net.narrow(function(net.widen(x))))


def test_without_residuals_what_comes_in_is_not_in_what_comes_out() -> None:
    with_sums, without = block(norm="none"), block(norm="none", residual=False)
    for each in (with_sums, without):
        nn.init.zeros_(each.attention.out.weight)
        nn.init.zeros_(each.attention.out.bias)
        nn.init.zeros_(each.feedforward.narrow.weight)
        nn.init.zeros_(each.feedforward.narrow.bias)
    x = torch.randn(1, 4, 12)
    torch.testing.assert_close(with_sums(x), x)
    assert torch.equal(without(x), torch.zeros_like(x))


@pytest.mark.parametrize("norm", ["pre", "post", "none"])
def test_the_norm_stands_where_it_is_said_to(norm: Any) -> None:
    made = block(norm, norm_kind="rms")
    x = 100 * torch.randn(2, 5, 12)
    with recording(made, "attention.queries", "output") as found:
        made(x)
    output_scale = found["output"][0].square().mean(dim=-1).sqrt()
    if norm == "post":
        torch.testing.assert_close(output_scale, torch.ones(2, 5), rtol=1e-3, atol=1e-3)
    else:
        assert output_scale.min() > 10
    assert (found["attention.queries"][0].abs().max() < 20) == (norm == "pre")
    assert ("norm" in str(list(made.state_dict()))) == (norm != "none")


def test_dropout_leaves_out_its_share_and_keeps_the_mean_and_the_way_back_is_the_same_mask() -> None:
    torch.manual_seed(0)
    x = torch.randn(400, 333).requires_grad_()  # no multiple of eight
    left_out = Dropout(0.3)
    found = left_out(x)
    stays = found != 0
    assert abs(stays.double().mean() - (1 - 77 / 256)) < 0.005
    torch.testing.assert_close(found[stays], (x / (1 - 77 / 256))[stays])
    # Which numbers stay has nothing to do with where they stand.
    assert abs(stays[:, ::8].double().mean() - stays[:, 7::8].double().mean()) < 0.02
    (gradient,) = torch.autograd.grad(found.sum(), x)
    assert torch.equal(gradient, stays / (1 - 77 / 256))
    assert not torch.equal(left_out(x), found)
    assert left_out.eval()(x) is x
    assert Dropout(0.0)(x) is x
