"""`@counting` and `@counting-both`: strings tagged with the counts of equal characters."""

from collections.abc import Callable

import pytest

from satchel.datasets.corpora import open_corpus
from satchel.datasets.strings import counts_before, counts_elsewhere
from satchel.text.reading import DataSettings
from satchel.text.tables import read_tagged


@pytest.mark.parametrize(
    ("count", "expected"), [(counts_before, "00010010002102021102"), (counts_elsewhere, "22120120102102021102")]
)
def test_counts_equal_the_example_of_the_lecture(count: Callable[[str], str], expected: str) -> None:
    assert count("i like movies a lot ") == expected


@pytest.mark.parametrize(("name", "count"), [("@counting", counts_before), ("@counting-both", counts_elsewhere)])
def test_rows_are_strings_of_twenty_characters_and_their_counts(name: str, count: Callable[[str], str]) -> None:
    for row in read_tagged(open_corpus(name, DataSettings(size=300))):
        assert len(row.text) == 20
        assert set(row.text) <= set("abcdefghijklmnopqrstuvwxyz ")
        assert row.tags == count(row.text)
