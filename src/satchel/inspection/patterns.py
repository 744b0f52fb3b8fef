"""Patterns: does a map make sense? How much of its weight is where one would expect it, beside what chance would give.

A pattern is a function of tokens: it says, for every place that looks, which places it is expected to look at. What
it says is held against a map; where nothing is expected, nothing is judged.
Letters: T time, S time of what is looked at, H heads.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from satchel.datasets import roles
from satchel.errors import SettingsError
from satchel.inspection.trace import Maps
from satchel.predictor import Floats

Places = npt.NDArray[np.bool_]  # (T, S): where each place is expected to look
# Of tokens; where a translation looks at its source, of what is written and of the source.
Pattern = Callable[..., Places]


@dataclass(frozen=True)
class Fit:
    """How well a map fits a pattern, over the `queries` places that are expected to look somewhere.

    `weight` is the mean weight on the expected places, `chance` what it would be if all that is seen got the same, and
    `hits` the share of queries that look most at an expected place.
    """

    weight: float
    chance: float
    hits: float
    queries: int


@dataclass(frozen=True)
class HeadFit:
    """How well a head fits a pattern."""

    layer: int
    head: int
    pattern: str
    weight: float
    chance: float
    hits: float
    queries: int


# --- patterns ----------------------------------------------------------------------------------------


def same(tokens: Sequence[str], source: Sequence[str] | None = None) -> Places:
    """The same token elsewhere; in a source, anywhere."""
    keys = tokens if source is None else source
    alike_TS = np.array([[query == key for key in keys] for query in tokens], bool).reshape(len(tokens), len(keys))
    return alike_TS if source is not None else alike_TS & ~itself(tokens)


def earlier(tokens: Sequence[str]) -> Places:
    """The same token, earlier."""
    return np.tril(same(tokens), -1)


def itself(tokens: Sequence[str]) -> Places:
    """The place itself."""
    return np.eye(len(tokens), dtype=bool)


def new(tokens: Sequence[str]) -> Places:
    """The place itself, where a token stands that has not stood before."""
    return itself(tokens) & ~earlier(tokens).any(axis=1, keepdims=True)


def previous(tokens: Sequence[str]) -> Places:
    """The place before."""
    return np.eye(len(tokens), k=-1, dtype=bool)


def following(tokens: Sequence[str]) -> Places:
    """The place after."""
    return np.eye(len(tokens), k=1, dtype=bool)


def first(tokens: Sequence[str]) -> Places:
    """The first place of all."""
    return at([(place, 0) for place in range(len(tokens))], tokens)


def at(pairs: Iterable[tuple[int, int]], tokens: Sequence[str], source: Sequence[str] | None = None) -> Places:
    """Return what is expected where it is known place by place: pairs of who looks, and who is looked at."""
    places_TS = np.zeros((len(tokens), len(tokens if source is None else source)), bool)
    for query, key in pairs:
        places_TS[query, key] = True
    return places_TS


def of_role(role: str) -> Pattern:
    """Return the pattern of a role in sentences of @roles."""
    return lambda tokens: at(roles.expected_attention(tokens)[role], tokens)


# What can be asked of any text, and then what is known of the sentences of @roles.
GENERAL: dict[str, Pattern] = {
    "same": same,
    "earlier": earlier,
    "new": new,
    "self": itself,
    "previous": previous,
    "next": following,
    "first": first,
}
PATTERNS: dict[str, Pattern] = {**GENERAL, **{role: of_role(role) for role in roles.expected_attention(())}}


# --- maps against patterns ---------------------------------------------------------------------------


def fit(map_TS: npt.NDArray[Any], places_TS: Places, *, causal: bool = False) -> Fit | None:
    """Return how well a map fits a pattern; None where nothing is expected that can be seen."""
    sums = _sums(map_TS, places_TS, causal)
    return Fit(*_means(sums)) if sums[3] else None


def rank(looked: Iterable[tuple[Maps, Mapping[str, Places]]], *, causal: bool = False) -> list[HeadFit]:
    """Return how well every head fits every pattern over some texts: pattern by pattern, the best heads first.

    Each text has its maps, of which no more than a layer is there at a time, and what is expected by name. A pattern
    that expects nothing in any of them is left out.
    """
    totals: defaultdict[tuple[str, int, int], Floats] = defaultdict(lambda: np.zeros(4))
    for maps, expected in looked:
        for layer, head, map_TS in maps.each():
            for name, places_TS in expected.items():
                totals[name, layer, head] += _sums(map_TS, places_TS, causal)
    order = {name: number for number, name in enumerate(dict.fromkeys(name for name, _, _ in totals))}
    found = [HeadFit(layer, head, name, *_means(sums)) for (name, layer, head), sums in totals.items() if sums[3]]
    return sorted(found, key=lambda row: (order[row.pattern], -row.weight, row.layer, row.head))


def _means(sums: Floats) -> tuple[float, float, float, int]:
    weight, chance, hits = (sums[:3] / sums[3]).tolist()
    return weight, chance, hits, int(sums[3])


def _sums(map_TS: npt.NDArray[Any], places_TS: Places, causal: bool) -> Floats:
    """Return weights, chances and hits summed over the queries that have something to look at, and their number."""
    if map_TS.shape != places_TS.shape:
        raise SettingsError(f"found a pattern of {places_TS.shape} places, expected {map_TS.shape}, one for each token")
    times, keys = map_TS.shape
    seen_TS = np.tri(times, keys, keys - times, dtype=bool) if causal else np.ones((times, keys), bool)
    expected_TS = places_TS & seen_TS
    asked = expected_TS.any(axis=1)
    own, expected, seen = map_TS[asked].astype(np.float64), expected_TS[asked], seen_TS[asked]
    # Those that get most alike share the hit: who looks everywhere hits no oftener than chance does.
    most = (own == own.max(axis=1, keepdims=True, initial=0)) & seen
    return np.array(
        [
            (own * expected).sum(),
            (expected.sum(axis=1) / seen.sum(axis=1)).sum(),
            ((most & expected).sum(axis=1) / most.sum(axis=1)).sum(),
            asked.sum(),
        ],
        np.float64,
    )
