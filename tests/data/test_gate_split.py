"""The gate training split consists of segments spread over the text, disjoint from the rest."""

import numpy as np
import pytest

from satchel.data import splits
from satchel.data.splits import split_for_gate

END = 10**6


@pytest.mark.parametrize("size", [25, 60, 500, 5000, 100_000])
def test_each_token_is_in_one_of_the_two_parts_in_its_order(size: int) -> None:
    ids = np.array([END, *range(size), END])
    train, gate = split_for_gate(ids, END)
    assert sorted([*train[1:-1], *gate[gate != END]]) == list(range(size))
    assert (train[0], train[-1], gate[0]) == (END, END, END)
    assert (np.diff(train[1:-1]) > 0).all()
    assert len(gate) - (gate == END).sum() == pytest.approx(0.04 * size, rel=0.3, abs=2)


def test_the_segments_are_spread_over_the_text() -> None:
    _, gate = split_for_gate(np.array([END, *range(100_000)]), END)
    starts = gate[np.flatnonzero(gate == END) + 1]
    assert len(starts) >= 10
    assert np.diff(starts).std() < 10
    assert starts[0] < 40_000
    assert starts[-1] > 60_000


@pytest.mark.parametrize("size", [1, 2, 10, 24])
def test_a_short_text_has_an_empty_gate_split(size: int) -> None:
    ids = np.array([END, *range(size - 1)])
    train, gate = split_for_gate(ids, END)
    assert train.tolist() == ids.tolist()
    assert gate.tolist() == [END]


def test_the_size_of_the_gate_split_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(splits, "MAX_GATE_TOKENS", 30)
    train, gate = split_for_gate(np.array([END, *range(20_000)]), END)
    assert (len(train), (gate != END).sum()) == (20_001 - 30, 30)
