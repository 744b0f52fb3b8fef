"""How senses fare: by hand, and what it costs to do without one."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from satchel.looking.health import sense_health
from satchel.models.backpack import Backpack
from satchel.nn.senses import SenseNetwork
from satchel.nn.sites import watching
from satchel.tasks.language import LanguageNetwork
from tests.models.encoders import make

PIECES = [np.array([10, 3, 1, 4, 1, 5]), np.array([10, 2, 6, 5])]


@pytest.fixture
def network(backpack: Backpack) -> LanguageNetwork:
    return LanguageNetwork(backpack.float()).eval()


def test_what_a_sense_is_worth_is_what_a_text_costs_without_it(network: LanguageNetwork) -> None:
    found = sense_health(network, PIECES)
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
                with watching(network.encoder, {"sense_weights": drop}):
                    without = network(ids[:, :-1])
            for scores, sign in ((without, 1), (whole, -1)):
                cost += sign * F.cross_entropy(scores[0], ids[0, 1:], reduction="sum").item()
        assert found.cost_without[sense] == pytest.approx(cost / 8, abs=1e-5)


def test_shares_add_up_and_sharp_senses_have_no_entropy(network: LanguageNetwork) -> None:
    found = sense_health(network, PIECES)
    assert sum(found.use) == pytest.approx(1)
    assert all(0 < entropy < np.log(5) for entropy in found.entropy)
    encoder = network.encoder
    assert isinstance(encoder, Backpack)
    assert encoder.weigh is not None
    torch.nn.init.zeros_(encoder.weigh.project.weight)
    torch.nn.init.zeros_(encoder.weigh.project.bias)
    # Weights that are all alike: the mean over positions of the logarithm of how many words are seen.
    uniform = (np.log(np.arange(1, 6)).sum() + np.log(np.arange(1, 4)).sum()) / 8
    assert sense_health(network, PIECES).entropy == pytest.approx([uniform] * len(found.use), abs=1e-5)


def test_senses_that_are_one_have_rank_one_and_a_cosine_of_one(network: LanguageNetwork) -> None:
    encoder = network.encoder
    assert isinstance(encoder, Backpack)
    before = sense_health(network, PIECES)
    assert before.rank == 4
    assert before.cosine < 0.9
    with torch.no_grad():
        assert isinstance(encoder.make_senses, SenseNetwork)
        spread = encoder.make_senses.spread
        spread.weight.copy_(spread.weight[: encoder.width].repeat(4, 1))
        spread.bias.copy_(spread.bias[: encoder.width].repeat(4))
    after = sense_health(network, PIECES)
    assert after.cosine == pytest.approx(1)
    assert after.rank == 1


def test_a_penalty_makes_senses_less_alike() -> None:
    made = make("backpack")
    assert isinstance(made, Backpack)
    ids = torch.tensor([[3, 1, 4, 1, 5]])
    assert made.penalty(ids) is None
    made.settings = made.settings.model_copy(update={"diversity": 2.0})
    first = made.penalty(ids)
    assert first is not None
    unit = F.normalize(made.made(torch.tensor([1, 3, 4, 5])), dim=-1)
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
