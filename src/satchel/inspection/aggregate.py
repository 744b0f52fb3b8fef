"""Totals: what words, senses and positions add in all of a file. Letters: W words, N senses."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from satchel.data.batches import Ints
from satchel.predictor import Floats

# By what contributions may be added up.
PARTS = ("word", "sense", "position")


@dataclass(frozen=True)
class Total:
    """What a word, a sense, a distance or several of these add in a file, all together and each time."""

    key: dict[str, Any]
    total: float
    times: int

    @property
    def mean(self) -> float:
        return self.total / self.times


class Totals:
    """What is added, by word, sense, position and label, and how often."""

    def __init__(self, by: frozenset[str]) -> None:
        self.by = by
        self._words: dict[str, int] = {}
        self._found: dict[tuple[str | None, int, int, int], list[float]] = {}

    def add(self, words: Sequence[str], values_WN: Floats, positions_W: Ints, label: str | None = None) -> None:
        """Add what the senses of some words add."""
        numbers = [self._words.setdefault(word.strip() or word, len(self._words)) for word in words]
        values = values_WN if "sense" in self.by else values_WN.sum(axis=1, keepdims=True)
        keys = np.zeros((*values.shape, 3), np.int64)
        if "word" in self.by:
            keys[..., 0] = np.array(numbers)[:, None]
        if "sense" in self.by:
            keys[..., 1] = np.arange(values.shape[1])
        if "position" in self.by:
            keys[..., 2] = positions_W[:, None]
        distinct, where = np.unique(keys.reshape(-1, 3), axis=0, return_inverse=True)
        sums, times = np.bincount(where, values.ravel()), np.bincount(where)
        for (word, sense, position), added, count in zip(distinct.tolist(), sums, times, strict=True):
            total = self._found.setdefault((label, word, sense, position), [0.0, 0])
            total[0] += float(added)
            total[1] += int(count)

    def listed(self) -> list[Total]:
        """Return all of it, the largest first."""
        words = list(self._words)
        found = []
        for (label, *numbers), (total, times) in self._found.items():
            key: dict[str, Any] = {} if label is None else {"label": label}
            for part, number in zip(PARTS, numbers, strict=True):
                if part in self.by:
                    key[part] = words[number] if part == "word" else number
            found.append(Total(key, total, int(times)))
        return sorted(found, key=lambda each: -each.total)
