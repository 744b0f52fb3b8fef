"""Vectors beside vectors: which are alike, and where they lie in a plane.

What all vectors share says nothing about any of them: whoever compares takes it away first.

Letters: V vectors to choose from, N vectors, D width, K found.
"""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from satchel.predictor import Floats, Ids

# Rows whose cosines are made at once: in double precision they take more room than as they are kept.
ROWS_AT_ONCE = 4096


def cosines(vectors_VD: Floats, own_ND: Floats) -> Floats:
    """Return the (N, V) cosines of some vectors with all; a vector of zeros is like nothing."""
    own_DN = _unit(own_ND).T
    found = np.empty((own_DN.shape[1], len(vectors_VD)))
    for start in range(0, len(vectors_VD), ROWS_AT_ONCE):
        stop = start + ROWS_AT_ONCE
        found[:, start:stop] = (_unit(vectors_VD[start:stop]) @ own_DN).T
    return found


def _unit(vectors_ND: Floats) -> Floats:
    exact = np.asarray(vectors_ND, np.float64)
    unit: Floats = exact / np.maximum(np.linalg.norm(exact, axis=-1, keepdims=True), 1e-300)
    return unit


def nearest(alike_V: Floats, top: int, excluded: Collection[int] = ()) -> tuple[Floats, Ids]:
    """Return the largest of some cosines and their places, most first; of equal ones the first."""
    allowed = np.setdiff1d(np.arange(len(alike_V)), np.array(list(excluded), np.int64))
    best = allowed[np.argsort(-alike_V[allowed], kind="stable")[:top]]
    return alike_V[best], best


@dataclass(frozen=True)
class Plane:
    """Where vectors lie in the plane in which they differ most: (N, 2), and the share of all differences in each."""

    places: Floats
    shares: tuple[float, float]


def plane_of(vectors_ND: Floats) -> Plane:
    """Return the two principal components of some vectors.

    A component has no sign of its own: the largest part of each direction counts as positive.
    """
    exact = np.asarray(vectors_ND, np.float64)
    centred_ND = exact - exact.mean(axis=0)
    left_NK, sizes_K, directions_KD = np.linalg.svd(centred_ND, full_matrices=False)
    largest_K = np.abs(directions_KD).argmax(axis=1)
    signs_K = np.sign(directions_KD[np.arange(len(directions_KD)), largest_K])
    places_NK = left_NK * sizes_K * signs_K
    total = float((sizes_K**2).sum())
    # One vector, or one number for each, has no second component.
    spare = max(0, 2 - len(sizes_K))
    places = np.pad(places_NK, ((0, 0), (0, spare)))[:, :2]
    first, second = np.pad(sizes_K**2 / max(total, 1e-300), (0, spare))[:2].tolist()
    return Plane(places, (first, second))
