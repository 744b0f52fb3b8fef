"""Comparing models on one text: paired bootstrap intervals over documents, or blocks of a stream.

Letters: R runs, U units of text, N resamples.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from satchel.charts import html
from satchel.data.tokens import TokenFile, decoded
from satchel.predictor import Floats, Predictor
from satchel.text.reading import Corpus, DocumentRule
from satchel.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from satchel.charts.figures import Figure

# How long the blocks of a stream are; of a short one they are shorter, so that there are some tens of them.
BLOCK_CHARACTERS, SHORTEST_CHARACTERS = 1000, 25
BLOCK_TOKENS, SHORTEST_TOKENS = 250, 10
BLOCKS = 20
# What fewer units say of each other is no interval.
FEWEST_UNITS = 5
RESAMPLES = 2000
CONFIDENCE = 0.95
# As many resampled units at once as fit in some tens of megabytes.
CHUNK = 1 << 22


@dataclass(frozen=True)
class Row:
    """A run's value and its interval."""

    run: str
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Pair:
    """How much larger the value of `a` is than that of `b`, and the interval of that."""

    a: str
    b: str
    difference: float
    low: float
    high: float

    @property
    def is_clear(self) -> bool:
        return self.low > 0 or self.high < 0


@dataclass(frozen=True)
class Group:
    """Runs that differ in their seed alone."""

    runs: tuple[str, ...]
    mean: float
    deviation: float


@dataclass(frozen=True)
class Comparison:
    """The values of some runs on one text; of a cost the smaller is better, of accuracy and likeness the larger."""

    metric: str
    units: int
    rows: tuple[Row, ...]
    pairs: tuple[Pair, ...]
    groups: tuple[Group, ...]

    @property
    def larger_is_better(self) -> bool:
        return self.metric in ("accuracy", "sentence_chrf")

    @property
    def unit(self) -> str:
        return "rows" if self.larger_is_better else "documents or blocks"

    def values(self) -> tuple[list[str], list[list[str]]]:
        """Return the columns and rows of a table of the runs, as it can be printed."""
        rows = [[row.run, f"{row.value:.4f}", _told(row.low, row.high, "")] for row in self.rows]
        return ["run", self.metric.replace("_", " "), "95 % interval"], rows

    def differences(self) -> tuple[list[str], list[list[str]]]:
        """Return the columns and rows of a table of the pairs, as it can be printed."""
        rows = [
            [
                f"{pair.a} - {pair.b}",
                f"{pair.difference:+.4f}",
                _told(pair.low, pair.high, "+"),
                "clear" if pair.is_clear else "not told apart",
            ]
            for pair in self.pairs
        ]
        return ["difference", self.metric.replace("_", " "), "95 % interval", ""], rows

    def notes(self) -> list[str]:
        """Return what is to be said of the tables: seeds, and how they were measured."""
        better = "larger" if self.larger_is_better else "smaller"
        return [
            *(
                f"{len(group.runs)} seeds: {group.mean:.4f} ± {group.deviation:.4f} ({', '.join(group.runs)})"
                for group in self.groups
            ),
            f"{better} is better; paired bootstrap over {self.units:,} {self.unit}",
        ]

    def picture(self) -> "Figure":
        """Return the value of each run as a point, and its interval as a line."""
        from satchel import charts

        rows = [(row.run, row.value, row.low, row.high) for row in self.rows]
        return charts.comparison(self.metric, rows, larger_is_better=self.larger_is_better)

    def _repr_html_(self) -> str:
        return html.table(*self.values()) + html.table(*self.differences()) + html.lines(self.notes())


def _told(low: float, high: float, sign: str) -> str:
    return f"{low:{sign}.4f} to {high:{sign}.4f}" if low > -math.inf else "too little text to tell"


@dataclass(frozen=True)
class UnitCosts:
    """What each unit of a text cost a model, and how large it is."""

    nats: Floats
    sizes: Floats


def byte_costs(predictor: Predictor, tokenizer: Tokenizer, tokens: TokenFile, bytes_U: Floats) -> UnitCosts:
    """Return what each unit costs, and its bytes. A token belongs to the unit where it begins."""
    logprobs = predictor.score(tokens.ids).logprobs
    units = _units_of(tokens, tokenizer, bytes_U)
    return UnitCosts(_sums(units, -logprobs, len(bytes_U)), bytes_U)


def _units_of(tokens: TokenFile, tokenizer: Tokenizer, bytes_U: Floats) -> npt.NDArray[np.int64]:
    ids = np.asarray(tokens.ids[1:], np.int64)
    ends = ids == tokenizer.boundary
    if ends.any():
        # Documents: one after another, each with its end.
        return np.concatenate([[0], np.cumsum(ends)[:-1]])
    lengths = tokenizer.byte_lengths[ids]
    starts = np.cumsum(lengths) - lengths
    return np.minimum(np.searchsorted(np.cumsum(bytes_U), starts, side="right"), len(bytes_U) - 1)


def _sums(units: npt.NDArray[np.int64], values: Floats, count: int) -> Floats:
    """Return the sum of the values of each unit."""
    return np.bincount(units, values, count).astype(float, copy=False)


def token_costs(predictor: Predictor, tokenizer: Tokenizer, tokens: TokenFile) -> UnitCosts:
    """Return what each document or block of tokens costs, and its tokens: for tokenizers that lose text."""
    logprobs = predictor.score(tokens.ids).logprobs
    ends = np.asarray(tokens.ids[1:]) == tokenizer.boundary
    block = _block(len(logprobs), SHORTEST_TOKENS, BLOCK_TOKENS)
    units = np.concatenate([[0], np.cumsum(ends)[:-1]]) if ends.any() else np.arange(len(logprobs)) // block
    return UnitCosts(_sums(units, -logprobs, int(units[-1]) + 1), np.bincount(units).astype(float))


def _block(size: int, shortest: int, longest: int) -> int:
    """Return how long the blocks of a text are."""
    return min(longest, max(shortest, size // BLOCKS)) if size else longest


def unit_bytes(corpus: Corpus, rule: DocumentRule) -> Floats:
    """Return the bytes of each document, or of each 1,000 characters of a stream (fewer of a short one)."""
    if rule == "stream":
        block = _block(corpus.size, SHORTEST_CHARACTERS, BLOCK_CHARACTERS)
        sizes = []
        waiting = ""
        for piece in corpus.pieces(rule):
            waiting += piece.text
            whole = len(waiting) - len(waiting) % block
            sizes += [len(waiting[at : at + block].encode()) for at in range(0, whole, block)]
            waiting = waiting[whole:]
        return np.array([*sizes, *([len(waiting.encode())] if waiting else [])], float)
    sizes = [0]
    for piece in corpus.pieces(rule):
        sizes[-1] += len(piece.text.encode()) + (piece.ends and rule == "line")
        if piece.ends:
            sizes.append(0)
    return np.array(sizes[:-1], float)


def token_bytes(tokens: TokenFile, tokenizer: Tokenizer, rule: DocumentRule) -> Floats:
    """Return the bytes of each document, or of each block of a stream's tokens, of a text that was kept whole."""
    if rule != "stream":
        return np.array([len(text.encode()) + (rule == "line") for text in decoded(tokens.ids, tokenizer)], float)
    lengths = tokenizer.byte_lengths[np.asarray(tokens.ids[1:], np.int64)]
    block = _block(len(lengths), SHORTEST_TOKENS, BLOCK_TOKENS)
    return np.add.reduceat(lengths, range(0, len(lengths), block)).astype(float)


def compare(
    names: Sequence[str], costs: Sequence[UnitCosts], metric: str, scale: float, groups: Sequence[Sequence[int]]
) -> Comparison:
    """Return the comparison of runs whose units are the same; values are nats per size, times `scale`."""
    nats_RU = np.stack([cost.nats for cost in costs]) * scale
    sizes_RU = np.stack([cost.sizes for cost in costs])
    values = nats_RU.sum(axis=1) / sizes_RU.sum(axis=1)
    resampled_NR = _resampled(nats_RU, sizes_RU)
    is_enough = nats_RU.shape[1] >= FEWEST_UNITS
    rows = tuple(
        Row(name, float(value), *_interval(resampled_NR[:, index], is_enough))
        for index, (name, value) in enumerate(zip(names, values, strict=True))
    )
    pairs = tuple(
        Pair(
            names[a],
            names[b],
            float(values[a] - values[b]),
            *_interval(resampled_NR[:, a] - resampled_NR[:, b], is_enough),
        )
        for a, b in combinations(range(len(names)), 2)
    )
    grouped = tuple(
        Group(
            tuple(names[index] for index in members),
            float(np.mean(values[list(members)])),
            float(np.std(values[list(members)], ddof=1)),
        )
        for members in groups
        if len(members) > 1
    )
    return Comparison(metric, int(nats_RU.shape[1]), rows, pairs, grouped)


def _resampled(nats_RU: Floats, sizes_RU: Floats) -> Floats:
    """Return the (N, R) values of texts made by drawing units with replacement, the same units for every run."""
    generator = np.random.default_rng(0)
    units = nats_RU.shape[1]
    values = []
    remaining = RESAMPLES
    while remaining:
        count = min(remaining, max(1, CHUNK // units))
        drawn = generator.integers(0, units, (count, units)) + np.arange(count)[:, None] * units
        times_NU = np.bincount(drawn.ravel(), minlength=count * units).reshape(count, units).astype(float)
        values.append((times_NU @ nats_RU.T) / (times_NU @ sizes_RU.T))
        remaining -= count
    return np.concatenate(values)


def _interval(values: Floats, is_enough: bool) -> tuple[float, float]:
    """Return where most of the values are; anywhere, if there was too little to draw from."""
    if not is_enough:
        return -math.inf, math.inf
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(values, [tail, 1 - tail])
    return float(low), float(high)


def bits_per_byte(names: Sequence[str], costs: Sequence[UnitCosts], groups: Sequence[Sequence[int]]) -> Comparison:
    """Return the comparison by bits per byte."""
    return compare(names, costs, "bits_per_byte", 1 / math.log(2), groups)
