"""Inference switches a network to evaluation mode, and back however the block ends."""

import pytest
import torch
from torch import nn

from satchel.nn.inference import evaluation_mode, inference


def test_the_mode_is_restored_after_the_block_and_after_an_error() -> None:
    for is_training in (True, False):
        network = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5)).train(is_training)
        with inference(network):
            assert not any(module.training for module in network.modules())
        assert all(module.training == is_training for module in network.modules())
        with pytest.raises(ZeroDivisionError), inference(network):
            raise ZeroDivisionError
        assert all(module.training == is_training for module in network.modules())


def test_inference_computes_no_gradients_and_evaluation_mode_leaves_them_on() -> None:
    network = nn.Linear(2, 2)
    with inference(network):
        assert network(torch.ones(2)).is_inference()
    with evaluation_mode(network):
        assert network(torch.ones(2)).requires_grad


def test_blocks_nest() -> None:
    network = nn.Linear(2, 2).train()
    with inference(network):
        with inference(network):
            pass
        assert not network.training
    assert network.training
