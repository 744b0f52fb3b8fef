"""Translation: predict each target token from the source and the target tokens before it.

A source ends with a boundary; a target starts and ends with one.
Shapes: B batch, S source time, T target time, D width, V vocabulary, R rows of the data.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from satchel.data.batches import NO_TARGET, Ints, group_by_length, pad
from satchel.models.pair import PairModel
from satchel.models.recurrent_pair import RecurrentPair
from satchel.nn.inference import inference
from satchel.nn.linear import Linear
from satchel.nn.precision import Precision
from satchel.nn.sites import Site
from satchel.predictor import Floats, Ids, checked
from satchel.tasks.objectives import LOGITS_AT_ONCE, Reduction, cross_entropy

# Number of tokens in one batch of inference, padding included.
TOKENS_AT_ONCE = 1 << 13


class PairBatch(NamedTuple):
    """Sources (B, S) and their padding mask; decoder inputs and targets (B, T)."""

    sources: Tensor
    keep: Tensor
    inputs: Tensor
    targets: Tensor


class TranslationNetwork(nn.Module):
    """A pair model and a linear layer from its encodings to the logits of the target tokens.

    A recurrent model has its own output matrix and bias; the others use the embedding of the target tokens.
    """

    def __init__(self, pair: PairModel) -> None:
        super().__init__()
        self.pair = pair
        is_recurrent = isinstance(pair, RecurrentPair)
        self.head = Linear(pair.output_width, pair.words.num_embeddings, bias=is_recurrent)
        if is_recurrent:
            nn.init.normal_(self.head.weight, std=0.02)
            nn.init.zeros_(self.head.bias)
        else:
            self.head.weight = pair.words.weight
        self.logits = Site()

    def forward(self, batch: PairBatch) -> Tensor:
        """Return the logits (B, T, V) of the token after each decoder input."""
        return self.scores(self.encoded(batch))

    def encoded(self, batch: PairBatch) -> Tensor:
        """Return the encodings of the decoder inputs."""
        # Attention without a mask is faster.
        return self.pair.encode(batch.inputs, self.pair.read(batch.sources, None if batch.keep.all() else batch.keep))

    def scores(self, encoded: Tensor) -> Tensor:
        """Return the logits of all target tokens."""
        return self.logits(self.head(encoded))

    def loss(self, batch: PairBatch, reduction: Reduction = "mean", *, smoothing: float = 0.0) -> Tensor:
        """Return the cross-entropy of the targets, without padding."""
        return cross_entropy(
            self.encoded(batch).flatten(0, 1),
            self.head.weight,
            batch.targets.flatten(),
            self.head.bias,
            reduction=reduction,
            smoothing=smoothing,
        )


def source_batch(sources: list[Ids], boundary: int) -> tuple[Tensor, Tensor]:
    """Return the sources, each with a final boundary, as a padded tensor (B, S), and the padding mask."""
    ids_BS, keep_BS = pad([np.append(ids, boundary) for ids in sources], boundary)
    return torch.from_numpy(ids_BS), torch.from_numpy(keep_BS)


def pair_batch(
    sources: list[Ids], targets: list[Ids], source_boundary: int, boundary: int, inputs: list[Ids] | None = None
) -> PairBatch:
    """Return a batch of pairs. `inputs` replaces the targets as decoder inputs (noisy teacher forcing)."""
    inputs_BT, _ = pad([np.append(boundary, ids) for ids in (targets if inputs is None else inputs)], boundary)
    targets_BT, _ = pad([np.append(ids, boundary) for ids in targets], NO_TARGET)
    return PairBatch(*source_batch(sources, source_boundary), torch.from_numpy(inputs_BT), torch.from_numpy(targets_BT))


class NetworkTranslator:
    """Computes the log-probabilities of given translations for evaluation."""

    def __init__(self, network: TranslationNetwork, source_boundary: int, boundary: int) -> None:
        self.network = network
        self.source_boundary, self.boundary = source_boundary, boundary
        self.precision: Precision = "float32"

    @property
    def device(self) -> torch.device:
        return self.network.head.weight.device

    def score(self, sources: Sequence[Ids], targets: Sequence[Ids]) -> list[Floats]:
        """Return, for each pair, the log-probabilities of the target's tokens and its final boundary."""
        logprobs_R: list[Floats] = [np.empty(0)] * len(sources)
        with inference(self.network, precision=self.precision):
            for rows, batch in self._batches(sources, targets):
                logprobs_BT = self._logprobs(batch)
                for row, logprobs_T in zip(rows, logprobs_BT.cpu().double().numpy(), strict=True):
                    logprobs_R[row] = checked(logprobs_T[: len(targets[row]) + 1])
        return logprobs_R

    def _logprobs(self, batch: PairBatch) -> Tensor:
        """Return the log-probabilities (B, T) of the targets, without holding all logits in memory."""
        encoded_ND, targets_N1 = self.network.encoded(batch).flatten(0, 1), batch.targets.clamp(min=0).view(-1, 1)
        rows, dtype = max(1, LOGITS_AT_ONCE // len(self.network.head.weight)), self.network.head.weight.dtype
        logprobs = [
            self.network.scores(encoded).to(dtype).log_softmax(dim=-1).gather(-1, targets)
            for encoded, targets in zip(encoded_ND.split(rows), targets_N1.split(rows), strict=True)
        ]
        return torch.cat(logprobs).view_as(batch.targets)

    def _batches(self, sources: Sequence[Ids], targets: Sequence[Ids]) -> Iterator[tuple[Ints, PairBatch]]:
        lengths_R = np.array([max(len(a), len(b)) + 1 for a, b in zip(sources, targets, strict=True)], np.int64)
        for rows in group_by_length(lengths_R, TOKENS_AT_ONCE):
            batch = pair_batch(
                [sources[row] for row in rows], [targets[row] for row in rows], self.source_boundary, self.boundary
            )
            yield rows, PairBatch(*(part.to(self.device) for part in batch))
