"""Blocks compared with PyTorch, and the effect of each part."""

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
def test_a_block_equals_the_encoder_layer_of_torch(norm: Any, activation: Any) -> None:
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
def test_the_feed_forward_network_is_position_wise() -> None:
    net = FeedForward(12, 40)
    x = torch.randn(2, 6, 12)
    order = torch.randperm(6)
    torch.testing.assert_close(net(x[:, order]), net(x)[:, order])
    torch.testing.assert_close(net(x)[:, 2:3], net(x[:, 2:3]))
    # Without norms, only the feed-forward network and the softmax are non-linear.
    assert not torch.allclose(net(2 * x), 2 * net(x), atol=1e-3)


@pytest.mark.item(61, 62)
def test_the_feed_forward_network_has_two_thirds_of_the_parameters() -> None:
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
def test_activations_equal_those_of_torch(activation: Any, function: Any) -> None:
    net = FeedForward(6, 10, activation).double()
    x = torch.randn(3, 6, dtype=torch.float64)
    torch.testing.assert_close(net(x), net.narrow(function(net.widen(x))))


def test_without_residual_connections_the_input_is_not_added() -> None:
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
def test_the_norm_is_before_or_after_each_sublayer(norm: Any) -> None:
    layer = block(norm, norm_kind="rms")
    x = 100 * torch.randn(2, 5, 12)
    with recording(layer, "attention.queries", "output") as records:
        layer(x)
    output_scale = records["output"][0].square().mean(dim=-1).sqrt()
    if norm == "post":
        torch.testing.assert_close(output_scale, torch.ones(2, 5), rtol=1e-3, atol=1e-3)
    else:
        assert output_scale.min() > 10
    assert (records["attention.queries"][0].abs().max() < 20) == (norm == "pre")
    assert ("norm" in str(list(layer.state_dict()))) == (norm != "none")


def test_dropout_has_its_rate_keeps_the_mean_and_masks_the_gradient() -> None:
    torch.manual_seed(0)
    x = torch.randn(400, 333).requires_grad_()  # the size is not a multiple of eight
    dropout = Dropout(0.3)
    dropped = dropout(x)
    stays = dropped != 0
    assert abs(stays.double().mean() - (1 - 77 / 256)) < 0.005
    torch.testing.assert_close(dropped[stays], (x / (1 - 77 / 256))[stays])
    # The mask does not depend on the position.
    assert abs(stays[:, ::8].double().mean() - stays[:, 7::8].double().mean()) < 0.02
    (gradient,) = torch.autograd.grad(dropped.sum(), x)
    assert torch.equal(gradient, stays / (1 - 77 / 256))
    assert not torch.equal(dropout(x), dropped)
    assert dropout.eval()(x) is x
    assert Dropout(0.0)(x) is x
