"""Functions shared by the training jobs. Shapes: B rows of a batch, T time."""

from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from satchel.data.batches import Ints, seeded_rng, unigram_noise
from satchel.inspection.sense_metrics import ScoredText, sense_metrics
from satchel.models.backpack import Backpack
from satchel.models.encoder import Encoder
from satchel.nn.inference import inference
from satchel.predictor import Ids
from satchel.training.loop import Loss
from satchel.training.settings import TrainingSettings

# Number of held-out tokens used to measure the senses of a Backpack.
SENSE_TOKENS = 512


def add_penalty(encoder: Encoder, ids_BT: Tensor, total: Tensor, targets: int) -> Tensor:
    """Return a summed loss plus the encoder's regularisation term, which is per target."""
    penalty = encoder.penalty(ids_BT)
    return total if penalty is None else total + targets * penalty


def zero_loss(network: nn.Module) -> Loss:
    """Return the loss of an empty shard: zero, with zero gradients for all parameters."""
    zeros = torch.stack([parameter.sum() * 0 for parameter in network.parameters()])
    return Loss(zeros.sum(), 0, 0)


def with_noise(ids_BT: Ints, text: Ids, boundary: int, settings: TrainingSettings, step: int) -> Ints:
    """Return the input ids with the fraction `settings.noise` replaced by random tokens of the text."""
    if not settings.noise:
        return ids_BT
    return unigram_noise(ids_BT, text, settings.noise, boundary, seeded_rng("noise", settings.seed, step))


def to_device(network: nn.Module, *tensors: Tensor) -> tuple[Tensor, ...]:
    """Return the tensors on the device of the network."""
    device = next(network.parameters()).device
    return tensors if device.type == "cpu" else tuple(tensor.to(device) for tensor in tensors)


def ids_tensor(network: nn.Module, ids: Ids | Ints) -> Tensor:
    """Return ids as a tensor on the device of the network."""
    return to_device(network, torch.from_numpy(np.asarray(ids, np.int64)))[0]


def measure_senses(backpack: Backpack, texts: list[ScoredText]) -> dict[str, Any] | None:
    """Return use, similarity and ablation costs of the senses on some texts; None if there are none."""
    if not texts:
        return None
    with inference(backpack):
        return asdict(sense_metrics(backpack, texts))
