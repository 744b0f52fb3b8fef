"""Batches as a function of the seed and the step: resuming a training needs no stored state.

Shapes: B rows of a batch, T tokens, R rows of the data.
"""

import functools
import hashlib
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from satchel.predictor import Ids

Ints = npt.NDArray[np.int64]

# Target of a position without a label: the default `ignore_index` of torch's losses.
NO_TARGET = -100
# Position of padding in the arrays of positions.
PADDING = -1
# Rows are sorted by length within a random pool of this many batches: little padding, random composition.
POOL = 32


def seeded_rng(*key: int | str) -> np.random.Generator:
    """Return a random number generator whose state depends on the key only."""
    digest = hashlib.blake2b(repr(key).encode(), digest_size=16).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest, "little")))


@dataclass(frozen=True, eq=False)
class StreamBatches:
    """Windows of a token stream. Each epoch covers the stream with a new random offset and order of windows."""

    tokens: int  # number of tokens of the stream
    length: int  # maximum number of tokens of a window
    rows: int  # number of windows of a batch
    seed: int

    @property
    def steps_per_epoch(self) -> int:
        """Number of batches per epoch."""
        return max(1, self._windows // self.rows)

    @property
    def _length(self) -> int:
        return min(self.length, self.tokens - 1)

    @property
    def _windows(self) -> int:
        return max(1, (self.tokens - 1) // self._length)

    def positions(self, step: int) -> Ints:
        """Return the (B, T) positions of the input tokens of a step; the targets are one position later."""
        epoch, batch = divmod(step, self.steps_per_epoch)
        starts = self._starts(epoch)
        starts_B = starts[np.arange(batch * self.rows, (batch + 1) * self.rows) % len(starts)]
        positions_BT: Ints = starts_B[:, None] + np.arange(self._length)
        return positions_BT

    @functools.lru_cache(maxsize=2)  # noqa: B019 - an instance is used for a whole training
    def _starts(self, epoch: int) -> Ints:
        """Return the first positions of the windows of an epoch, in random order."""
        rng = seeded_rng("stream", self.seed, epoch)
        spare = self.tokens - 1 - self._windows * self._length
        if self._windows > 1:  # dropping one window leaves room for a random offset
            windows, offset = self._windows - 1, int(rng.integers(0, self._length + spare + 1))
        else:
            windows, offset = 1, int(rng.integers(0, spare + 1))
        return rng.permutation(windows) * self._length + offset


@dataclass(frozen=True, eq=False)
class RowBatches:
    """Batches of rows of similar length, with at most `tokens` tokens each, including padding."""

    lengths_R: Ints
    tokens: int
    seed: int
    # Number of steps before each epoch, extended as epochs are reached.
    _ends: list[int] = field(default_factory=lambda: [0])

    @property
    def steps_per_epoch(self) -> int:
        """Number of batches of the first epoch; other epochs may have a few more or less."""
        return self._end(0)

    def rows(self, step: int) -> Ints:
        """Return the (B,) row indices of the batch of a step."""
        epoch = 0
        while self._end(epoch) <= step:
            epoch += 1
        return self._epoch_batches(epoch)[step - self._ends[epoch]]

    def _end(self, epoch: int) -> int:
        """Return the number of steps up to the end of an epoch."""
        while len(self._ends) <= epoch + 1:
            self._ends.append(self._ends[-1] + len(self._epoch_batches(len(self._ends) - 1)))
        return self._ends[epoch + 1]

    @functools.lru_cache(maxsize=2)  # noqa: B019 - an instance is used for a whole training
    def _epoch_batches(self, epoch: int) -> list[Ints]:
        rng = seeded_rng("rows", self.seed, epoch)
        order = rng.permutation(len(self.lengths_R))
        rows_per_batch = max(1, self.tokens // max(1, int(self.lengths_R.mean())))
        batches: list[Ints] = []
        for start in range(0, len(order), POOL * rows_per_batch):
            pool = order[start : start + POOL * rows_per_batch]
            batches += [pool[rows] for rows in group_by_length(self.lengths_R[pool], self.tokens)]
        return [batches[index] for index in rng.permutation(len(batches))]


def group_by_length(lengths_R: Ints, budget: int) -> list[Ints]:
    """Return the row indices sorted by length, in groups of at most `budget` tokens including padding.

    A row longer than the budget is a group by itself.
    """
    rows = np.argsort(lengths_R, kind="stable")
    groups, start = [], 0
    for stop, length in enumerate(lengths_R[rows].tolist(), start=1):
        if stop - start > 1 and max(1, length) * (stop - start) > budget:
            groups.append(rows[start : stop - 1])
            start = stop - 1
    return [*groups, rows[start:]] if len(rows) else []


def pad(rows: list[Ids], fill: int) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """Return rows of different lengths as a (B, T) array padded with `fill`, and its mask (False for padding)."""
    lengths_B = np.array([len(row) for row in rows])
    keep_BT = np.arange(max(1, int(lengths_B.max()))) < lengths_B[:, None]
    ids_BT = np.full(keep_BT.shape, fill)
    ids_BT[keep_BT] = np.concatenate(rows) if rows else []
    return ids_BT, keep_BT


def unigram_noise(ids_BT: Ints, text: Ids, rate: float, boundary: int, rng: np.random.Generator) -> Ints:
    """Return the ids with a fraction `rate` replaced by tokens drawn from the text (unigram noising; Xie et al., 2017).

    Boundary ids are neither replaced nor inserted.
    """
    drawn_BT = np.asarray(text[rng.integers(0, len(text), ids_BT.shape)], np.int64)
    replaced_BT = (rng.random(ids_BT.shape) < rate) & (ids_BT != boundary) & (drawn_BT != boundary)
    return np.where(replaced_BT, drawn_BT, ids_BT)


@dataclass(frozen=True)
class Documents:
    """A token sequence and the start and end position of each of its R documents, boundaries excluded."""

    ids: Ids
    starts_R: Ints
    stops_R: Ints

    @property
    def lengths(self) -> Ints:
        """Number of tokens of each document."""
        return self.stops_R - self.starts_R

    def to_list(self) -> list[Ids]:
        """Return the ids of each document."""
        return [self.ids[start:stop] for start, stop in zip(self.starts_R, self.stops_R, strict=True)]

    def batch(self, rows: Ints, fill: int = 0) -> tuple[Ints, npt.NDArray[np.bool_]]:
        """Return the documents with these indices as one padded (B, T) array, and its padding mask."""
        return pad([self.ids[self.starts_R[row] : self.stops_R[row]] for row in rows], fill)


def split_documents(ids: Ids, boundary: int) -> Documents:
    """Return the documents of a token sequence that starts with a boundary and has one after each document."""
    (boundaries,) = np.nonzero(np.asarray(ids) == boundary)
    return Documents(ids, boundaries[:-1] + 1, boundaries[1:])


class DocumentBatches:
    """Batches of whole documents of similar length; documents above `max_length` tokens are split."""

    def __init__(self, ids: Ids, boundary: int, max_length: int, tokens: int, seed: int) -> None:
        begins = np.flatnonzero(np.asarray(ids[:-1]) == boundary)
        ends = np.append(begins[1:], len(ids) - 1)
        windows = -(-(ends - begins) // max_length)
        # Index of each window within its document: 0, 1, ... for every document.
        indices_R = np.arange(int(windows.sum())) - np.repeat(np.cumsum(windows) - windows, windows)
        self.starts_R = np.repeat(begins, windows) + max_length * indices_R
        self.stops_R = np.minimum(self.starts_R + max_length, np.repeat(ends, windows))
        self._rows = RowBatches(self.stops_R - self.starts_R, tokens, seed)

    @property
    def steps_per_epoch(self) -> int:
        """Number of batches of the first epoch."""
        return self._rows.steps_per_epoch

    def positions(self, step: int) -> Ints:
        """Return the (B, T) positions of the input tokens of a step, PADDING after the end of a row."""
        rows = self._rows.rows(step)
        return pad([np.arange(self.starts_R[row], self.stops_R[row]) for row in rows], PADDING)[0]
