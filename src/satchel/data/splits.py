"""Held-out splits of texts, labelled examples and parallel text, and the split that trains a gate.

Splits are pseudo-random functions of the seed. The gate between a network and an n-gram model must see text that
neither model was trained on: segments that are spread over the training text, because a single segment at the end may
have topics that do not occur in the rest. Shapes: E examples.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from satchel.data.batches import Ints
from satchel.predictor import Ids
from satchel.text.reading import Corpus, DocumentRule, Piece
from satchel.text.tables import TextPair

# Maximum size of a held-out group of pairs, as a fraction of the number of pairs to hold out.
LARGEST_GROUP = 0.5
# Fraction of the text used for the gate, and the maximum number of tokens: more do not improve the gate.
GATE_FRACTION = 0.04
MAX_GATE_TOKENS = 50_000
# Number of tokens of a segment, and the minimum number of segments.
SEGMENT = 1000
MIN_SEGMENTS = 10


def _digest(seed: int, number: int) -> bytes:
    """Return a hash of the seed and the number of an example, which defines a pseudo-random order."""
    return hashlib.blake2b(f"{seed} {number}".encode(), digest_size=8).digest()


@dataclass(frozen=True)
class HeldOutSplit:
    """Held-out split of a corpus: the end of a stream, or documents selected by a hash of the seed and their number."""

    fraction: float
    seed: int

    def pieces(self, corpus: Corpus, rule: DocumentRule, characters: int) -> Iterator[tuple[bool, Piece]]:
        """Yield (is held out, piece) in the order of the corpus; `characters` is its total number of characters."""
        if rule == "stream":
            yield from self._stream(corpus.pieces(rule), int(characters * (1 - self.fraction) + 1e-9))
            return
        document = 0
        for piece in corpus.pieces(rule):
            yield int.from_bytes(_digest(self.seed, document), "big") < self.fraction * 2**64, piece
            document += piece.ends

    def _stream(self, pieces: Iterator[Piece], remaining: int) -> Iterator[tuple[bool, Piece]]:
        """Yield (is held out, piece); the first `remaining` characters are not held out."""
        for piece in pieces:
            if 0 < remaining < len(piece.text):
                yield False, Piece(piece.text[:remaining], False)
                yield True, Piece(piece.text[remaining:], False)
            else:
                yield remaining <= 0, piece
            remaining -= len(piece.text)


def stratified_split(classes_E: Ints, fraction: float, seed: int) -> npt.NDArray[np.bool_]:
    """Return a mask of the held-out examples: this fraction of each class, but at least one example is not held out."""
    counts = np.bincount(classes_E)
    held_out = np.minimum(np.floor(counts * fraction + 0.5), np.maximum(counts - 1, 0))
    return np.asarray(_ranks(classes_E, seed) < held_out[classes_E])


def stratified_folds(classes_E: Ints, count: int, seed: int) -> Ints:
    """Return the cross-validation fold of each example, or -1 for the only example of a class."""
    return np.where(np.bincount(classes_E)[classes_E] > 1, _ranks(classes_E, seed) % count, -1)


def _ranks(classes_E: Ints, seed: int) -> Ints:
    """Return the rank of each example within its class, in a pseudo-random order given by the seed."""
    hashes = np.array([int.from_bytes(_digest(seed, row), "big") for row in range(len(classes_E))], np.uint64)
    order = np.lexsort((hashes, classes_E))
    counts = np.bincount(classes_E)
    ranks = np.empty(len(classes_E), np.int64)
    ranks[order] = np.arange(len(classes_E)) - np.repeat(np.cumsum(counts) - counts, counts)
    return ranks


def held_out_pairs(pairs: Sequence[TextPair], fraction: float, seed: int) -> npt.NDArray[np.bool_]:
    """Return a mask of the held-out pairs: about this fraction, in a pseudo-random order given by the seed.

    Pairs that share a source or a target form a group, which is held out as a whole or not at all.
    """
    groups = _groups(pairs)
    limit = fraction * len(pairs)
    order = sorted(groups, key=lambda rows: _digest(seed, rows[0]))
    mask = np.zeros(len(pairs), bool)
    count = 0
    for rows in order:
        if count + len(rows) <= max(1.0, limit) and len(rows) <= max(1.0, LARGEST_GROUP * limit):
            mask[rows] = True
            count += len(rows)
    return mask if count < len(pairs) else np.zeros(len(pairs), bool)


def _groups(pairs: Sequence[TextPair]) -> list[list[int]]:
    """Return the row indices of each connected component: pairs that share a source or a target (union-find)."""
    parents = list(range(len(pairs)))

    def root(row: int) -> int:
        while parents[row] != row:
            parents[row] = parents[parents[row]]
            row = parents[row]
        return row

    first_row: dict[tuple[bool, str], int] = {}
    for row, pair in enumerate(pairs):
        for key in ((True, pair.source), (False, pair.target)):
            parents[root(row)] = root(first_row.setdefault(key, row))
    groups: dict[int, list[int]] = {}
    for row in range(len(pairs)):
        groups.setdefault(root(row), []).append(row)
    return list(groups.values())


def split_for_gate(ids_T: Ids, boundary: int) -> tuple[Ids, Ids]:
    """Return the ids that train the models, and the ids that train the gate: segments preceded by a boundary."""
    tokens = min(MAX_GATE_TOKENS, int(GATE_FRACTION * len(ids_T)))
    segments = max(min(MIN_SEGMENTS, tokens), tokens // SEGMENT)
    if not segments:
        return ids_T, np.array([boundary])
    # Equally spaced, with training text before the first and after the last segment.
    middles = np.linspace(0, len(ids_T), segments + 2)[1:-1].astype(int)
    starts = middles - tokens // segments // 2
    stops = starts + tokens // segments
    cuts = [0, *(cut for segment in zip(starts, stops, strict=True) for cut in segment), len(ids_T)]
    train = [ids_T[start:stop] for start, stop in list(pairwise(cuts))[::2]]
    gate = [part for start, stop in zip(starts, stops, strict=True) for part in ([boundary], ids_T[start:stop])]
    return np.concatenate(train), np.concatenate(gate)
