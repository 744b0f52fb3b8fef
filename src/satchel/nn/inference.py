"""Context managers that switch a network to evaluation mode."""

import contextlib
from collections.abc import Iterator

import torch
from torch import nn

from satchel.nn.cache import Cache, caching


@contextlib.contextmanager
def evaluation_mode(network: nn.Module) -> Iterator[None]:
    """Run the block with the network in evaluation mode; gradients are left as they are."""
    # Switching visits every module, so nothing is done for a network that is in evaluation mode already: this is
    # entered for every generated token.
    was_training = network.training
    if was_training:
        network.eval()
    try:
        yield
    finally:
        if was_training:
            network.train()


@contextlib.contextmanager
def inference(network: nn.Module, cache: Cache | None = None) -> Iterator[None]:
    """Run the block with the network in evaluation mode, without gradients, and with a cache, by default a new one."""
    with evaluation_mode(network), torch.inference_mode(), caching({} if cache is None else cache):
        yield
