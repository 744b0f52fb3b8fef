"""How senses fare: by hand, and what it costs to do without one."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from satchel.data.batches import NO_TARGET
from satchel.inspection.sense_metrics import Read, SenseHealth, sense_health
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


def health(network: LanguageNetwork) -> SenseHealth:
    assert isinstance(network.encoder, Backpack)

    def read(piece: torch.Tensor) -> Read:
        return Read(
            piece[:-1], lambda x_TD: F.cross_entropy(network.head(x_TD), piece[1:], reduction="sum"), len(piece) - 1
        )

    return sense_health(network.encoder, [read(torch.from_numpy(piece)) for piece in PIECES])


def test_what_a_sense_is_worth_is_what_a_text_costs_without_it(network: LanguageNetwork) -> None:
    found = health(network)
    senses = len(found.use)
    for sense in range(senses):

        def drop(weights_BNTS: torch.Tensor, sense: int = sense) -> torch.Tensor:
            kept = torch.ones(senses)
            kept[sense] = 0
            return weights_BNTS * kept[:, None, None]

        cost = 0.0
        for piece in PIECES:
            ids = torch.from_numpy(piece)[None]
            with torch.no_grad():
                whole = network(ids[:, :-1])
                with hooked(network.encoder, {"sense_weights": drop}):
                    without = network(ids[:, :-1])
            for scores, sign in ((without, 1), (whole, -1)):
                cost += sign * F.cross_entropy(scores[0], ids[0, 1:], reduction="sum").item()
        assert found.cost_without[sense] == pytest.approx(cost / 8, abs=1e-5)


def test_shares_add_up_and_sharp_senses_have_no_entropy(network: LanguageNetwork) -> None:
    found = health(network)
    assert sum(found.use) == pytest.approx(1)
    assert all(0 < entropy < np.log(5) for entropy in found.entropy)
    encoder = network.encoder
    assert isinstance(encoder, Backpack)
    assert encoder.sense_attention is not None
    torch.nn.init.zeros_(encoder.sense_attention.project.weight)
    torch.nn.init.zeros_(encoder.sense_attention.project.bias)
    # Weights that are all alike: the mean over positions of the logarithm of how many words are seen.
    uniform = (np.log(np.arange(1, 6)).sum() + np.log(np.arange(1, 4)).sum()) / 8
    assert health(network).entropy == pytest.approx([uniform] * len(found.use), abs=1e-5)


def test_senses_that_are_one_have_rank_one_and_a_cosine_of_one(network: LanguageNetwork) -> None:
    encoder = network.encoder
    assert isinstance(encoder, Backpack)
    before = health(network)
    assert before.rank == 4
    assert before.cosine < 0.9
    with torch.no_grad():
        assert isinstance(encoder.sense_network, SenseNetwork)
        spread = encoder.sense_network.spread
        spread.weight.copy_(spread.weight[: encoder.width].repeat(4, 1))
        spread.bias.copy_(spread.bias[: encoder.width].repeat(4))
    after = health(network)
    assert after.cosine == pytest.approx(1)
    assert after.rank == 1


@pytest.mark.parametrize("kind", [ClassificationNetwork, TaggingNetwork])
def test_what_a_sense_is_worth_to_labels_is_said_at_every_validation(
    kind: type[ClassificationNetwork] | type[TaggingNetwork],
) -> None:
    network = kind(make("backpack", causal=False).float(), 3).eval()
    boundary = 10
    ids = np.array([boundary, 3, 1, 4, boundary, 2, 6, 5, 1, boundary])
    # A tag that nobody has learned, and places without one.
    tags = np.array([NO_TARGET, 0, 3, 2, NO_TARGET, 1, NO_TARGET, 0, 2, NO_TARGET])
    gold = np.array([2, 0]) if kind is ClassificationNetwork else tags
    labeller: Labeller
    if isinstance(network, TaggingNetwork):
        labeller, per_token = NetworkTagger(network, boundary), True
    else:
        labeller, per_token = NetworkLabeller(network, boundary), False
    job = LabelJob(network, labeller, ids, gold, boundary, TrainingSettings(), (ids, gold), per_token=per_token)
    found = job.validate()
    assert found is not None
    assert found.senses is not None
    senses = len(found.senses["use"])
    for sense in range(senses):

        def drop(weights_BNTS: torch.Tensor, sense: int = sense) -> torch.Tensor:
            return weights_BNTS * (torch.arange(senses) != sense)[:, None, None]

        with hooked(network, {"encoder.sense_weights": drop}):
            without = job.validate()
        assert without is not None
        assert found.senses["cost_without"][sense] == pytest.approx(without.loss - found.loss, abs=1e-5)


def test_a_penalty_makes_senses_less_alike() -> None:
    made = make("backpack")
    assert isinstance(made, Backpack)
    ids = torch.tensor([[3, 1, 4, 1, 5]])
    assert made.penalty(ids) is None
    made.settings = made.settings.model_copy(update={"diversity": 2.0})
    first = made.penalty(ids)
    assert first is not None
    unit = F.normalize(made.compute_senses(torch.tensor([1, 3, 4, 5])), dim=-1)
    squares = (unit @ unit.transpose(1, 2)).square()
    by_hand = torch.stack([squares[:, a, b] for a in range(4) for b in range(4) if a != b]).mean()
    torch.testing.assert_close(first, 2 * by_hand)
    optimizer = torch.optim.SGD(made.parameters(), lr=1.0)
    penalties = []
    for _ in range(20):
        optimizer.zero_grad()
        penalty = made.penalty(ids)
        assert penalty is not None
        penalty.backward()
        optimizer.step()
        penalties.append(penalty.item())
    assert penalties[-1] < 0.5 * penalties[0]
