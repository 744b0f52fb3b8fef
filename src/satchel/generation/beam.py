"""Decoding of translations: beam search or sampling.

Shapes: B texts, K beam rows of a text, R rows of all texts, S source time, T target time, V vocabulary, C candidates.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from satchel.config import Settings
from satchel.data.batches import Ints, group_by_length
from satchel.generation.sampling import Sampling, choose
from satchel.nn.inference import inference
from satchel.predictor import Ids, checked
from satchel.tasks.translation import TranslationNetwork, source_batch

# Maximum number of source tokens per batch, divided by the beam size.
BATCH_TOKENS = 1 << 12
# Default maximum length of a translation: LENGTH_FACTOR * source tokens + LENGTH_OFFSET.
LENGTH_FACTOR, LENGTH_OFFSET = 2, 20
# Maps ids to a key; hypotheses with equal keys are the same text (subword tokenizers can spell a text in several ways).
TextKey = Callable[[tuple[int, ...]], Hashable]


class BeamSettings(Settings):
    """Settings of beam search."""

    beam: int = Field(4, ge=1, le=1000, description="beam size; 1 is greedy decoding")
    best: int = Field(1, ge=1, le=1000, description="number of translations to return, best first")
    length_penalty: float = Field(
        1.0, ge=0, le=10, description="exponent of the length that divides log-probabilities; 0 prefers short texts"
    )
    longest: int | None = Field(None, ge=1, description="maximum tokens of a translation; default 2 * source + 20")


@dataclass(frozen=True)
class Hypothesis:
    """A translation: ids, log-probability including the end token, and length-normalised score."""

    ids: tuple[int, ...]
    logprob: float
    score: float


def translate(
    network: TranslationNetwork,
    sources: Sequence[Ids],
    boundaries: tuple[int, int],
    settings: BeamSettings,
    *,
    unknown: int | None = None,
    sampling: Sampling | None = None,
    text_key: TextKey = tuple,
    progress: Callable[[float], None] = lambda done: None,
) -> list[list[Hypothesis]]:
    """Return up to `settings.best` translations of each source, best first.

    `boundaries` are the end ids of sources and targets; the id `unknown` is never generated. Of several hypotheses
    with the same `text_key` only the most probable is returned. With `sampling`, translations are sampled instead of
    searched.
    """
    translations: list[list[Hypothesis]] = [[] for _ in sources]
    lengths_R = np.array([len(ids) for ids in sources], np.int64)
    rows_per_text = sampling.samples if sampling else settings.beam
    done = 0
    with inference(network):
        for rows in _batches(network, lengths_R, max(1, BATCH_TOKENS // rows_per_text)):
            source_BS, keep_BS = (
                part.to(network.head.weight.device)
                for part in source_batch([sources[row] for row in rows], boundaries[0])
            )
            memory = network.pair.read(source_BS, None if bool(keep_BS.all()) else keep_BS)
            # A translation is bounded by the context.
            longest = [settings.longest or LENGTH_FACTOR * int(lengths_R[row]) + LENGTH_OFFSET for row in rows]
            limits = [max(1, min(length, network.pair.context - 1)) for length in longest]
            if sampling is None:
                hypotheses = _BeamSearch(network, memory, limits, settings, boundaries[1], unknown, text_key).run()
            else:
                hypotheses = _sample(network, memory, limits, sampling, rows, boundaries[1], unknown)
            for row, best in zip(rows, hypotheses, strict=True):
                translations[row] = best
            done += len(rows)
            progress(done / len(sources))
    return translations


def _batches(network: TranslationNetwork, lengths_R: Ints, budget: int) -> list[Ints]:
    """Return batches of texts of similar length, or of equal length if the network does not support padding."""
    if network.pair.takes_padding:
        return group_by_length(lengths_R + 1, budget)
    groups = [np.flatnonzero(lengths_R == length) for length in np.unique(lengths_R)]
    return [
        part for rows in groups for part in np.array_split(rows, -(-len(rows) * int(lengths_R[rows[0]] + 1) // budget))
    ]


class _BeamSearch:
    """Beam search over a batch of texts.

    A text is finished when it has as many complete hypotheses as the beam size and no partial hypothesis scores above
    the worst of them. A beam of 1 is greedy decoding; a beam as large as the number of possible texts is exhaustive.
    """

    def __init__(
        self,
        network: TranslationNetwork,
        memory: Any,
        limits: list[int],
        settings: BeamSettings,
        boundary: int,
        unknown: int | None,
        text_key: TextKey,
    ) -> None:
        self.network, self.settings, self.boundary, self.unknown = network, settings, boundary, unknown
        self.limits = limits
        # Complete hypotheses of each source by text; without --best, equal texts need not be merged.
        self.complete: list[dict[Hashable, Hypothesis]] = [{} for _ in limits]
        self.text_key = text_key if settings.best > 1 else tuple
        # All beam rows of a text are equal before the first token: start with one row.
        self.state = network.pair.start(memory)
        self.device = network.head.weight.device

    def run(self) -> list[list[Hypothesis]]:
        """Return the best complete hypotheses of each text, best first."""
        beam, texts = self.settings.beam, list(range(len(self.limits)))
        prefixes: list[list[list[int]]] = [[[]] for _ in texts]
        totals_BK = torch.zeros(len(texts), 1, dtype=torch.double, device=self.device)
        last_R1 = torch.full((len(texts), 1), self.boundary, device=self.device)
        for length in range(max(self.limits) + 1):
            must_end = [self.limits[text] <= length for text in texts]
            totals_BC, candidates_BC = self._candidates(last_R1, totals_BK, must_end)
            vocabulary = self.network.head.out_features
            beams: list[tuple[int, int, float]] = []
            active: list[int] = []
            extended: list[list[list[int]]] = []
            for index, (scores, numbers) in enumerate(zip(totals_BC.tolist(), candidates_BC.tolist(), strict=True)):
                text = texts[index]
                kept = self._extend(text, prefixes[index], scores, [divmod(number, vocabulary) for number in numbers])
                if not kept or self._is_done(text, kept[0][2], length + 1):
                    continue
                # Fill the beam with rows of probability 0.
                kept += [(0, self.boundary, -torch.inf)] * (beam - len(kept))
                beams += [(index * totals_BK.shape[1] + row, token, total) for row, token, total in kept]
                extended.append([[*prefixes[index][row], token] for row, token, _ in kept])
                active.append(index)
            if not active:
                break
            rows, tokens, totals = zip(*beams, strict=True)
            selected = None if len(active) == len(texts) else torch.tensor(active, device=self.device)
            if selected is not None or rows != tuple(range(len(last_R1))):
                self.state = self.state.select(torch.tensor(rows, device=self.device), selected)
            texts, prefixes = [texts[index] for index in active], extended
            totals_BK = torch.tensor(totals, dtype=torch.double, device=self.device).view(-1, beam)
            last_R1 = torch.tensor(tokens, device=self.device)[:, None]
        ranked = [sorted(group.values(), key=lambda hypothesis: -hypothesis.score) for group in self.complete]
        return [hypotheses[: self.settings.best] for hypotheses in ranked]

    def _candidates(self, last_R1: Tensor, totals_BK: Tensor, must_end: list[bool]) -> tuple[Tensor, Tensor]:
        """Return the log-probabilities of the best continuations of each text, and their numbers row * V + token."""
        rows, best = totals_BK.shape[1], 2 * self.settings.beam
        encoded, self.state = self.network.pair.step(last_R1, self.state)
        scores_RV = self.network.scores(encoded[:, -1])
        norms_R1 = scores_RV.logsumexp(dim=-1, keepdim=True)
        checked((norms_R1 - norms_R1).cpu().numpy())  # NaN if a norm is not finite
        vocabulary = scores_RV.shape[1]
        if self.unknown is not None:
            scores_RV = scores_RV.index_fill(1, torch.tensor([self.unknown], device=self.device), -torch.inf)
        if any(must_end):
            ends_R1 = torch.tensor(must_end, device=self.device).repeat_interleave(rows)[:, None]
            is_token_V = torch.arange(vocabulary, device=self.device) != self.boundary
            scores_RV = scores_RV.masked_fill(ends_R1 & is_token_V, -torch.inf)
        # Top k per row first: the top k of a text are among them.
        best_RC, tokens_RC = scores_RV.topk(min(best, vocabulary))
        totals_BC = (totals_BK.view(-1, 1) + best_RC - norms_R1).view(len(totals_BK), -1)
        rows_RC = torch.arange(rows, device=self.device).repeat(len(totals_BK))[:, None]
        numbers_BC = (rows_RC * vocabulary + tokens_RC).view(len(totals_BK), -1)
        best_BC, order = totals_BC.topk(min(best, totals_BC.shape[1]))
        return best_BC, numbers_BC.gather(1, order)

    def _extend(
        self, text: int, prefixes: list[list[int]], totals: list[float], candidates: list[tuple[int, int]]
    ) -> list[tuple[int, int, float]]:
        """Store the complete hypotheses among the candidates; return the best others as (row, token, total)."""
        beam, kept = self.settings.beam, []
        for rank, (total, (row, token)) in enumerate(zip(totals, candidates, strict=True)):
            if total == -torch.inf:
                break
            if token != self.boundary:
                kept.append((row, token, total))
            elif rank < beam:
                ids = tuple(prefixes[row])
                complete, key = self.complete[text], self.text_key(ids)
                ending = Hypothesis(ids, total, self._score(total, len(ids) + 1))
                complete[key] = max(ending, complete.get(key, ending), key=lambda hypothesis: hypothesis.score)
        return kept[:beam]

    def _is_done(self, text: int, best: float, length: int) -> bool:
        """Return whether no partial hypothesis of a text can improve the result; `best` is the best log-probability."""
        scores = sorted((each.score for each in self.complete[text].values()), reverse=True)[: self.settings.beam]
        return len(scores) == self.settings.beam and scores[-1] >= self._score(best, length)

    def _score(self, total: float, length: int) -> float:
        return total / float(length**self.settings.length_penalty)


def _sample(
    network: TranslationNetwork,
    memory: Any,
    limits: list[int],
    sampling: Sampling,
    numbers: Ints,
    boundary: int,
    unknown: int | None,
) -> list[list[Hypothesis]]:
    """Return sampled translations; each depends on the seed, the number of its text and its sample number."""
    count = sampling.samples
    state = network.pair.start(memory, count)
    generators = [np.random.default_rng([sampling.seed, int(text), each]) for text in numbers for each in range(count)]
    generated: list[list[int]] = [[] for _ in generators]
    totals, is_done = np.zeros(len(generators)), np.zeros(len(generators), bool)
    last_R1 = torch.full((len(generators), 1), boundary, device=network.head.weight.device)
    limits_R = np.repeat(limits, count)
    for length in range(max(limits) + 1):
        encoded, state = network.pair.step(last_R1, state)
        logprobs_RV = checked(network.scores(encoded[:, -1]).log_softmax(dim=-1).cpu().double().numpy())
        allowed_RV = logprobs_RV.copy()
        if unknown is not None:
            allowed_RV[:, unknown] = -np.inf
        must_end = limits_R <= length
        allowed_RV[must_end] = -np.inf
        allowed_RV[must_end, boundary] = 0
        tokens = choose(allowed_RV, sampling, generators)
        for row in np.flatnonzero(~is_done):
            totals[row] += logprobs_RV[row, tokens[row]]
            if tokens[row] == boundary:
                is_done[row] = True
            else:
                generated[row].append(tokens[row])
        if is_done.all():
            break
        last_R1 = torch.tensor(tokens, device=last_R1.device)[:, None]
    samples = [
        Hypothesis(tuple(ids), float(t), float(t) / (len(ids) + 1)) for ids, t in zip(generated, totals, strict=True)
    ]
    by_text = [samples[start : start + count] for start in range(0, len(samples), count)]
    return [sorted(group, key=lambda hypothesis: -hypothesis.score) for group in by_text]
