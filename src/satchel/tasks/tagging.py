"""Tagging: a label for each position. Letters: B batch, T time, D width, C tags, N tokens."""

import numpy as np
from torch import Tensor, nn

from satchel.data.batches import split_documents
from satchel.models.encoder import Encoder
from satchel.nn.sites import Site
from satchel.predictor import Floats, Ids
from satchel.tasks.objectives import NO_TARGET, Reduction, cross_entropy
from satchel.tasks.windows import encode_texts, in_batches


class TaggingNetwork(nn.Module):
    """An encoder and a linear map from each position's encoding to the scores of the tags."""

    def __init__(self, encoder: Encoder, tags: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = nn.Linear(encoder.width, tags)
        self.logits = Site()

    def forward(self, ids_BT: Tensor, keep_BT: Tensor | None = None) -> Tensor:
        """Return the (B, T, C) scores."""
        scores: Tensor = self.logits(self.head(encode_texts(self.encoder, ids_BT, keep_BT)))
        return scores

    def loss(
        self,
        ids_BT: Tensor,
        tags_BT: Tensor,
        keep_BT: Tensor | None = None,
        reduction: Reduction = "mean",
        *,
        smoothing: float = 0.0,
        weights_C: Tensor | None = None,
    ) -> Tensor:
        """Return how wrong the scores are; padding has no tag."""
        if keep_BT is not None:
            tags_BT = tags_BT.masked_fill(~keep_BT, NO_TARGET)
        encoded_BTD = encode_texts(self.encoder, ids_BT, keep_BT)
        return cross_entropy(
            encoded_BTD.flatten(0, 1),
            self.head.weight,
            tags_BT.flatten(),
            self.head.bias,
            reduction=reduction,
            smoothing=smoothing,
            weights_V=weights_C,
        )


class NetworkTagger:
    """A network as evaluation sees it: log-probabilities of the tags of every token."""

    def __init__(self, network: TaggingNetwork, boundary: int) -> None:
        self.network = network
        self.boundary = boundary

    def label(self, ids_T: Ids) -> Floats:
        """Return the (N, C) log-probabilities of the tags of N ids; those of the boundaries mean nothing."""
        logprobs_NC = np.zeros((len(ids_T), self.network.head.out_features))
        texts = split_documents(ids_T, self.boundary)
        for rows, ids_BT, keep_BT in in_batches(self.network, ids_T, self.boundary):
            found_BTC = self.network(ids_BT, keep_BT).cpu().double().log_softmax(dim=-1).numpy()
            for row, found_TC in zip(rows, found_BTC, strict=True):
                start, stop = texts.starts_R[row], texts.stops_R[row]
                logprobs_NC[start:stop] = found_TC[: stop - start]
        return logprobs_NC
