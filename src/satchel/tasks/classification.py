"""Classification: a label for a whole text. Letters: B batch, T time, D width, C classes."""

import torch.nn.functional as F
from torch import Tensor, nn

from satchel.models.contract import Encoder
from satchel.nn.sites import Site


def pooled(encoded_BTD: Tensor, keep_BT: Tensor | None = None) -> Tensor:
    """Return the mean of each row's vectors (B, D), padding left out; zeros where there is nothing else."""
    if keep_BT is None:
        return encoded_BTD.mean(dim=1)
    kept_BT1 = keep_BT[..., None].to(encoded_BTD.dtype)
    return (encoded_BTD * kept_BT1).sum(dim=1) / kept_BT1.sum(dim=1).clamp(min=1)


class ClassificationNetwork(nn.Module):
    """An encoder, the mean of its vectors, and a linear map from that to the scores of the classes."""

    def __init__(self, encoder: Encoder, classes: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = nn.Linear(encoder.width, classes)
        self.pooled, self.logits = Site(), Site()

    def forward(self, ids_BT: Tensor, keep_BT: Tensor | None = None) -> Tensor:
        """Return the (B, C) scores."""
        scores: Tensor = self.logits(self.head(self.pooled(pooled(self.encoder.encode(ids_BT, keep_BT), keep_BT))))
        return scores

    def loss(self, ids_BT: Tensor, classes_B: Tensor, keep_BT: Tensor | None = None) -> Tensor:
        """Return the mean over texts of -log P(class)."""
        return F.cross_entropy(self.forward(ids_BT, keep_BT), classes_B)
