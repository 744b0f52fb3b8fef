"""Word similarity: reading human ratings and rank correlation with them."""

from pathlib import Path

import pytest

from satchel.errors import DataError
from satchel.evaluation.similarity import agreement, read_ratings


def test_published_similarity_data_sets_are_read(shared: Path) -> None:
    ratings_by_name = read_ratings(shared / "word-similarity" / "backpack")
    assert {name: len(ratings) for name, ratings in ratings_by_name.items()} == {
        "RG65": 65,
        "SimLex-999": 999,
        "SimVerb-3500": 3500,
        "WS353": 353,
    }
    simlex = ratings_by_name["SimLex-999"]
    assert (simlex[0].first, simlex[0].second, simlex[0].rated) == ("old", "new", 1.58)
    others = read_ratings(shared / "word-similarity" / "faruqui")
    assert len(others["EN-WS-353-ALL"]) == 353
    by_pair = {(rating.first, rating.second): rating.rated for rating in others["EN-SIMLEX-999"]}
    assert all(by_pair[rating.first, rating.second] == rating.rated for rating in simlex)


def test_pairs_with_unknown_words_are_not_covered(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("first\tsecond\tscore\na\tb\t1\na\tc\t2\na\td\t3\nx\ty\t4\n", encoding="utf-8")
    (ratings,) = read_ratings(path).values()
    similarities = {"b": 0.1, "c": 0.5, "d": 0.3}
    result = agreement("pairs", ratings, lambda first, second: {"one": similarities[second]} if first == "a" else None)
    assert (result.pairs, result.covered) == (4, 3)
    assert result.correlations["one"] == pytest.approx(0.5)
    assert agreement("none", ratings, lambda first, second: None).correlations == {}


def test_an_invalid_rating_is_reported_with_its_line_number(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("a\tb\t1\na\tb\tmuch\n", encoding="utf-8")
    with pytest.raises(DataError, match="line 2"):
        read_ratings(path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="contains no data set"):
        read_ratings(tmp_path / "empty")
