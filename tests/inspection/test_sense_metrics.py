"""Metrics of senses: entropy, use, ablation cost, cosine similarity and rank."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from satchel.data.batches import NO_TARGET
from satchel.inspection.sense_metrics import ScoredText, SenseMetrics, sense_metrics
from satchel.models.backpack import Backpack
from satchel.nn.senses import SenseNetwork
from satchel.nn.sites import hooked
from satchel.predictor import Labeller
from satchel.tasks.classification import ClassificationNetwork, NetworkLabeller
from satchel.tasks.language import LanguageNetwork
from satchel.tasks.tagging import NetworkTagger, TaggingNetwork
from satchel.training.jobs.labels import LabelJob
from satchel.training.settings import TrainingSettings
from tests.models.encoders import make

PIECES = [np.array([10, 3, 1, 4, 1, 5]), np.array([10, 2, 6, 5])]


@pytest.fixture
def network(backpack: Backpack) -> LanguageNetwork:
    return LanguageNetwork(backpack.float()).eval()


def metrics_of(network: LanguageNetwork) -> SenseMetrics:
    def scored(piece: torch.Tensor) -> ScoredText:
        def loss(x_TD: torch.Tensor) -> torch.Tensor:
            return F.cross_entropy(network.head(x_TD), piece[1:], reduction="sum")

        return ScoredText(piece[:-1], loss, len(piece) - 1)

    assert isinstance(network.encoder, Backpack)
    return sense_metrics(network.encoder, [scored(torch.from_numpy(piece)) for piece in PIECES])


def without(sense: int, senses: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return a hook that sets the weights of one sense to zero."""
    return lambda weights_BNTS: weights_BNTS * (torch.arange(senses) != sense)[:, None, None]


def test_the_cost_of_a_sense_is_the_increase_of_the_loss_without_it(network: LanguageNetwork) -> None:
    metrics = metrics_of(network)
    senses = len(metrics.use)

    def loss() -> float:
        with torch.no_grad():
            texts = [torch.from_numpy(piece) for piece in PIECES]
            losses = [F.cross_entropy(network(ids[None, :-1])[0], ids[1:], reduction="sum") for ids in texts]
        return sum(each.item() for each in losses)

    whole = loss()
    for sense in range(senses):
        with hooked(network.encoder, {"sense_weights": without(sense, senses)}):
            cost = (loss() - whole) / 8
        assert metrics.cost_without[sense] == pytest.approx(cost, abs=1e-5)


def test_uses_sum_to_one_and_uniform_weights_have_the_largest_entropy(network: LanguageNetwork) -> None:
    metrics = metrics_of(network)
    assert sum(metrics.use) == pytest.approx(1)
    assert all(0 < entropy < np.log(5) for entropy in metrics.entropy)
    encoder = network.encoder
    assert isinstance(encoder, Backpack)
    assert encoder.sense_attention is not None
    torch.nn.init.zeros_(encoder.sense_attention.project.weight)
    torch.nn.init.zeros_(encoder.sense_attention.project.bias)
    # The entropy of uniform weights is the logarithm of the number of visible tokens, here averaged over positions.
    uniform = (np.log(np.arange(1, 6)).sum() + np.log(np.arange(1, 4)).sum()) / 8
    assert metrics_of(network).entropy == pytest.approx([uniform] * len(metrics.use), abs=1e-5)


def test_equal_senses_have_rank_one_and_cosine_similarity_one(network: LanguageNetwork) -> None:
    encoder = network.encoder
    assert isinstance(encoder, Backpack)
    before = metrics_of(network)
    assert before.rank == 4
    assert before.cosine < 0.9
    with torch.no_grad():
        assert isinstance(encoder.sense_network, SenseNetwork)
        spread = encoder.sense_network.spread
        spread.weight.copy_(spread.weight[: encoder.width].repeat(4, 1))
        spread.bias.copy_(spread.bias[: encoder.width].repeat(4))
    after = metrics_of(network)
    assert after.cosine == pytest.approx(1)
    assert after.rank == 1


@pytest.mark.parametrize("kind", [ClassificationNetwork, TaggingNetwork])
def test_every_validation_of_labels_reports_the_cost_of_each_sense(
    kind: type[ClassificationNetwork] | type[TaggingNetwork],
) -> None:
    network = kind(make("backpack", causal=False).float(), 3).eval()
    boundary = 10
    ids = np.array([boundary, 3, 1, 4, boundary, 2, 6, 5, 1, boundary])
    # Tag 3 is unknown to the network, and some positions have no tag.
    tags = np.array([NO_TARGET, 0, 3, 2, NO_TARGET, 1, NO_TARGET, 0, 2, NO_TARGET])
    gold = np.array([2, 0]) if kind is ClassificationNetwork else tags
    labeller: Labeller
    if isinstance(network, TaggingNetwork):
        labeller, per_token = NetworkTagger(network, boundary), True
    else:
        labeller, per_token = NetworkLabeller(network, boundary), False
    job = LabelJob(network, labeller, ids, gold, boundary, TrainingSettings(), (ids, gold), per_token=per_token)
    whole = job.validate()
    assert whole is not None
    assert whole.senses is not None
    senses = len(whole.senses["use"])
    for sense in range(senses):
        with hooked(network, {"encoder.sense_weights": without(sense, senses)}):
            ablated = job.validate()
        assert ablated is not None
        assert whole.senses["cost_without"][sense] == pytest.approx(ablated.loss - whole.loss, abs=1e-5)


def test_the_diversity_penalty_reduces_the_similarity_of_senses() -> None:
    encoder = make("backpack")
    assert isinstance(encoder, Backpack)
    ids = torch.tensor([[3, 1, 4, 1, 5]])
    assert encoder.penalty(ids) is None
    encoder.settings = encoder.settings.model_copy(update={"diversity": 2.0})
    first = encoder.penalty(ids)
    assert first is not None
    unit = F.normalize(encoder.sense_lookup.compute(torch.tensor([1, 3, 4, 5])), dim=-1)
    squares = (unit @ unit.transpose(1, 2)).square()
    mean_square = torch.stack([squares[:, a, b] for a in range(4) for b in range(4) if a != b]).mean()
    torch.testing.assert_close(first, 2 * mean_square)
    optimizer = torch.optim.SGD(encoder.parameters(), lr=1.0)
    penalties = []
    for _ in range(20):
        optimizer.zero_grad()
        penalty = encoder.penalty(ids)
        assert penalty is not None
        penalty.backward()
        optimizer.step()
        penalties.append(penalty.item())
    assert penalties[-1] < 0.5 * penalties[0]
