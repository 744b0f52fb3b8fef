"""From counts to probabilities: interpolated modified Kneser-Ney, Witten-Bell, add-k, and plain counting.

Kneser-Ney follows Chen and Goodman's modified form, as the usual toolkits estimate it: below the
highest order an n-gram counts the distinct tokens before it (at the start of a document, where
nothing is before it, its occurrences), and the unigrams are interpolated with the uniform distribution.
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

# Used for an order whose counts of counts do not give discounts, as is common on characters.
FALLBACK = (0.5, 1.0, 1.5)

# `imported` tables were estimated elsewhere: they can be used, not made.
Smoothing = Literal["kneser-ney", "witten-bell", "add-k", "mle", "imported"]


class NgramSettings(Settings):
    """How a counted language model is estimated."""

    kind: Literal["ngram"] = Field("ngram", description="counts of n-grams")
    order: int = Field(5, ge=1, le=HIGHEST_ORDER, description="the longest n-gram: a context of order - 1 tokens")
    smoothing: Smoothing = Field("kneser-ney", description="kneser-ney, witten-bell, add-k or mle")
    k: float = Field(1.0, gt=0, le=1e6, description="add-k: what is added to every count")
    prune: tuple[int, ...] = Field((0,), description="by order: drop n-grams that occur this often or less")

    @field_validator("prune", mode="before")
    @classmethod
    def _one_is_a_list(cls, prune: object) -> object:
        return (prune,) if isinstance(prune, int) else tuple(prune) if isinstance(prune, list) else prune

    @field_validator("prune")
    @classmethod
    def _rising(cls, prune: tuple[int, ...]) -> tuple[int, ...]:
        if not prune or prune[0] != 0 or any(b < a for a, b in pairwise(prune)):
            raise ValueError("expected counts that begin with 0 and do not fall, such as 0,0,1")
        return prune


class Discounts(NamedTuple):
    """What Kneser-Ney takes from counts of 1, 2, and 3 or more; by rule of thumb where the text does not tell."""

    amounts: tuple[float, float, float]
    is_fallback: bool


class Estimate(NamedTuple):
    """A table, the discounts of each order (none but for Kneser-Ney), and the nats per token of the training text."""

    table: Table
    discounts: list[Discounts]
    train_loss: float


def _silent(order: int) -> None:
    del order


def estimate(
    ids: Ids,
    size: int,
    settings: NgramSettings,
    *,
    ends: bool,
    progress: Callable[[int], None] = _silent,
) -> Estimate:
    """Return the model of a text of ids below `size`, whose documents are set apart by the id `size - 1`.

    `ends` says whether the end of a document is an event to predict; if not, it has no probability.

    Every smoothing here is p(w | context) = own(w) / total + weight * p(w | shorter context), where the
    weight is whatever the kept n-grams left of the total: each distribution sums to one by construction.
    """
    # A stream begins once, which tells nothing of beginnings: its boundary is not counted, so that the
    # first token of another stream finds an unknown context and is answered by the unigrams.
    levels = count_ngrams(ids if ends else ids[1:], settings.order, size, progress)
    # The first boundary opens the text: nobody could have predicted it.
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
            own = counts - np.array([0.0, *discounts[-1].amounts])[np.minimum(counts, 3)]
            totals = np.bincount(contexts, counts, parents)
        elif settings.smoothing == "witten-bell":
            own = level.counts.astype(float)
            # Each distinct continuation is one more event, which goes to the shorter context.
            totals = np.bincount(contexts, own + (own > 0), parents)
        elif settings.smoothing == "add-k":
            # What is added goes to all tokens alike. Only whole contexts count: order - 1 tokens, or all
            # there are since the document began; shorter ones know nothing.
            lower = uniform[level.keys % size]
            is_whole = (n == settings.order) | (contexts >= (starts[n - 2] if n > 1 else 1))
            own = np.where(is_whole, level.counts, 0.0)
            seen = np.bincount(contexts, own, parents)
            totals = seen + (seen > 0) * settings.k * np.count_nonzero(uniform)
        else:
            own = level.counts.astype(float)
            totals = np.bincount(contexts, own, parents)
        if (keep := kept[n - 1]) is not None:
            own[~keep] = 0.0
        left = totals - np.bincount(contexts, own, parents)
        # A context that nothing ever followed leaves everything to the shorter one.
        left[totals == 0] = totals[totals == 0] = 1.0
        weight = left / totals
        own /= totals[contexts]
        own += weight[contexts] * lower
        probabilities.append(own)
        weights.append(weight)
    table = _table(levels, kept, probabilities, [*weights[1:], np.empty(0)], size)
    return Estimate(table, discounts, _train_loss(ids, table, levels, starts, is_whole=settings.prune[-1] == 0))


def _kept(levels: Sequence[Counts], prune: tuple[int, ...]) -> list[npt.NDArray[np.bool_] | None]:
    """Return, for each order, which n-grams are kept; None where all are, as all unigrams are."""
    thresholds = [prune[min(n, len(prune)) - 1] for n in range(1, len(levels) + 1)]
    return [level.counts > least if least else None for level, least in zip(levels, thresholds, strict=True)]


def _document_starts(levels: Sequence[Counts], size: int) -> list[int]:
    """Return, for each order, the place of the first n-gram that begins with the boundary, which is the last id."""
    starts = [size - 1]
    for level in levels[1:]:
        starts.append(int(np.searchsorted(level.keys, starts[-1] * size)))
    return starts


def _continuations(levels: Sequence[Counts], n: int, starts: Sequence[int]) -> Ints:
    """Return how many distinct tokens come before each n-gram; where a document begins, how often it does."""
    counts = np.bincount(levels[n].suffixes, minlength=len(levels[n - 1].keys))
    if n > 1:
        counts[starts[n - 1] :] = levels[n - 1].counts[starts[n - 1] :]
    return counts


def _discounts(counts: Ids) -> Discounts:
    """Return what is taken from counts of 1, 2, and 3 or more, from how many n-grams occur 1, 2, 3 and 4 times."""
    t1, t2, t3, t4 = (int(np.count_nonzero(counts == occurrences)) for occurrences in (1, 2, 3, 4))
    if not (t1 and t2 and t3):
        return Discounts(FALLBACK, True)
    # In fractions: rounding must not decide whether a discount of nothing is one.
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
    """Return the table of the n-grams that are kept. An n-gram's context occurs as often as it, so it is kept too."""
    tables: list[Level] = []
    places: Ints | None = None
    for level, keep, probability, weight in zip(levels, kept, probabilities, weights, strict=True):
        keys = level.keys
        if places is not None:
            keys = places[keys // size] * size + keys % size
        places = None if keep is None else np.cumsum(keep) - 1
        if keep is not None:
            keys, probability = keys[keep], probability[keep]
            weight = weight[keep] if len(weight) else weight
        tables.append(Level(keys, probability, weight))
    return Table(size, tuple(tables))


def _train_loss(ids: Ids, table: Table, levels: Sequence[Counts], starts: Sequence[int], is_whole: bool) -> float:
    """Return the nats per token of the training text."""
    if len(ids) < 2:
        return 0.0
    if not is_whole or table.order == 1:
        return -float(table.score(ids).logprobs.mean())
    # Each token's longest n-gram is in the tables: one of the highest order, or one that begins a document,
    # or, at the beginning of a stream, whatever there is.
    total = 0.0
    for n, (level, probabilities) in enumerate(zip(levels[1:], table.levels[1:], strict=True), start=2):
        first = 0 if n == table.order else starts[n - 1]
        total -= float(level.counts[first:] @ np.log(probabilities.probabilities[first:]))
    if not levels[0].counts[-1]:
        total -= float(table.score(ids[: table.order]).logprobs.sum())
    return total / (len(ids) - 1)
