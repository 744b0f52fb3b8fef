"""Smoothed n-gram probabilities: interpolated modified Kneser-Ney, Witten-Bell, add-k, maximum likelihood.

Kneser-Ney is the modified, interpolated form of Chen and Goodman (1999), as in KenLM and SRILM: below the highest
order the count of an n-gram is the number of distinct preceding tokens (at the start of a document, its number of
occurrences), and unigrams are interpolated with the uniform distribution.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import Field, field_validator

from satchel.config import Settings
from satchel.ngram.counts import Counts, count_ngrams
from satchel.ngram.tables import HIGHEST_ORDER, Ints, Level, Table
from satchel.predictor import Floats, Ids

# Discounts for orders whose counts of counts do not yield valid ones (common with character tokenizers).
FALLBACK = (0.5, 1.0, 1.5)

# `imported` marks tables read from ARPA files; they cannot be re-estimated.
Smoothing = Literal["kneser-ney", "witten-bell", "add-k", "mle", "imported"]


class NgramSettings(Settings):
    """Settings of an n-gram language model."""

    kind: Literal["ngram"] = Field("ngram", description="n-gram model")
    order: int = Field(5, ge=1, le=HIGHEST_ORDER, description="length of the longest n-grams; the context is order - 1")
    smoothing: Smoothing = Field("kneser-ney", description="kneser-ney, witten-bell, add-k or mle")
    k: float = Field(1.0, gt=0, le=1e6, description="add-k: constant added to every count")
    prune: tuple[int, ...] = Field((0,), description="per order: remove n-grams with at most this count")

    @field_validator("prune", mode="before")
    @classmethod
    def _one_is_a_list(cls, prune: object) -> object:
        return (prune,) if isinstance(prune, int) else tuple(prune) if isinstance(prune, list) else prune

    @field_validator("prune")
    @classmethod
    def _rising(cls, prune: tuple[int, ...]) -> tuple[int, ...]:
        if not prune or prune[0] != 0 or any(b < a for a, b in pairwise(prune)):
            raise ValueError("expected non-decreasing counts that start with 0, such as 0,0,1")
        return prune


class Discounts(NamedTuple):
    """Kneser-Ney discounts of counts 1, 2 and 3+; `is_fallback` if they could not be estimated from the text."""

    amounts: tuple[float, float, float]
    is_fallback: bool


class Estimate(NamedTuple):
    """The table, the discounts of each order (Kneser-Ney only), and the training loss in nats per token."""

    table: Table
    discounts: list[Discounts]
    train_loss: float


def estimate(
    ids: Ids, size: int, settings: NgramSettings, *, ends: bool, progress: Callable[[int], None] = lambda order: None
) -> Estimate:
    """Estimate the model of a sequence of ids; documents are separated by the boundary id `size - 1`.

    With `ends`, the end of a document is an event with a probability; otherwise its probability is 0.

    Every smoothing method has the form p(w | context) = mass(w) / total + weight * p(w | shorter context), where
    weight is the mass not assigned to the kept n-grams: each distribution sums to 1 by construction.
    """
    # A stream has a single start, too little to estimate a start context: its boundary is not counted, and the
    # first token of a stream is scored by the unigrams.
    levels = count_ngrams(ids if ends else ids[1:], settings.order, size, progress)
    # The first boundary is not a predicted event.
    levels[0].counts[-1] -= ends
    uniform = np.full(size, 1 / (size if ends else size - 1))
    uniform[-1] *= ends
    starts = _document_starts(levels, size)
    kept = _kept(levels, settings.prune)
    discounts: list[Discounts] = []
    probabilities: list[Floats] = []
    weights: list[Floats] = []
    for n, level in enumerate(levels, start=1):
        contexts = level.keys // size if n > 1 else np.zeros(size, np.int64)
        parents = len(levels[n - 2].keys) if n > 1 else 1
        lower = uniform if n == 1 else probabilities[-1][level.suffixes]
        if settings.smoothing == "kneser-ney":
            counts = level.counts if n == settings.order else _continuations(levels, n, starts)
            discounts.append(_discounts(counts))
            mass = counts - np.array([0.0, *discounts[-1].amounts])[np.minimum(counts, 3)]
            totals = np.bincount(contexts, counts, parents)
        elif settings.smoothing == "witten-bell":
            mass = level.counts.astype(float)
            # Each distinct continuation adds one count for the shorter context.
            totals = np.bincount(contexts, mass + (mass > 0), parents)
        elif settings.smoothing == "add-k":
            # k is added to the count of every token. Only full contexts have counts: order - 1 tokens, or all tokens
            # since the start of the document.
            lower = uniform[level.keys % size]
            is_full = (n == settings.order) | (contexts >= (starts[n - 2] if n > 1 else 1))
            mass = np.where(is_full, level.counts, 0.0)
            context_counts = np.bincount(contexts, mass, parents)
            totals = context_counts + (context_counts > 0) * settings.k * np.count_nonzero(uniform)
        else:
            mass = level.counts.astype(float)
            totals = np.bincount(contexts, mass, parents)
        if (keep := kept[n - 1]) is not None:
            mass[~keep] = 0.0
        remaining = totals - np.bincount(contexts, mass, parents)
        # A context without continuations passes all its mass to the shorter context.
        remaining[totals == 0] = totals[totals == 0] = 1.0
        weight = remaining / totals
        mass /= totals[contexts]
        mass += weight[contexts] * lower
        probabilities.append(mass)
        weights.append(weight)
    table = _table(levels, kept, probabilities, [*weights[1:], np.empty(0)], size)
    return Estimate(table, discounts, _train_loss(ids, table, levels, starts, is_pruned=settings.prune[-1] > 0))


def _kept(levels: Sequence[Counts], prune: tuple[int, ...]) -> list[npt.NDArray[np.bool_] | None]:
    """Return a mask of the n-grams kept after pruning for each order; None if all are kept."""
    thresholds = [prune[min(n, len(prune)) - 1] for n in range(1, len(levels) + 1)]
    return [level.counts > least if least else None for level, least in zip(levels, thresholds, strict=True)]


def _document_starts(levels: Sequence[Counts], size: int) -> list[int]:
    """Return, for each order, the row of the first n-gram that starts with the boundary id (the largest id)."""
    starts = [size - 1]
    for level in levels[1:]:
        starts.append(int(np.searchsorted(level.keys, starts[-1] * size)))
    return starts


def _continuations(levels: Sequence[Counts], n: int, starts: Sequence[int]) -> Ints:
    """Return the number of distinct tokens before each n-gram; for n-grams at a document start, their counts."""
    counts = np.bincount(levels[n].suffixes, minlength=len(levels[n - 1].keys))
    if n > 1:
        counts[starts[n - 1] :] = levels[n - 1].counts[starts[n - 1] :]
    return counts


def _discounts(counts: Ids) -> Discounts:
    """Return the discounts of counts 1, 2 and 3+, estimated from the counts of counts 1 to 4."""
    t1, t2, t3, t4 = (int(np.count_nonzero(counts == occurrences)) for occurrences in (1, 2, 3, 4))
    if not (t1 and t2 and t3):
        return Discounts(FALLBACK, True)
    # Exact fractions, so that rounding cannot decide whether a discount of 0 is valid.
    y = Fraction(t1, t1 + 2 * t2)
    one, two, three = 1 - 2 * y * t2 / t1, 2 - 3 * y * t3 / t2, 3 - 4 * y * t4 / t3
    if not (0 <= one <= 1 and 0 <= two <= 2 and 0 <= three <= 3):
        return Discounts(FALLBACK, True)
    return Discounts((float(one), float(two), float(three)), False)


def _table(
    levels: Sequence[Counts],
    kept: Sequence[npt.NDArray[np.bool_] | None],
    probabilities: Sequence[Floats],
    weights: Sequence[Floats],
    size: int,
) -> Table:
    """Return the table of the kept n-grams. The context of a kept n-gram is at least as frequent, hence kept too."""
    tables: list[Level] = []
    rows: Ints | None = None
    for level, keep, probability, weight in zip(levels, kept, probabilities, weights, strict=True):
        keys = level.keys
        if rows is not None:
            keys = rows[keys // size] * size + keys % size
        rows = None if keep is None else np.cumsum(keep) - 1
        if keep is not None:
            keys, probability = keys[keep], probability[keep]
            weight = weight[keep] if len(weight) else weight
        tables.append(Level(keys, probability, weight))
    return Table(size, tuple(tables))


def _train_loss(ids: Ids, table: Table, levels: Sequence[Counts], starts: Sequence[int], is_pruned: bool) -> float:
    """Return the training loss in nats per token."""
    if len(ids) < 2:
        return 0.0
    if is_pruned or table.order == 1:
        return -float(table.score(ids).logprobs.mean())
    # Without pruning the longest n-gram of each token is in the tables: of the highest order, or starting at a
    # document boundary; only the first tokens of a stream need a lookup.
    total = 0.0
    for n, (level, probabilities) in enumerate(zip(levels[1:], table.levels[1:], strict=True), start=2):
        first = 0 if n == table.order else starts[n - 1]
        total -= float(level.counts[first:] @ np.log(probabilities.probabilities[first:]))
    if not levels[0].counts[-1]:
        total -= float(table.score(ids[: table.order]).logprobs.sum())
    return total / (len(ids) - 1)
