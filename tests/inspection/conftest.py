"""A Backpack whose weights are large enough to be told apart."""

import pytest
import torch

from satchel.models.backpack import Backpack
from tests.models.encoders import make


@pytest.fixture
def backpack() -> Backpack:
    """A small Backpack."""
    made = make("backpack")
    assert isinstance(made, Backpack)
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return made
