"""Classification: a label for a whole text. Shapes: B batch, T time, D width, C classes, E examples."""

import numpy as np
import torch.nn.functional as F
from torch import Tensor, nn

from satchel.data.batches import split_documents
from satchel.models.encoder import Encoder
from satchel.models.settings import Pooling
from satchel.nn.inference import inference
from satchel.nn.precision import Precision
from satchel.nn.sites import Site
from satchel.predictor import Floats, Ids, checked
from satchel.tasks.objectives import Reduction
from satchel.tasks.windows import encode_texts, text_batches
from satchel.text.windows import Reading

# The sum of a text's encodings is divided by its length to this power.
POWERS = {"mean": 1.0, "root": 0.5}


def pooled(encoded_BTD: Tensor, keep_BT: Tensor | None = None, pooling: Pooling = "mean") -> Tensor:
    """Return the sum of each row's encodings (B, D) over their number, or its square root; zeros for empty rows.

    Padding, where `keep_BT` is False, is left out. With `root`, longer texts have larger vectors.
    """
    if keep_BT is None:
        return encoded_BTD.sum(dim=1) * share(encoded_BTD.shape[1], pooling)
    kept_BT1 = keep_BT[..., None].to(encoded_BTD.dtype)
    return (encoded_BTD * kept_BT1).sum(dim=1) / kept_BT1.sum(dim=1).clamp(min=1).pow(POWERS[pooling])


def share(length: int, pooling: Pooling) -> float:
    """Return the factor of each encoding in the pooled vector of a text."""
    return float(max(1, length) ** -POWERS[pooling])


class ClassificationNetwork(nn.Module):
    """An encoder, pooling over positions, and a linear layer to the logits of the classes."""

    def __init__(self, encoder: Encoder, classes: int, pooling: Pooling = "mean") -> None:
        super().__init__()
        self.encoder, self.pooling = encoder, pooling
        self.head = nn.Linear(encoder.width, classes)
        self.pooled, self.logits = Site(), Site()

    def forward(self, ids_BT: Tensor, keep_BT: Tensor | None = None) -> Tensor:
        """Return the logits (B, C)."""
        encoded_BTD = encode_texts(self.encoder, ids_BT, keep_BT)
        return self.logits(self.head(self.pooled(pooled(encoded_BTD, keep_BT, self.pooling))))

    def loss(
        self,
        ids_BT: Tensor,
        classes_B: Tensor,
        keep_BT: Tensor | None = None,
        reduction: Reduction = "mean",
        *,
        smoothing: float = 0.0,
        weights_C: Tensor | None = None,
    ) -> Tensor:
        """Return the sum or mean over texts of -log P(class), each times the weight of its class."""
        logits_BC = self.forward(ids_BT, keep_BT)
        losses_B = F.cross_entropy(logits_BC, classes_B, weights_C, label_smoothing=smoothing, reduction="none")
        return losses_B.sum() if reduction == "sum" else losses_B.mean()


class NetworkLabeller:
    """Implements `Labeller` for a network."""

    def __init__(self, network: ClassificationNetwork, boundary: int) -> None:
        self.network = network
        self.boundary = boundary
        self.precision: Precision = "float32"

    def reading(self, length: int) -> Reading:
        """Return how a text of `length` tokens is read: in consecutive windows if it is longer than the context."""
        context = self.network.encoder.context
        return Reading(length, 1 if context is None else max(1, -(-length // context)), context)

    def label(self, ids_T: Ids) -> Floats:
        """Return the log-probabilities (E, C) of the classes of texts, each followed by a boundary."""
        documents = split_documents(ids_T, self.boundary)
        logprobs_EC = np.empty((len(documents.starts_R), self.network.head.out_features))
        with inference(self.network, precision=self.precision):
            for rows, ids_BT, keep_BT in text_batches(documents, self.network.head.weight.device):
                logprobs_EC[rows] = self.network(ids_BT, keep_BT).cpu().double().log_softmax(dim=-1).numpy()
        return checked(logprobs_EC)
