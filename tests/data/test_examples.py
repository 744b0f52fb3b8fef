"""Which rows are held out depends on the seed alone, with every label's share, and never all of a label."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from satchel.data.examples import folds, held_out, numbered, read_classes, write_classes
from satchel.errors import RunError

label_lists = st.lists(st.integers(0, 4), min_size=1, max_size=60)


@given(label_lists, st.floats(0, 0.99), st.integers(0, 5))
def test_every_label_gives_its_share_and_keeps_a_row(labels: list[int], fraction: float, seed: int) -> None:
    classes = np.array(labels)
    chosen = held_out(classes, fraction, seed)
    taken = Counter(classes[chosen].tolist())
    for label, count in Counter(labels).items():
        assert taken[label] == min(int(count * fraction + 0.5), count - 1)


def test_the_same_seed_holds_out_the_same_rows_and_another_one_others() -> None:
    classes = np.arange(1000) % 3
    assert np.array_equal(held_out(classes, 0.1, 1), held_out(classes, 0.1, 1))
    assert not np.array_equal(held_out(classes, 0.1, 1), held_out(classes, 0.1, 2))
    # Not the first of each label, nor any other block: of rows in order, parts are taken everywhere.
    assert all(part.any() for part in np.array_split(held_out(classes, 0.1, 1), 10))


@given(label_lists, st.integers(2, 10))
def test_folds_share_every_label_out_evenly(labels: list[int], count: int) -> None:
    classes = np.array(labels)
    found = folds(classes, count, 0)
    for label, rows in Counter(labels).items():
        sizes = Counter(found[classes == label].tolist())
        if rows == 1:
            assert sizes == {-1: 1}
        else:
            assert max(sizes.values()) - min(sizes[fold] for fold in range(count)) <= 1


def test_labels_that_are_new_come_after_the_known_ones() -> None:
    places, names = numbered(["b", "z", "a", "y", "z"], ("a", "b"))
    assert names == ["a", "b", "y", "z"]
    assert places.tolist() == [1, 3, 0, 2, 3]


def test_classes_are_read_back_and_checked(tmp_path: Path) -> None:
    path = tmp_path / "classes.safetensors"
    with open(path, "wb") as handle:
        write_classes(handle, np.array([0, 2, 1]))
    assert read_classes(path, 3, 3).tolist() == [0, 2, 1]
    for examples, classes in ((2, 3), (3, 2)):
        with pytest.raises(RunError, match="other labels"):
            read_classes(path, examples, classes)
    path.write_bytes(path.read_bytes()[:-1] + b"\x07")
    with pytest.raises(RunError, match="is damaged"):
        read_classes(path, 3, 3)
