"""Attention patterns: the attention weight of each head on the positions that a pattern expects.

A pattern is a function of tokens that returns the expected key positions of each query position. Queries without an
expected position are ignored.
Shapes: T time, S source time, H heads.
"""

import functools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from satchel import charts
from satchel.datasets import roles
from satchel.errors import DataError, SettingsError
from satchel.inspection.alignment import training_lexicon
from satchel.inspection.subject import Subject, json_fields
from satchel.inspection.trace import AttentionMaps, Trace
from satchel.predictor import Floats
from satchel.text.display import Token
from satchel.text.windows import Window, truncation_notes

# (T, S): whether a key position is expected for a query position.
Expected = npt.NDArray[np.bool_]
# Function of the tokens; for cross-attention, of the target and the source tokens.
Pattern = Callable[..., Expected]
# A text; for a translator also a pair of source and target.
Text = str | tuple[str, str]


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


@dataclass(frozen=True)
class Patterns:
    """Agreement of each head with each pattern over several texts: by pattern, the best heads first."""

    rows: tuple[HeadFit, ...]
    texts: int
    # Tokens of each text that are used; for a translator, of each target.
    windows: tuple[Window, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on texts that are not used as a whole."""
        return truncation_notes(self.windows)

    def document(self) -> dict[str, Any]:
        """Return the keys of `look patterns --json`."""
        heads = [asdict(row) for row in self.rows]
        return {"texts": self.texts, "heads": heads, **json_fields(self, "windows", "notes")}

    def picture(self) -> "charts.Figure":
        """Return a heat map of each pattern: the weights of layers by heads."""
        weights: dict[str, dict[tuple[int, int], float]] = {}
        for row in self.rows:
            weights.setdefault(row.pattern, {})[row.layer, row.head] = row.weight
        return charts.heads_by_pattern(weights).with_notes(self.notes)

    def best(self, pattern: str) -> HeadFit:
        """Return the head that agrees best with a pattern."""
        _check_names([pattern], list(dict.fromkeys(row.pattern for row in self.rows)))
        return next(row for row in self.rows if row.pattern == pattern)


# --- patterns -------------------------------------------------------------------------------------------


def same(tokens: Sequence[str], source: Sequence[str] | None = None) -> Expected:
    """Return the other positions of the same token; with a source, all its positions there."""
    keys = tokens if source is None else source
    equal_TS = np.array([[query == key for key in keys] for query in tokens], bool).reshape(len(tokens), len(keys))
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


def of_role(role: str, tokens: Sequence[str]) -> Expected:
    """Return the positions of a grammatical role in a sentence of @roles."""
    return at(roles.expected_attention(tokens)[role], tokens)


# Patterns of any text, and those of sentences of @roles.
GENERAL: dict[str, Pattern] = {
    "same": same,
    "earlier": earlier,
    "new": new,
    "self": functools.partial(shifted, 0),
    "previous": functools.partial(shifted, -1),
    "next": functools.partial(shifted, 1),
    "first": first,
}
PATTERNS: dict[str, Pattern] = {
    **GENERAL,
    **{role: functools.partial(of_role, role) for role in roles.expected_attention(())},
}


# --- agreement with attention weights -------------------------------------------------------------------


def rank(texts: Iterable[tuple[AttentionMaps, Mapping[str, Expected]]], *, causal: bool = False) -> list[HeadFit]:
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


# --- patterns of a model --------------------------------------------------------------------------------


def find_patterns(
    subject: Subject,
    texts: Sequence[Text],
    traced: Callable[[Text], Trace],
    patterns: Sequence[str] | Mapping[str, Pattern] | None = None,
) -> Patterns:
    """Return the agreement of all heads of a model with patterns, given by name or as functions of tokens.

    `traced` returns the trace of a text. The default patterns are those that apply to any text. For a translator the
    cross-attention is compared; its patterns are functions of the target and the source tokens.
    """
    if isinstance(texts, str) or not texts:
        raise DataError("texts: expected a list of one or more texts")
    is_pair = subject.task == "translate"
    known = {"same": same, "aligned": _aligned(subject)} if is_pair else PATTERNS
    if patterns is None:
        chosen: Mapping[str, Pattern] = known if is_pair else GENERAL
    elif isinstance(patterns, Mapping):
        chosen = patterns
    else:
        _check_names(patterns, list(known))
        chosen = {name: known[name] for name in patterns}
    is_causal = not is_pair and bool(getattr(getattr(subject.network, "encoder", None), "causal", False))
    windows: list[Window] = []
    rows = rank(_expected(map(traced, texts), chosen, is_pair, windows), causal=is_causal)
    missing = {} if patterns is None else {name for name in chosen if name not in {row.pattern for row in rows}}
    if missing:
        raise DataError(
            f"{', '.join(missing)}: no query of these texts has a visible expected position",
            "give other texts or other patterns",
        )
    return Patterns(tuple(rows), len(texts), tuple(windows))


def _check_names(names: Sequence[str], known: Sequence[str]) -> None:
    if unknown := [name for name in names if name not in known]:
        raise SettingsError(f"unknown pattern {', '.join(unknown)}", f"expected some of {', '.join(known)}")


def _expected(
    traces: Iterable[Trace], patterns: Mapping[str, Pattern], is_pair: bool, windows: list[Window]
) -> Iterator[tuple[AttentionMaps, dict[str, Expected]]]:
    """Yield the attention weights of each text and the expected positions by pattern; append its window."""
    for trace in traces:
        windows.append(trace.window)
        maps = trace.cross if is_pair else trace.attention
        if not len(maps):
            raise SettingsError("this model has no attention weights", "use a transformer or a backpack")
        # The queries of cross-attention are compared as the tokens that they predict.
        tokens = (trace.targets.tokens, trace.source) if is_pair else (trace.tokens,)
        yield maps, {name: pattern(*tokens) for name, pattern in patterns.items()}


def _aligned(subject: Subject) -> Pattern:
    """Return the pattern of the source token with the largest translation probability for each target token."""
    lexicon = functools.cache(lambda: training_lexicon(subject))

    def aligned(target: Sequence[Token], source: Sequence[Token]) -> Expected:
        targets, sources = (np.array([token.id for token in tokens]) for tokens in (target, source))
        positions = lexicon().source_of(sources[:-1], targets[:-1]) if len(sources) > 1 else ()
        # The boundary tokens at the ends correspond to each other.
        return at([*enumerate(positions), (len(targets) - 1, len(sources) - 1)], target, source)

    return aligned
