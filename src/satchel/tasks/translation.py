"""Translation: the probability of each target token from a source and the target tokens before it.

A source ends with a boundary; a target begins with one, and its end is one that has to be told too.
Letters: B batch, S time of the source, T time of the target, D width, V vocabulary, R rows of the data.
"""

import contextlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from satchel.data.batches import NO_TARGET, Ints, group_by_length, pad
from satchel.models.pair import Pair
from satchel.models.recurrent_pair import RecurrentPair
from satchel.nn.linear import Linear
from satchel.nn.sites import Site
from satchel.predictor import Floats, Ids
from satchel.tasks.objectives import Reduction, cross_entropy

# Tokens encoded at once when nothing is learned from them.
TOKENS_AT_ONCE = 1 << 13


class PairBatch(NamedTuple):
    """Sources and where they are (B, S); what goes into the writer and what should come out, each (B, T)."""

    sources: Tensor
    keep: Tensor
    inputs: Tensor
    targets: Tensor


class TranslationNetwork(nn.Module):
    """A pair model and a linear map from its encodings to the scores of the target words.

    A recurrent one has softmax(W concat(s, c) + b); the others score words by their own vectors.
    """

    def __init__(self, pair: Pair) -> None:
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
        """Return the (B, T, V) scores of what follows each token of the targets."""
        scores: Tensor = self.scores(self.encoded(batch))
        return scores

    def encoded(self, batch: PairBatch) -> Tensor:
        """Return the encodings of the targets."""
        # Without a mask it is quicker.
        return self.pair.encode(batch.inputs, self.pair.read(batch.sources, None if batch.keep.all() else batch.keep))

    def scores(self, encoded: Tensor) -> Tensor:
        """Return the scores of all words."""
        found: Tensor = self.logits(self.head(encoded))
        return found

    def loss(self, batch: PairBatch, reduction: Reduction = "mean", *, smoothing: float = 0.0) -> Tensor:
        """Return how wrong the predictions are; what fills rows up has no target."""
        return cross_entropy(
            self.encoded(batch).flatten(0, 1),
            self.head.weight,
            batch.targets.flatten(),
            self.head.bias,
            reduction=reduction,
            smoothing=smoothing,
        )


def source_batch(sources: list[Ids], boundary: int) -> tuple[Tensor, Tensor]:
    """Return sources, each with its end, as one (B, S) tensor, and where it holds them."""
    ids_BS, keep_BS = pad([np.append(ids, boundary) for ids in sources], boundary)
    return torch.from_numpy(ids_BS), torch.from_numpy(keep_BS)


def pair_batch(
    sources: list[Ids], targets: list[Ids], source_boundary: int, boundary: int, inputs: list[Ids] | None = None
) -> PairBatch:
    """Return a batch of pairs. Where `inputs` are given, the writer reads those, and is to say the targets."""
    inputs_BT, _ = pad([np.append(boundary, ids) for ids in (targets if inputs is None else inputs)], boundary)
    targets_BT, _ = pad([np.append(ids, boundary) for ids in targets], NO_TARGET)
    return PairBatch(*source_batch(sources, source_boundary), torch.from_numpy(inputs_BT), torch.from_numpy(targets_BT))


class NetworkTranslator:
    """A network as evaluation sees it: the log-probability of every token of given targets."""

    def __init__(self, network: TranslationNetwork, source_boundary: int, boundary: int) -> None:
        self.network = network
        self.source_boundary, self.boundary = source_boundary, boundary

    @property
    def device(self) -> torch.device:
        return self.network.head.weight.device

    def score(self, sources: Sequence[Ids], targets: Sequence[Ids]) -> list[Floats]:
        """Return, for each pair, the log-probabilities of the target's tokens and of its end."""
        found: list[Floats] = [np.empty(0)] * len(sources)
        with answering(self.network):
            for rows, batch in self._batches(sources, targets):
                logprobs_BTV = self.network(batch).log_softmax(dim=-1)
                told_BT = logprobs_BTV.gather(-1, batch.targets.clamp(min=0)[..., None])[..., 0].cpu().double().numpy()
                for row, told_T in zip(rows, told_BT, strict=True):
                    found[row] = told_T[: len(targets[row]) + 1]
        return found

    def _batches(self, sources: Sequence[Ids], targets: Sequence[Ids]) -> Iterator[tuple[Ints, PairBatch]]:
        lengths_R = np.array([max(len(a), len(b)) + 1 for a, b in zip(sources, targets, strict=True)], np.int64)
        for rows in group_by_length(lengths_R, TOKENS_AT_ONCE):
            batch = pair_batch(
                [sources[row] for row in rows], [targets[row] for row in rows], self.source_boundary, self.boundary
            )
            yield rows, PairBatch(*(part.to(self.device) for part in batch))


@contextlib.contextmanager
def answering(network: nn.Module) -> Iterator[None]:
    """Make a network ready to answer while the block runs; nothing is kept for learning."""
    was_training = network.training
    network.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        network.train(was_training)
