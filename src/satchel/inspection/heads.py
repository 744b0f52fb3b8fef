"""Attention heads: agreement of their weights with patterns, and the head that is shown by default.

A pattern is a function of tokens that returns the expected key positions of each query position. Queries without an
expected position are ignored.
Shapes: T time, S source time, H heads.
"""

import functools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from satchel.errors import SettingsError
from satchel.predictor import Floats

# (T, S): whether a key position is expected for a query position.
Expected = npt.NDArray[np.bool_]
# Function of the tokens; for cross-attention, of the target and the source tokens.
Pattern = Callable[..., Expected]


class Weights(Protocol):
    """Attention weights of all heads of a text; `satchel.inspection.trace.AttentionMaps` implements it."""

    def each(self) -> Iterator[tuple[int, int, npt.NDArray[Any]]]:
        """Yield layer, head and weights (T, S) of all heads."""


@dataclass(frozen=True)
class HeadFit:
    """Agreement of the attention weights of a head with a pattern, over `queries` that have an expected position.

    `weight` is the mean weight on the expected positions, `chance` that of uniform attention, and `hits` the share of
    queries whose largest weight is on an expected position.
    """

    layer: int
    head: int
    pattern: str
    weight: float
    chance: float
    hits: float
    queries: int


# --- patterns -------------------------------------------------------------------------------------------


def same(tokens: Sequence[str], source: Sequence[str] | None = None) -> Expected:
    """Return the other positions of the same token; with a source, all its positions there."""
    keys = tokens if source is None else source
    numbers = {token: number for number, token in enumerate(dict.fromkeys([*tokens, *keys]))}
    queries_T, keys_S = (np.array([numbers[token] for token in each], int) for each in (tokens, keys))
    equal_TS: Expected = queries_T[:, None] == keys_S
    return equal_TS if source is not None else equal_TS & ~shifted(0, tokens)


def earlier(tokens: Sequence[str]) -> Expected:
    """Return the earlier positions of the same token."""
    return np.tril(same(tokens), -1)


def shifted(offset: int, tokens: Sequence[str]) -> Expected:
    """Return the position at an offset from the query."""
    return np.eye(len(tokens), k=offset, dtype=bool)


def new(tokens: Sequence[str]) -> Expected:
    """Return the query position itself, for the first occurrence of a token."""
    return shifted(0, tokens) & ~earlier(tokens).any(axis=1, keepdims=True)


def first(tokens: Sequence[str]) -> Expected:
    """Return the first position."""
    return at([(position, 0) for position in range(len(tokens))], tokens)


def at(pairs: Iterable[tuple[int, int]], tokens: Sequence[str], source: Sequence[str] | None = None) -> Expected:
    """Return the expected positions given as pairs of query and key."""
    expected_TS = np.zeros((len(tokens), len(tokens if source is None else source)), bool)
    for query, key in pairs:
        expected_TS[query, key] = True
    return expected_TS


# Patterns of any text.
GENERAL: dict[str, Pattern] = {
    "same": same,
    "earlier": earlier,
    "new": new,
    "self": functools.partial(shifted, 0),
    "previous": functools.partial(shifted, -1),
    "next": functools.partial(shifted, 1),
    "first": first,
}


# --- agreement with attention weights -------------------------------------------------------------------


def rank(texts: Iterable[tuple[Weights, Mapping[str, Expected]]], *, causal: bool = False) -> list[HeadFit]:
    """Return the agreement of every head with every pattern over several texts: by pattern, the best heads first.

    Each text has its attention weights and the expected positions by pattern. Patterns without a visible expected
    position in any text are omitted. Only one layer of weights is in memory at a time.
    """
    totals: defaultdict[tuple[str, int, int], Floats] = defaultdict(lambda: np.zeros(4))
    for maps, expected in texts:
        for layer, head, weights_TS in maps.each():
            for name, expected_TS in expected.items():
                totals[name, layer, head] += _sums(weights_TS, expected_TS, causal)
    order = {name: number for number, name in enumerate(dict.fromkeys(name for name, _, _ in totals))}
    rows = []
    for (name, layer, head), sums in totals.items():
        if queries := int(sums[3]):
            weight, chance, hits = (sums[:3] / sums[3]).tolist()
            rows.append(HeadFit(layer, head, name, weight, chance, hits, queries))
    return sorted(rows, key=lambda row: (order[row.pattern], -row.weight, row.layer, row.head))


def _sums(weights_TS: npt.NDArray[Any], expected_TS: Expected, causal: bool) -> Floats:
    """Return the sums of weight, chance and hits over queries with a visible expected position, and their number."""
    if weights_TS.shape != expected_TS.shape:
        raise SettingsError(f"the pattern has the shape {expected_TS.shape}; expected {weights_TS.shape}")
    times, keys = weights_TS.shape
    visible_TS = np.tri(times, keys, keys - times, dtype=bool) if causal else np.ones((times, keys), bool)
    expected_TS = expected_TS & visible_TS
    queries = expected_TS.any(axis=1)
    weights, expected, visible = weights_TS[queries].astype(np.float64), expected_TS[queries], visible_TS[queries]
    # Equal largest weights share the hit, so that uniform attention scores at chance.
    largest = (weights == weights.max(axis=1, keepdims=True, initial=0)) & visible
    return np.array(
        [
            (weights * expected).sum(),
            (expected.sum(axis=1) / visible.sum(axis=1)).sum(),
            ((largest & expected).sum(axis=1) / largest.sum(axis=1)).sum(),
            queries.sum(),
        ],
        np.float64,
    )


# --- the head that is shown by default ------------------------------------------------------------------

# Patterns that do not count: many heads attend to the first token, and `new` is nearly the same as `self`.
UNSPECIFIC = ("first", "new")
# Minimum number of queries with an expected position.
MIN_QUERIES = 10


@dataclass(frozen=True)
class ChosenHead:
    """A head, and why it is shown: its agreement with a pattern, or the mean entropy of its weights in bits."""

    layer: int
    head: int
    reason: str
    pattern: str | None = None
    weight: float | None = None
    chance: float | None = None
    queries: int | None = None
    entropy: float | None = None

    def document(self) -> dict[str, Any]:
        """Return the fields as values of JSON."""
        return asdict(self)


def choose_head(maps: Weights, expected: Mapping[str, Expected], *, causal: bool) -> ChosenHead:
    """Return the head with the largest ratio of pattern weight to chance.

    Patterns with fewer than MIN_QUERIES queries and UNSPECIFIC patterns do not count. If no pattern is left, it is the
    head with the lowest mean entropy.
    """
    specific = {name: each for name, each in expected.items() if name not in UNSPECIFIC}
    fits = [row for row in rank([(maps, specific)], causal=causal) if row.queries >= MIN_QUERIES]
    if fits:
        best = max(fits, key=lambda row: row.weight / row.chance)
        reason = (
            f"mean weight {best.weight:.2g} on the pattern {best.pattern}, {best.weight / best.chance:.1f} times that "
            f"of uniform attention ({best.chance:.2g}), the largest ratio of all heads"
        )
        return ChosenHead(best.layer, best.head, reason, best.pattern, best.weight, best.chance, queries=best.queries)
    entropies = {(layer, head): _entropy(weights_TS) for layer, head, weights_TS in maps.each()}
    layer, head = min(entropies, key=lambda place: entropies[place])
    entropy = entropies[layer, head]
    reason = f"lowest mean entropy of all heads ({entropy:.2f} bits); no pattern has {MIN_QUERIES} queries in this text"
    return ChosenHead(layer, head, reason, entropy=entropy)


def _entropy(weights_TS: npt.NDArray[Any]) -> float:
    """Return the mean entropy of the rows, in bits."""
    if not weights_TS.size:
        return 0.0
    weights = weights_TS.astype(np.float64)
    # Of a weight of 1, the product is -0.0.
    return abs(float((weights * np.log2(np.where(weights > 0, weights, 1.0))).sum(axis=1).mean()))
