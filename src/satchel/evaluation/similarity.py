"""Correlation of a model's word similarities with human ratings (SimLex-999, WordSim-353 and similar data sets)."""

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


@dataclass(frozen=True)
class Rating:
    """Two words and the human rating of their similarity."""

    first: str
    second: str
    rated: float


@dataclass(frozen=True)
class Agreement:
    """Spearman correlation with the ratings of one data set, for each similarity measure of the model.

    `covered` is the number of pairs whose two words are in the vocabulary; only these enter the correlations.
    """

    name: str
    pairs: int
    covered: int
    correlations: dict[str, float]


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
        return float(cell)
    except ValueError:
        return None


def agreement(
    name: str, ratings: Sequence[Rating], compare: Callable[[str, str], dict[str, float] | None]
) -> Agreement:
    """Return the correlations of the similarities from `compare`, which returns None for unknown words."""
    compared = [(rating.rated, compare(rating.first, rating.second)) for rating in ratings]
    covered = [(rated, similarities) for rated, similarities in compared if similarities is not None]
    correlations = {}
    if len(covered) >= MIN_PAIRS:
        rated_P = np.array([rated for rated, _ in covered])
        for measure in covered[0][1]:
            correlations[measure] = spearman(rated_P, np.array([similarities[measure] for _, similarities in covered]))
    return Agreement(name, len(ratings), len(covered), correlations)


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
