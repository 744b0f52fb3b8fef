"""Training of classifiers and taggers. Shapes: B rows of a batch, T time, R rows of the data, C classes, E examples."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from satchel.data.batches import NO_TARGET, Ints, RowBatches, pad, split_documents
from satchel.inspection.sense_metrics import ScoredText
from satchel.models.backpack import Backpack
from satchel.models.encoder import Encoder
from satchel.predictor import Floats, Ids, Labeller
from satchel.runs import folder as runs
from satchel.runs.folder import RunFolder
from satchel.tasks.classification import ClassificationNetwork, NetworkLabeller
from satchel.tasks.tagging import NetworkTagger, TaggingNetwork
from satchel.training.jobs.common import (
    SENSE_TOKENS,
    add_penalty,
    ids_tensor,
    measure_senses,
    to_device,
    with_noise,
    zero_loss,
)
from satchel.training.loop import Loss, ValidationResult
from satchel.training.network_task import NetworkTask
from satchel.training.networks import EncoderRunSettings, encoder_costs, new_encoder
from satchel.training.settings import TrainingSettings


class LabelJob:
    """Prediction of a class id for each text, or with `per_token` for each token.

    `gold` holds the class ids of the texts; with `per_token`, those of all ids, NO_TARGET for ids without a tag.
    `labeller` predicts the classes of the held-out texts in `valid`.
    """

    def __init__(
        self,
        network: ClassificationNetwork | TaggingNetwork,
        labeller: Labeller,
        ids: Ids,
        gold: Ints,
        boundary: int,
        settings: TrainingSettings,
        valid: tuple[Ids, Ints] | None = None,
        *,
        per_token: bool,
    ) -> None:
        self.network = network
        self.boundary = boundary
        self.valid = valid
        self._labeller, self._gold, self._settings, self._per_token = labeller, gold, settings, per_token
        self._texts = split_documents(ids, boundary)
        if settings.max_length is not None:
            stops_R = np.minimum(self._texts.stops_R, self._texts.starts_R + settings.max_length)
            self._texts = replace(self._texts, stops_R=stops_R)
        self._batches = RowBatches(self._texts.lengths, settings.batch_tokens, settings.seed)
        self.steps_per_epoch = self._batches.steps_per_epoch
        self._weights = _class_weights(settings, gold[gold != NO_TARGET], network.head.out_features)

    def loss(self, step: int, shard: int, shards: int) -> Loss:
        """Return the loss of one shard of a step's batch."""
        rows = self._batches.rows(step)
        # Noise is drawn for the whole batch, so that it does not depend on the number of shards.
        ids_BT, keep_BT = self._texts.batch(rows)
        ids_BT = with_noise(ids_BT, self._texts.ids, self.boundary, self._settings, step)
        chosen = np.array_split(np.arange(len(rows)), shards)[shard]
        rows, ids_BT, keep_BT = rows[chosen], ids_BT[chosen], keep_BT[chosen]
        if not len(rows):
            return zero_loss(self.network)
        gold = self._tags(rows, ids_BT.shape[1]) if self._per_token else self._gold[rows]
        ids, keep, targets, *weights = to_device(
            self.network, *map(torch.from_numpy, (ids_BT, keep_BT, gold)), *self._weights
        )
        total = self.network.loss(
            ids,
            targets,
            None if keep_BT.all() else keep,  # attention without a mask is faster
            "sum",
            smoothing=self._settings.label_smoothing,
            weights_C=weights[0] if weights else None,
        )
        count = int((gold != NO_TARGET).sum())
        return Loss(add_penalty(self.network.encoder, ids, total, count), count, int(keep_BT.sum()))

    def _tags(self, rows: Ints, length: int) -> Ints:
        """Return the class ids of the tokens of some texts, (B, T) with T = length."""
        texts = self._texts
        gold_BT, _ = pad([self._gold[texts.starts_R[row] : texts.stops_R[row]] for row in rows], NO_TARGET)
        return np.pad(gold_BT, ((0, 0), (0, length - gold_BT.shape[1])), constant_values=NO_TARGET)

    def validate(self) -> ValidationResult | None:
        """Return loss and accuracy on the held-out examples whose label occurs in the training data."""
        if self.valid is None:
            return None
        ids, gold = self.valid
        result = _validation_result(self._labeller.label(ids), gold)
        return None if result is None else replace(result, senses=self._senses(ids, gold))

    def _senses(self, ids: Ids, gold: Ints) -> dict[str, Any] | None:
        """Return metrics of a Backpack's senses on the first held-out texts, truncated to the context."""
        network, encoder = self.network, self.network.encoder
        if not isinstance(encoder, Backpack):
            return None
        texts = split_documents(ids, self.boundary)
        lengths_R = np.minimum(texts.lengths, encoder.context)
        read: list[ScoredText] = []
        for row in np.flatnonzero((lengths_R > 0) & (np.cumsum(lengths_R) - lengths_R < SENSE_TOKENS)):
            start, stop = texts.starts_R[row], texts.starts_R[row] + lengths_R[row]
            targets = ids_tensor(network, gold[start:stop] if self._per_token else gold[row : row + 1])
            # Labels that do not occur in the training data are not scored.
            targets = targets.masked_fill(targets >= network.head.out_features, NO_TARGET)

            def cost(x_TD: Tensor, targets: Tensor = targets) -> Tensor:
                logits = network.head(x_TD if self._per_token else x_TD.mean(dim=0, keepdim=True))
                return F.cross_entropy(logits, targets, ignore_index=NO_TARGET, reduction="sum")

            read.append(ScoredText(ids_tensor(network, ids[start:stop]), cost, int((targets != NO_TARGET).sum())))
        return measure_senses(encoder, read)


def _class_weights(settings: TrainingSettings, classes: Ints, count: int) -> list[Tensor]:
    """Return the weights of the classes, inversely proportional to their frequency with mean 1; empty if unweighted."""
    if settings.class_weights == "none":
        return []
    counts_C = np.bincount(classes, minlength=count)
    present = max(1, int((counts_C > 0).sum()))
    return [torch.from_numpy(len(classes) / (present * np.maximum(counts_C, 1))).float()]


def _validation_result(logprobs_EC: Floats, gold_E: Ints) -> ValidationResult | None:
    """Return loss and accuracy over the examples with a known class; None if there are none."""
    known = np.flatnonzero((gold_E >= 0) & (gold_E < logprobs_EC.shape[1]))
    if not len(known):
        return None
    correct = logprobs_EC[known].argmax(axis=1) == gold_E[known]
    return ValidationResult(-float(logprobs_EC[known, gold_E[known]].mean()), float(correct.mean()))


def _label_task(
    network: Callable[[EncoderRunSettings, Encoder, int], Any], labeller: Callable[[Any, int], Any], *, per_token: bool
) -> NetworkTask:
    """Return the task of a network, built from settings, encoder and number of labels, and its predictor."""

    def job(run: RunFolder, settings: EncoderRunSettings, network: ClassificationNetwork | TaggingNetwork) -> LabelJob:
        tokens, valid, boundary = run.tokens(), run.valid_tokens(), run.tokenizer.boundary
        return LabelJob(
            network,
            labeller(network, boundary),
            tokens.ids,
            run.classes(runs.TRAIN_CLASSES, tokens, per_token=per_token),
            boundary,
            settings.training,
            (valid.ids, run.classes(runs.VALID_CLASSES, valid, per_token=per_token)) if valid else None,
            per_token=per_token,
        )

    return NetworkTask(
        EncoderRunSettings,
        network=lambda settings, sizes, custom_encoder, ngram: network(
            settings, new_encoder(settings, sizes.vocabulary, custom_encoder), sizes.labels
        ),
        costs=encoder_costs,
        predictor=lambda network, run: labeller(network, run.tokenizer.boundary),
        job=job,
    )


CLASSIFICATION = _label_task(
    lambda settings, encoder, labels: ClassificationNetwork(encoder, labels, settings.model.pooling),
    NetworkLabeller,
    per_token=False,
)
TAGGING = _label_task(lambda settings, encoder, labels: TaggingNetwork(encoder, labels), NetworkTagger, per_token=True)
