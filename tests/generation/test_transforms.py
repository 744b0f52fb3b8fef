"""Transforms and filters equal plain reference implementations, and those of transformers."""

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import (
    MinPLogitsWarper,
    NoRepeatNGramLogitsProcessor,
    RepetitionPenaltyLogitsProcessor,
    TopKLogitsWarper,
    TopPLogitsWarper,
    TypicalLogitsWarper,
)

from satchel.config import build
from satchel.generation.noise import Noise
from satchel.generation.sampling import Sampler, Sampling
from satchel.generation.transforms import (
    Exclude,
    Filter,
    History,
    LogitBias,
    MinP,
    NoRepeatNgram,
    OccurrencePenalty,
    RepetitionPenalty,
    TopK,
    TopP,
    Transform,
    Typical,
)
from satchel.predictor import Floats, Logits

VOCABULARY = 12
IDS = st.lists(st.integers(0, VOCABULARY - 1), max_size=20)
SEEDS = st.integers(0, 1 << 32)


def history_of(prompt: list[int], generated: list[int]) -> History:
    history = History(np.array(prompt, np.int64))
    for id_ in generated:
        history.append(id_)
    return history


def logits_of(seed: int) -> Floats:
    return 3 * np.random.default_rng(seed).standard_normal(VOCABULARY)


def transformed(transform: Transform, logits_V: Floats, history: History) -> Floats:
    changed_V = logits_V.copy()
    transform(changed_V, history)
    return changed_V


def filtered(filter_: Filter, logits_V: Floats) -> Floats:
    """Return the logits of the remaining tokens; -inf for those that are excluded."""
    probabilities_V = np.exp(logits_V - logits_V.max())
    filter_(probabilities_V)
    return np.where(probabilities_V > 0, logits_V, -np.inf)


def processed(processor: Any, logits_V: Floats, ids: list[int]) -> Floats:
    """Return the logits after a logits processor of transformers."""
    scores_1V = processor(torch.tensor([ids], dtype=torch.long), torch.from_numpy(logits_V.copy())[None])
    return np.asarray(scores_1V[0].numpy())


@settings(deadline=None)
@given(IDS, IDS, SEEDS, st.floats(0.2, 5))
def test_the_repetition_penalty_equals_that_of_transformers(
    prompt: list[int], generated: list[int], seed: int, penalty: float
) -> None:
    logits_V = logits_of(seed)
    changed_V = transformed(RepetitionPenalty(penalty), logits_V, history_of(prompt, generated))
    for id_, (before, after) in enumerate(zip(logits_V, changed_V, strict=True)):
        factor = 1.0 if id_ not in {*prompt, *generated} else penalty if before < 0 else 1 / penalty
        assert after == pytest.approx(before * factor, rel=1e-12)
    if prompt or generated:
        expected_V = processed(RepetitionPenaltyLogitsProcessor(penalty), logits_V, prompt + generated)
        np.testing.assert_allclose(changed_V, expected_V, rtol=1e-12)


@settings(deadline=None)
@given(st.lists(st.integers(0, 3), max_size=25), st.integers(0, 25), SEEDS, st.integers(1, 5))
def test_no_repeat_ngram_equals_that_of_transformers(ids: list[int], split: int, seed: int, order: int) -> None:
    logits_V = logits_of(seed)
    changed_V = transformed(NoRepeatNgram(order), logits_V, history_of(ids[:split], ids[split:]))
    ngrams = {tuple(ids[start : start + order]) for start in range(len(ids) - order + 1)}
    for id_, (before, after) in enumerate(zip(logits_V, changed_V, strict=True)):
        is_repeated = (*ids[len(ids) - order + 1 :], id_) in ngrams
        assert after == (-math.inf if is_repeated else before)
    if ids:
        np.testing.assert_array_equal(changed_V, processed(NoRepeatNGramLogitsProcessor(order), logits_V, ids))


def test_no_repeat_ngram_has_no_effect_if_no_other_token_remains() -> None:
    logits_V = logits_of(0)
    history = history_of([*range(VOCABULARY)], [])
    np.testing.assert_array_equal(transformed(NoRepeatNgram(1), logits_V, history), logits_V)
    sampler = Sampler(Sampling(no_repeat_ngram=1), excluded=[5])
    chosen = {sampler.choose(logits_V, history, Noise(np.random.default_rng(seed))) for seed in range(200)}
    assert len(chosen) > 5
    assert 5 not in chosen


@settings(deadline=None)
@given(IDS, IDS, SEEDS, st.floats(-2, 2), st.floats(-2, 2))
def test_occurrence_penalties_count_generated_tokens_only(
    prompt: list[int], generated: list[int], seed: int, presence: float, frequency: float
) -> None:
    logits_V, counts = logits_of(seed), Counter(generated)
    expected_V = [logit - (presence + frequency * counts[id_]) * (id_ in counts) for id_, logit in enumerate(logits_V)]
    changed_V = transformed(OccurrencePenalty(presence, frequency), logits_V, history_of(prompt, generated))
    np.testing.assert_allclose(changed_V, expected_V, rtol=1e-12, atol=1e-12)


def test_biases_are_added_and_excluded_ids_get_no_probability() -> None:
    logits_V, history = logits_of(1), history_of([1], [2])
    expected_V = logits_V.copy()
    expected_V[[3, 7]] += [2.5, -1]
    np.testing.assert_array_equal(transformed(LogitBias({3: 2.5, 7: -1.0}), logits_V, history), expected_V)
    expected_V = logits_V.copy()
    expected_V[4] = -np.inf
    np.testing.assert_array_equal(transformed(Exclude([4]), logits_V, history), expected_V)


@settings(deadline=None)
@given(SEEDS, st.floats(0.01, 0.99), st.integers(1, 14))
def test_filters_equal_those_of_transformers(seed: int, p: float, k: int) -> None:
    logits_V = logits_of(seed)
    pairs: list[tuple[Filter, Any]] = [
        (TopK(k), TopKLogitsWarper(k)),
        (TopP(p), TopPLogitsWarper(p)),
        (MinP(p), MinPLogitsWarper(p)),
        (Typical(p), TypicalLogitsWarper(p)),
    ]
    for filter_, warper in pairs:
        np.testing.assert_array_equal(filtered(filter_, logits_V), processed(warper, logits_V, [0]), str(filter_))


@settings(deadline=None)
@given(SEEDS, st.floats(0.01, 1))
def test_filters_equal_their_definitions(seed: int, p: float) -> None:
    logits_V = logits_of(seed)
    probabilities_V = np.exp(logits_V) / np.exp(logits_V).sum()

    def smallest_set(order: list[int]) -> set[int]:
        count = next(n for n in range(1, VOCABULARY + 1) if n == VOCABULARY or probabilities_V[order[:n]].sum() >= p)
        return set(order[:count])

    entropy = -(probabilities_V * np.log(probabilities_V)).sum()
    distances_V = abs(-np.log(probabilities_V) - entropy)
    expected: dict[Any, set[int]] = {
        TopP(p): smallest_set(sorted(range(VOCABULARY), key=lambda id_: -probabilities_V[id_])),
        Typical(p): smallest_set(sorted(range(VOCABULARY), key=lambda id_: distances_V[id_])),
        MinP(p): set(np.flatnonzero(probabilities_V >= p * probabilities_V.max()).tolist()),
    }
    for filter_, ids in expected.items():
        assert set(np.flatnonzero(np.isfinite(filtered(filter_, logits_V))).tolist()) == ids, filter_


def test_a_composition_is_applied_in_the_documented_order() -> None:
    logits_V, history = logits_of(3), history_of([1, 2, 3], [4, 1, 2, 3])
    options = {
        "logit_bias": {"3": 1.5}, "repetition_penalty": 1.4, "presence_penalty": 0.3, "frequency_penalty": 0.2,
        "no_repeat_ngram": 2, "temperature": 0.7, "top_k": 8, "top_p": 0.9, "min_p": 0.02, "typical_p": 0.8,
    }  # fmt: skip
    expected_V = logits_V.copy()
    for transform in (
        Exclude([5]), LogitBias({3: 1.5}), RepetitionPenalty(1.4), OccurrencePenalty(0.3, 0.2), NoRepeatNgram(2)
    ):  # fmt: skip
        transform(expected_V, history)
    probabilities_V = np.exp((expected_V - expected_V.max()) / 0.7)
    for filter_ in (TopK(8), TopP(0.9), MinP(0.02), Typical(0.8)):
        filter_(probabilities_V)
    probabilities_V /= probabilities_V.sum()
    sampler, count = Sampler(build(Sampling, options), excluded=[5]), 4000
    chosen = [sampler.choose(logits_V, history, Noise(np.random.default_rng([1, seed]))) for seed in range(count)]
    frequencies_V = np.bincount(chosen, minlength=VOCABULARY) / count
    assert not frequencies_V[probabilities_V == 0].any()
    np.testing.assert_allclose(frequencies_V, probabilities_V, atol=4 * math.sqrt(0.25 / count))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("temperature", [1e-300, 1e-40, 1e-5])
def test_a_temperature_close_to_zero_is_greedy(dtype: type, temperature: float) -> None:
    logits_V: Logits = logits_of(0).astype(dtype)
    sampler = Sampler(Sampling(temperature=temperature))
    assert sampler.choose(logits_V, history_of([], []), Noise(np.random.default_rng(0))) == logits_V.argmax()


def test_the_last_ids_of_a_history_span_prompt_and_continuation() -> None:
    for prompt, generated in (([], []), ([1, 2, 3], []), ([], [4, 5]), ([1, 2, 3], [4, 5])):
        history, ids = history_of(prompt, generated), prompt + generated
        for count in range(7):
            assert history.last(count) == ids[len(ids) - count if count < len(ids) else 0 :]
