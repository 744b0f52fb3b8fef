"""Runs of networks: training, interrupting, resuming and loading, with the API and the command line."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import satchel
from satchel import api
from satchel.cli.main import run as run_command
from satchel.errors import RunError, SettingsError
from tests.conftest import VERSE

SMALL = {"model.width": 16, "model.heads": 2, "model.layers": 1, "model.context": 16, "training.batch_tokens": 128}


def train(text: Path, out: Path, **options: Any) -> Any:
    """Train a small character Transformer."""
    settings = {**SMALL, "training.evaluate_every": 5, "training.checkpoint_every": 7, **options.pop("settings", {})}
    return satchel.train(text, model="transformer", tokenizer="char", out=out, settings=settings, **options)


def test_a_trained_network_evaluates_scores_and_generates(verse: Path, tmp_path: Path) -> None:
    model = train(verse, tmp_path / "run", steps=60, settings={"training.learning_rate": 0.02})
    assert (model.report.steps, model.report.stopped) == (60, "finished")
    assert model.report.valid.nats_per_token < 2.9
    loaded = satchel.load(tmp_path / "run", task="lm")
    assert loaded.evaluate() == model.report.valid
    assert (loaded.evaluate(verse).bits_per_byte or 0) > 0
    assert len(loaded.score("The cat").logprobs) == 7
    assert loaded.generate("The ", tokens=30, seed=0).text == model.generate("The ", tokens=30, seed=0).text
    assert sum(loaded.next("The", top=100).probabilities) == pytest.approx(1, rel=1e-6)
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().strip().split("\n")]
    assert [line["step"] for line in lines] == list(range(5, 61, 5))


@pytest.mark.parametrize("kind", ["dan", "window", "rnn", "gru", "lstm"])
def test_every_kind_of_network_can_be_trained_and_loaded(kind: str, verse: Path, tmp_path: Path) -> None:
    settings = {"model.width": 16, "data.documents": "line"}
    model = satchel.train(verse, model=kind, tokenizer="char", steps=3, settings=settings, out=tmp_path / "run")
    assert model.report is not None
    assert satchel.load(tmp_path / "run").evaluate() == model.report.valid


def test_a_resumed_run_equals_an_uninterrupted_one_to_the_bit(verse: Path, tmp_path: Path) -> None:
    train(verse, tmp_path / "uninterrupted", steps=20)
    steps = iter(range(1, 100))
    planned = api.plan(
        verse,
        model="transformer",
        tokenizer="char",
        steps=20,
        settings={**SMALL, "training.evaluate_every": 5, "training.checkpoint_every": 7},
    )
    stopped = api.run_plan(planned, out=tmp_path / "resumed", should_stop=lambda: next(steps) == 9)
    assert stopped.report is not None
    assert (stopped.report.steps, stopped.report.stopped) == (9, "interrupted")
    resumed: Any = api.resume(tmp_path / "resumed")
    assert resumed.report.steps == 20
    for name in ("model.safetensors", "checkpoints/step-0000000020/model.safetensors", "config.json"):
        assert (tmp_path / "uninterrupted" / name).read_bytes() == (tmp_path / "resumed" / name).read_bytes()
    again: Any = api.resume(tmp_path / "resumed")
    assert "the training was complete at step 20" in again.report.reasons[-1]
    assert (again.report.steps, again.report.valid) == (20, resumed.report.valid)


def test_invalid_options_and_runs_without_steps_are_refused(verse: Path, tmp_path: Path) -> None:
    satchel.train(verse, model="ngram", tokenizer="char", out=tmp_path / "ngram")
    with pytest.raises(RunError, match="is not trained in steps"):
        api.resume(tmp_path / "ngram")
    with pytest.raises(SettingsError, match="n-gram models have no size"):
        satchel.train(verse, model="ngram", size="nano", out=tmp_path / "x")
    with pytest.raises(SettingsError, match="expected nano, tiny"):
        satchel.train(verse, model="lstm", size="huge", out=tmp_path / "x")
    with pytest.raises(SettingsError, match="expected steps or epochs, not both"):
        satchel.train(verse, model="lstm", steps=3, epochs=1, out=tmp_path / "x")
    with pytest.raises(SettingsError, match="found 'lstms', expected ngram, dan, window"):
        satchel.train(verse, model="lstms", out=tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_a_training_ends_with_the_first_of_steps_and_minutes(verse: Path, tmp_path: Path) -> None:
    for name, steps, minutes, expected in (("steps", 3, 10, "finished"), ("time", 10**6, 1e-3, "time")):
        report = train(verse, tmp_path / name, steps=steps, minutes=minutes).report
        assert report is not None
        assert report.stopped == expected
        assert report.steps <= steps
        lines = (tmp_path / name / "metrics.jsonl").read_text().splitlines()
        assert json.loads(lines[-1])["step"] == report.steps, "the last step is validated"


def test_a_given_training_length_replaces_that_of_the_recipe(verse: Path, tmp_path: Path) -> None:
    recipe = tmp_path / "custom.toml"
    recipe.write_text("[model]\nkind = 'lstm'\nwidth = 8\n[training]\nminutes = 0.1\nlearning_rate = 1e-3\n")

    def plan(**options: Any) -> Any:
        return api.plan(verse, recipe=recipe, **options).settings.training

    by_option, by_setting = plan(steps=7), plan(settings={"training.epochs": 2})
    assert (by_option.steps, by_option.minutes, by_option.learning_rate) == (7, None, 1e-3)
    assert (by_setting.epochs, by_setting.minutes) == (2, None)
    assert plan().minutes == 0.1


def test_runs_that_differ_in_more_than_the_seed_are_not_grouped(verse: Path, tmp_path: Path) -> None:
    for name, seed, steps in (("a", 0, 3), ("b", 1, 3), ("c", 2, 4)):
        train(verse, tmp_path / name, seed=seed, steps=steps)
    comparison = api.compare([tmp_path / name for name in "abc"], verse)
    assert [group.runs for group in comparison.groups] == [(str(tmp_path / "a"), str(tmp_path / "b"))]


def test_resuming_reports_a_damaged_checkpoint(verse: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    steps = iter(range(1, 100))
    settings = {**SMALL, "training.checkpoint_every": 7}
    planned = api.plan(verse, model="transformer", tokenizer="char", steps=20, settings=settings)
    api.run_plan(planned, out=tmp_path / "run", should_stop=lambda: next(steps) == 9)
    (tmp_path / "run" / "checkpoints" / "step-0000000009" / "progress.json").write_bytes(b"")
    assert run_command(["train", "--resume", str(tmp_path / "run")]) == 0
    assert "skipped a damaged checkpoint: step-0000000009" in capsys.readouterr().err


def start(text: Path, out: Path) -> "subprocess.Popen[str]":
    """Start a training of 4,000 steps in a new process."""
    sets = [f"--set={key}={value}" for key, value in {**SMALL, "training.checkpoint_every": 20}.items()]
    command = [sys.executable, "-m", "satchel", "train", str(text), "--model", "transformer", "--tokenizer", "char"]
    command += ["--steps", "4000", *sets, "-o", str(out)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for(path: Path) -> None:
    """Wait until a path exists."""
    deadline = time.monotonic() + 60
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert path.exists()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_saves_a_checkpoint_and_prints_how_to_resume(number: int, code: int, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text(VERSE * 5)
    process = start(tmp_path / "text.txt", tmp_path / "run")
    wait_for(tmp_path / "run" / "checkpoints" / "step-0000000020")
    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == code
    assert f"satchel train --resume {tmp_path / 'run'}" in stderr
    assert "steps" in stdout
    assert "held out" not in stdout  # no final evaluation after a signal
    assert satchel.load(tmp_path / "run", task="lm").evaluate().tokens > 0


def test_a_run_cannot_be_trained_twice_at_once_and_resumes_from_its_last_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text(VERSE * 5)
    process = start(tmp_path / "text.txt", tmp_path / "run")
    wait_for(tmp_path / "run" / "checkpoints" / "step-0000000020")
    with pytest.raises(RunError, match="is being trained by another process"):
        api.resume(tmp_path / "run")
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    steps = iter(range(1, 100))
    resumed = api.resume(tmp_path / "run", should_stop=lambda: next(steps) == 3)
    assert resumed.report is not None
    assert resumed.report.steps % 20 == 3


def test_the_former_name_of_a_setting_is_accepted_with_a_note(verse: Path, tmp_path: Path) -> None:
    planned = api.plan(verse, model="transformer", steps=2, settings={"training.parts": 3, **SMALL})
    assert planned.settings.training.accumulate == 3  # type: ignore[attr-defined]
    assert "training.parts: renamed to training.accumulate" in planned.reasons
    (tmp_path / "old.toml").write_text("[model]\nkind = 'gru'\n[training]\nparts = 2\nsteps = 2\n")
    from_file = api.plan(verse, recipe=tmp_path / "old.toml")
    assert from_file.settings.training.accumulate == 2  # type: ignore[attr-defined]
    with pytest.raises(SettingsError, match="both are set"):
        api.plan(verse, model="gru", steps=2, settings={"training.parts": 3, "training.accumulate": 3})


def test_a_saved_run_with_the_former_name_of_a_setting_is_loaded_and_resumed(verse: Path, tmp_path: Path) -> None:
    steps = iter(range(1, 100))
    planned = api.plan(verse, model="gru", tokenizer="char", steps=4, settings={"model.width": 8})
    api.run_plan(planned, out=tmp_path / "run", should_stop=lambda: next(steps) == 2)
    path, manifest = tmp_path / "run" / "config.json", tmp_path / "run" / "manifest.json"
    config = path.read_bytes().replace(b'"accumulate"', b'"parts"')
    path.write_bytes(config)
    files = json.loads(manifest.read_text())
    files["files"]["config.json"] = {"size": len(config), "sha256": hashlib.sha256(config).hexdigest()}
    manifest.write_text(json.dumps(files))
    assert satchel.load(tmp_path / "run", task="lm").settings.training.accumulate == 1  # type: ignore[attr-defined]
    resumed = api.resume(tmp_path / "run")
    assert resumed.report is not None
    assert resumed.report.steps == 4
