"""Tagging: a label for each token. Shapes: B batch, T time, D width, C tags, N tokens."""

import numpy as np
from torch import Tensor, nn

from satchel.data.batches import NO_TARGET, Documents, split_documents
from satchel.models.encoder import Encoder
from satchel.nn.inference import inference
from satchel.nn.precision import Precision
from satchel.nn.sites import Site
from satchel.predictor import Floats, Ids, checked
from satchel.tasks.objectives import Reduction, cross_entropy
from satchel.tasks.windows import encode_texts, overlapping_windows, text_batches
from satchel.text.windows import Reading


class TaggingNetwork(nn.Module):
    """An encoder and a linear layer from the encoding of a token to the logits of the tags."""

    def __init__(self, encoder: Encoder, tags: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = nn.Linear(encoder.width, tags)
        self.logits = Site()

    def forward(self, ids_BT: Tensor, keep_BT: Tensor | None = None) -> Tensor:
        """Return the logits (B, T, C)."""
        return self.logits(self.head(encode_texts(self.encoder, ids_BT, keep_BT)))

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
        """Return the cross-entropy of the tags, without padding."""
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
    """Computes the log-probabilities of tags for evaluation."""

    def __init__(self, network: TaggingNetwork, boundary: int) -> None:
        self.network = network
        self.boundary = boundary
        self.precision: Precision = "float32"

    def label(self, ids_T: Ids) -> Floats:
        """Return the log-probabilities (N, C) of the tags of all ids; the rows of boundaries are zeros.

        Texts longer than the context are read in overlapping windows.
        """
        logprobs_NC = np.zeros((len(ids_T), self.network.head.out_features))
        windows, predicted = self._windows(split_documents(ids_T, self.boundary))
        with inference(self.network, precision=self.precision):
            for rows, ids_BT, keep_BT in text_batches(windows, self.network.head.weight.device):
                logprobs_BTC = self.network(ids_BT, keep_BT).cpu().double().log_softmax(dim=-1).numpy()
                for row, logprobs_TC in zip(rows, logprobs_BTC, strict=True):
                    first, stop = predicted[row]
                    start = windows.starts_R[row]
                    logprobs_NC[first:stop] = logprobs_TC[first - start : stop - start]
        return checked(logprobs_NC)

    def reading(self, length: int) -> Reading:
        """Return how a text of `length` tokens is read."""
        encoder = self.network.encoder
        windows = overlapping_windows(length, encoder.context, causal=encoder.causal)
        return Reading(length, len(windows), encoder.context)

    def _windows(self, documents: Documents) -> tuple[Documents, list[tuple[int, int]]]:
        """Return the windows of all documents, and the first position that each predicts and the position after it."""
        encoder, windows, predicted = self.network.encoder, [], []
        for begin, length in zip(documents.starts_R.tolist(), documents.lengths.tolist(), strict=True):
            for window, positions in overlapping_windows(length, encoder.context, causal=encoder.causal):
                windows.append((begin + window.start, begin + window.stop))
                predicted.append((begin + positions.start, begin + positions.stop))
        starts_R, stops_R = np.array(windows, np.int64).reshape(-1, 2).T
        return Documents(documents.ids, starts_R, stops_R), predicted
