"""What is trained: the batches of a task, and what its network makes of them."""

import numpy as np
import torch
from torch import Tensor

from satchel.data.batches import Documents, RowBatches, StreamBatches, cut_documents
from satchel.predictor import Ids
from satchel.tasks.language import LanguageNetwork, NetworkPredictor
from satchel.tasks.objectives import NO_TARGET
from satchel.training.settings import TrainingSettings

USUAL_LENGTH = 128


class LanguageJob:
    """A language model: every token of a text from those before it."""

    def __init__(
        self,
        network: LanguageNetwork,
        ids: Ids,
        boundary: int,
        settings: TrainingSettings,
        *,
        stream: bool,
        valid: Ids | None = None,
    ) -> None:
        self.network = network
        self.boundary = boundary
        self.valid = valid
        length: int = settings.length or getattr(network.encoder, "context", None) or USUAL_LENGTH
        self._documents: Documents | None = None
        self._batches: StreamBatches | RowBatches
        if stream:
            self._batches = StreamBatches(ids, length, max(1, settings.batch_tokens // length), settings.seed)
        else:
            self._documents = cut_documents(ids, boundary, length)
            lengths_R = self._documents.stops_R - self._documents.starts_R
            self._batches = RowBatches(lengths_R, settings.batch_tokens, settings.seed)

    @property
    def steps_per_epoch(self) -> int:
        """How many steps it takes to see all of the text."""
        return self._batches.steps_per_epoch

    def batch(self, step: int) -> tuple[Tensor, Tensor]:
        """Return the inputs and targets of a step, each (B, T)."""
        if isinstance(self._batches, StreamBatches):
            inputs_BT, targets_BT = self._batches.batch(step)
        else:
            assert self._documents is not None
            inputs_BT, targets_BT = self._documents.batch(self._batches.rows(step), self.boundary)
        return torch.from_numpy(inputs_BT), torch.from_numpy(targets_BT)

    def loss(self, step: int, part: int, parts: int) -> tuple[Tensor, int]:
        """Return the summed loss of one part of a step's batch, and how many targets it has."""
        inputs_BT, targets_BT = (rows.tensor_split(parts)[part] for rows in self.batch(step))
        loss = self.network.loss(inputs_BT, targets_BT, "sum")
        return loss, int((targets_BT != NO_TARGET).sum())

    def validate(self) -> float | None:
        """Return the nats per token of the held-out text."""
        if self.valid is None:
            return None
        return -float(np.mean(NetworkPredictor(self.network, self.boundary).score(self.valid).logprobs))
