"""Rank correlation with what people say of words."""

from pathlib import Path

import pytest

from satchel.errors import DataError
from satchel.evaluation.similarity import agreement, read_ratings


def test_the_sets_that_people_use_are_read_as_they_are(shared: Path) -> None:
    found = read_ratings(shared / "word-similarity" / "backpack")
    assert {name: len(ratings) for name, ratings in found.items()} == {
        "RG65": 65,
        "SimLex-999": 999,
        "SimVerb-3500": 3500,
        "WS353": 353,
    }
    assert (found["SimLex-999"][0].first, found["SimLex-999"][0].second, found["SimLex-999"][0].rated) == (
        "old",
        "new",
        1.58,
    )
    others = read_ratings(shared / "word-similarity" / "faruqui")
    assert len(others["EN-WS-353-ALL"]) == 353
    by_pair = {(each.first, each.second): each.rated for each in others["EN-SIMLEX-999"]}
    assert all(by_pair[each.first, each.second] == each.rated for each in found["SimLex-999"])


def test_what_is_not_known_is_not_covered(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("first\tsecond\tscore\na\tb\t1\na\tc\t2\na\td\t3\nx\ty\t4\n", encoding="utf-8")
    (ratings,) = read_ratings(path).values()
    alike = {"b": 0.1, "c": 0.5, "d": 0.3}
    found = agreement("pairs", ratings, lambda first, second: {"one": alike[second]} if first == "a" else None)
    assert (found.pairs, found.covered) == (4, 3)
    assert found.correlations["one"] == pytest.approx(0.5)
    assert agreement("none", ratings, lambda first, second: None).correlations == {}


def test_what_is_no_rating_is_told_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("a\tb\t1\na\tb\tmuch\n", encoding="utf-8")
    with pytest.raises(DataError, match="line 2"):
        read_ratings(path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="contains no data set"):
        read_ratings(tmp_path / "empty")
