"""What is set aside are pieces from all over a text, and nothing of them is in the rest."""

import numpy as np
import pytest

from satchel.data import gate_split
from satchel.data.gate_split import set_aside

END = 10**6


@pytest.mark.parametrize("size", [25, 60, 500, 5000, 100_000])
def test_every_token_is_learned_from_or_set_aside_in_its_order(size: int) -> None:
    ids = np.array([END, *range(size), END])
    rest, pieces = set_aside(ids, END)
    assert sorted([*rest[1:-1], *pieces[pieces != END]]) == list(range(size))
    assert (rest[0], rest[-1], pieces[0]) == (END, END, END)
    assert (np.diff(rest[1:-1]) > 0).all()
    assert len(pieces) - (pieces == END).sum() == pytest.approx(0.04 * size, rel=0.3, abs=2)


def test_pieces_come_from_all_over_the_text() -> None:
    _, pieces = set_aside(np.array([END, *range(100_000)]), END)
    starts = pieces[np.flatnonzero(pieces == END) + 1]
    assert len(starts) >= 10
    assert np.diff(starts).std() < 10
    assert starts[0] < 40_000
    assert starts[-1] > 60_000


@pytest.mark.parametrize("size", [1, 2, 10, 24])
def test_of_a_few_tokens_nothing_is_set_aside(size: int) -> None:
    ids = np.array([END, *range(size - 1)])
    rest, pieces = set_aside(ids, END)
    assert rest.tolist() == ids.tolist()
    assert pieces.tolist() == [END]


def test_of_a_long_text_no_more_is_set_aside_than_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate_split, "MOST_TOKENS", 30)
    rest, pieces = set_aside(np.array([END, *range(20_000)]), END)
    assert (len(rest), (pieces != END).sum()) == (20_001 - 30, 30)
