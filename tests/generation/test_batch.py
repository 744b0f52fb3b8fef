"""Decoding of a batch: rows are independent, in float64 exactly; transforms, log-probabilities and ends."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from satchel.config import build
from satchel.generation.batch import Continuation, DecodingBatch, Request, generate_tokens
from satchel.generation.decoding import continue_text
from satchel.generation.sampling import Sampling
from satchel.predictor import Ids, Predictor
from satchel.text.tokenizer import Tokenizer
from tests.decoders import next_logprobs, stepwise_logprobs
from tests.tasks.test_decoding import END, gated, mix, network, table
from tests.text.samples import train

PREDICTORS: dict[str, Callable[[], Predictor]] = {
    "trigram": table,
    "rotary": lambda: network("rotary"),
    "gated transformer": lambda: gated("learned"),
    "gated backpack": lambda: gated("backpack"),
    "gated lstm": lambda: gated("lstm"),
    "mixture": mix,
}


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    """A tokenizer with one id for each id of the predictors."""
    tokenizer = train("char", "abcdefghi" * 3)
    assert tokenizer.boundary == END
    return tokenizer


def request(seed: int, **options: Any) -> Request:
    """Return a request with random options, and a prompt that may be longer than the context of 16 tokens."""
    rng = np.random.default_rng(seed)
    prompt = rng.integers(1, END, rng.choice([0, 1, 5, 15, 16, 30]))
    choices: list[dict[str, Any]] = [
        {"greedy": True},
        {"temperature": 1.5, "logprobs": 2},
        {"greedy": True, "repetition_penalty": 1.3, "no_repeat_ngram": 3},
        {"presence_penalty": 0.5, "frequency_penalty": 0.3, "top_p": 0.9},
    ]
    random = choices[int(rng.integers(4))]
    tokens = int(rng.integers(1, 40))
    return Request("", prompt, build(Sampling, {"tokens": tokens, "seed": seed, **random, **options}))


def alone(predictor: Predictor, tokenizer: Tokenizer, row: Request) -> Continuation:
    tokens = list(generate_tokens(predictor, tokenizer, [row]))
    assert [token.id for token in tokens if token.finish != "end"] == tokens[-1].continuation.ids
    assert [token.finish for token in tokens[:-1]] == [None] * (len(tokens) - 1)
    return tokens[-1].continuation


@pytest.mark.parametrize("name", PREDICTORS)
@pytest.mark.parametrize("speculative", ["auto", "on", "off"])
def test_a_continuation_does_not_depend_on_rows_that_join_or_leave(
    name: str, speculative: str, tokenizer: Tokenizer
) -> None:
    predictor = PREDICTORS[name]()
    for case in range(3):
        rng = np.random.default_rng([case, 5])
        requests = [request(seed, speculative=speculative) for seed in range(10 * case, 10 * case + 8)]
        batch, waiting, rows, removed = DecodingBatch(predictor, tokenizer), list(requests), list[Continuation](), []
        while waiting or batch.continuations:
            if waiting and rng.random() < 0.4:
                count = int(rng.integers(1, 4))
                rows += batch.add(waiting[:count])
                waiting = waiting[count:]
            if batch.continuations and rng.random() < 0.05:
                removed.append(batch.continuations[int(rng.integers(len(batch.continuations)))])
                batch.remove(removed[-1])
            batch.step()
        for row in rows:
            expected = alone(predictor, tokenizer, row.request)
            count = len(row.ids)
            assert row.ids == expected.ids[:count]
            assert row in removed or (row.finish, row.text) == (expected.finish, expected.text)
            np.testing.assert_allclose(row.logprobs, expected.logprobs[:count], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", PREDICTORS)
def test_log_probabilities_are_those_of_the_model(name: str, tokenizer: Tokenizer) -> None:
    predictor = PREDICTORS[name]()
    for speculative in ("on", "off"):
        options = {"tokens": 12, "temperature": 2.0, "top_k": 5, "logprobs": 3, "speculative": speculative}
        (sample,) = continue_text(predictor, tokenizer, "ab", build(Sampling, options))
        prompt = [END, *tokenizer.encode("ab").ids.tolist()]
        expected_T = stepwise_logprobs(predictor, [*prompt, *sample.ids])[2:]
        np.testing.assert_allclose(sample.logprobs, expected_T, rtol=1e-9, atol=1e-9)
        logprobs_V = next_logprobs(predictor, prompt)[0]
        best = np.argsort(-logprobs_V)[:3].tolist()
        assert [id_ for id_, _ in sample.alternatives[0]] == best
        np.testing.assert_allclose([logprob for _, logprob in sample.alternatives[0]], logprobs_V[best], rtol=1e-9)
        assert all(len(alternatives) == 3 for alternatives in sample.alternatives)


def reference(predictor: Predictor, prompt: Ids, tokens: int, unknown: int | None) -> list[int]:
    """Return a greedy continuation with penalties, computed from the log-probabilities of the whole text."""
    ids, generated = prompt.tolist(), list[int]()
    for _ in range(tokens):
        logits_V = next_logprobs(predictor, [END, *ids, *generated])[0]
        for id_ in {*ids, *generated}:
            logits_V[id_] *= 1.8 if logits_V[id_] < 0 else 1 / 1.8
        for id_ in set(generated):
            logits_V[id_] -= 0.7
        logits_V[unknown] = -np.inf
        generated.append(int(logits_V.argmax()))
    return generated


@pytest.mark.parametrize("name", ["trigram", "mixture", "gated lstm"])
def test_penalties_change_the_logarithms_of_probabilities(name: str, tokenizer: Tokenizer) -> None:
    predictor = PREDICTORS[name]()
    options = {"tokens": 8, "greedy": True, "repetition_penalty": 1.8, "presence_penalty": 0.7}
    for prompt in (np.array([3, 4]), np.array([], np.int64)):
        row = alone(predictor, tokenizer, Request("", prompt, build(Sampling, options)))
        expected = reference(predictor, prompt, 8, tokenizer.unknown)
        assert row.ids == expected[: len(row.ids)]
        assert row.finish == "length" or expected[len(row.ids)] == END


def test_samples_of_a_prompt_share_its_encoding_and_differ_by_their_random_numbers(tokenizer: Tokenizer) -> None:
    predictor, sampling = gated("learned"), Sampling(tokens=10, samples=5, temperature=2.0, seed=4)
    samples = continue_text(predictor, tokenizer, "abc", sampling)
    assert len({sample.ids for sample in samples}) > 1
    ids = tokenizer.encode("abc").ids
    for number, sample in enumerate(samples):
        assert alone(predictor, tokenizer, Request("abc", ids, sampling, number)).ids == list(sample.ids)


def test_a_removed_row_generates_nothing_and_an_empty_batch_has_no_tokens(tokenizer: Tokenizer) -> None:
    batch = DecodingBatch(gated("learned"), tokenizer)
    assert batch.step() == []
    assert batch.add([]) == []
    first, second = batch.add([request(1, tokens=20, greedy=True), request(2, tokens=20, greedy=True)])
    batch.step()
    batch.remove(first)
    count = len(first.ids)
    assert {token.continuation for token in batch.step()} <= {second}
    assert len(first.ids) == count
    batch.remove(second)
    assert batch.continuations == []
    assert batch.step() == []
    (third,) = batch.add([request(3, tokens=3, greedy=True)])
    while batch.continuations:
        batch.step()
    assert third.finish is not None
