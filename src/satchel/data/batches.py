"""Batches whose order depends on the seed and the step alone: there is nothing to restore, and nothing to lose.

Letters: B rows of a batch, T time, R rows of the data.
"""

import functools
import hashlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from satchel.predictor import Ids

Ints = npt.NDArray[np.int64]

# A place without a target, as torch's losses have it; and no place at all, where a row is filled up.
NO_TARGET = -100
NOWHERE = -1
# Rows of like length are found among this many batches' worth, so that little is padding and much is chance.
POOL = 32


def generator(*purpose: int | str) -> np.random.Generator:
    """Return a source of random numbers that depends on these words and numbers alone."""
    digest = hashlib.blake2b(repr(purpose).encode(), digest_size=16).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest, "little")))


@dataclass(frozen=True)
class StreamBatches:
    """Windows of a stream of tokens. In every epoch all of them, in another order, cut at other places."""

    tokens: int  # of the stream
    length: int  # of a window
    rows: int
    seed: int

    @property
    def steps_per_epoch(self) -> int:
        return max(1, self._windows // self.rows)

    @property
    def _length(self) -> int:
        return min(self.length, self.tokens - 1)

    @property
    def _windows(self) -> int:
        return max(1, (self.tokens - 1) // self._length)

    def places(self, step: int) -> Ints:
        """Return the places (B, T) of what is read in a step; what follows each is one further."""
        epoch, place = divmod(step, self.steps_per_epoch)
        starts = self._starts(epoch)
        chosen = starts[np.arange(place * self.rows, (place + 1) * self.rows) % len(starts)]
        places_BT: Ints = chosen[:, None] + np.arange(self._length)
        return places_BT

    @functools.lru_cache(maxsize=2)  # noqa: B019 - the batches of a run live as long as it does
    def _starts(self, epoch: int) -> Ints:
        """Return where the windows of an epoch begin, in their order."""
        chance = generator("stream", self.seed, epoch)
        spare = self.tokens - 1 - self._windows * self._length
        if self._windows > 1:  # one window may be lost for the others to move
            windows, shift = self._windows - 1, int(chance.integers(0, self._length + spare + 1))
        else:
            windows, shift = 1, int(chance.integers(0, spare + 1))
        return chance.permutation(windows) * self._length + shift

    def __hash__(self) -> int:
        return id(self)


@dataclass(frozen=True)
class RowBatches:
    """Rows of unequal length, in batches of like ones whose size times the longest stays within a budget."""

    lengths_R: Ints
    tokens: int  # in a batch, padding included
    seed: int
    _ends: list[int] = field(default_factory=lambda: [0], compare=False)

    @property
    def steps_per_epoch(self) -> int:
        return self._end(0)

    def rows(self, step: int) -> Ints:
        """Return which rows the batch of a step holds."""
        epoch = 0
        while self._end(epoch) <= step:
            epoch += 1
        return self._plan(epoch)[step - self._ends[epoch]]

    def _end(self, epoch: int) -> int:
        """Return how many steps there are up to the end of an epoch."""
        while len(self._ends) <= epoch + 1:
            self._ends.append(self._ends[-1] + len(self._plan(len(self._ends) - 1)))
        return self._ends[epoch + 1]

    @functools.lru_cache(maxsize=2)  # noqa: B019 - the batches of a run live as long as it does
    def _plan(self, epoch: int) -> list[Ints]:
        chance = generator("rows", self.seed, epoch)
        order = chance.permutation(len(self.lengths_R))
        typical = max(1, self.tokens // max(1, int(self.lengths_R.mean())))
        batches: list[Ints] = []
        for start in range(0, len(order), POOL * typical):
            pool = order[start : start + POOL * typical]
            batches += [pool[rows] for rows in by_length(self.lengths_R[pool], self.tokens)]
        return [batches[place] for place in chance.permutation(len(batches))]

    def __hash__(self) -> int:
        return id(self)


def by_length(lengths_R: Ints, budget: int) -> list[Ints]:
    """Return rows in batches of like length, none of more tokens than the budget, padding included, if it has two."""
    rows = np.argsort(lengths_R, kind="stable")
    batches, start = [], 0
    for stop in range(1, len(rows) + 1):
        longest = max(1, int(lengths_R[rows[stop - 1]]))
        if stop - start > 1 and longest * (stop - start) > budget:
            batches.append(rows[start : stop - 1])
            start = stop - 1
    return [*batches, rows[start:]] if len(rows) else []


def padded(parts: list[Ids], fill: int) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """Return rows of unequal length as one (B, T) array, and where it holds them."""
    lengths_B = np.array([len(part) for part in parts])
    keep_BT = np.arange(max(1, int(lengths_B.max()))) < lengths_B[:, None]
    ids_BT = np.full(keep_BT.shape, fill)
    ids_BT[keep_BT] = np.concatenate(parts) if parts else []
    return ids_BT, keep_BT


def noisy(ids_BT: Ints, text: Ids, share: float, boundary: int, chance: np.random.Generator) -> Ints:
    """Return ids of which a share is replaced by others, each as likely as it is in the text; boundaries stay."""
    drawn_BT = np.asarray(text[chance.integers(0, len(text), ids_BT.shape)], np.int64)
    changes_BT = (chance.random(ids_BT.shape) < share) & (ids_BT != boundary) & (drawn_BT != boundary)
    return np.where(changes_BT, drawn_BT, ids_BT)


@dataclass(frozen=True)
class Texts:
    """The texts among some ids, each followed by a boundary: where each begins and ends."""

    ids: Ids
    starts_R: Ints
    stops_R: Ints

    @property
    def lengths(self) -> Ints:
        """How long each is."""
        return self.stops_R - self.starts_R

    def parts(self) -> list[Ids]:
        """Return the ids of each."""
        return [self.ids[start:stop] for start, stop in zip(self.starts_R, self.stops_R, strict=True)]

    def batch(self, rows: Ints, fill: int = 0) -> tuple[Ints, npt.NDArray[np.bool_]]:
        """Return some texts as one (B, T) array, and where it holds them."""
        return padded([self.ids[self.starts_R[row] : self.stops_R[row]] for row in rows], fill)


def find_texts(ids: Ids, boundary: int) -> Texts:
    """Return the texts among some ids."""
    (boundaries,) = np.nonzero(np.asarray(ids) == boundary)
    return Texts(ids, boundaries[:-1] + 1, boundaries[1:])


class DocumentBatches:
    """The documents of a text of ids, cut where they are too long, in batches of like length."""

    def __init__(self, ids: Ids, boundary: int, longest: int, tokens: int, seed: int) -> None:
        begins = np.flatnonzero(np.asarray(ids[:-1]) == boundary)
        ends = np.append(begins[1:], len(ids) - 1)
        pieces = -(-(ends - begins) // longest)
        self.starts_R = np.repeat(begins, pieces) + longest * _counting(pieces)
        self.stops_R = np.minimum(self.starts_R + longest, np.repeat(ends, pieces))
        self._rows = RowBatches(self.stops_R - self.starts_R, tokens, seed)

    @property
    def steps_per_epoch(self) -> int:
        return self._rows.steps_per_epoch

    def places(self, step: int) -> Ints:
        """Return the places (B, T) of what is read in a step, NOWHERE where a row is filled up."""
        rows = self._rows.rows(step)
        parts = [np.arange(self.starts_R[row], self.stops_R[row]) for row in rows]
        return padded(parts, NOWHERE)[0]


def _counting(lengths: Any) -> Ints:
    """Return 0, 1, ... for each length, one after another."""
    counting: Ints = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return counting
