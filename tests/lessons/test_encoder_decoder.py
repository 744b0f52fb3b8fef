"""Encoder and decoder by hand: the lesson's numbers, and the same from the package's recurrent pair."""

import math
from typing import Any

import pytest
import torch

from satchel.errors import SettingsError
from satchel.lessons import LESSONS
from satchel.lessons.encoder_decoder import OUTPUT, REDUCTIONS, STATES, attended, encoder_decoder, predicted
from satchel.lessons.steps import Step, is_right
from satchel.models.recurrent_pair import RecurrentMemory, RecurrentPair, RecurrentPairSettings


def step(title: str, **dials: Any) -> Step:
    (found,) = (each for each in encoder_decoder(**dials) if each.title.startswith(title))
    return found


def memory(states: Any, pair: RecurrentPair) -> RecurrentMemory:
    keep = torch.ones(states.shape[:2], dtype=torch.bool)
    return RecurrentMemory(states, keep, pair._summary(states, keep))


@pytest.mark.item(38)
@pytest.mark.parametrize("summary", ["mean", "max"])
def test_a_summary_is_what_the_package_makes_of_the_states(summary: Any) -> None:
    pair = RecurrentPair(RecurrentPairSettings(width=2, attention="none", summary=summary), 3, 3)
    states = torch.tensor([STATES], dtype=torch.float)
    expected = torch.tensor([[float(number) for number in REDUCTIONS[summary](STATES)]])
    torch.testing.assert_close(memory(states, pair).summary_BD, expected)


@pytest.mark.item(38)
def test_the_last_state_is_where_each_reader_ends() -> None:
    """Of two readers, one ends at the last word and one at the first."""
    pair = RecurrentPair(RecurrentPairSettings(width=2, attention="none", summary="last"), 3, 3)
    states = torch.tensor([[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]])
    torch.testing.assert_close(memory(states, pair).summary_BD, torch.tensor([[5.0, 2.0]]))
    assert [float(number) for number in REDUCTIONS["last"](STATES)] == [1, 1]


@pytest.mark.item(39, 40, 41)
def test_what_a_state_finds_is_what_the_package_finds() -> None:
    pair = RecurrentPair(RecurrentPairSettings(width=2, attention="dot"), 3, 3)
    states = torch.tensor([STATES], dtype=torch.float)
    for query in ((2, 0), (0, 2), (-1, 3)):
        scores, weights, context = attended(query, STATES)
        assert [float(score) for score in scores] == [2 * query[0], query[1], sum(query)]
        powers = [math.exp(score) for score in scores]
        assert [float(weight) for weight in weights] == pytest.approx([power / sum(powers) for power in powers])
        found = pair._looked_up(torch.tensor([[query]], dtype=torch.float), memory(states, pair))
        torch.testing.assert_close(found[0, 0], torch.tensor([float(number) for number in context]))


@pytest.mark.item(40, 41)
def test_the_state_before_the_word_or_the_one_with_it_looks() -> None:
    """The package's two conventions differ in the same way as the lesson's."""
    now, before = step("a_ij", query="current"), step("a_ij", query="previous")
    assert now.matrices[0].values == ((0, 2, 2),)
    assert before.matrices[0].values == ((4, 0, 2),)
    torch.manual_seed(0)
    for query, first_looks_before_reading in (("current", False), ("previous", True)):
        pair = RecurrentPair(RecurrentPairSettings(width=4, attention="dot", query=query), 5, 5)  # type: ignore[arg-type]
        read = pair.read(torch.tensor([[1, 2, 3]]))
        with torch.no_grad():
            one, other = (pair.encode(torch.tensor([[word, 2]]), read)[0, 0, 4:] for word in (1, 3))
        # What is found for the first word depends on that word only where the new state looks.
        assert torch.equal(one, other) == first_looks_before_reading


@pytest.mark.item(42)
def test_a_word_is_told_from_the_state_and_what_it_found() -> None:
    state, found = (0, 2), (1, 1)
    scores, chances = predicted(state, found)
    expected = torch.tensor(OUTPUT, dtype=torch.float) @ torch.tensor([*state, *found], dtype=torch.float)
    assert [float(score) for score in scores] == expected.tolist()
    assert [float(chance) for chance in chances] == pytest.approx(expected.softmax(dim=0).tolist())


def test_every_question_has_its_answer_and_dials_are_checked() -> None:
    lesson = LESSONS["encoder-decoder"]
    for dials in ({}, {"query": "previous", "reduction": "mean"}, {"current": (3, -1), "reduction": "max"}):
        for each in lesson.run(**dials):
            if each.question:
                said = " ".join(str(float(cell)) if not isinstance(cell, str) else cell for cell in each.answer)
                assert is_right(said, each.answer)
    with pytest.raises(SettingsError, match="current: found 1, expected 2 numbers"):
        encoder_decoder(current=(1,))
    with pytest.raises(SettingsError):
        lesson.run(query="next")


def test_a_longer_source_leaves_no_longer_summary() -> None:
    assert step("The bottleneck").answer == (2,)
