"""Encoder-decoder models by hand: the numbers of the lesson, and the same from the recurrent pair of the package."""

import math
from typing import Any

import pytest
import torch

from satchel.lessons.arithmetic import attend
from satchel.lessons.encoder_decoder import OUTPUT, REDUCTIONS, STATES, encoder_decoder, predict
from satchel.models.recurrent_pair import RecurrentMemory, RecurrentPair, RecurrentPairSettings
from tests.lessons.lookup import Lookup

lookup = Lookup(encoder_decoder)
step, matrix = lookup.step, lookup.matrix


def memory(states: Any, pair: RecurrentPair) -> RecurrentMemory:
    keep = torch.ones(states.shape[:2], dtype=torch.bool)
    return RecurrentMemory(states, keep, pair._summary(states, keep))


@pytest.mark.item(38)
@pytest.mark.parametrize("summary", ["mean", "max"])
def test_the_reductions_equal_those_of_the_package(summary: Any) -> None:
    pair = RecurrentPair(RecurrentPairSettings(width=2, attention="none", summary=summary), 3, 3)
    states = torch.tensor([STATES], dtype=torch.float)
    expected = torch.tensor([[float(number) for number in REDUCTIONS[summary](STATES)]])
    torch.testing.assert_close(memory(states, pair).summary_BD, expected)


@pytest.mark.item(38)
def test_the_last_state_of_a_bidirectional_encoder_is_the_end_of_each_direction() -> None:
    pair = RecurrentPair(RecurrentPairSettings(width=2, attention="none", summary="last"), 3, 3)
    states = torch.tensor([[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]])
    torch.testing.assert_close(memory(states, pair).summary_BD, torch.tensor([[5.0, 2.0]]))
    assert [float(number) for number in REDUCTIONS["last"](STATES)] == [1, 1]


@pytest.mark.item(39, 40, 41)
def test_the_context_vector_equals_that_of_the_package() -> None:
    pair = RecurrentPair(RecurrentPairSettings(width=2, attention="dot"), 3, 3)
    states = torch.tensor([STATES], dtype=torch.float)
    for query in ((2, 0), (0, 2), (-1, 3)):
        (scores,), (weights,), (context,) = attend([query], STATES, STATES)
        assert [float(score) for score in scores] == [2 * query[0], query[1], sum(query)]
        powers = [math.exp(score) for score in scores]
        assert [float(weight) for weight in weights] == pytest.approx([power / sum(powers) for power in powers])
        expected = pair._attend(torch.tensor([[query]], dtype=torch.float), memory(states, pair))
        torch.testing.assert_close(expected[0, 0], torch.tensor([float(number) for number in context]))


@pytest.mark.item(40, 41)
def test_the_query_is_the_previous_or_the_current_decoder_state() -> None:
    assert matrix("a_ij", query="current").values == ((0, 2, 2),)
    assert matrix("a_ij", query="previous").values == ((4, 0, 2),)
    torch.manual_seed(0)
    for query, context_ignores_current_word in (("current", False), ("previous", True)):
        pair = RecurrentPair(RecurrentPairSettings(width=4, attention="dot", query=query), 5, 5)  # type: ignore[arg-type]
        read = pair.read(torch.tensor([[1, 2, 3]]))
        with torch.no_grad():
            one, other = (pair.encode(torch.tensor([[word, 2]]), read)[0, 0, 4:] for word in (1, 3))
        # The first context vector depends on the first word only if the query is the current state.
        assert torch.equal(one, other) == context_ignores_current_word


@pytest.mark.item(42)
def test_the_prediction_uses_the_decoder_state_and_the_context_vector() -> None:
    state, context = (0, 2), (1, 1)
    logits, chances = predict(state, context)
    expected = torch.tensor(OUTPUT, dtype=torch.float) @ torch.tensor([*state, *context], dtype=torch.float)
    assert [float(logit) for logit in logits] == expected.tolist()
    assert [float(chance) for chance in chances] == pytest.approx(expected.softmax(dim=0).tolist())


def test_the_context_vector_of_a_longer_source_has_the_same_size() -> None:
    assert step("The bottleneck").answer == (2,)
