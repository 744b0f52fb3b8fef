"""A Backpack with large weights, and a stand-in for trained models."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from satchel.models.backpack import Backpack
from tests.models.encoders import VOCABULARY, make


@pytest.fixture
def backpack() -> Backpack:
    """A small Backpack whose weights are large enough that its outputs differ."""
    encoder = make("backpack")
    assert isinstance(encoder, Backpack)
    for parameter in encoder.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return encoder


def untrained(network: Any) -> Any:
    """Return the subject of a language network without a run folder; its tokens are named after their ids."""
    tokenizer = SimpleNamespace(text_of=lambda id_: f"word {id_}", size=VOCABULARY - 1, boundary=10, unknown=None)
    return SimpleNamespace(
        network=network, task="lm", tokenizer=tokenizer, source_tokenizer=tokenizer, folder=Path("none"), labels=()
    )
