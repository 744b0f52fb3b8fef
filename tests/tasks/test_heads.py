"""Tagging and classification heads: padding has no effect, batches equal their rows."""

import pytest
import torch

from satchel.models.settings import Pooling
from satchel.nn.sites import recording
from satchel.tasks.classification import ClassificationNetwork, pooled
from satchel.tasks.tagging import TaggingNetwork
from tests.models.encoders import VOCABULARY, make

KINDS = ["dan", "window", "lstm", "learned", "rotary"]


def padded() -> tuple[torch.Tensor, torch.Tensor]:
    ids = torch.randint(0, VOCABULARY, (3, 8), generator=torch.Generator().manual_seed(0))
    keep = torch.ones(3, 8, dtype=torch.bool)
    keep[1, 5:] = keep[2, 2:] = False
    return ids, keep


@pytest.mark.item(91, 92)
@pytest.mark.parametrize("name", KINDS)
def test_a_classifier_pools_the_mean_of_the_encodings_without_padding(name: str) -> None:
    network = ClassificationNetwork(make(name, causal=False), 2).double().eval()
    ids, keep = padded()
    scores = network(ids, keep)
    assert scores.shape == (3, 2)
    for row, length in ((0, 8), (1, 5), (2, 2)):
        encoded = network.encoder.encode(ids[row : row + 1, :length])
        expected = network.head(encoded.mean(dim=1))
        torch.testing.assert_close(scores[row : row + 1], expected, rtol=1e-12, atol=1e-12)
    loss = network.loss(ids, torch.tensor([0, 1, 1]), keep)
    torch.testing.assert_close(loss, -scores.log_softmax(dim=-1)[range(3), [0, 1, 1]].mean())


@pytest.mark.parametrize("pooling", ["mean", "root"])
def test_the_pooled_vector_of_an_empty_text_is_zero(pooling: Pooling) -> None:
    assert torch.equal(pooled(torch.ones(1, 3, 4), torch.zeros(1, 3, dtype=torch.bool), pooling), torch.zeros(1, 4))
    assert torch.equal(pooled(torch.ones(1, 0, 4), None, pooling), torch.zeros(1, 4))


def test_root_pooling_doubles_with_four_times_the_length() -> None:
    keep = torch.tensor([[True] * 4 + [False] * 12, [True] * 16])
    assert pooled(torch.ones(2, 16, 1), keep, "root").tolist() == [[2.0], [4.0]]
    assert pooled(torch.ones(1, 9, 1), None, "root").tolist() == [[3.0]]


@pytest.mark.parametrize("name", KINDS)
def test_every_token_has_a_tag_except_padding(name: str) -> None:
    network = TaggingNetwork(make(name, causal=False), 4).double().eval()
    ids, keep = padded()
    tags = torch.randint(0, 4, ids.shape, generator=torch.Generator().manual_seed(1))
    scores = network(ids, keep)
    assert scores.shape == (3, 8, 4)
    logprobs = scores.log_softmax(dim=-1).gather(2, tags[..., None])[..., 0]
    torch.testing.assert_close(network.loss(ids, tags, keep), -logprobs[keep].mean())
    torch.testing.assert_close(network.loss(ids, tags, keep, "sum"), -logprobs[keep].sum())
    other = torch.where(keep, tags, (tags + 1) % 4)
    assert torch.equal(network.loss(ids, other, keep), network.loss(ids, tags, keep))


def test_the_sites_of_the_heads_can_be_recorded() -> None:
    network = ClassificationNetwork(make("dan", causal=False), 2).double()
    with recording(network, "pooled", "logits") as records:
        scores = network(padded()[0])
    assert torch.equal(records["logits"][0], scores)
    assert records["pooled"][0].shape == (3, 12)
