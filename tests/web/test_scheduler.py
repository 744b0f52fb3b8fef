"""The scheduler of a generation worker: requests join a batch together and leave it independently."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import satchel
from satchel.web.scheduler import Scheduler


def request(prompt: str, tokens: int) -> dict[str, Any]:
    options = {"tokens": tokens, "temperature": 0.0}
    return {
        "prompt": prompt,
        "options": options,
        "generate": True,
        "echo": False,
        "refuse_long": True,
        "unique": True,
    }


def finished(scheduler: Scheduler) -> dict[int, dict[str, Any]]:
    """Return the last event of each request."""
    last: dict[int, dict[str, Any]] = {}
    while not scheduler.is_idle:
        last |= dict(scheduler.step())
    return last


@pytest.fixture
def model(root: Path) -> Any:
    return satchel.load(root / "runs" / "transformer", task="lm")


def test_waiting_requests_join_together_with_the_results_of_single_ones(model: Any) -> None:
    prompts = ["The cat", "The dog sat on", "The"]
    alone = []
    for prompt in prompts:
        scheduler = Scheduler()
        scheduler.start(1, model, request(prompt, 6))
        alone.append(finished(scheduler)[1]["end"]["samples"])
    scheduler = Scheduler()
    for id_, prompt in enumerate(prompts):
        scheduler.start(id_, model, request(prompt, 6))
    assert {id_ for id_, _ in scheduler.step()} == {0, 1, 2}
    last = finished(scheduler)
    assert [last[id_]["end"]["samples"] for id_ in range(3)] == alone


def test_a_request_can_be_cancelled_before_its_first_step(model: Any) -> None:
    scheduler = Scheduler()
    scheduler.start(1, model, request("The cat", 3))
    scheduler.start(2, model, request("The dog", 3))
    scheduler.cancel(1)
    assert {id_ for id_, _ in scheduler.step()} == {2}
    assert set(finished(scheduler)) == {2}
    scheduler.start(3, model, request("The cat", 3))
    scheduler.cancel(3)
    assert scheduler.is_idle
    assert list(scheduler.step()) == []


def test_an_error_of_a_batch_ends_its_requests_once_and_no_others(root: Path, model: Any) -> None:
    broken = satchel.load(root / "runs" / "transformer", task="lm")
    scheduler = Scheduler()
    scheduler.start(1, broken, request("The cat", 3) | {"options": {"tokens": 3, "samples": 2}})
    list(scheduler.step())
    for parameter in broken.network.parameters():
        parameter.data.fill_(np.nan)
    scheduler.start(2, broken, request("The dog", 3))
    scheduler.start(3, model, request("The dog", 2))
    events = list(scheduler.step())
    assert [id_ for id_, event in events if "error" in event] == [1, 2]
    assert set(finished(scheduler)) == {3}
    scheduler.start(4, model, request("The cat", 2))
    assert "end" in finished(scheduler)[4]
