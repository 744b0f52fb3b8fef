"""Similarity: whether a model finds words alike that people find alike (SimLex-999, WordSim-353 and their like)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from satchel.errors import DataError
from satchel.evaluation.statistics import spearman
from satchel.text.reading import Corpus, file_source, lines

ENDINGS = (".txt", ".csv", ".tsv")
FEWEST_PAIRS = 2


@dataclass(frozen=True)
class Rating:
    """Two words, and how alike people find them."""

    first: str
    second: str
    rated: float


@dataclass(frozen=True)
class Agreement:
    """How well a model agrees with people on one set of pairs: rank correlations (Spearman's) by way of comparing.

    `covered` pairs have two words that the model knows; the correlations are over them.
    """

    name: str
    pairs: int
    covered: int
    correlations: dict[str, float]


def read_ratings(path: Path) -> dict[str, list[Rating]]:
    """Return the sets of rated pairs in a file, or in the files of a folder, by name."""
    paths = sorted(item for item in path.iterdir() if item.suffix in ENDINGS) if path.is_dir() else [path]
    found = {item.stem: _ratings(item) for item in paths}
    if not found:
        raise DataError(f"found no set of pairs, expected {', '.join(ENDINGS)} files", where=str(path))
    return found


def _ratings(path: Path) -> list[Rating]:
    """Return the pairs of a file: two words, and the first number after them. The first line may be a header."""
    source = file_source(path)
    found = []
    for number, line in enumerate(lines(Corpus(str(path), (source,)).texts(source)), start=1):
        separator = next((mark for mark in "\t;," if mark in line), None)
        cells = [cell.strip() for cell in line.split(separator)]
        rated = next((value for value in map(_number, cells[2:]) if value is not None), None)
        if rated is not None:
            found.append(Rating(cells[0], cells[1], rated))
        elif number > 1 and line.strip():
            raise DataError(
                f"found {line.strip()[:60]!r}, expected two words and a number", where=f"{path}, line {number}"
            )
    return found


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None


def agreement(
    name: str, ratings: Sequence[Rating], compare: Callable[[str, str], dict[str, float] | None]
) -> Agreement:
    """Return how well `compare` agrees with people; it says nothing of words it does not know."""
    found = [(rating.rated, alike) for rating in ratings if (alike := compare(rating.first, rating.second)) is not None]
    correlations = {}
    if len(found) >= FEWEST_PAIRS:
        rated = np.array([value for value, _ in found])
        for way in found[0][1]:
            correlations[way] = spearman(rated, np.array([alike[way] for _, alike in found]))
    return Agreement(name, len(ratings), len(found), correlations)
