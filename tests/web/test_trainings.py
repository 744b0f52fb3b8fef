"""Trainings of the server: started, observed, stopped, resumed, saved at the end of the server; runs and data."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from satchel.runs import checkpoint, listing
from tests.conftest import VERSE
from tests.web import client
from tests.web.client import Server

SETTINGS = {"model.width": 16, "model.layers": 1, "model.heads": 2, "model.context": 32, "training.threads": 1}
SETTINGS |= {"training.evaluate_every": 5, "model.ngram": 0}
NETWORK: dict[str, Any] = {"data": "data/verse.txt", "model": "transformer", "tokenizer": "char", "valid": 0.1}
NETWORK |= {"steps": 1_000_000, "settings": SETTINGS}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with data and without runs."""
    data = tmp_path / "data"
    (data / "more").mkdir(parents=True)
    for name in ("verse.txt", ".hidden.txt", "more/verse.txt"):
        (data / name).write_text(VERSE * 20, encoding="utf-8")
    (data / "link.txt").symlink_to(data / "verse.txt")
    return tmp_path


@pytest.fixture
def server(folder: Path) -> Iterator[Server]:
    """A server of this folder."""
    running = client.start(folder, "--root", folder / "runs", "--data", folder / "data")
    yield running
    if running.process.poll() is None:
        assert running.stop() == 0


def _answer(server: Server, operation: str, **body: Any) -> Any:
    reply = server.post(f"/api/{operation}", body)
    assert reply.status == 200, reply.content
    return reply.json


def _watch(server: Server, run: str, step: int | None, **offsets: int) -> dict[str, Any]:
    """Return the event with the first measurement after a step, or the last event of the training."""
    connection, response = server.open_stream("/api/runs/metrics", {"run": run, "follow": True, **offsets})
    last: dict[str, Any] = {}
    try:
        for last in client.events(response):
            if step is not None and any(entry.get("step", 0) > step for entry in last["metrics"]):
                break
        return last
    finally:
        connection.close()


def test_a_training_is_started_observed_stopped_resumed_and_saved(server: Server, folder: Path) -> None:
    plan = _answer(server, "plan", **NETWORK)
    assert plan["settings"]["training"]["steps"] == 1_000_000
    assert plan["estimates"]["parameters"] > 0
    assert "--dry-run" in plan["terminal"]
    started = _answer(server, "runs/start", run="group/first", **NETWORK)
    assert started["status"] == "running"
    assert "--out=runs/group/first" in started["terminal"]
    assert "satchel.train('data/verse.txt'" in started["python"]

    # One training at a time, which can neither be deleted nor resumed.
    for operation, body in (
        ("start", {"run": "second", **NETWORK}),
        ("resume", {"run": "group/first"}),
        ("delete", {"run": "group/first", "confirm": "group/first"}),
    ):
        client.wait_until(lambda: (folder / "runs/group/first/config.json").exists())
        assert server.post(f"/api/runs/{operation}", body).status == 409, operation
    event = _watch(server, "group/first", 0)
    assert event["training"]["status"] == "running"
    assert {"step", "valid_loss"} <= set().union(*event["metrics"])
    (listed,) = _answer(server, "runs/list")["runs"]
    assert (listed["run"], listed["status"], listed["task"]) == ("group/first", "training", "lm")

    assert _answer(server, "runs/stop", run="group/first")["status"] == "stopping"
    last = _watch(server, "group/first", None)["training"]
    assert (last["status"], last["result"]["stopped"]) == ("stopped", "interrupted")
    assert server.post("/api/runs/stop", {"run": "group/first"}).status == 409
    stopped_at = _step(folder / "runs/group/first")
    assert stopped_at > 0
    assert _answer(server, "generate", run="group/first", tokens=3)["samples"]

    assert _answer(server, "runs/resume", run="group/first")["status"] == "running"
    _watch(server, "group/first", stopped_at)
    assert server.stop() == 0
    assert _step(folder / "runs/group/first") > stopped_at
    summary = listing.summarise("first", folder / "runs/group/first")
    assert summary is not None
    assert summary.status == "interrupted"


def _step(run: Path) -> int:
    """Return the step of the last checkpoint."""
    return int(checkpoint.folders(run)[-1].name.rpartition("-")[2])


def test_a_finished_training_has_a_result_and_its_run_can_be_used_and_deleted(server: Server, folder: Path) -> None:
    assert server.post("/api/runs/metrics", {"run": "counts"}).status == 404
    _answer(server, "runs/start", run="counts", data="data/more/verse.txt", model="ngram", valid=0.1)
    last = _watch(server, "counts", None)["training"]
    assert last["status"] == "finished"
    assert last["result"]["task"] == "lm"
    assert _answer(server, "score", run="counts", text="The cat")["tokens"]
    listed = _answer(server, "runs/list")
    assert listed["training"]["run"] == "counts"
    assert listed["runs"][0]["metric"] == "bits_per_byte"
    assert server.post("/api/runs/start", {"run": "counts", "data": "@counting"}).status == 409
    assert _answer(server, "runs/delete", run="counts", confirm="counts")["bytes"] > 0
    assert not (folder / "runs/counts").exists()
    assert _answer(server, "runs/list")["runs"] == []


def test_a_training_that_fails_states_its_error(server: Server) -> None:
    _answer(server, "runs/start", run="films", data="data/verse.txt", task="classify")
    last = _watch(server, "films", None)["training"]
    assert last["status"] == "failed"
    assert "verse.txt" in last["error"]


def test_data_files_are_listed_by_id_and_links_and_hidden_files_are_not(server: Server) -> None:
    listed = {entry["name"]: entry for entry in _answer(server, "data")["data"]}
    assert {name for name in listed if not name.startswith("@")} == {"data/verse.txt", "data/more/verse.txt"}
    assert listed["data/verse.txt"]["bytes"] == len(VERSE * 20)
    assert {"@counting", "@python-docs"} <= set(listed)
    assert _answer(server, "data", data="data/verse.txt")["bytes_on_disk"] == len(VERSE * 20)
    for name in ("data/link.txt", "data/.hidden.txt", "data/../data/verse.txt", "/etc/passwd", "data"):
        assert server.post("/api/data", {"data": name}).status == 404, name


def test_lists_state_their_commands(server: Server) -> None:
    lessons = _answer(server, "lessons")["lessons"]
    assert {"name", "title", "source"} == set(lessons[0])
    assert _answer(server, "models")["models"] == []
    groups = _answer(server, "settings")["groups"]
    width = next(each for group in groups for each in group["settings"] if each["key"] == "model.width")
    assert width["minimum"] >= 1
    assert {"key", "default", "description", "type"} <= set(width)
