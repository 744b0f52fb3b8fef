"""What is trained: the batches of a task, and what its network makes of them.

Letters: B rows of a batch, T time, R rows of the data, C classes.
"""

from dataclasses import asdict, replace
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from satchel.data.batches import (
    NO_TARGET,
    PADDING,
    DocumentBatches,
    Ints,
    RowBatches,
    StreamBatches,
    pad,
    seeded_rng,
    split_documents,
    unigram_noise,
)
from satchel.inspection.sense_metrics import Read, sense_health
from satchel.inspection.senses import pieces_of
from satchel.models.backpack import Backpack
from satchel.models.encoder import Encoder
from satchel.nn.inference import inference
from satchel.predictor import Floats, Ids
from satchel.tasks.classification import ClassificationNetwork, NetworkLabeller
from satchel.tasks.language import LanguageNetwork, NetworkPredictor
from satchel.tasks.tagging import NetworkTagger, TaggingNetwork
from satchel.training.loop import Loss, ValidationResult
from satchel.training.settings import TrainingSettings

USUAL_LENGTH = 128
# Of the held-out text, to see how senses fare.
TOKENS_LOOKED_AT = 512


class LanguageBatch(NamedTuple):
    """What goes in, and what should come out, each (B, T)."""

    inputs: Tensor
    targets: Tensor


class Aside(NamedTuple):
    """A text that is not learned from, and the log-probabilities that n-grams of the rest give its tokens."""

    ids: Ids
    logprobs: Floats


class LanguageJob:
    """A language model: every token of a text from those before it.

    Where the network stands on an n-gram, the gate between them is fitted to what was set aside.
    """

    def __init__(
        self,
        network: LanguageNetwork,
        ids: Ids,
        boundary: int,
        settings: TrainingSettings,
        *,
        stream: bool,
        valid: Ids | None = None,
        aside: Aside | None = None,
    ) -> None:
        self.network = network
        self.boundary = boundary
        self.valid = valid
        self.aside = aside
        self._ids, self._settings = ids, settings
        length: int = settings.length or network.encoder.context or USUAL_LENGTH
        self._batches: StreamBatches | DocumentBatches
        if stream:
            rows = max(1, settings.batch_tokens // length)
            self._batches = StreamBatches(len(ids), length, rows, settings.seed)
        else:
            self._batches = DocumentBatches(ids, boundary, length, settings.batch_tokens, settings.seed)

    @property
    def steps_per_epoch(self) -> int:
        """How many steps it takes to see all of the text."""
        return self._batches.steps_per_epoch

    def batch(self, step: int) -> "LanguageBatch":
        """Return what is read in a step, and what is to be said."""
        places_BT = self._batches.positions(step)
        is_there = places_BT != PADDING
        inputs_BT = np.where(is_there, np.asarray(self._ids[places_BT], np.int64), self.boundary)
        targets_BT = np.where(is_there, np.asarray(self._ids[places_BT + 1], np.int64), NO_TARGET)
        inputs_BT = with_noise(inputs_BT, self._ids, self.boundary, self._settings, step)
        return LanguageBatch(torch.from_numpy(inputs_BT), torch.from_numpy(targets_BT))

    def loss(self, step: int, part: int, parts: int) -> Loss:
        """Return the loss of one part of a step's batch."""
        inputs_BT, targets_BT = (rows.tensor_split(parts)[part] for rows in self.batch(step))
        if not len(inputs_BT):
            return nothing(self.network)
        count = int((targets_BT != NO_TARGET).sum())
        inputs_BT, targets_BT = moved(self.network, inputs_BT, targets_BT)
        total = self.network.loss(inputs_BT, targets_BT, "sum", smoothing=self._settings.label_smoothing)
        return Loss(_with_penalty(self.network.encoder, inputs_BT, total, count), count, count)

    def validate(self) -> ValidationResult | None:
        """Fit the gate, if there is one, and return the nats per token of the held-out text."""
        predictor = NetworkPredictor(self.network, self.boundary)
        if self.aside is not None:
            predictor.fit_gate(*self.aside)
        if self.valid is None:
            return None
        return ValidationResult(-float(np.mean(predictor.score(self.valid).logprobs)), senses=self._senses())

    def _senses(self) -> dict[str, Any] | None:
        """Return how the senses of a Backpack fare on some of the held-out text."""
        network, encoder = self.network, self.network.encoder
        if not isinstance(encoder, Backpack) or self.valid is None:
            return None

        def read(piece: Ids) -> Read:
            ids, following = _tensor(network, piece[:-1]), _tensor(network, piece[1:])
            return Read(ids, lambda x_TD: F.cross_entropy(network.head(x_TD), following, reduction="sum"), len(ids))

        pieces = pieces_of(self.valid, self.boundary, encoder.context, TOKENS_LOOKED_AT, following=1)
        return _faring(encoder, [read(piece) for piece in pieces if len(piece) > 1])


class LabelJob:
    """A classifier or a tagger: a label for each text, or for places in it.

    `gold` has the number of each text's label; for a tagger that of each id's tag, and NO_TARGET where there is none.
    """

    def __init__(
        self,
        network: ClassificationNetwork | TaggingNetwork,
        ids: Ids,
        gold: Ints,
        boundary: int,
        settings: TrainingSettings,
        valid: tuple[Ids, Ints] | None = None,
    ) -> None:
        self.network = network
        self.boundary = boundary
        self.valid = valid
        self._gold = gold
        self._texts = split_documents(ids, boundary)
        self._batches = RowBatches(self._texts.lengths, settings.batch_tokens, settings.seed)
        self._settings = settings
        self._weights = _class_weights(settings, gold[gold != NO_TARGET], network.head.out_features)

    @property
    def steps_per_epoch(self) -> int:
        """How many steps it takes to see all of the texts."""
        return self._batches.steps_per_epoch

    def loss(self, step: int, part: int, parts: int) -> Loss:
        """Return the loss of one part of a step's batch."""
        whole = self._batches.rows(step)
        # Of the whole batch: what is read does not depend on who reads it.
        whole_BT, keeps_BT = self._texts.batch(whole)
        whole_BT = with_noise(whole_BT, self._texts.ids, self.boundary, self._settings, step)
        chosen = np.array_split(np.arange(len(whole)), parts)[part]
        rows, ids_BT, keep_BT = whole[chosen], whole_BT[chosen], keeps_BT[chosen]
        if not len(rows):
            return nothing(self.network)
        gold = self._gold_of(rows, ids_BT.shape[1])
        ids, keep, wanted, *weights = moved(
            self.network, *map(torch.from_numpy, (ids_BT, keep_BT, gold)), *self._weights
        )
        total = self.network.loss(
            ids,
            wanted,
            None if keep_BT.all() else keep,  # without a mask it is quicker
            "sum",
            smoothing=self._settings.label_smoothing,
            weights_C=weights[0] if weights else None,
        )
        targets = int((gold != NO_TARGET).sum())
        return Loss(_with_penalty(self.network.encoder, ids, total, targets), targets, int(keep_BT.sum()))

    def _gold_of(self, rows: Ints, length: int) -> Ints:
        """Return the labels of some texts (B,), or the tags of their places (B, T)."""
        if isinstance(self.network, ClassificationNetwork):
            return self._gold[rows]
        texts = self._texts
        gold, _ = pad([self._gold[texts.starts_R[row] : texts.stops_R[row]] for row in rows], NO_TARGET)
        return np.pad(gold, ((0, 0), (0, length - gold.shape[1])), constant_values=NO_TARGET)

    def validate(self) -> ValidationResult | None:
        """Return how wrong and how often right it is about what was held out, where it knows the label."""
        if self.valid is None:
            return None
        ids, gold = self.valid
        network, boundary = self.network, self.boundary
        asked: NetworkTagger | NetworkLabeller
        if isinstance(network, TaggingNetwork):
            asked = NetworkTagger(network, boundary)
        else:
            asked = NetworkLabeller(network, boundary)
        found = _measured(asked.label(ids), gold)
        return None if found is None else replace(found, senses=self._senses(ids, gold))

    def _senses(self, ids: Ids, gold: Ints) -> dict[str, Any] | None:
        """Return how the senses of a Backpack fare on the first held-out texts, as far as the context reaches."""
        network, encoder = self.network, self.network.encoder
        if not isinstance(encoder, Backpack):
            return None
        is_tagger = isinstance(network, TaggingNetwork)
        texts = split_documents(ids, self.boundary)
        lengths_R = np.minimum(texts.lengths, encoder.context)
        read: list[Read] = []
        for row in np.flatnonzero((lengths_R > 0) & (np.cumsum(lengths_R) - lengths_R < TOKENS_LOOKED_AT)):
            start, stop = texts.starts_R[row], texts.starts_R[row] + lengths_R[row]
            own = _tensor(network, gold[start:stop] if is_tagger else gold[row : row + 1])
            # A label that was never learned is none here.
            own = own.masked_fill(own >= network.head.out_features, NO_TARGET)

            def cost(x_TD: Tensor, own: Tensor = own) -> Tensor:
                scores = network.head(x_TD if is_tagger else x_TD.mean(dim=0, keepdim=True))
                return F.cross_entropy(scores, own, ignore_index=NO_TARGET, reduction="sum")

            read.append(Read(_tensor(network, ids[start:stop]), cost, int((own != NO_TARGET).sum())))
        return _faring(encoder, read)


def _tensor(network: nn.Module, ids: Ids | Ints) -> Tensor:
    return moved(network, torch.from_numpy(np.asarray(ids, np.int64)))[0]


def _faring(backpack: Backpack, texts: list[Read]) -> dict[str, Any] | None:
    """Return how senses fare where some texts are read, if there are any."""
    if not texts:
        return None
    with inference(backpack):
        return asdict(sense_health(backpack, texts))


def _with_penalty(encoder: Encoder, ids_BT: Tensor, total: Tensor, targets: int) -> Tensor:
    """Return a summed loss with what is held against the encoder beside it."""
    penalty = encoder.penalty(ids_BT)
    return total if penalty is None else total + targets * penalty


def nothing(network: nn.Module) -> Loss:
    """Return the loss of no rows at all, where a batch of few has many parts: every gradient of it is zero."""
    none = torch.stack([parameter.sum() * 0 for parameter in network.parameters()])
    return Loss(none.sum(), 0, 0)


def with_noise(ids_BT: Ints, text: Ids, boundary: int, settings: TrainingSettings, *place: int) -> Ints:
    """Return what is read in a step: the ids, or some of them and others."""
    if not settings.noise:
        return ids_BT
    return unigram_noise(ids_BT, text, settings.noise, boundary, seeded_rng("noise", settings.seed, *place))


def moved(network: nn.Module, *tensors: Tensor) -> tuple[Tensor, ...]:
    """Return tensors where the network is."""
    device = next(network.parameters()).device
    return tensors if device.type == "cpu" else tuple(tensor.to(device) for tensor in tensors)


def _class_weights(settings: TrainingSettings, classes: Ints, count: int) -> list[Tensor]:
    """Return weights under which every label counts as much as another, and the mean example for one; if asked."""
    if settings.class_weights == "none":
        return []
    counts_C = np.bincount(classes, minlength=count)
    present = max(1, int((counts_C > 0).sum()))
    return [torch.from_numpy(len(classes) / (present * np.maximum(counts_C, 1))).float()]


def _measured(logprobs_EC: Floats, gold_E: Ints) -> ValidationResult | None:
    """Return how good log-probabilities are, where what is right is a class they have."""
    known = np.flatnonzero((gold_E >= 0) & (gold_E < logprobs_EC.shape[1]))
    if not len(known):
        return None
    right = logprobs_EC[known].argmax(axis=1) == gold_E[known]
    return ValidationResult(-float(logprobs_EC[known, gold_E[known]].mean()), float(right.mean()))
