"""Training of language models. Shapes: B rows of a batch, T time."""

from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from satchel.data.batches import NO_TARGET, PADDING, DocumentBatches, StreamBatches
from satchel.data.samples import row_positions, sample_rows
from satchel.data.splits import split_for_gate
from satchel.generation.decoding import continue_text
from satchel.generation.sampling import Sampling
from satchel.inspection.sense_metrics import ScoredText
from satchel.inspection.senses import sample_pieces
from satchel.models.backpack import Backpack
from satchel.nn.inference import inference
from satchel.predictor import Floats, Ids
from satchel.runs.folder import RunFolder
from satchel.tasks.language import LanguageNetwork, NetworkPredictor
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
from satchel.training.networks import EncoderRunSettings, Sampler, encoder_costs, new_encoder
from satchel.training.settings import TrainingSettings

# Sequence length of encoders without a maximum context.
DEFAULT_LENGTH = 128
# Number of tokens of a sample written during training.
SAMPLE_TOKENS = 60


class LanguageBatch(NamedTuple):
    """Input and target ids, each (B, T)."""

    inputs: Tensor
    targets: Tensor


class GateText(NamedTuple):
    """Text excluded from training, to which the gate is fitted, and its log-probabilities under the n-gram model.

    That n-gram model is counted without this text.
    """

    ids: Ids
    logprobs: Floats

    def sample(self, boundary: int, tokens: int, seed: int) -> "GateText":
        """Return a random choice of the segments with at most `tokens` tokens."""
        starts_R = np.flatnonzero(np.asarray(self.ids) == boundary)
        stops_R = np.append(starts_R[1:], len(self.ids))
        rows = sample_rows(stops_R - starts_R, tokens, seed)
        positions = row_positions(starts_R[rows], stops_R[rows])
        # The log-probability at a position is that of the next token; the last position of the text has none.
        return GateText(self.ids[positions], self.logprobs[positions[:-1]])


class LanguageJob:
    """Next-token prediction. With an n-gram model, every validation fits the gate to `gate_text`."""

    def __init__(
        self,
        network: LanguageNetwork,
        ids: Ids,
        boundary: int,
        settings: TrainingSettings,
        *,
        stream: bool,
        valid: Ids | None = None,
        gate_text: GateText | None = None,
    ) -> None:
        self.network = network
        self.boundary = boundary
        self.valid = valid
        self.gate_text = gate_text
        self._ids, self._settings = ids, settings
        length: int = settings.length or network.encoder.context or DEFAULT_LENGTH
        self._batches: StreamBatches | DocumentBatches
        if stream:
            rows = max(1, settings.batch_tokens // length)
            self._batches = StreamBatches(len(ids), length, rows, settings.seed)
        else:
            self._batches = DocumentBatches(ids, boundary, length, settings.batch_tokens, settings.seed)
        self.steps_per_epoch = self._batches.steps_per_epoch

    def batch(self, step: int) -> LanguageBatch:
        """Return the batch of a step."""
        places_BT = self._batches.positions(step)
        is_token_BT = places_BT != PADDING
        inputs_BT = np.where(is_token_BT, np.asarray(self._ids[places_BT], np.int64), self.boundary)
        targets_BT = np.where(is_token_BT, np.asarray(self._ids[places_BT + 1], np.int64), NO_TARGET)
        inputs_BT = with_noise(inputs_BT, self._ids, self.boundary, self._settings, step)
        return LanguageBatch(torch.from_numpy(inputs_BT), torch.from_numpy(targets_BT))

    def loss(self, step: int, shard: int, shards: int) -> Loss:
        """Return the loss of one shard of a step's batch."""
        inputs_BT, targets_BT = (rows.tensor_split(shards)[shard] for rows in self.batch(step))
        if not len(inputs_BT):
            return zero_loss(self.network)
        count = int((targets_BT != NO_TARGET).sum())
        inputs_BT, targets_BT = to_device(self.network, inputs_BT, targets_BT)
        total = self.network.loss(inputs_BT, targets_BT, "sum", smoothing=self._settings.label_smoothing)
        return Loss(add_penalty(self.network.encoder, inputs_BT, total, count), count, count)

    def validate(self) -> ValidationResult | None:
        """Fit the gate, if there is one, and return the mean loss of the held-out tokens in nats."""
        predictor = NetworkPredictor(self.network, self.boundary)
        if self.gate_text is not None:
            predictor.fit_gate(*self.gate_text)
        if self.valid is None:
            return None
        return ValidationResult(-float(np.mean(predictor.score(self.valid).logprobs)), senses=self._senses(self.valid))

    def _senses(self, valid: Ids) -> dict[str, Any] | None:
        """Return metrics of a Backpack's senses on the first held-out tokens."""
        network, encoder = self.network, self.network.encoder
        if not isinstance(encoder, Backpack):
            return None

        def read(piece: Ids) -> ScoredText:
            ids_T, targets_T = ids_tensor(network, piece[:-1]), ids_tensor(network, piece[1:])
            return ScoredText(
                ids_T, lambda x_TD: F.cross_entropy(network.head(x_TD), targets_T, reduction="sum"), len(ids_T)
            )

        pieces = sample_pieces(valid, self.boundary, encoder.context, SENSE_TOKENS, following=1)
        return measure_senses(encoder, [read(piece) for piece in pieces if len(piece) > 1])


def _job(run: RunFolder, settings: EncoderRunSettings, network: LanguageNetwork) -> LanguageJob:
    """Return the training job of a run."""
    ids: Ids = run.tokens().ids
    boundary, valid, gate_text = run.tokenizer.boundary, run.valid_tokens(), None
    if network.ngram is not None:
        ids, gate_ids = split_for_gate(ids, boundary)
        gate_text = GateText(gate_ids, run.gate_logprobs())
        if settings.training.validation_tokens is not None:
            gate_text = gate_text.sample(boundary, settings.training.validation_tokens, settings.training.seed)
    return LanguageJob(
        network,
        ids,
        boundary,
        settings.training,
        stream=settings.data.documents == "stream",
        valid=valid.ids if valid else None,
        gate_text=gate_text,
    )


def _sampler(run: RunFolder, settings: EncoderRunSettings, network: LanguageNetwork) -> Sampler | None:
    """Return a function that samples a text without a prompt; None if the network cannot generate."""
    if not settings.is_causal:
        return None
    predictor = NetworkPredictor(network, run.tokenizer.boundary)

    def sample(step: int) -> dict[str, str]:
        sampling = Sampling(tokens=SAMPLE_TOKENS, temperature=0.8, seed=step)
        with inference(network):
            (continuation,) = continue_text(predictor, run.tokenizer, "", sampling, lambda done: None)
        return {"text": continuation.text}

    return sample


LANGUAGE = NetworkTask(
    EncoderRunSettings,
    network=lambda settings, sizes, custom_encoder, ngram: LanguageNetwork(
        new_encoder(settings, sizes.vocabulary, custom_encoder), ngram=ngram
    ),
    costs=encoder_costs,
    predictor=lambda network, run: NetworkPredictor(network, run.tokenizer.boundary, str(run.path)),
    job=_job,
    sampler=_sampler,
)
