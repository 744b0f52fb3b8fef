"""Training of translators. Shapes: R pairs, V vocabulary."""

from typing import NamedTuple

import numpy as np

from satchel.data.batches import NO_TARGET, Ints, RowBatches, seeded_rng, split_documents, unigram_noise
from satchel.data.bpe_dropout import bpe_dropout, merge_parts
from satchel.generation import beam
from satchel.models.build import build_pair
from satchel.models.costs import Costs, count
from satchel.nn.shapes import shapes_only
from satchel.predictor import Ids
from satchel.runs import folder as runs
from satchel.runs.folder import RunFolder
from satchel.tasks.translation import NetworkTranslator, PairBatch, TranslationNetwork, pair_batch
from satchel.text.tokenizer import Tokenizer
from satchel.training.examples.pairs import read_valid_pairs
from satchel.training.jobs.common import to_device, zero_loss
from satchel.training.loop import Loss, ValidationResult
from satchel.training.network_task import NetworkTask
from satchel.training.networks import PairRunSettings, Sampler
from satchel.training.settings import TrainingSettings

# Time of translating by beam search and of the baselines, as a multiple of the time of scoring given translations.
BEAM_COST = 20.0


class SideTokens(NamedTuple):
    """The texts of one side of all pairs: concatenated ids, the boundary id, and for BPE-dropout the merges.

    `merges_V2` holds the two ids that each id was merged from.
    """

    ids: Ids
    boundary: int
    merges_V2: Ints | None = None

    def texts(self) -> list[Ids]:
        """Return the ids of each text."""
        return split_documents(self.ids, self.boundary).to_list()


class PairJob:
    """Prediction of each target token from the source and the preceding target tokens."""

    def __init__(
        self,
        network: TranslationNetwork,
        sources: SideTokens,
        targets: SideTokens,
        settings: TrainingSettings,
        valid: tuple[SideTokens, SideTokens] | None = None,
    ) -> None:
        self.network = network
        self.valid = valid
        self._sources, self._targets, self._settings = sources, targets, settings
        self._source_texts, self._target_texts = sources.texts(), targets.texts()
        lengths_R = np.array(
            [max(len(a), len(b)) + 1 for a, b in zip(self._source_texts, self._target_texts, strict=True)]
        )
        self._batches = RowBatches(lengths_R, settings.batch_tokens, settings.seed)
        self.steps_per_epoch = self._batches.steps_per_epoch

    def batch(self, step: int, shard: int = 0, shards: int = 1) -> PairBatch | None:
        """Return one shard of a step's batch; None if it is empty."""
        rows = self._batches.rows(step)
        chosen = np.array_split(np.arange(len(rows)), shards)[shard]
        if not len(chosen):
            return None
        # Random numbers depend on the position in the whole batch, and therefore not on the number of shards.
        sources, targets = (
            [self._split(side, texts[rows[position]], step, position) for position in chosen]
            for side, texts in ((self._sources, self._source_texts), (self._targets, self._target_texts))
        )
        source_inputs, target_inputs = (
            [self._noisy(side, ids, step, position) for ids, position in zip(texts, chosen, strict=True)]
            for side, texts in ((self._sources, sources), (self._targets, targets))
        )
        return pair_batch(source_inputs, targets, self._sources.boundary, self._targets.boundary, target_inputs)

    def _split(self, side: SideTokens, ids: Ids, step: int, position: int) -> Ids:
        """Return ids after BPE-dropout."""
        fraction = self._settings.merge_dropout
        if not fraction or side.merges_V2 is None:
            return ids
        return bpe_dropout(ids, side.merges_V2, fraction, self._rng("merges", side, step, position))

    def _noisy(self, side: SideTokens, ids: Ids, step: int, position: int) -> Ids:
        """Return ids, some of them replaced by random ones."""
        fraction = self._settings.noise
        if not fraction or not len(ids):
            return ids
        rng = self._rng("noise", side, step, position)
        return unigram_noise(np.asarray(ids, np.int64), side.ids, fraction, side.boundary, rng)

    def _rng(self, purpose: str, side: SideTokens, step: int, position: int) -> np.random.Generator:
        return seeded_rng(purpose, self._settings.seed, step, int(position), side is self._sources)

    def loss(self, step: int, shard: int, shards: int) -> Loss:
        """Return the loss of one shard of a step's batch."""
        batch = self.batch(step, shard, shards)
        if batch is None:
            return zero_loss(self.network)
        targets = int((batch.targets != NO_TARGET).sum())
        tokens = targets + int(batch.keep.sum())
        batch = PairBatch(*to_device(self.network, *batch))
        total = self.network.loss(batch, "sum", smoothing=self._settings.label_smoothing)
        penalty = self.network.pair.penalty(batch.sources, batch.inputs)
        return Loss(total if penalty is None else total + targets * penalty, targets, tokens)

    def validate(self) -> ValidationResult | None:
        """Return the mean loss of the held-out target tokens in nats."""
        if self.valid is None:
            return None
        sources, targets = self.valid
        translator = NetworkTranslator(self.network, sources.boundary, targets.boundary)
        return ValidationResult(-float(np.concatenate(translator.score(sources.texts(), targets.texts())).mean()))


def _costs(settings: PairRunSettings, vocabulary: int) -> Costs:
    """Return the costs of one source and one target token."""
    with shapes_only():
        pair = build_pair(settings.model, vocabulary, vocabulary)
    return count(pair, settings.model.context, tied_logits=pair.words)


def _job(run: RunFolder, settings: PairRunSettings, network: TranslationNetwork) -> PairJob:
    """Return the training job of a run."""

    def side(name: str, tokenizer: Tokenizer) -> SideTokens:
        merges_V2 = merge_parts(tokenizer) if settings.training.merge_dropout else None
        return SideTokens(run.tokens(name).ids, tokenizer.boundary, merges_V2)

    valid = None
    if pairs := read_valid_pairs(run):
        longest = settings.model.context - 1
        valid = (
            _truncated([pair.source for pair in pairs], run.source_tokenizer, longest),
            _truncated([pair.target for pair in pairs], run.tokenizer, longest),
        )
    sources, targets = side(runs.TRAIN_SOURCES, run.source_tokenizer), side(runs.TRAIN_TOKENS, run.tokenizer)
    return PairJob(network, sources, targets, settings.training, valid)


def _truncated(texts: list[str], tokenizer: Tokenizer, longest: int) -> SideTokens:
    """Return the tokens of texts, at most the first `longest` of each."""
    boundary = np.array([tokenizer.boundary])
    ids = np.concatenate([boundary, *(np.append(tokenizer.encode(text).ids[:longest], boundary) for text in texts)])
    return SideTokens(ids, tokenizer.boundary)


def _sampler(run: RunFolder, settings: PairRunSettings, network: TranslationNetwork) -> Sampler | None:
    """Return a function that translates the first held-out source greedily; None if there is none."""
    pairs = read_valid_pairs(run)
    if not pairs:
        return None
    source = pairs[0].source
    ids = run.source_tokenizer.encode(source).ids[: settings.model.context - 1]
    boundaries = run.source_tokenizer.boundary, run.tokenizer.boundary

    def translate(step: int) -> dict[str, str]:
        del step
        greedy = beam.BeamSettings(beam=1)
        (best,) = beam.translate(network, [ids], boundaries, greedy, unknown=run.tokenizer.unknown)
        return {"source": source, "text": run.tokenizer.decode(best[0].ids)}

    return translate


TRANSLATION = NetworkTask(
    PairRunSettings,
    network=lambda settings, sizes, custom_encoder, ngram: TranslationNetwork(
        build_pair(settings.model, sizes.source_vocabulary, sizes.vocabulary)
    ),
    costs=_costs,
    predictor=lambda network, run: NetworkTranslator(network, run.source_tokenizer.boundary, run.tokenizer.boundary),
    job=_job,
    sampler=_sampler,
    held_out_size=lambda run: len(read_valid_pairs(run)),
    evaluation_cost=BEAM_COST,
)
