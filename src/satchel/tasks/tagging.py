"""Tagging: a label for each position. Letters: B batch, T time, D width, C classes."""

from torch import Tensor, nn

from satchel.models.contract import Encoder
from satchel.nn.sites import Site
from satchel.tasks.objectives import NO_TARGET, Reduction, cross_entropy


class TaggingNetwork(nn.Module):
    """An encoder and a linear map from each position's encoding to the scores of the tags."""

    def __init__(self, encoder: Encoder, tags: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = nn.Linear(encoder.width, tags)
        self.logits = Site()

    def forward(self, ids_BT: Tensor, keep_BT: Tensor | None = None) -> Tensor:
        """Return the (B, T, C) scores."""
        scores: Tensor = self.logits(self.head(self.encoder.encode(ids_BT, keep_BT)))
        return scores

    def loss(
        self, ids_BT: Tensor, tags_BT: Tensor, keep_BT: Tensor | None = None, reduction: Reduction = "mean"
    ) -> Tensor:
        """Return how wrong the scores are; padding has no tag."""
        if keep_BT is not None:
            tags_BT = tags_BT.masked_fill(~keep_BT, NO_TARGET)
        encoded_BTD = self.encoder.encode(ids_BT, keep_BT)
        return cross_entropy(
            encoded_BTD.flatten(0, 1), self.head.weight, tags_BT.flatten(), self.head.bias, reduction=reduction
        )
