"""Sampling of tokens: temperature, top-k, top-p, min-p, and ranges of the settings."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from satchel.config import build
from satchel.errors import SettingsError
from satchel.generation.sampling import Sampling, choose


def draws(probabilities: list[float], count: int = 2000, **options: object) -> list[float]:
    """Return the relative frequency of each token among the draws."""
    sampling = build(Sampling, options)
    logprobs_BV = np.log(np.array([probabilities] * count, dtype=float))
    generators = [np.random.default_rng([7, row]) for row in range(count)]
    chosen = choose(logprobs_BV, sampling, generators)
    return [chosen.count(token) / count for token in range(len(probabilities))]


def test_draws_follow_the_distribution() -> None:
    assert draws([0.5, 0.3, 0.2]) == pytest.approx([0.5, 0.3, 0.2], abs=0.04)


def test_a_low_temperature_sharpens_and_a_high_one_flattens_the_distribution() -> None:
    assert draws([0.8, 0.2], temperature=0.5) == pytest.approx([16 / 17, 1 / 17], abs=0.03)
    assert draws([0.8, 0.2], temperature=2.0) == pytest.approx([2 / 3, 1 / 3], abs=0.04)


@pytest.mark.parametrize(
    "options", [{"greedy": True}, {"temperature": 0.0}, {"top_k": 1}, {"top_p": 0.01}, {"min_p": 1.0}]
)
def test_the_most_restrictive_options_are_greedy(options: dict[str, object]) -> None:
    assert draws([0.3, 0.4, 0.3], 50, **options) == [0.0, 1.0, 0.0]


def test_top_k_keeps_the_k_most_likely_tokens() -> None:
    assert draws([0.1, 0.4, 0.3, 0.2], top_k=2) == pytest.approx([0, 4 / 7, 3 / 7, 0], abs=0.04)


def test_top_k_keeps_exactly_k_tokens_of_equal_probability() -> None:
    assert draws([0.25, 0.25, 0.25, 0.25], top_k=2) == pytest.approx([0.5, 0.5, 0, 0], abs=0.04)


def test_top_p_keeps_the_smallest_set_with_at_least_that_probability() -> None:
    assert draws([0.1, 0.4, 0.3, 0.2], top_p=0.7) == pytest.approx([0, 4 / 7, 3 / 7, 0], abs=0.04)
    assert draws([0.1, 0.4, 0.3, 0.2], top_p=0.71) == pytest.approx([0, 4 / 9, 3 / 9, 2 / 9], abs=0.04)


def test_min_p_is_relative_to_the_most_likely_token() -> None:
    assert draws([0.1, 0.5, 0.26, 0.14], min_p=0.5) == pytest.approx([0, 0.5 / 0.76, 0.26 / 0.76, 0], abs=0.04)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.floats(0.0, 1.0), min_size=2, max_size=20).filter(lambda weights: sum(weights) > 0.01),
    st.fixed_dictionaries(
        {},
        optional={
            "temperature": st.floats(0.05, 5),
            "top_k": st.integers(1, 30),
            "top_p": st.floats(0.01, 1),
            "min_p": st.floats(0, 1),
        },
    ),
)
def test_no_option_draws_a_token_with_probability_zero(weights: list[float], options: dict[str, object]) -> None:
    total = sum(weights)
    with np.errstate(divide="ignore"):
        logprobs = np.log(np.array([weights] * 20) / total)
    chosen = choose(logprobs, build(Sampling, options), [np.random.default_rng(row) for row in range(20)])
    assert all(weights[token] > 0 for token in chosen)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("tokens", 0), ("tokens", 10**9), ("temperature", -1.0), ("temperature", float("nan")), ("temperature", 1e309),
        ("top_k", 0), ("top_k", -1), ("top_p", 0.0), ("top_p", 1.1), ("min_p", -0.1), ("samples", 0),
        ("samples", 10**6), ("seed", -1), ("seed", 2**80), ("seed", True), ("tokens", 3.5),
    ],
)  # fmt: skip
def test_a_setting_out_of_range_is_refused_by_name(option: str, value: object) -> None:
    with pytest.raises(SettingsError, match=option):
        build(Sampling, {option: value})
