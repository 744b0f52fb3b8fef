"""What is set aside is the end of a text, and nothing of it is in the rest."""

import numpy as np
import pytest

from satchel.data import aside
from satchel.data.aside import set_aside

END = 99


def test_of_a_stream_its_last_tokens_are_set_aside() -> None:
    ids = np.array([END, *range(50)])
    rest, end = set_aside(ids, END)
    assert rest.tolist() == [END, *range(48)]
    assert end.tolist() == [END, 48, 49]


def test_of_documents_whole_ones_are_set_aside() -> None:
    documents = [[number] * 9 + [END] for number in range(20)]
    ids = np.array([END, *(token for document in documents for token in document)])
    rest, end = set_aside(ids, END)
    assert rest.tolist() == ids[:-10].tolist()
    assert end.tolist() == [END, *documents[-1]]


def test_of_one_long_document_after_a_short_one_its_end_is_set_aside() -> None:
    ids = np.array([END, 1, 2, END, *range(3, 97), END])
    rest, end = set_aside(ids, END)
    assert rest.tolist() == ids[:-4].tolist()
    assert end.tolist() == [END, 94, 95, 96, END]


@pytest.mark.parametrize("size", [2, 3, 4, 20])
def test_of_a_few_tokens_the_last_one_is_set_aside(size: int) -> None:
    rest, end = set_aside(np.array([END, *range(size - 1)]), END)
    assert len(rest) == size - 1
    assert end.tolist() == [END, size - 2]


def test_of_a_long_text_no_more_is_set_aside_than_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aside, "MOST_TOKENS", 7)
    rest, end = set_aside(np.array([END, *range(2000)]), END)
    assert (len(rest), len(end)) == (1994, 8)
