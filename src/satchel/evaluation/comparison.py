"""Comparison of models on one text: paired bootstrap confidence intervals over documents or blocks of a stream.

Shapes: R runs, U units (documents or blocks), N bootstrap samples.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from satchel.charts import html
from satchel.data.tokens import TokenFile, decode_documents
from satchel.predictor import Floats, Ids, Predictor
from satchel.text.reading import Corpus, DocumentRule
from satchel.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from satchel.charts.figures import Figure

# Length of the blocks of a stream; short texts use shorter blocks, so that there are at least about BLOCKS of them.
BLOCK_CHARACTERS, SHORTEST_CHARACTERS = 1000, 25
BLOCK_TOKENS, SHORTEST_TOKENS = 250, 10
BLOCKS = 20
# Minimum number of units for a confidence interval.
MIN_UNITS = 5
RESAMPLES = 2000
CONFIDENCE = 0.95
# Number of resampled units per batch, to bound memory.
CHUNK = 1 << 22
# Number of documents listed at each end of the differences, and of characters of their texts.
LISTED_DOCUMENTS, DOCUMENT_CHARACTERS = 10, 500
# Largest exponent whose exponential is finite, rounded down.
MAX_EXPONENT = 700


@dataclass(frozen=True)
class Costs:
    """Number of parameters and training time of a run; None if unknown."""

    parameters: int | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class Row:
    """The metric of a run and its confidence interval, and the costs of the run.

    `perplexity` is None unless the run is a language model.
    """

    run: str
    value: float
    low: float
    high: float
    perplexity: float | None = None
    parameters: int | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class Pair:
    """Difference of the metric between runs `a` and `b`, and its confidence interval."""

    a: str
    b: str
    difference: float
    low: float
    high: float

    @property
    def is_significant(self) -> bool:
        """Whether the confidence interval excludes 0."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True)
class Group:
    """Runs that differ only in their seed: mean and standard deviation of the metric."""

    runs: tuple[str, ...]
    mean: float
    deviation: float


@dataclass(frozen=True)
class Document:
    """A document, block, row or sentence of the data: its size, the start of its text, and the metric of each run."""

    index: int
    bytes: int
    text: str
    values: tuple[float, ...]


@dataclass(frozen=True)
class Comparison:
    """Metric of several runs on one data set, with pairwise differences."""

    metric: str
    units: int
    rows: tuple[Row, ...]
    pairs: tuple[Pair, ...]
    groups: tuple[Group, ...]
    warnings: tuple[str, ...] = ()
    # Documents with the largest differences between the first two runs: largest first, smallest last.
    documents: tuple[Document, ...] = ()

    @property
    def larger_is_better(self) -> bool:
        return self.metric in ("accuracy", "sentence_chrf")

    def values(self) -> tuple[list[str], list[list[str]]]:
        """Return the columns and rows of the table of runs as text."""
        columns = ["run", self.metric.replace("_", " "), "95 % CI"]
        rows = [[row.run, f"{row.value:.4f}", _format_interval(row.low, row.high, "")] for row in self.rows]
        costs = {
            "perplexity": [_number(row.perplexity, ",.2f") for row in self.rows],
            "parameters": [_number(row.parameters, ",") for row in self.rows],
            "training time": [_number(row.seconds, ",.1f", " s") for row in self.rows],
        }
        for name, values in costs.items():
            if any(value != "-" for value in values):
                columns.append(name)
                rows = [[*row, value] for row, value in zip(rows, values, strict=True)]
        return columns, rows

    def differences(self) -> tuple[list[str], list[list[str]]]:
        """Return the columns and rows of the table of pairwise differences as text."""
        rows = [
            [
                f"{pair.a} - {pair.b}",
                f"{pair.difference:+.4f}",
                _format_interval(pair.low, pair.high, "+"),
                "significant" if pair.is_significant else "not significant",
            ]
            for pair in self.pairs
        ]
        return ["difference", self.metric.replace("_", " "), "95 % CI", ""], rows

    def notes(self) -> list[str]:
        """Return notes on the tables: warnings, groups of seeds, direction of the metric, and bootstrap units."""
        better, unit = ("higher", "rows") if self.larger_is_better else ("lower", "documents or blocks")
        return [
            *(f"warning: {warning}" for warning in self.warnings),
            *(
                f"{len(group.runs)} seeds: {group.mean:.4f} ± {group.deviation:.4f} ({', '.join(group.runs)})"
                for group in self.groups
            ),
            f"{better} is better; paired bootstrap over {self.units:,} {unit}",
        ]

    def document(self) -> dict[str, Any]:
        """Return the comparison as JSON."""
        return asdict(self)

    def picture(self) -> "Figure":
        """Return a chart with a point per run and its confidence interval as a line."""
        from satchel import charts

        rows = [(row.run, row.value, row.low, row.high) for row in self.rows]
        return charts.comparison(self.metric, rows, larger_is_better=self.larger_is_better)

    def _repr_html_(self) -> str:
        return html.table(*self.values()) + html.table(*self.differences()) + html.lines(self.notes())


def _number(value: float | None, form: str, unit: str = "") -> str:
    return "-" if value is None else f"{value:{form}}{unit}"


def _format_interval(low: float, high: float, sign: str) -> str:
    return f"{low:{sign}.4f} to {high:{sign}.4f}" if low > -math.inf else "not enough text"


@dataclass(frozen=True)
class UnitCosts:
    """Negative log-likelihood of each unit of a text in nats, and its size in bytes or tokens.

    `tokens` is the number of tokens of the text; None if the costs are no log-likelihoods.
    """

    nats: Floats
    sizes: Floats
    tokens: int | None = None


def byte_costs(predictor: Predictor, tokenizer: Tokenizer, tokens: TokenFile, bytes_U: Floats) -> UnitCosts:
    """Return the nats and bytes of each unit. A token belongs to the unit in which it starts."""
    logprobs = predictor.score(tokens.ids).logprobs
    ids = np.asarray(tokens.ids[1:], np.int64)
    units = _documents_of(ids, tokenizer.boundary)
    if units is None:
        lengths = tokenizer.byte_lengths[ids]
        starts = np.cumsum(lengths) - lengths
        units = np.minimum(np.searchsorted(np.cumsum(bytes_U), starts, side="right"), len(bytes_U) - 1)
    return UnitCosts(np.bincount(units, -logprobs, len(bytes_U)).astype(float), bytes_U, len(ids))


def _documents_of(ids: Ids, boundary: int) -> npt.NDArray[np.int64] | None:
    """Return the document number of each id, None for a stream; documents are followed by the boundary id."""
    ends = ids == boundary
    return np.concatenate([[0], np.cumsum(ends)[:-1]]) if ends.any() else None


def token_costs(predictor: Predictor, tokenizer: Tokenizer, tokens: TokenFile) -> UnitCosts:
    """Return the nats and tokens of each document or block, for tokenizers that are not lossless."""
    logprobs = predictor.score(tokens.ids).logprobs
    units = _documents_of(np.asarray(tokens.ids[1:]), tokenizer.boundary)
    if units is None:
        units = np.arange(len(logprobs)) // _block(len(logprobs), SHORTEST_TOKENS, BLOCK_TOKENS)
    return UnitCosts(np.bincount(units, -logprobs).astype(float), np.bincount(units).astype(float), len(logprobs))


def _block(size: int, shortest: int, longest: int) -> int:
    """Return the block length for a text of `size` characters or tokens."""
    return min(longest, max(shortest, size // BLOCKS)) if size else longest


def unit_bytes(corpus: Corpus, rule: DocumentRule) -> Floats:
    """Return the bytes of each document, or of each block of a stream (1,000 characters; fewer in short texts)."""
    return np.array([len(text.encode()) + (rule == "line") for text in unit_texts(corpus, rule)], float)


def unit_texts(corpus: Corpus, rule: DocumentRule) -> Iterator[str]:
    """Yield the text of each document, or of each block of a stream."""
    if rule != "stream":
        parts: list[str] = []
        for piece in corpus.pieces(rule):
            parts.append(piece.text)
            if piece.ends:
                yield "".join(parts)
                parts = []
        return
    block = _block(corpus.size, SHORTEST_CHARACTERS, BLOCK_CHARACTERS)
    rest = ""
    for piece in corpus.pieces(rule):
        rest += piece.text
        complete = len(rest) - len(rest) % block
        yield from (rest[start : start + block] for start in range(0, complete, block))
        rest = rest[complete:]
    if rest:
        yield rest


def token_texts(tokens: TokenFile, tokenizer: Tokenizer) -> Iterator[str]:
    """Yield the text of each document or block of tokens, as divided by `token_costs` and `token_bytes`."""
    if (tokens.ids[1:] == tokenizer.boundary).any():
        yield from decode_documents(tokens.ids, tokenizer)
        return
    block = _block(len(tokens.ids) - 1, SHORTEST_TOKENS, BLOCK_TOKENS)
    for start in range(1, len(tokens.ids), block):
        yield tokenizer.decode(tokens.ids[start : start + block])


def token_bytes(tokens: TokenFile, tokenizer: Tokenizer, rule: DocumentRule) -> Floats:
    """Return the bytes of each document or block of tokens, for a lossless tokenizer."""
    if rule != "stream":
        texts = decode_documents(tokens.ids, tokenizer)
        return np.array([len(text.encode()) + (rule == "line") for text in texts], float)
    lengths = tokenizer.byte_lengths[np.asarray(tokens.ids[1:], np.int64)]
    block = _block(len(lengths), SHORTEST_TOKENS, BLOCK_TOKENS)
    return np.add.reduceat(lengths, range(0, len(lengths), block)).astype(float)


def compare(
    names: Sequence[str],
    costs: Sequence[UnitCosts],
    metric: str,
    scale: float,
    groups: Sequence[Sequence[int]],
    run_costs: Sequence[Costs] = (),
    warnings: Sequence[str] = (),
    texts: Iterable[str] = (),
) -> Comparison:
    """Return the comparison of runs with the same units; the metric is nats * scale / size.

    `groups` are the indices of runs that differ in their seed only, `run_costs` the costs of the runs, `texts` those of
    the units.
    """
    nats_RU = np.stack([cost.nats for cost in costs]) * scale
    sizes_RU = np.stack([cost.sizes for cost in costs])
    values = nats_RU.sum(axis=1) / sizes_RU.sum(axis=1)
    resampled_NR = _resampled(nats_RU, sizes_RU)
    is_enough = nats_RU.shape[1] >= MIN_UNITS
    rows = tuple(
        Row(
            name,
            float(value),
            *_interval(resampled_NR[:, index], is_enough),
            perplexity=_perplexity(costs[index]),
            **(asdict(run_costs[index]) if run_costs else {}),
        )
        for index, (name, value) in enumerate(zip(names, values, strict=True))
    )
    pairs = []
    for a, b in combinations(range(len(names)), 2):
        interval = _interval(resampled_NR[:, a] - resampled_NR[:, b], is_enough)
        pairs.append(Pair(names[a], names[b], float(values[a] - values[b]), *interval))
    grouped = []
    for members in groups:
        runs, group = tuple(names[index] for index in members), values[list(members)]
        if len(runs) > 1:
            grouped.append(Group(runs, float(np.mean(group)), float(np.std(group, ddof=1))))
    documents = _documents(nats_RU / np.maximum(sizes_RU, 1), texts)
    return Comparison(metric, int(nats_RU.shape[1]), rows, tuple(pairs), tuple(grouped), tuple(warnings), documents)


def _documents(values_RU: Floats, texts: Iterable[str]) -> tuple[Document, ...]:
    """Return the documents with the largest differences between the first two runs, largest first, smallest last."""
    with np.errstate(invalid="ignore"):  # both values are infinite
        order = np.argsort(values_RU[1] - values_RU[0], kind="stable")
    chosen = order if len(order) <= 2 * LISTED_DOCUMENTS else [*order[:LISTED_DOCUMENTS], *order[-LISTED_DOCUMENTS:]]
    places = {int(index): place for place, index in enumerate(chosen)}
    documents = [
        (places[index], Document(index, len(text.encode()), text[:DOCUMENT_CHARACTERS], tuple(values)))
        for index, (text, values) in enumerate(zip(texts, values_RU.T.tolist(), strict=False))
        if index in places
    ]
    return tuple(document for _, document in sorted(documents, key=lambda each: each[0]))


def _perplexity(costs: UnitCosts) -> float | None:
    """Return the perplexity per token; infinite if a token has probability 0."""
    if not costs.tokens:
        return None
    nats = float(costs.nats.sum()) / costs.tokens
    return math.exp(nats) if nats < MAX_EXPONENT else math.inf


def _resampled(nats_RU: Floats, sizes_RU: Floats) -> Floats:
    """Return the (N, R) metrics of bootstrap samples; every run uses the same resampled units (paired bootstrap)."""
    rng = np.random.default_rng(0)
    units = nats_RU.shape[1]
    values = []
    remaining = RESAMPLES
    while remaining:
        count = min(remaining, max(1, CHUNK // units))
        samples = rng.integers(0, units, (count, units)) + np.arange(count)[:, None] * units
        counts_NU = np.bincount(samples.ravel(), minlength=count * units).reshape(count, units).astype(float)
        values.append((counts_NU @ nats_RU.T) / (counts_NU @ sizes_RU.T))
        remaining -= count
    return np.concatenate(values)


def _interval(values: Floats, is_enough: bool) -> tuple[float, float]:
    """Return the percentile interval; infinite bounds if there are too few units."""
    if not is_enough:
        return -math.inf, math.inf
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(values, [tail, 1 - tail])
    return float(low), float(high)
