"""Correlation of a model's word similarities with human ratings (SimLex-999, WordSim-353 and similar data sets).

Shapes: P pairs of words, N bootstrap samples, V distinct values.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from satchel.errors import DataError
from satchel.predictor import Floats
from satchel.text.reading import Corpus, lines
from satchel.text.sources import file_source

ENDINGS = (".txt", ".csv", ".tsv")
MIN_PAIRS = 2
# Minimum number of pairs of an interval, and of each half of the pairs when a sense is selected.
MIN_SAMPLE = 10
RESAMPLES = 1000
CONFIDENCE = 0.95
# 97.5 % quantile of the normal distribution.
Z = 1.959963984540054
# Number of resampled pairs per batch, to bound memory.
CHUNK = 1 << 20
# Names of the measures of single senses start with this text.
SENSE = "sense "

Interval = tuple[float, float]


@dataclass(frozen=True)
class Rating:
    """Two words and the human rating of their similarity."""

    first: str
    second: str
    rated: float


@dataclass(frozen=True)
class SelectedSense:
    """Correlation of the best single sense on pairs that were not used to select it.

    The pairs are divided into halves. `senses` are the senses with the highest correlation on each half; `correlation`
    is the mean of their correlations on the other half.
    """

    senses: tuple[str, str]
    correlation: float
    low: float
    high: float


@dataclass(frozen=True)
class Agreement:
    """Spearman correlation with the ratings of one data set, for each similarity measure of the model.

    `covered` is the number of pairs whose two words are in the vocabulary; only these enter the correlations.
    `intervals` are 95 % bootstrap intervals over pairs. Similarities that are independent of the ratings have a
    correlation between -`chance` and `chance` in 95 % of cases.
    """

    name: str
    pairs: int
    covered: int
    correlations: dict[str, float]
    intervals: dict[str, Interval]
    chance: float | None
    selected: SelectedSense | None


def read_ratings(path: Path) -> dict[str, list[Rating]]:
    """Return the data sets in a file or folder by name."""
    paths = sorted(item for item in path.iterdir() if item.suffix in ENDINGS) if path.is_dir() else [path]
    if not paths:
        raise DataError(f"contains no data set, expected {', '.join(ENDINGS)} files", where=str(path))
    return {item.stem: _ratings(item) for item in paths}


def _ratings(path: Path) -> list[Rating]:
    """Return the ratings in a file: two words and the first number after them. The first line may be a header."""
    source = file_source(path)
    ratings = []
    for number, line in enumerate(lines(Corpus(str(path), (source,)).texts(source)), start=1):
        separator = next((mark for mark in "\t;," if mark in line), None)
        cells = [cell.strip() for cell in line.split(separator)]
        rated = next((value for value in map(_number, cells[2:]) if value is not None), None)
        if rated is not None:
            ratings.append(Rating(cells[0], cells[1], rated))
        elif number > 1 and line.strip():
            raise DataError(
                f"found {line.strip()[:60]!r}, expected two words and a number", where=f"{path}, line {number}"
            )
    return ratings


def _number(cell: str) -> float | None:
    try:
        number = float(cell)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def agreement(
    name: str, ratings: Sequence[Rating], compare: Callable[[str, str], dict[str, float] | None]
) -> Agreement:
    """Return the correlations of the similarities from `compare`, which returns None for unknown words."""
    compared = [(rating.rated, compare(rating.first, rating.second)) for rating in ratings]
    covered = [(rated, similarities) for rated, similarities in compared if similarities is not None]
    count = len(covered)
    if count < MIN_PAIRS:
        return Agreement(name, len(ratings), count, {}, {}, None, None)
    rated_P = np.array([rated for rated, _ in covered])
    measures = {measure: np.array([values[measure] for _, values in covered]) for measure in covered[0][1]}
    correlations = {measure: spearman(rated_P, values_P) for measure, values_P in measures.items()}
    intervals: dict[str, Interval] = {}
    if count >= MIN_SAMPLE:
        intervals = {measure: _interval(_resampled(rated_P, values_P)) for measure, values_P in measures.items()}
    senses = {measure: values_P for measure, values_P in measures.items() if measure.startswith(SENSE)}
    selected = _select_sense(rated_P, senses) if senses and count >= 2 * MIN_SAMPLE else None
    return Agreement(name, len(ratings), count, correlations, intervals, Z / math.sqrt(count - 1), selected)


def _select_sense(rated_P: Floats, senses: dict[str, Floats]) -> SelectedSense:
    """Return the correlation of the sense selected on each half of the pairs, measured on the other half."""
    order = np.random.default_rng(0).permutation(len(rated_P))
    halves = order[: len(order) // 2], order[len(order) // 2 :]
    names = [max(senses, key=lambda name: spearman(rated_P[half], senses[name][half])) for half in halves]
    measured = [(rated_P[half], senses[name][half]) for half, name in zip(reversed(halves), names, strict=True)]
    resampled_N = np.mean([_resampled(*pair) for pair in measured], axis=0)
    correlation = float(np.mean([spearman(*pair) for pair in measured]))
    return SelectedSense((names[0], names[1]), correlation, *_interval(resampled_N))


def _interval(values_N: Floats) -> Interval:
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(values_N, [tail, 1 - tail])
    return float(low), float(high)


def _resampled(a_P: Floats, b_P: Floats) -> Floats:
    """Return the (N,) rank correlations of bootstrap samples of the pairs."""
    rng = np.random.default_rng(0)
    pairs, batches = len(a_P), []
    step = max(1, CHUNK // pairs)
    for start in range(0, RESAMPLES, step):
        count = min(step, RESAMPLES - start)
        samples = rng.integers(0, pairs, (count, pairs)) + np.arange(count)[:, None] * pairs
        counts_NP = np.bincount(samples.ravel(), minlength=count * pairs).reshape(count, pairs).astype(float)
        first, second = (_sample_ranks(values_P, counts_NP) for values_P in (a_P, b_P))
        spread_N = np.sqrt((counts_NP * first**2).sum(axis=1) * (counts_NP * second**2).sum(axis=1))
        products_N = (counts_NP * first * second).sum(axis=1)
        batches.append(np.divide(products_N, spread_N, out=np.zeros(count), where=spread_N > 0))
    return np.concatenate(batches)


def _sample_ranks(values_P: Floats, counts_NP: Floats) -> Floats:
    """Return the (N, P) ranks of the values within samples that contain each of them `counts` times, minus their mean.

    Equal values get the mean of their ranks.
    """
    _, inverse_P = np.unique(values_P, return_inverse=True)
    order_P = np.argsort(inverse_P, kind="stable")
    starts_V = np.searchsorted(inverse_P[order_P], np.arange(inverse_P.max() + 1))
    totals_NV = np.add.reduceat(counts_NP[:, order_P], starts_V, axis=1)
    ranks_NV = np.cumsum(totals_NV, axis=1) - totals_NV / 2
    # The mean rank is half of the sample size.
    ranks_NP: Floats = ranks_NV[:, inverse_P] - len(values_P) / 2
    return ranks_NP


def spearman(a: Floats, b: Floats) -> float:
    """Return Spearman's rank correlation; ties get the mean of their ranks. 0 if one list is constant."""
    first, second = (ranks - ranks.mean() for ranks in (_ranks(a), _ranks(b)))
    spread = float(np.sqrt((first**2).sum() * (second**2).sum()))
    return float((first * second).sum() / spread) if spread else 0.0


def _ranks(values: Floats) -> Floats:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    ranks: Floats = ((ends - counts + ends - 1) / 2)[inverse]
    return ranks
