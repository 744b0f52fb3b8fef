"""Rank correlation with what people say of words."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr  # type: ignore[import-untyped]

from satchel.errors import DataError
from satchel.evaluation.similarity import agreement, read_ratings, spearman


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=3, max_size=30))
def test_ranks_that_are_equal_are_shared(pairs: list[tuple[int, int]]) -> None:
    a, b = (np.array(column, float) for column in zip(*pairs, strict=True))
    if len(set(a)) == 1 or len(set(b)) == 1:
        assert spearman(a, b) == 0
    else:
        assert spearman(a, b) == pytest.approx(spearmanr(a, b).statistic, abs=1e-12)


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
    with pytest.raises(DataError, match="no set of pairs"):
        read_ratings(tmp_path / "empty")
