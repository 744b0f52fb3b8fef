"""Classification: a label for a whole text. Letters: B batch, T time, D width, C classes, E examples."""

import numpy as np
import torch.nn.functional as F
from torch import Tensor, nn

from satchel.models.encoder import Encoder
from satchel.models.settings import Pooling
from satchel.nn.sites import Site
from satchel.predictor import Floats, Ids
from satchel.tasks.objectives import Reduction
from satchel.tasks.windows import encode_texts, in_batches

# What the sum of a text's vectors is divided by: this power of their number.
POWERS = {"mean": 1.0, "root": 0.5}


def pooled(encoded_BTD: Tensor, keep_BT: Tensor | None = None, pooling: Pooling = "mean") -> Tensor:
    """Return the mean of each row's vectors (B, D), padding left out; zeros where there is nothing else.

    With `root` it is their sum over the root of their number: what is said in many words counts for more.
    """
    if keep_BT is None:
        return encoded_BTD.sum(dim=1) * share(encoded_BTD.shape[1], pooling)
    kept_BT1 = keep_BT[..., None].to(encoded_BTD.dtype)
    return (encoded_BTD * kept_BT1).sum(dim=1) / kept_BT1.sum(dim=1).clamp(min=1).pow(POWERS[pooling])


def share(length: int, pooling: Pooling) -> float:
    """Return how much each vector of a text has of what is pooled."""
    return float(max(1, length) ** -POWERS[pooling])


class ClassificationNetwork(nn.Module):
    """An encoder, the mean of its vectors, and a linear map from that to the scores of the classes."""

    def __init__(self, encoder: Encoder, classes: int, pooling: Pooling = "mean") -> None:
        super().__init__()
        self.encoder, self.pooling = encoder, pooling
        self.head = nn.Linear(encoder.width, classes)
        self.pooled, self.logits = Site(), Site()

    def forward(self, ids_BT: Tensor, keep_BT: Tensor | None = None) -> Tensor:
        """Return the (B, C) scores."""
        encoded_BTD = encode_texts(self.encoder, ids_BT, keep_BT)
        scores: Tensor = self.logits(self.head(self.pooled(pooled(encoded_BTD, keep_BT, self.pooling))))
        return scores

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
        """Return the sum or the mean over texts of -log P(class), each times the weight of its class."""
        scores_BC = self.forward(ids_BT, keep_BT)
        losses_B = F.cross_entropy(scores_BC, classes_B, weights_C, label_smoothing=smoothing, reduction="none")
        return losses_B.sum() if reduction == "sum" else losses_B.mean()


class NetworkLabeller:
    """A network as evaluation sees it. It is a Labeller."""

    def __init__(self, network: ClassificationNetwork, boundary: int) -> None:
        self.network = network
        self.boundary = boundary

    def label(self, ids_T: Ids) -> Floats:
        """Return the (E, C) log-probabilities of the classes of texts, each followed by a boundary."""
        examples = int((np.asarray(ids_T) == self.boundary).sum()) - 1
        logprobs_EC = np.empty((examples, self.network.head.out_features))
        for rows, ids_BT, keep_BT in in_batches(self.network, ids_T, self.boundary):
            logprobs_EC[rows] = self.network(ids_BT, keep_BT).cpu().double().log_softmax(dim=-1).numpy()
        return logprobs_EC
