"""Trainings whose run folder is replaced, moved, deleted or damaged, and trainings stopped during a validation."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import satchel
from satchel import api, tensors
from satchel.cli import main as command_line
from satchel.errors import RunError
from satchel.runs import checkpoint
from satchel.training.jobs import language as jobs
from satchel.training.jobs.language import LanguageJob
from tests.faults.system import contents, fork, wait_for
from tests.training.harness import (
    Monitor,
    checkpoints,
    copy_run,
    create_run,
    newest_step,
    outcome,
    patched,
    resume,
    temporary_files,
    write_text,
)

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="needs fork and signals"),
    pytest.mark.timeout(300),
]

SHORT: dict[str, Any] = {"steps": 6, "training.checkpoint_every": 2, "training.evaluate_every": 2}


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_text(tmp_path_factory.mktemp("text"))


@pytest.fixture(scope="module")
def untrained(text: Path) -> Iterator[Path]:
    """Return a run before its first step. Torch uses one thread, so that processes can be forked."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    with patched(jobs, "SAMPLE_TOKENS", 4):
        yield create_run(text, "dan", text.parent / "untrained", **SHORT)
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def trained(untrained: Path) -> Path:
    """Return the same run after an uninterrupted training."""
    run = copy_run(untrained, untrained.with_name("trained"))
    assert resume(run) == 0
    return run


def command(*arguments: object) -> int:
    """Run a command in this process and return its exit code."""
    return command_line.run([str(argument) for argument in arguments])


def resume_with_message(
    run: Path, messages: Path, change: Callable[[], object], save: int = 2, *, after: bool = False
) -> int:
    """Resume a run, call `change` before or after one of its saves, and write the message of a RunError to a file."""

    @contextlib.contextmanager
    def around_save(number: int) -> Iterator[None]:
        if number == save and not after:
            change()
        yield
        if number == save and after:
            change()

    try:
        return resume(run, Monitor(), around_save)
    except RunError as error:
        messages.write_text(str(error))
        return 2


# --- train --force ---------------------------------------------------------------------------------


def test_force_is_refused_while_the_run_is_trained_by_another_process(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    options = ["--steps", "1000000", "--size", "nano", "--tokenizer", "char", "-o", str(run)]
    first = [sys.executable, "-m", "satchel", "train", str(text), "--model", "dan", *options]
    assignments = ["--set", "training.checkpoint_every=2", "--set", "training.evaluate_every=1000"]
    process = subprocess.Popen([*first, *assignments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while newest_step(run) == 0:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        config = (run / "config.json").read_bytes()
        for kind in ("ngram", "dan"):
            arguments = ["--model", kind, *(["--steps", 2] if kind == "dan" else [])]
            assert command("train", text, *arguments, "--tokenizer", "char", "-o", run, "--force") == 2
            assert f"{run}: is being trained by another process" in capsys.readouterr().err
        assert (run / "config.json").read_bytes() == config
        assert os.listdir(tmp_path) == ["run"]
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 143
    finally:
        process.kill()
    assert newest_step(run) > 0
    assert command("train", text, "--model", "ngram", "--tokenizer", "char", "-o", run, "--force") == 0
    assert satchel.load(run, task="lm").settings.model.kind == "ngram"


@pytest.mark.parametrize("name", ["notes.txt", "figures/lens.svg", "tokens/notes.txt", "parts/0/x", "link"])
def test_force_keeps_files_that_satchel_did_not_write(
    name: str, trained: Path, text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = copy_run(trained, tmp_path / "run")
    (run / name).parent.mkdir(parents=True, exist_ok=True)
    if name == "link":
        (run / name).symlink_to(text)
    else:
        (run / name).write_bytes(b"mine")
    before = contents(run)
    assert command("train", text, "--model", "ngram", "-o", run, "--force") == 2
    assert f"contains files that satchel did not write and does not delete: {name}" in capsys.readouterr().err
    assert contents(run) == before


def test_force_replaces_a_run_with_checkpoints_and_remains_of_a_killed_save(
    trained: Path, text: Path, tmp_path: Path
) -> None:
    run = copy_run(trained, tmp_path / "run")
    shutil.copytree(run / checkpoint.FOLDER, run / checkpoint.FOLDER / ".step-0000000009.partial" / "new")
    (run / ".model.safetensors.partial").write_bytes(b"x")
    assert command("train", text, "--model", "ngram", "--tokenizer", "char", "-o", run, "--force") == 0
    assert not (run / checkpoint.FOLDER).exists()


# --- moved, deleted and replaced run folders -----------------------------------------------------------


def test_a_training_whose_folder_is_moved_stops_and_saves_there(untrained: Path, trained: Path, tmp_path: Path) -> None:
    run, moved, messages = copy_run(untrained, tmp_path / "run"), tmp_path / "moved here", tmp_path / "messages"
    assert wait_for(fork(partial(resume_with_message, run, messages, lambda: run.rename(moved)))) == 2
    assert not run.exists()
    message = messages.read_text()
    assert f"{run}: was moved during the training, which stopped and was saved at step 4 in {moved}" in message
    assert f"satchel train --resume '{moved}'" in message
    assert newest_step(moved) == 4
    assert resume(moved) == 0
    assert outcome(moved) == outcome(trained)


def test_a_validation_after_the_folder_was_moved_is_written_there(
    untrained: Path, trained: Path, tmp_path: Path
) -> None:
    run, moved, messages = copy_run(untrained, tmp_path / "run"), tmp_path / "moved", tmp_path / "messages"
    move = partial(resume_with_message, run, messages, lambda: run.rename(moved), save=1, after=True)
    assert wait_for(fork(move)) == 2
    assert newest_step(moved) == 4
    assert resume(moved) == 0
    assert outcome(moved) == outcome(trained)


@pytest.mark.parametrize("kind", ["deleted", "replaced", "emptied"])
def test_a_training_whose_folder_is_deleted_stops_and_writes_the_model_beside_it(
    kind: str, untrained: Path, tmp_path: Path
) -> None:
    run, messages = copy_run(untrained, tmp_path / "run"), tmp_path / "messages"

    def delete() -> None:
        if kind == "emptied":
            (run / "config.json").unlink()
            return
        shutil.rmtree(run)
        if kind == "replaced":
            copy_run(untrained, run)

    assert wait_for(fork(partial(resume_with_message, run, messages, delete))) == 2
    recovered = tmp_path / "run-recovered"
    assert f"the model of step 4 is in {recovered}" in messages.read_text()
    assert sorted(os.listdir(tmp_path)) == sorted(
        {"messages", "run-recovered", *(["run"] if kind != "deleted" else [])}
    )
    if kind == "replaced":
        assert contents(run) == contents(untrained)
    model = satchel.load(recovered, task="lm")
    assert np.isfinite(model.score("The cat").logprobs).all()
    assert tensors.read_header(recovered / "model.safetensors")[1]["step"] == "4"


def test_a_second_recovered_model_gets_another_name(untrained: Path, tmp_path: Path) -> None:
    run, messages = copy_run(untrained, tmp_path / "run"), tmp_path / "messages"
    (tmp_path / "run-recovered").mkdir()
    assert wait_for(fork(partial(resume_with_message, run, messages, lambda: shutil.rmtree(run)))) == 2
    assert os.listdir(tmp_path / "run-recovered") == []
    assert satchel.load(tmp_path / "run-recovered-1").report is None


# --- resuming ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["header", "arrays", "truncated", "missing"])
def test_a_run_with_a_damaged_model_file_is_resumed_from_its_checkpoints(
    damage: str, untrained: Path, trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = copy_run(untrained, tmp_path / "run")
    assert resume(run, should_stop=iter([False] * 3 + [True]).__next__) == 0
    path = run / "model.safetensors"
    data = bytearray(path.read_bytes())
    data[20 if damage == "header" else -9] ^= 1
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(data[:-40] if damage == "truncated" else data)
    with pytest.raises(RunError):
        satchel.load(run)
    assert command("train", "--resume", run) == 0
    assert "it is written again from the checkpoints" in capsys.readouterr().err
    assert outcome(run) == outcome(trained)


def test_a_run_that_was_killed_after_its_last_save_is_resumed_to_its_report(
    untrained: Path, trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = copy_run(untrained, tmp_path / "run")
    kill = patched(
        satchel.LanguageModel, "evaluate", lambda *arguments, **options: os.kill(os.getpid(), signal.SIGKILL)
    )

    def killed() -> None:
        with kill:
            resume(run)

    assert wait_for(fork(killed)) == -signal.SIGKILL
    assert newest_step(run) == SHORT["steps"]
    assert command("train", "--resume", run) == 0
    captured = capsys.readouterr()
    assert "validation" in captured.out
    assert "the training was complete at step 6: no further step is trained" in captured.err
    assert outcome(run) == outcome(trained)


def test_a_training_stopped_by_patience_is_not_continued_by_resuming_it(text: Path, tmp_path: Path) -> None:
    settings = {"model.width": 12, "training.evaluate_every": 1, "training.patience": 1, "training.learning_rate": 5.0}
    model = satchel.train(text, model="dan", tokenizer="char", steps=50, settings=settings, out=tmp_path / "run")
    assert model.report is not None
    assert model.report.stopped == "patience"
    again = api.resume(tmp_path / "run")
    assert again.report is not None
    assert (again.report.steps, again.report.stopped) == (model.report.steps, "patience")


# --- signals -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["validate", "loss"])
def test_a_signal_during_a_long_validation_or_step_saves_and_exits_within_5_seconds(
    place: str, untrained: Path, trained: Path, tmp_path: Path
) -> None:
    run = copy_run(untrained, tmp_path / "run")
    started = tmp_path / "started"

    def endless(*arguments: object) -> None:
        started.touch()
        while True:
            time.sleep(0.01)

    def interrupted() -> int:
        with patched(LanguageJob, place, endless), patched(sys, "argv", ["satchel", "train", "--resume", str(run)]):
            try:
                command_line.main()
            except SystemExit as exit_:
                return int(exit_.code or 0)

    child = fork(interrupted)
    deadline = time.monotonic() + 60
    while not started.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    began = time.monotonic()
    os.kill(child, signal.SIGTERM)
    assert wait_for(child) == 143
    assert time.monotonic() - began < 5
    assert newest_step(run) == (2 if place == "validate" else 0)
    assert temporary_files(run) == []
    assert resume(run) == 0
    assert outcome(run) == outcome(trained)
    assert [path.name for path in checkpoints(run)] == [path.name for path in checkpoints(trained)]


def test_a_signal_during_the_final_evaluation_ends_the_command(untrained: Path, tmp_path: Path) -> None:
    run = copy_run(untrained, tmp_path / "run")

    def evaluate(*arguments: object, **options: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        while True:
            time.sleep(0.01)

    def interrupted() -> int:
        with (
            patched(satchel.LanguageModel, "evaluate", evaluate),
            patched(sys, "argv", ["satchel", "train", "--resume", str(run)]),
        ):
            try:
                command_line.main()
            except SystemExit as exit_:
                return int(exit_.code or 0)

    began = time.monotonic()
    assert wait_for(fork(interrupted)) == 130
    assert time.monotonic() - began < 5
    assert newest_step(run) == SHORT["steps"]
