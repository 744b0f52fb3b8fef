"""`@copy`, `@reverse` and `@dates`: the target is the stated function of the source."""

import pytest

from satchel.datasets.corpora import open_corpus
from satchel.datasets.generated import SPLITS
from satchel.text.reading import DataSettings
from satchel.text.tables import TextPair, read_pairs


def pairs(name: str, size: int = 300) -> list[TextPair]:
    return list(read_pairs(open_corpus(name, DataSettings(size=size), 1)))


def test_the_target_of_copy_equals_the_source() -> None:
    assert all(pair.target == pair.source for pair in pairs("@copy"))


def test_the_target_of_reverse_is_the_reversed_source() -> None:
    for pair in pairs("@reverse"):
        assert pair.target == pair.source[::-1]
        assert 5 <= len(pair.source) <= 25


def test_the_target_of_dates_is_the_date_in_iso_format() -> None:
    for pair in pairs("@dates"):
        year, month, day = pair.target.split("-")
        assert year[2:] in pair.source
        assert str(int(day)) in pair.source or any(ending in pair.source for ending in ("th", "st", "nd"))
        assert 1950 <= int(year) <= 2049
        assert 1 <= int(month) <= 12


@pytest.mark.parametrize("name", ["@copy", "@reverse", "@dates"])
def test_no_target_is_in_two_splits(name: str) -> None:
    settings = DataSettings(size=300)
    train, valid, test = (
        {pair.target for pair in read_pairs(open_corpus(name, settings, 1, split=split))} for split in SPLITS
    )
    assert not train & valid
    assert not train & test
    assert not valid & test
