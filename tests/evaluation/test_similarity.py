"""Word similarity: reading human ratings and rank correlation with them."""

import math
from pathlib import Path

import numpy as np
import pytest

from satchel.errors import DataError
from satchel.evaluation import similarity
from satchel.evaluation.similarity import Agreement, Rating, agreement, read_ratings
from satchel.predictor import Floats


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
    (pairs,) = read_ratings(path).values()
    similarities = {"b": 0.1, "c": 0.5, "d": 0.3}
    result = agreement("pairs", pairs, lambda first, second: {"one": similarities[second]} if first == "a" else None)
    assert (result.pairs, result.covered) == (4, 3)
    assert result.correlations["one"] == pytest.approx(0.5)
    assert agreement("none", pairs, lambda first, second: None).correlations == {}


def test_an_invalid_rating_is_reported_with_its_line_number(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("a\tb\t1\na\tb\tmuch\n", encoding="utf-8")
    with pytest.raises(DataError, match="line 2"):
        read_ratings(path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="contains no data set"):
        read_ratings(tmp_path / "empty")


# --- intervals and selection of a sense


def ratings(values: Floats) -> list[Rating]:
    return [Rating(str(index), "", float(value)) for index, value in enumerate(values)]


def result_of(rated_P: Floats, measures: dict[str, Floats]) -> Agreement:
    return agreement(
        "pairs",
        ratings(rated_P),
        lambda first, second: {name: float(values[int(first)]) for name, values in measures.items()},
    )


def test_bootstrap_correlations_equal_those_of_samples_that_are_ranked_again() -> None:
    rng = np.random.default_rng(0)
    a_P, b_P = rng.integers(0, 8, 40).astype(float), rng.normal(size=40)  # the ratings have ties
    resampled_N = similarity._resampled(a_P, b_P)
    samples = np.random.default_rng(0).integers(0, 40, (similarity.RESAMPLES, 40))
    expected = [similarity.spearman(a_P[sample], b_P[sample]) for sample in samples]
    np.testing.assert_allclose(resampled_N, expected, atol=1e-12)
    assert not similarity._resampled(a_P, np.ones(40)).any()


def test_intervals_contain_the_true_correlation_in_about_95_of_100_cases() -> None:
    rng = np.random.default_rng(1)
    covered = []
    for _ in range(100):
        a_P = rng.normal(size=60)
        low, high = result_of(a_P, {"one": a_P + 2 * rng.normal(size=60)}).intervals["one"]
        # Spearman's correlation of two normal variables with correlation 1 / sqrt(5).
        covered.append(low <= 6 / math.pi * math.asin(1 / math.sqrt(5) / 2) <= high)
    assert 88 <= sum(covered) <= 100


def test_chance_contains_95_percent_of_the_correlations_of_unrelated_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(similarity, "RESAMPLES", 10)
    rng = np.random.default_rng(2)
    results = [result_of(rng.normal(size=50), {"one": rng.normal(size=50)}) for _ in range(200)]
    within = [abs(result.correlations["one"]) <= (result.chance or 0) for result in results]
    assert 0.9 <= np.mean(within) <= 0.99


def test_the_selected_sense_of_unrelated_senses_has_no_correlation_although_the_maximum_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(similarity, "RESAMPLES", 10)
    rng = np.random.default_rng(3)
    maxima, selected = [], []
    for _ in range(60):
        result = result_of(rng.normal(size=60), {f"sense {number}": rng.normal(size=60) for number in range(16)})
        assert result.selected is not None
        maxima.append(max(result.correlations.values()))
        selected.append(result.selected.correlation)
    assert np.mean(maxima) > 0.2
    assert abs(np.mean(selected)) < 0.04


def test_a_sense_that_agrees_with_the_ratings_is_selected() -> None:
    rng = np.random.default_rng(4)
    rated_P = rng.normal(size=200)
    senses = {f"sense {number}": rng.normal(size=200) for number in range(4)} | {"sense 4": rated_P**3}
    selected = result_of(rated_P, senses).selected
    assert selected is not None
    assert selected.senses == ("sense 4", "sense 4")
    assert (selected.correlation, selected.low, selected.high) == pytest.approx((1, 1, 1))


def test_few_pairs_have_neither_intervals_nor_a_selected_sense() -> None:
    result = result_of(np.arange(5.0), {"sense 0": np.arange(5.0)})
    assert result.correlations["sense 0"] == pytest.approx(1)
    assert (result.intervals, result.selected) == ({}, None)
    assert result_of(np.arange(15.0), {"sense 0": np.arange(15.0)}).selected is None


def test_ratings_that_are_not_finite_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("a\tb\t1\na\tc\tnan\n", encoding="utf-8")
    with pytest.raises(DataError, match="line 2"):
        read_ratings(tmp_path / "pairs.tsv")
