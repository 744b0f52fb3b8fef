"""Stratified splits depend on the seed only and keep at least one example of each class; class files are checked."""

import hashlib
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from satchel import durable
from satchel.data.examples import class_indices, read_classes, write_classes
from satchel.data.splits import stratified_folds, stratified_split
from satchel.errors import RunError

label_lists = st.lists(st.integers(0, 4), min_size=1, max_size=60)


@given(label_lists, st.floats(0, 0.99), st.integers(0, 5))
def test_a_fraction_of_each_class_is_held_out_but_never_all_of_it(
    labels: list[int], fraction: float, seed: int
) -> None:
    classes = np.array(labels)
    mask = stratified_split(classes, fraction, seed)
    held_out = Counter(classes[mask].tolist())
    for label, count in Counter(labels).items():
        assert held_out[label] == min(int(count * fraction + 0.5), count - 1)


def test_the_held_out_rows_depend_on_the_seed_and_are_spread_over_the_table() -> None:
    classes = np.arange(1000) % 3
    assert np.array_equal(stratified_split(classes, 0.1, 1), stratified_split(classes, 0.1, 1))
    assert not np.array_equal(stratified_split(classes, 0.1, 1), stratified_split(classes, 0.1, 2))
    assert all(block.any() for block in np.array_split(stratified_split(classes, 0.1, 1), 10))


@given(label_lists, st.integers(2, 10))
def test_folds_have_equal_numbers_of_each_class(labels: list[int], count: int) -> None:
    classes = np.array(labels)
    folds = stratified_folds(classes, count, 0)
    for label, rows in Counter(labels).items():
        sizes = Counter(folds[classes == label].tolist())
        if rows == 1:
            assert sizes == {-1: 1}
        else:
            assert max(sizes.values()) - min(sizes[fold] for fold in range(count)) <= 1


def test_new_labels_follow_the_known_ones() -> None:
    indices, names = class_indices(["b", "z", "a", "y", "z"], ("a", "b"))
    assert names == ["a", "b", "y", "z"]
    assert indices.tolist() == [1, 3, 0, 2, 3]


def test_classes_are_read_back_and_checked(tmp_path: Path) -> None:
    path = tmp_path / "classes.safetensors"
    with open(path, "wb") as handle:
        write_classes(handle, np.array([0, 2, 1]))
    assert read_classes(path, 3, 3).tolist() == [0, 2, 1]
    with pytest.raises(RunError, match="has 3 class indices, expected 2, one per example"):
        read_classes(path, 2, 3)
    with pytest.raises(RunError, match="has class indices 0 to 2, expected 0 to 1"):
        read_classes(path, 3, 2)
    data = path.read_bytes()
    entry = durable.ManifestEntry(size=len(data), sha256=hashlib.sha256(data).hexdigest())
    assert read_classes(path, 3, 3, entry=entry).tolist() == [0, 2, 1]
    path.write_bytes(data[:-4] + data[-8:-4])
    with pytest.raises(RunError, match="is damaged"):
        read_classes(path, 3, 3, entry=entry)
