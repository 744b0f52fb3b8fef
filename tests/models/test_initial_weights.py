"""Initial weights let a network learn within a few steps."""

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
    """Return a text in which each token is followed by one of two others; unigram frequencies are nearly uniform."""
    rng = np.random.default_rng(0)
    follows = np.stack([rng.permutation(WORDS), rng.permutation(WORDS)])
    ids = [0]
    for turn in rng.integers(0, 2, length):
        ids.append(int(follows[turn, ids[-1]]))
    return torch.tensor(ids)


@pytest.mark.parametrize("settings", [RecurrentSettings(kind="rnn"), RecurrentSettings(kind="lstm"), WindowSettings()])
def test_a_language_model_learns_more_than_unigram_frequencies_within_a_few_steps(
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
    assert loss.item() < math.log(WORDS) / 2  # the unigram entropy is about log(WORDS)
