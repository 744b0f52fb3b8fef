"""Writing translations: the likeliest that a search finds, or by chance.

Letters: B texts, K rows of a text's beam, R rows of all texts, S time of the source, T time of the target,
V vocabulary, C candidates.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from satchel.config import Settings
from satchel.data.batches import Ints, by_length
from satchel.generation.sampling import Sampling, choose
from satchel.predictor import Ids
from satchel.tasks.translation import TranslationNetwork, answering, source_batch

# Tokens of sources that are read at once, for one row of a beam.
TOKENS_AT_ONCE = 1 << 12
# A translation has at most so many times the tokens of its source, and so many more.
LONGER, MORE = 2, 20
# What some ids are to a reader: equal, if they are the same words.
Text = Callable[[tuple[int, ...]], Hashable]


class BeamSettings(Settings):
    """How a translation is searched for."""

    beam: int = Field(4, ge=1, le=1000, description="translations that are followed at once; 1 is greedy")
    best: int = Field(1, ge=1, le=1000, description="how many of those found are told, best first")
    length_penalty: float = Field(
        1.0, ge=0, le=10, description="log-probabilities are divided by the length to this power; 0 likes short ones"
    )
    longest: int | None = Field(None, ge=1, description="the most tokens of a translation; else by its source's")


@dataclass(frozen=True)
class Hypothesis:
    """A translation: its ids, the sum of their logarithms and that of its end, and what it is ranked by."""

    ids: tuple[int, ...]
    logprob: float
    score: float


def translate(
    network: TranslationNetwork,
    sources: Sequence[Ids],
    boundaries: tuple[int, int],
    searching: BeamSettings,
    *,
    unknown: int | None = None,
    sampling: Sampling | None = None,
    text: Text = tuple,
    progress: Callable[[float], None] = lambda done: None,
) -> list[list[Hypothesis]]:
    """Return the translations of each source, best first: as many as are asked for, if there are as many.

    `boundaries` are the ids that end a source and a target; `unknown` is never written. Other ids may be the same
    `text`, as words may be cut in several ways: of those that a search finds, the likeliest is told. With `sampling`
    they are drawn.
    """
    found: list[list[Hypothesis]] = [[] for _ in sources]
    lengths_R = np.array([len(ids) for ids in sources], np.int64)
    rows_each = sampling.samples if sampling else searching.beam
    done = 0
    with answering(network):
        for rows in _batches(network, lengths_R, max(1, TOKENS_AT_ONCE // rows_each)):
            source_BS, keep_BS = (
                part.to(network.head.weight.device)
                for part in source_batch([sources[row] for row in rows], boundaries[0])
            )
            memory = network.pair.read(source_BS, None if bool(keep_BS.all()) else keep_BS)
            limits = [_limit(int(lengths_R[row]), searching, network.pair.context) for row in rows]
            if sampling is None:
                hypotheses = _Search(network, memory, limits, searching, boundaries[1], unknown, text).run()
            else:
                hypotheses = _drawn(network, memory, limits, sampling, rows, boundaries[1], unknown)
            for row, best in zip(rows, hypotheses, strict=True):
                found[row] = best
            done += len(rows)
            progress(done / len(sources))
    return found


def _batches(network: TranslationNetwork, lengths_R: Ints, budget: int) -> list[Ints]:
    """Return texts that are written together: of like length, or where it has to be of the same."""
    if network.pair.takes_padding:
        return by_length(lengths_R + 1, budget)
    alike = [np.flatnonzero(lengths_R == length) for length in np.unique(lengths_R)]
    return [
        part for rows in alike for part in np.array_split(rows, -(-len(rows) * int(lengths_R[rows[0]] + 1) // budget))
    ]


def _limit(length: int, searching: BeamSettings, context: int) -> int:
    """Return the most tokens of a translation: as asked, or by its source's; never more than there is room for."""
    return max(1, min(searching.longest or LONGER * length + MORE, context - 1))


class _Search:
    """Follows the best beginnings of all texts at once.

    A text is done when as many endings are found as it follows beginnings, and none of these ranks above the worst of
    them. So a beam of one is greedy; and one that is as wide as there are texts to write finds the best of all.
    """

    def __init__(
        self,
        network: TranslationNetwork,
        memory: Any,
        limits: list[int],
        searching: BeamSettings,
        boundary: int,
        unknown: int | None,
        text: Text,
    ) -> None:
        self.network, self.searching, self.boundary, self.unknown = network, searching, boundary, unknown
        self.limits = limits
        # The likeliest ending of each text that was written. Who wants the best one alone need not tell them apart.
        self.found: list[dict[Hashable, Hypothesis]] = [{} for _ in limits]
        self.text = text if searching.best > 1 else tuple
        # At first all rows of a text would be the same: one of them is enough.
        self.state = network.pair.start(memory)
        self.device = network.head.weight.device

    def run(self) -> list[list[Hypothesis]]:
        """Return the best endings of each text, best first."""
        beam, texts = self.searching.beam, list(range(len(self.limits)))
        written: list[list[list[int]]] = [[[]] for _ in texts]
        totals_BK = torch.zeros(len(texts), 1, dtype=torch.double, device=self.device)
        last_R1 = torch.full((len(texts), 1), self.boundary, device=self.device)
        for length in range(max(self.limits) + 1):
            totals_BC, places_BC = self._candidates(last_R1, totals_BK, [self.limits[text] <= length for text in texts])
            vocabulary = self.network.head.out_features
            rows: list[int] = []
            tokens: list[int] = []
            totals: list[float] = []
            going: list[int] = []
            following: list[list[list[int]]] = []
            for place, (chances, places) in enumerate(zip(totals_BC.tolist(), places_BC.tolist(), strict=True)):
                text = texts[place]
                kept = self._followed(text, written[place], chances, [divmod(each, vocabulary) for each in places])
                if not kept or self._is_done(text, kept[0][2], length + 1):
                    continue
                # Where there is less to follow than there are rows, the others are dead: nothing comes of them.
                kept += [(0, self.boundary, -torch.inf)] * (beam - len(kept))
                rows += [place * totals_BK.shape[1] + row for row, _, _ in kept]
                tokens += [token for _, token, _ in kept]
                totals += [total for _, _, total in kept]
                following.append([[*written[place][row], token] for row, token, _ in kept])
                going.append(place)
            if not going:
                break
            some = None if len(going) == len(texts) else torch.tensor(going, device=self.device)
            self._select(rows, some, len(last_R1))
            texts, written = [texts[place] for place in going], following
            totals_BK = torch.tensor(totals, dtype=torch.double, device=self.device).view(-1, beam)
            last_R1 = torch.tensor(tokens, device=self.device)[:, None]
        ranked = [sorted(found.values(), key=lambda each: -each.score) for found in self.found]
        return [found[: self.searching.best] for found in ranked]

    def _select(self, rows: list[int], texts: Tensor | None, count: int) -> None:
        if texts is not None or rows != list(range(count)):
            self.state = self.state.select(torch.tensor(rows, device=self.device), texts)

    def _candidates(self, last_R1: Tensor, totals_BK: Tensor, has_to_end: list[bool]) -> tuple[Tensor, Tensor]:
        """Return the totals of the likeliest continuations of each text, and their places among all (row, token)."""
        rows, best = totals_BK.shape[1], 2 * self.searching.beam
        encoded, self.state = self.network.pair.step(last_R1, self.state)
        scores_RV = self.network.scores(encoded[:, -1])
        norms_R1 = scores_RV.logsumexp(dim=-1, keepdim=True)
        vocabulary = scores_RV.shape[1]
        if self.unknown is not None:
            scores_RV = scores_RV.index_fill(1, torch.tensor([self.unknown], device=self.device), -torch.inf)
        if any(has_to_end):
            ends_R1 = torch.tensor(has_to_end, device=self.device).repeat_interleave(rows)[:, None]
            goes_on_V = torch.arange(vocabulary, device=self.device) != self.boundary
            scores_RV = scores_RV.masked_fill(ends_R1 & goes_on_V, -torch.inf)
        # The best of all rows are among the best of each.
        best_RC, tokens_RC = scores_RV.topk(min(best, vocabulary))
        totals_BC = (totals_BK.view(-1, 1) + best_RC - norms_R1).view(len(totals_BK), -1)
        rows_RC = torch.arange(rows, device=self.device).repeat(len(totals_BK))[:, None]
        places_BC = (rows_RC * vocabulary + tokens_RC).view(len(totals_BK), -1)
        best_BC, order = totals_BC.topk(min(best, totals_BC.shape[1]))
        return best_BC, places_BC.gather(1, order)

    def _followed(
        self, text: int, written: list[list[int]], totals: list[float], candidates: list[tuple[int, int]]
    ) -> list[tuple[int, int, float]]:
        """Keep the endings among the best candidates, and return the best of the others: row, token and total."""
        beam, kept = self.searching.beam, []
        for rank, (total, (row, token)) in enumerate(zip(totals, candidates, strict=True)):
            if total == -torch.inf:
                break
            if token != self.boundary:
                kept.append((row, token, total))
            elif rank < beam:
                ids = tuple(written[row])
                ending = Hypothesis(ids, total, self._ranked(total, len(ids) + 1))
                words = self.text(ids)
                self.found[text][words] = max(ending, self.found[text].get(words, ending), key=lambda each: each.score)
        return kept[:beam]

    def _is_done(self, text: int, best: float, length: int) -> bool:
        """Return whether nothing better is to be expected of a text, whose best beginning has this total and length."""
        scores = sorted((each.score for each in self.found[text].values()), reverse=True)[: self.searching.beam]
        return len(scores) == self.searching.beam and scores[-1] >= self._ranked(best, length)

    def _ranked(self, total: float, length: int) -> float:
        return total / float(length**self.searching.length_penalty)


def _drawn(
    network: TranslationNetwork,
    memory: Any,
    limits: list[int],
    sampling: Sampling,
    numbers: Ints,
    boundary: int,
    unknown: int | None,
) -> list[list[Hypothesis]]:
    """Return translations drawn by chance. Each depends on the seed, the number of its text and its own."""
    count = sampling.samples
    state = network.pair.start(memory, count)
    generators = [np.random.default_rng([sampling.seed, int(text), each]) for text in numbers for each in range(count)]
    written: list[list[int]] = [[] for _ in generators]
    totals, is_done = np.zeros(len(generators)), np.zeros(len(generators), bool)
    last_R1 = torch.full((len(generators), 1), boundary, device=network.head.weight.device)
    limits_R = np.repeat(limits, count)
    for length in range(max(limits) + 1):
        encoded, state = network.pair.step(last_R1, state)
        logprobs_RV = network.scores(encoded[:, -1]).log_softmax(dim=-1).cpu().double().numpy()
        allowed_RV = logprobs_RV.copy()
        if unknown is not None:
            allowed_RV[:, unknown] = -np.inf
        has_to_end = limits_R <= length
        allowed_RV[has_to_end] = -np.inf
        allowed_RV[has_to_end, boundary] = 0
        tokens = choose(allowed_RV, sampling, generators)
        for row in np.flatnonzero(~is_done):
            totals[row] += logprobs_RV[row, tokens[row]]
            if tokens[row] == boundary:
                is_done[row] = True
            else:
                written[row].append(tokens[row])
        if is_done.all():
            break
        last_R1 = torch.tensor(tokens, device=last_R1.device)[:, None]
    drawn = [
        Hypothesis(tuple(ids), float(t), float(t) / (len(ids) + 1)) for ids, t in zip(written, totals, strict=True)
    ]
    by_text = [drawn[start : start + count] for start in range(0, len(drawn), count)]
    return [sorted(found, key=lambda each: -each.score) for found in by_text]
