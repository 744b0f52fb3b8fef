"""How networks begin decides whether they learn anything soon."""

import math

import numpy as np
import pytest
import torch

from satchel.models.build import build_encoder
from satchel.models.recurrent import RecurrentSettings
from satchel.models.window import WindowSettings
from satchel.tasks.language import LanguageNetwork, shifted

WORDS, UPDATES = 200, 45


def chain(length: int) -> torch.Tensor:
    """Return a text in which each word is followed by one of two others: frequencies alone tell next to nothing."""
    chance = np.random.default_rng(0)
    follows = np.stack([chance.permutation(WORDS), chance.permutation(WORDS)])
    ids = [0]
    for turn in chance.integers(0, 2, length):
        ids.append(int(follows[turn, ids[-1]]))
    return torch.tensor(ids)


@pytest.mark.parametrize("settings", [RecurrentSettings(kind="rnn"), RecurrentSettings(kind="lstm"), WindowSettings()])
def test_a_language_model_learns_more_than_frequencies_within_some_updates(
    settings: RecurrentSettings | WindowSettings,
) -> None:
    torch.manual_seed(0)
    encoder = build_encoder(settings.model_copy(update={"width": 64}), WORDS, causal=True)
    network = LanguageNetwork(encoder)
    optimizer = torch.optim.AdamW(network.parameters(), lr=3e-3)
    inputs, targets = shifted(chain(16 * 65 - 1).view(16, 65))
    for _ in range(UPDATES):
        optimizer.zero_grad()
        loss = network.loss(inputs, targets)
        loss.backward()
        optimizer.step()
    assert loss.item() < math.log(WORDS) / 2  # all words are about equally frequent
