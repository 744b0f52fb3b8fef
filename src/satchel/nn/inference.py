"""Context managers that switch a network to evaluation mode."""

import contextlib
from collections.abc import Iterator

import torch
from torch import nn

from satchel.nn.cache import Cache, caching
from satchel.nn.precision import Precision, autocast


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
def inference(network: nn.Module, cache: Cache | None = None, precision: Precision = "float32") -> Iterator[None]:
    """Run the block with the network in evaluation mode, without gradients, and with a cache, by default a new one.

    With precision bfloat16, matrix products are computed in bfloat16.
    """
    with evaluation_mode(network), torch.inference_mode(), caching({} if cache is None else cache):
        if precision == "float32":  # without the overhead of autocast: this is entered for every generated token
            yield
        else:
            with autocast(next(network.parameters()).device.type, precision):
                yield
