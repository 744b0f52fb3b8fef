"""Training on pairs of texts. Letters: B rows of a batch, S time of the source, T time of the target, R pairs."""

from typing import NamedTuple

import numpy as np

from satchel.data.batches import NO_TARGET, Ints, RowBatches, seeded_rng, split_documents, unigram_noise
from satchel.data.bpe_dropout import bpe_dropout
from satchel.predictor import Ids
from satchel.tasks.translation import NetworkTranslator, PairBatch, TranslationNetwork, pair_batch
from satchel.training.jobs import moved, nothing
from satchel.training.loop import Loss, ValidationResult
from satchel.training.settings import TrainingSettings


class Side(NamedTuple):
    """One side of all pairs: the ids of its texts, what ends each, and what each id was merged of, where it matters."""

    ids: Ids
    boundary: int
    parts_V2: Ints | None = None

    def texts(self) -> list[Ids]:
        """Return the ids of each text."""
        return split_documents(self.ids, self.boundary).to_list()


class PairJob:
    """A translator: every token of a target from its source and the tokens before it."""

    def __init__(
        self,
        network: TranslationNetwork,
        sources: Side,
        targets: Side,
        settings: TrainingSettings,
        valid: tuple[Side, Side] | None = None,
    ) -> None:
        self.network = network
        self.valid = valid
        self._sources, self._targets, self._settings = sources, targets, settings
        self._source_texts, self._target_texts = sources.texts(), targets.texts()
        lengths_R = np.array(
            [max(len(a), len(b)) + 1 for a, b in zip(self._source_texts, self._target_texts, strict=True)]
        )
        self._batches = RowBatches(lengths_R, settings.batch_tokens, settings.seed)

    @property
    def steps_per_epoch(self) -> int:
        """How many steps it takes to see all pairs."""
        return self._batches.steps_per_epoch

    def batch(self, step: int, part: int = 0, parts: int = 1) -> PairBatch | None:
        """Return what is read in a part of a step, and what is to be said; None where nothing is."""
        rows = self._batches.rows(step)
        chosen = np.array_split(np.arange(len(rows)), parts)[part]
        if not len(chosen):
            return None
        # What happens to a pair does not depend on who reads it.
        sources, targets = (
            [self._split(side, texts[rows[place]], step, place) for place in chosen]
            for side, texts in ((self._sources, self._source_texts), (self._targets, self._target_texts))
        )
        read, inputs = (
            [self._noisy(side, ids, step, place) for ids, place in zip(texts, chosen, strict=True)]
            for side, texts in ((self._sources, sources), (self._targets, targets))
        )
        return pair_batch(read, targets, self._sources.boundary, self._targets.boundary, inputs)

    def _split(self, side: Side, ids: Ids, step: int, place: int) -> Ids:
        share = self._settings.merge_dropout
        if not share or side.parts_V2 is None:
            return ids
        return bpe_dropout(ids, side.parts_V2, share, self._chance("merges", side, step, place))

    def _noisy(self, side: Side, ids: Ids, step: int, place: int) -> Ids:
        share = self._settings.noise
        if not share or not len(ids):
            return ids
        return unigram_noise(
            np.asarray(ids, np.int64), side.ids, share, side.boundary, self._chance("noise", side, step, place)
        )

    def _chance(self, what: str, side: Side, step: int, place: int) -> np.random.Generator:
        return seeded_rng(what, self._settings.seed, step, int(place), side is self._sources)

    def loss(self, step: int, part: int, parts: int) -> Loss:
        """Return the loss of one part of a step's batch."""
        made = self.batch(step, part, parts)
        if made is None:
            return nothing(self.network)
        targets = int((made.targets != NO_TARGET).sum())
        tokens = targets + int(made.keep.sum())
        batch = PairBatch(*moved(self.network, *made))
        total = self.network.loss(batch, "sum", smoothing=self._settings.label_smoothing)
        penalty = self.network.pair.penalty(batch.sources, batch.inputs)
        return Loss(total if penalty is None else total + targets * penalty, targets, tokens)

    def validate(self) -> ValidationResult | None:
        """Return the nats per token of the held-out targets."""
        if self.valid is None:
            return None
        sources, targets = self.valid
        translator = NetworkTranslator(self.network, sources.boundary, targets.boundary)
        return ValidationResult(-float(np.concatenate(translator.score(sources.texts(), targets.texts())).mean()))
