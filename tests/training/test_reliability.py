"""Trainings with kills, signals, disk errors, damaged checkpoints and invalid losses: no saved step is lost.

Tests with a number of repetitions have a short version and a slow one.
"""

import contextlib
import errno
import io
import itertools
import json
import math
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import satchel
from satchel import api, durable, tensors
from satchel.cli import main as command_line
from satchel.data.batches import seeded_rng
from satchel.errors import RunError
from satchel.runs import checkpoint
from satchel.training import callbacks, loop, saving
from satchel.training.jobs import language as jobs
from satchel.training.jobs.language import LanguageJob
from tests.faults.system import Fault, contents, error_at, faulty, fork, kill_at, wait_for
from tests.training import test_resume
from tests.training.harness import (
    EVALUATE_EVERY,
    SAVING,
    STARTING,
    STEPS,
    TRAINING,
    Interruption,
    Monitor,
    Outcome,
    SaveContext,
    checkpoints,
    copy_run,
    create_run,
    curve,
    has_enough,
    interrupt,
    is_running,
    monitored,
    newest_step,
    no_context,
    outcome,
    patched,
    random_global_seed,
    read_arrays,
    restore,
    resume,
    rewrite_arrays,
    temporary_files,
    train_with_kills,
    wait_until,
    write_text,
)

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="needs fork and signals"),
    pytest.mark.timeout(900),
]

FAMILIES = ["dan", "window", "gru", "lstm", "transformer"]


def counts(short: int, full: int) -> pytest.MarkDecorator:
    """Parametrise the number of repetitions of a test: a short version, and a slow one."""
    return pytest.mark.parametrize("count", [short, pytest.param(full, marks=pytest.mark.slow)])


class Runs:
    """Cache of runs before training and after an uninterrupted training."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.text = write_text(folder)
        self._cache: dict[str, tuple[Path, Path]] = {}

    def get(self, kind: str, **options: Any) -> tuple[Path, Path]:
        """Return an untrained run and the same run after an uninterrupted training."""
        name = "-".join([kind, *(f"{key}={value}" for key, value in sorted(options.items()))])
        if name not in self._cache:
            untrained = create_run(self.text, kind, self.folder / name, **options)
            trained = copy_run(untrained, self.folder / f"{name}, trained")
            assert resume(trained) == 0
            self._cache[name] = untrained, trained
        return self._cache[name]

    def untrained(self, kind: str, to: Path, **options: Any) -> Path:
        """Return a copy of an untrained run."""
        return copy_run(self.get(kind, **options)[0], to)

    def outcome(self, kind: str, **options: Any) -> Outcome:
        """Return the final state of an uninterrupted training."""
        return outcome(self.get(kind, **options)[1])


# Folder in memory: faster than a disk, and equivalent for a killed process.
MEMORY = Path("/dev/shm")


def temporary_folder() -> Iterator[Path]:
    """Yield a temporary folder, in memory if possible."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as name:
        yield Path(name)


@pytest.fixture(scope="module")
def runs() -> Iterator[Runs]:
    """Return the cache of runs. Torch uses one thread before the first fork: children have no other threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    # Short samples save time.
    with patched(jobs, "SAMPLE_TOKENS", 4):
        for path in temporary_folder():
            yield Runs(path)
    torch.set_num_threads(before)


@pytest.fixture
def folder() -> Iterator[Path]:
    """Return an empty folder."""
    yield from temporary_folder()


# --- kills at random times -------------------------------------------------------------------------


@pytest.mark.parametrize("kind", FAMILIES)
@counts(10, 200)
def test_a_training_with_many_kills_ends_with_the_same_bits(kind: str, count: int, runs: Runs, folder: Path) -> None:
    rng = random.Random(f"{kind} {count}")
    interruptions: list[Interruption] = []
    while not has_enough(interruptions, count):
        run = runs.untrained(kind, folder / "run")
        train_with_kills(run, rng, interruptions, count)
        assert outcome(run) == runs.outcome(kind)
    assert len({interruption.step for interruption in interruptions}) >= 4, interruptions


def shift_batches(trainer: loop.Trainer) -> None:
    """Use the batch of the following step in every step."""
    job_loss = trainer.job.loss
    trainer.job.loss = lambda step, shard, shards: job_loss(step + 1, shard, shards)  # type: ignore[method-assign]


def change_one_ulp(run: Path) -> None:
    """Change one parameter of the newest checkpoint by the smallest possible amount."""

    def change(arrays: dict[str, tensors.Array]) -> None:
        weight = arrays["encoder.embedding.weight"]
        weight[3, 3] = np.nextafter(weight[3, 3], np.float32(9))

    rewrite_arrays(checkpoints(run)[-1], checkpoint.MODEL, change)


def clear_a_moment(run: Path) -> None:
    """Set one row of an optimizer moment of the newest checkpoint to zero."""

    def change(arrays: dict[str, tensors.Array]) -> None:
        arrays["encoder.embedding.weight.exp_avg"][3] = 0

    rewrite_arrays(checkpoints(run)[-1], checkpoint.OPTIMIZER, change)


@pytest.mark.parametrize(
    "kind", ["transformer", *(pytest.param(kind, marks=pytest.mark.slow) for kind in FAMILIES[:-1])]
)
def test_the_comparison_detects_another_batch_dropout_mask_moment_or_parameter(
    kind: str, runs: Runs, folder: Path
) -> None:
    """Negative control of the comparisons of this module."""
    stopped = runs.untrained(kind, folder / "stopped")
    assert resume(stopped, should_stop=stop_after(7)) == 0
    expected = runs.outcome(kind)

    def resume_with(name: str, patch: AbstractContextManager[object], change: Callable[[Path], object]) -> Outcome:
        run = copy_run(stopped, folder / name)
        change(run)
        with patch:
            assert resume(run) == 0
        return outcome(run)

    original = loop.Trainer.run

    def run_shifted(trainer: loop.Trainer) -> loop.StopReason:
        shift_batches(trainer)
        return original(trainer)

    no_change: Callable[[Path], object] = lambda run: None  # noqa: E731
    constant_seed = patched(loop, "seeded_rng", lambda *key: seeded_rng("step", 0, 0))
    assert resume_with("same", contextlib.nullcontext(), no_change) == expected
    outcomes = {
        "order": resume_with("order", patched(loop.Trainer, "run", run_shifted), no_change),
        "generator": resume_with("generator", constant_seed, no_change),
        "moment": resume_with("moment", contextlib.nullcontext(), clear_a_moment),
    }
    for name, other in outcomes.items():
        assert other.model != expected.model, name
        assert other.state != expected.state, name
        assert other.curve != expected.curve, name
    change_one_ulp(folder / "same")
    assert outcome(folder / "same").state != expected.state


def stop_after(step: int) -> Callable[[], bool]:
    """Return a callback that requests a stop at its n-th call, which follows the n-th step."""
    calls = itertools.count(1)
    return lambda: next(calls) == step


@pytest.mark.slow
@pytest.mark.parametrize("kind", FAMILIES)
def test_the_train_command_with_many_kills_ends_with_the_same_bits(kind: str, runs: Runs, folder: Path) -> None:
    options = {"steps": 300, "training.checkpoint_every": 10, "training.evaluate_every": 20}
    rng = random.Random(kind)
    run = runs.untrained(kind, folder / "run", **options)
    command = [sys.executable, "-m", "satchel", "train", "--resume", str(run)]
    reached, advances = 0, 0
    for _ in range(10):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while newest_step(run) <= reached and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.002)
        time.sleep(rng.uniform(0, 0.05))
        process.kill()
        if process.wait() == 0:
            break
        advances += newest_step(run) > reached
        reached = newest_step(run)
    assert advances >= 5
    assert resume(run) == 0
    assert outcome(run) == runs.outcome(kind, **options)


# --- kills at every system call of a save ----------------------------------------------------------

# A training with saves after 2, 4 and 6 steps. Each is the best one so far and removes the previous checkpoint.
SHORT: dict[str, Any] = {
    "steps": 6, "training.checkpoint_every": 2, "training.evaluate_every": 2, "training.keep": 1,
}  # fmt: skip
SAVES = {"first": 1, "middle": 2, "last": 3}


@contextlib.contextmanager
def at_save(number: int, current: int, **faults: Fault) -> Iterator[None]:
    """Inject faults into the system calls of one save."""
    if current == number:
        with faulty(**faults):
            yield
    else:
        yield


def calls_of_saves(run: Path, **options: Any) -> dict[int, list[str]]:
    """Train a run and return the names of the system calls of each save."""
    names: dict[int, list[str]] = {}

    @contextlib.contextmanager
    def record(number: int) -> Iterator[None]:
        names[number] = []
        with faulty(before=lambda k, name: names[number].append(name)):
            yield

    assert resume(run, around_save=record, **options) == 0
    return names


def select_calls(names: list[str], every: bool) -> list[int]:
    """Return the numbers of all calls, or of the first of each kind, all renames and the last one."""
    return [
        k
        for k, name in enumerate(names, start=1)
        if every or name in ("rename", "replace") or name not in names[: k - 1] or k == len(names)
    ]


all_or_selected_calls = pytest.mark.parametrize(
    "every", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["selected", "every"]
)


@pytest.mark.parametrize("save", SAVES)
@all_or_selected_calls
def test_a_save_killed_at_any_call_loses_only_the_steps_since_the_previous_save(
    save: str, every: bool, runs: Runs, folder: Path
) -> None:
    number = SAVES[save]
    names = calls_of_saves(runs.untrained("dan", folder / "counted", **SHORT))[number]
    assert {"mkdir", "open file", "write", "fsync", "rename", "replace"} <= set(names)
    expected = runs.outcome("dan", **SHORT)
    errors: list[str] = []
    steps = []
    for k in select_calls(names, every):
        for moment in ("before", "after") if every else ("after",):
            where = f"{moment} call {k} of {len(names)}, {names[k - 1]}"
            run = runs.untrained("dan", folder / "run", **SHORT)
            monitor = Monitor()
            around_save = (
                partial(at_save, number, before=kill_at(k))
                if moment == "before"
                else partial(at_save, number, after=kill_at(k))
            )
            assert wait_for(fork(partial(resume, run, monitor, around_save))) == -signal.SIGKILL, where
            assert monitor.phase == SAVING
            steps.append(newest_step(run))
            second = Monitor()
            try:
                # The lock of a killed process does not count.
                assert resume(run, second) == 0
                assert second.phase == STARTING or second.first_step >= monitor.saved_step
                assert outcome(run) == expected
                assert temporary_files(run) == []
            except (RunError, AssertionError) as error:
                errors.append(f"{where}: {str(error)[:300]}")
    assert not errors, f"{len(errors)} of {len(steps)}:\n" + "\n".join(errors)
    # One call completes the checkpoint; kills before and after it were tried.
    assert steps == sorted(steps)
    assert set(steps) == {2 * number - 2, 2 * number}


@contextlib.contextmanager
def with_validation_losses(losses: dict[int, float]) -> Iterator[None]:
    """Replace the validation losses of trainings by given losses by step."""
    original = loop.Trainer.run

    def run(trainer: loop.Trainer) -> loop.StopReason:
        trainer.job.validate = lambda: loop.ValidationResult(losses[trainer.state.step])  # type: ignore[method-assign]
        return original(trainer)

    with patched(loop.Trainer, "run", run):
        yield


# Validation losses by step: the best is at step 4, the second save, which is kept in addition to the last one.
BEST_AT_STEP_4 = {2: 3.0, 4: 1.0, 6: 2.0, 8: 2.5}
FOUR_SAVES = {**SHORT, "steps": 8}


@pytest.mark.parametrize("number", [2, 3, pytest.param(4, marks=pytest.mark.slow)])
@all_or_selected_calls
def test_the_best_checkpoint_survives_a_kill_at_any_call(number: int, every: bool, runs: Runs, folder: Path) -> None:
    """At any time there are `training.keep` undamaged checkpoints, and the best is one of them."""
    with with_validation_losses(BEST_AT_STEP_4):
        names = calls_of_saves(runs.untrained("dan", folder / "uninterrupted", **FOUR_SAVES))[number]
        expected = outcome(folder / "uninterrupted")
        best = checkpoint.folder_name(4)
        assert read_arrays(folder / "uninterrupted" / "model.safetensors") == read_arrays(
            folder / "uninterrupted" / checkpoint.FOLDER / best / checkpoint.MODEL
        )
        errors: list[str] = []
        for k in select_calls(names, every):
            where = f"call {k} of {len(names)}, {names[k - 1]}"
            run = runs.untrained("dan", folder / "run", **FOUR_SAVES)
            around_save = partial(at_save, number, after=kill_at(k))
            assert wait_for(fork(partial(resume, run, Monitor(), around_save))) == -signal.SIGKILL, where
            undamaged = [path for path in checkpoints(run) if is_undamaged(path)]
            has_best = number == 2 or run / checkpoint.FOLDER / best in undamaged
            if len(undamaged) < FOUR_SAVES["training.keep"] or not has_best:
                errors.append(f"{where}: only {[path.name for path in undamaged]} are undamaged")
            assert resume(run) == 0
            if outcome(run) != expected:
                errors.append(f"{where}: the model file does not have the best parameters")
    assert errors == []


def is_undamaged(path: Path) -> bool:
    """Return whether all files of a checkpoint have the checksums of its manifest."""
    try:
        for name in durable.read_manifest(path):
            durable.read_verified(path, name, 1 << 30)
    except RunError:
        return False
    return True


@all_or_selected_calls
def test_temporary_files_of_an_interrupted_save_are_removed_although_it_is_not_repeated(
    every: bool, runs: Runs, folder: Path
) -> None:
    """A stop saves after a step that is not a regular save, so a resumed training does not repeat that save."""
    names = calls_of_saves(runs.untrained("dan", folder / "counted", **SHORT), should_stop=stop_after(3))[2]
    errors: list[str] = []
    with_temporary_files = 0
    for k in select_calls(names, every):
        run = runs.untrained("dan", folder / "run", **SHORT)
        around_save = partial(at_save, 2, after=kill_at(k))
        child = fork(partial(resume, run, Monitor(), around_save, should_stop=stop_after(3)))
        assert wait_for(child) == -signal.SIGKILL
        with_temporary_files += bool(temporary_files(run))
        assert resume(run) == 0
        assert outcome(run) == runs.outcome("dan", **SHORT)
        if names_left := temporary_files(run):
            errors.append(f"call {k} of {len(names)}, {names[k - 1]}: {names_left}")
    assert with_temporary_files > 3
    assert errors == []


# --- disk errors -----------------------------------------------------------------------------------

CODES = [errno.ENOSPC, errno.EIO, errno.EDQUOT]


@pytest.mark.parametrize("code", CODES, ids=errno.errorcode.get)
@all_or_selected_calls
def test_a_save_that_fails_at_any_call_is_reported_and_the_training_continues(
    code: int, every: bool, runs: Runs, folder: Path
) -> None:
    names = calls_of_saves(runs.untrained("dan", folder / "counted", **SHORT))[2]
    expected = runs.outcome("dan", **SHORT)
    unreported: list[str] = []
    failures = 0
    ks = [k for k in select_calls(names, every) if not names[k - 1].startswith("clear")]
    for k in ks:
        where = f"call {k} of {len(names)}, {names[k - 1]}"
        run = runs.untrained("dan", folder / "run", **SHORT)
        notes: list[str] = []
        is_saved: list[bool] = []

        @contextlib.contextmanager
        def failing(number: int, k: int = k, run: Path = run, is_saved: list[bool] = is_saved) -> Iterator[None]:
            if number == 2:
                with faulty(before=error_at(k, code)):
                    yield
                assert temporary_files(run) == []
                assert checkpoints(run)
                assert all(map(is_undamaged, checkpoints(run)))
                model = tensors.read(run / "model.safetensors")[1]["step"]
                is_saved.append((newest_step(run), model) == (4, "4"))
            else:
                yield

        assert resume(run, around_save=failing, note=notes.append) == 0, where
        assert temporary_files(run) == []
        assert outcome(run) == expected, where
        is_reported = any("could not save" in note and os.strerror(code) in note for note in notes)
        # An error of creating an existing folder or of listing an old checkpoint does not fail the save.
        if not is_reported and is_saved == [False]:
            unreported.append(where)
        failures += is_reported
    assert unreported == []
    assert failures >= 4


@pytest.mark.parametrize("code", CODES, ids=errno.errorcode.get)
def test_the_model_file_equals_the_best_checkpoint_even_if_a_better_one_could_not_be_saved(
    code: int, runs: Runs, folder: Path
) -> None:
    """After a failed save, the best step is one that was saved."""
    with with_validation_losses(BEST_AT_STEP_4):
        names = calls_of_saves(runs.untrained("dan", folder / "counted", **FOUR_SAVES))[2]
        errors: list[str] = []
        for k in (names.index("write") + 1, names.index("replace") + 1):
            run = runs.untrained("dan", folder / "run", **FOUR_SAVES)
            assert resume(run, around_save=partial(at_save, 2, before=error_at(k, code))) == 0
            progress = json.loads(checkpoint.read_newest(run).progress)
            model = read_arrays(run / "model.safetensors")
            best = run / checkpoint.FOLDER / checkpoint.folder_name(progress["best_step"]) / checkpoint.MODEL
            if not best.exists():
                errors.append(f"{names[k - 1]}: the best step {progress['best_step']} has no checkpoint")
            elif read_arrays(best) != model:
                errors.append(f"{names[k - 1]}: the model file differs from the best checkpoint")
    assert errors == []


def command(*arguments: str | Path) -> int:
    """Run a command in this process and return its exit code."""
    return command_line.run([str(argument) for argument in arguments])


def fail_from(first: int, code: int = errno.ENOSPC) -> Fault:
    """Return a fault that raises an OSError at every call from the given one on, except removals."""

    def fault(number: int, name: str) -> None:
        if number >= first and not name.startswith("clear"):
            raise OSError(code, os.strerror(code), name)

    return fault


def test_only_a_failed_last_save_changes_the_exit_code(
    runs: Runs, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    codes = {}
    for save, number in SAVES.items():
        run = runs.untrained("dan", folder / save, **SHORT)
        with monitored(Monitor(), partial(at_save, number, before=fail_from(1))):
            codes[save] = command("train", "--resume", run)
        assert newest_step(run) == (4 if save == "last" else 6)
        stderr = capsys.readouterr().err
        assert "could not save: " in stderr
        assert os.strerror(errno.ENOSPC) in stderr
        assert ("the last save failed" in stderr) == (save == "last")
        assert ("has the model of step 4; the training reached step 6" in stderr) == (save == "last")
        assert temporary_files(run) == []
    assert codes == {"first": 0, "middle": 0, "last": 3}


def test_a_failed_save_after_a_signal_is_not_reported_as_saved(
    runs: Runs, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = runs.untrained("dan", folder / "run", **SHORT)

    @contextlib.contextmanager
    def signal_then_full_disk(number: int) -> Iterator[None]:
        if number == 1:
            os.kill(os.getpid(), signal.SIGTERM)
            yield
        else:
            with faulty(before=fail_from(1)):
                yield

    with monitored(Monitor(), signal_then_full_disk):
        code = command("train", "--resume", run)
    stderr = capsys.readouterr().err
    assert newest_step(run) == 2
    assert "could not save" in stderr
    assert "saved at step 3" not in stderr
    assert code == 3


def test_a_training_continues_after_a_full_disk(folder: Path, runs: Runs) -> None:
    disk = folder / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=400k", "none", str(disk)]
    if os.getuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode != 0:
        pytest.skip("mounting a file system is not permitted")
    try:
        run = runs.untrained("dan", disk / "run", **SHORT)
        filler = disk / "filler"
        notes: list[str] = []

        @contextlib.contextmanager
        def fill_disk(number: int) -> Iterator[None]:
            if number == 2:
                with contextlib.suppress(OSError), open(filler, "wb", buffering=0) as handle:
                    while handle.write(b"x" * 4096):
                        pass
                yield
                assert newest_step(run) == 2
                assert temporary_files(run) == []
                filler.unlink()
            else:
                yield

        assert resume(run, around_save=fill_disk, note=notes.append) == 0
        assert any("No space left on device" in note for note in notes)
        assert outcome(run) == runs.outcome("dan", **SHORT)
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


def stopped_run(runs: Runs, to: Path, step: int = 5, **options: Any) -> Path:
    """Return a run that was stopped after a step, with checkpoints of that step and of the previous one."""
    run = runs.untrained("dan", to, **{**SHORT, "training.keep": 2, **options})
    assert resume(run, should_stop=stop_after(step)) == 0
    assert [int(path.name[-3:]) for path in checkpoints(run)] == [step - 1, step]
    return run


@contextlib.contextmanager
def unreadable(path: Path, at: str) -> Iterator[None]:
    """Raise an OSError when a file of a folder is opened (at="open") or read (at="read")."""
    original_open, original_file = os.open, open

    def open_descriptor(file: Any, *args: Any, **options: Any) -> int:
        if at == "open" and Path(file).parent == path and Path(file).is_file():
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(file))
        return original_open(file, *args, **options)

    class FailingFile(io.RawIOBase):
        def __init__(self, descriptor: int) -> None:
            self._descriptor = descriptor

        def fileno(self) -> int:
            return self._descriptor

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: object) -> int:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        def close(self) -> None:
            if not self.closed:
                os.close(self._descriptor)
            super().close()

    def open_file(file: Any, *args: Any, **options: Any) -> Any:
        if at == "read" and isinstance(file, int) and Path(os.readlink(f"/proc/self/fd/{file}")).parent == path:
            return io.BufferedReader(FailingFile(file))
        return original_file(file, *args, **options)

    import builtins

    with patched(os, "open", open_descriptor), patched(builtins, "open", open_file):
        yield


@pytest.mark.parametrize("at", ["open", "read"])
def test_an_unreadable_checkpoint_is_reported_and_skipped(
    at: str, runs: Runs, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = stopped_run(runs, folder / "run")
    monitor = Monitor()
    with unreadable(checkpoints(run)[-1], at), monitored(monitor):
        assert command("train", "--resume", run) == 0
    assert monitor.first_step == 4
    stderr = capsys.readouterr().err
    assert f"skipped a damaged checkpoint: {checkpoint.folder_name(5)}" in stderr
    assert os.strerror(errno.EIO) in stderr


def test_a_read_only_folder_is_refused_before_training(runs: Runs, folder: Path) -> None:
    """This holds for the parent folder of a new run and for the folder of a resumed run."""
    os.chmod(folder, 0o755)
    run = runs.untrained("dan", folder / "run", **SHORT)
    text = folder / "text.txt"
    shutil.copy(runs.text, text)
    read_only = folder / "read-only"
    read_only.mkdir()
    for path in [read_only, *run.rglob("*"), run]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    monitor = Monitor()

    def run_unprivileged(arguments: list[str | Path]) -> int:
        if os.getuid() == 0:  # root may write everywhere
            os.setgid(65534)
            os.setuid(65534)
        with monitored(monitor):
            return command(*arguments)

    model = ["--model", "dan", "--tokenizer", "char", "--steps", "3"]
    commands: list[list[str | Path]] = [["train", text, *model, "-o", read_only / "new"], ["train", "--resume", run]]
    for arguments in commands:
        code, stderr = run_in_child(partial(run_unprivileged, arguments), folder / "stderr")
        assert code == 2, f"{arguments[:2]} ended with {code}: {stderr}"
        cause, remedy = stderr.strip("\n").split("\n")[-2:]
        assert cause.startswith("satchel: ")
        assert "Permission denied" in cause
        assert remedy.startswith("         ")
        assert "Traceback" not in stderr
    assert monitor.phase == STARTING


def run_in_child(function: Callable[[], object], output: Path) -> tuple[int, str]:
    """Call a function in a child process; return its exit code and stderr, which is written to `output`."""

    def child() -> object:
        handle = output.open("w")
        os.dup2(handle.fileno(), 2)
        sys.stderr = handle
        try:
            return function()
        finally:
            handle.flush()

    code = wait_for(fork(child))
    return code, output.read_text()


# --- signals ---------------------------------------------------------------------------------------


def resume_by_command(run: Path, monitor: Monitor, around_save: SaveContext = no_context) -> int:
    """Resume a run with the command line, including its signal handlers; return the exit code."""
    arguments = ["satchel", "train", "--resume", str(run)]
    with monitored(monitor, around_save), random_global_seed(), patched(sys, "argv", arguments):
        try:
            command_line.main()
        except SystemExit as exit_:
            return int(exit_.code or 0)


# Exit code of each signal.
EXIT_CODES = {signal.SIGTERM: 143, signal.SIGINT: 130}


@pytest.mark.parametrize(("number", "code"), EXIT_CODES.items(), ids=["SIGTERM", "SIGINT"])
@counts(8, 50)
def test_a_signal_at_any_time_saves_all_steps_and_ends_the_training_within_5_seconds(
    number: int, code: int, count: int, runs: Runs, folder: Path
) -> None:
    rng = random.Random(number + count)
    interruptions: list[Interruption] = []
    finished = 0
    while not has_enough(interruptions, count):
        run = runs.untrained("transformer", folder / "run")
        reached = 0
        while True:
            monitor = Monitor()
            child = fork(partial(resume_by_command, run, monitor))
            interrupt(child, monitor, rng, number)
            interruption = Interruption(monitor.phase, monitor.step)
            began = time.monotonic()
            exit_code = wait_for(child)
            assert time.monotonic() - began < 5
            if monitor.phase == STARTING:
                break  # the run was finished already
            assert monitor.first_step == reached
            reached = newest_step(run)
            assert reached == monitor.step, "a step was lost"
            assert temporary_files(run) == []
            if exit_code == 0:
                finished += 1
                break
            assert exit_code == code
            interruptions.append(interruption)
        assert outcome(run) == runs.outcome("transformer")
    assert finished


@contextlib.contextmanager
def signal_during_save(save: int, number: int, calls: tuple[int, ...], current: int) -> Iterator[None]:
    """Send a signal to this process at the given system calls of a save."""

    def fault(k: int, name: str) -> None:
        del name
        for _ in range(calls.count(k)):
            os.kill(os.getpid(), number)

    with at_save(save, current, before=fault):
        yield


@pytest.mark.parametrize(("number", "code"), EXIT_CODES.items(), ids=["SIGTERM", "SIGINT"])
@all_or_selected_calls
def test_a_signal_during_a_save_does_not_interrupt_it(
    number: int, code: int, every: bool, runs: Runs, folder: Path
) -> None:
    names = calls_of_saves(runs.untrained("dan", folder / "counted", **SHORT))[2]
    ks = select_calls(names, every)
    for k in ks if every else sorted({ks[0], *ks[number % 2 :: 4], ks[-1]}):
        run = runs.untrained("dan", folder / "run", **SHORT)
        monitor = Monitor()
        began = time.monotonic()
        child = fork(partial(resume_by_command, run, monitor, partial(signal_during_save, 2, number, (k,))))
        assert wait_for(child) == code
        assert time.monotonic() - began < 5
        # The save of step 4 is completed, followed by one of the step that was in progress.
        assert (monitor.saves, monitor.saved_step) == (3, 5)
        assert newest_step(run) == 5
        assert all(map(is_undamaged, checkpoints(run)))
        assert temporary_files(run) == []
        assert resume(run) == 0
        assert outcome(run) == runs.outcome("dan", **SHORT)


@pytest.mark.parametrize(("number", "code"), EXIT_CODES.items(), ids=["SIGTERM", "SIGINT"])
@all_or_selected_calls
def test_a_second_signal_ends_the_training_at_once_and_the_previous_checkpoint_is_undamaged(
    number: int, code: int, every: bool, runs: Runs, folder: Path
) -> None:
    names = calls_of_saves(runs.untrained("dan", folder / "counted", **SHORT))[2]
    ks = select_calls(names, every)
    reached = []
    for k in ks if every else sorted({ks[0], *ks[number % 2 :: 4], ks[-1]}):
        run = runs.untrained("dan", folder / "run", **SHORT)
        monitor = Monitor()
        began = time.monotonic()
        child = fork(partial(resume_by_command, run, monitor, partial(signal_during_save, 2, number, (1, k))))
        wait_until(child, lambda monitor=monitor: monitor.saves == 2)  # type: ignore[misc]
        began = time.monotonic()
        assert wait_for(child) == code
        assert time.monotonic() - began < 1
        # The training ended during the save.
        assert (monitor.phase, monitor.saves) == (SAVING, 2)
        reached.append(newest_step(run))
        assert resume(run) == 0
        assert outcome(run) == runs.outcome("dan", **SHORT)
    assert reached == sorted(reached)
    assert set(reached) == {2, 4}


@pytest.mark.parametrize(("number", "code"), EXIT_CODES.items(), ids=["SIGTERM", "SIGINT"])
def test_a_signal_in_the_first_step_saves_it(number: int, code: int, runs: Runs, folder: Path) -> None:
    run = runs.untrained("dan", folder / "run", **SHORT)
    original = loop.Trainer.run

    def run_with_signal(trainer: loop.Trainer) -> loop.StopReason:
        job_loss = trainer.job.loss

        def loss(step: int, shard: int, shards: int) -> Any:
            if step == 0:
                os.kill(os.getpid(), number)
            return job_loss(step, shard, shards)

        trainer.job.loss = loss  # type: ignore[method-assign]
        return original(trainer)

    with patched(loop.Trainer, "run", run_with_signal):
        assert wait_for(fork(partial(resume_by_command, run, Monitor()))) == code
    assert newest_step(run) == 1
    assert resume(run) == 0
    assert outcome(run) == runs.outcome("dan", **SHORT)


@counts(4, 40)
def test_a_suspended_training_continues_unchanged(count: int, runs: Runs, folder: Path) -> None:
    rng = random.Random(count)
    interruptions: list[Interruption] = []
    while len(interruptions) < count:
        run = runs.untrained("gru", folder / "run")
        monitor = Monitor()
        child = fork(partial(resume, run, monitor))
        for _ in range(3):
            if interrupt(child, monitor, rng, signal.SIGSTOP):
                time.sleep(0.05)
                interruptions.append(Interruption(monitor.phase, monitor.step))
                before = monitor.step, monitor.phase
                time.sleep(rng.uniform(0.05, 0.2))
                assert (monitor.step, monitor.phase) == before, "the training was not suspended"
                os.kill(child, signal.SIGCONT)
        assert wait_for(child) == 0
        assert outcome(run) == runs.outcome("gru")
    assert {TRAINING, SAVING} & {interruption.phase for interruption in interruptions}


def test_a_jumping_clock_changes_only_the_recorded_times(runs: Runs, folder: Path) -> None:
    rng = random.Random(0)
    run = runs.untrained("gru", folder / "run")
    with patched(time, "perf_counter", lambda: rng.uniform(-1e6, 1e6)):
        assert resume(run) == 0
    assert outcome(run) == runs.outcome("gru")
    seconds = [json.loads(line)["seconds"] for line in (run / "metrics.jsonl").read_bytes().strip().split(b"\n")]
    assert seconds != sorted(seconds)  # the clock jumped


# --- damaged checkpoints ---------------------------------------------------------------------------


class DamagedRun:
    """A run with two checkpoints, for repeated damage of the newest one."""

    def __init__(self, run: Path) -> None:
        self.run = run
        test_resume.trainer("learned", saved=test_resume.saving_to(run), evaluate_every=1000).run()
        self.newest = checkpoints(run)[-1]
        self.files = {path.name: path.read_bytes() for path in sorted(self.newest.iterdir())}
        self.trainer = test_resume.trainer("learned")
        restore(run, self.trainer)
        assert self.trainer.state.step == 12
        shutil.move(self.newest, run / "moved")
        restore(run, self.trainer)
        self.expected = test_resume.bits(self.trainer)
        shutil.move(run / "moved", self.newest)

    def restore_with(self, name: str, data: bytes) -> str:
        """Replace a file of the newest checkpoint and restore.

        Return "" if the previous checkpoint is restored and the damaged file is reported, otherwise an error.
        """
        (self.newest / name).write_bytes(data)
        try:
            messages = restore(self.run, self.trainer)
        except Exception as error:
            return f"{type(error).__name__}: {str(error)[:200]}"
        finally:
            (self.newest / name).write_bytes(self.files[name])
        if self.trainer.state.step != 8 or test_resume.bits(self.trainer) != self.expected:
            return f"restored step {self.trainer.state.step}"
        if len(messages) != 1 or not messages[0].startswith(self.newest.name):
            return f"unexpected messages {messages}"
        is_named = name in messages[0] or name == durable.MANIFEST
        return "" if is_named else f"the message does not name the file: {messages[0]}"


@pytest.fixture
def damaged(folder: Path) -> DamagedRun:
    """Return a run for tests of damage."""
    return DamagedRun(folder / "run")


def random_offsets(data: bytes, rng: random.Random) -> Iterator[int]:
    """Yield random byte offsets of a file, half of them in its header if it has one."""
    header = 8 + int.from_bytes(data[:8], "little")
    while True:
        yield rng.randrange(len(data))
        if header < len(data):
            yield rng.randrange(header)


@counts(160, 1000)
def test_a_flipped_bit_in_a_checkpoint_is_detected_and_the_previous_checkpoint_is_used(
    count: int, damaged: DamagedRun
) -> None:
    rng = random.Random(count)
    attempts = 0
    errors: list[str] = []
    for name, data in damaged.files.items():
        for offset in itertools.islice(random_offsets(data, rng), count // len(damaged.files)):
            bit = rng.randrange(8)
            changed = bytearray(data)
            changed[offset] ^= 1 << bit
            attempts += 1
            if error := damaged.restore_with(name, bytes(changed)):
                errors.append(f"{name}, bit {bit} of byte {offset} of {len(data)}: {error}")
    assert attempts == count
    assert not errors, f"{len(errors)} of {count}:\n" + "\n".join(errors[:20])
    assert damaged.restore_with(name, data) == "restored step 12"  # without damage


@counts(8, 50)
def test_a_truncated_empty_or_extended_checkpoint_file_is_detected(count: int, damaged: DamagedRun) -> None:
    for name, data in damaged.files.items():
        variants = [data[: len(data) * part // count] for part in range(count)]
        # A manifest without its final newline is valid.
        variants += [data[:-2] if name == durable.MANIFEST else data[:-1], data + b"\0", data + data, bytes(len(data))]
        for variant in variants:
            assert not damaged.restore_with(name, variant), f"{name}, {len(variant)} of {len(data)} bytes"


@pytest.mark.parametrize("name", [durable.MANIFEST, checkpoint.MODEL, checkpoint.OPTIMIZER, checkpoint.PROGRESS])
def test_a_missing_file_of_a_checkpoint_is_detected(name: str, damaged: DamagedRun) -> None:
    (damaged.newest / name).unlink()
    (message,) = restore(damaged.run, damaged.trainer)
    assert message.startswith(damaged.newest.name)
    assert name in message
    assert damaged.trainer.state.step == 8


def flip_a_bit(path: Path) -> None:
    """Flip a bit of a file, 100 bytes before its end."""
    data = bytearray(path.read_bytes())
    data[-100] ^= 1
    path.write_bytes(data)


def test_a_damaged_checkpoint_is_replaced_when_its_step_is_repeated(runs: Runs, folder: Path) -> None:
    run = stopped_run(runs, folder / "run", step=5)
    flip_a_bit(checkpoints(run)[-1] / checkpoint.MODEL)
    flip_a_bit(checkpoints(run)[-2] / checkpoint.MODEL)
    with pytest.raises(RunError, match="all of its 2 checkpoints are damaged"):
        resume(run)
    run = stopped_run(runs, folder / "run", step=5)
    flip_a_bit(checkpoints(run)[-1] / checkpoint.MODEL)
    monitor = Monitor()
    assert resume(run, monitor, should_stop=stop_after(1)) == 0
    assert monitor.first_step == 4
    assert newest_step(run) == 5
    assert all(map(is_undamaged, checkpoints(run)))


def test_a_damaged_checkpoint_does_not_count_as_one_of_the_kept_ones(runs: Runs, folder: Path) -> None:
    run = stopped_run(runs, folder / "run", step=5)
    flip_a_bit(checkpoints(run)[-1] / checkpoint.OPTIMIZER)
    # The resumed training saves step 6, not step 5.
    assert resume(run) == 0
    undamaged = [int(path.name[-3:]) for path in checkpoints(run) if is_undamaged(path)]
    assert undamaged[-2:] == [4, 6]


def test_if_all_checkpoints_are_damaged_each_is_reported_and_the_training_does_not_start(
    runs: Runs, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = stopped_run(runs, folder / "run")
    first, second = checkpoints(run)
    (first / checkpoint.PROGRESS).unlink()
    (second / checkpoint.MODEL).write_bytes(b"")
    before = contents(run)
    monitor = Monitor()
    with monitored(monitor):
        assert command("train", "--resume", run) == 2
    assert monitor.phase == STARTING
    assert contents(run) == before
    stderr = capsys.readouterr().err
    assert "all of its 2 checkpoints are damaged" in stderr
    for path, name, cause in (
        (first, checkpoint.PROGRESS, os.strerror(errno.ENOENT)),
        (second, checkpoint.MODEL, "has 0 bytes"),
    ):
        (line,) = (line for line in stderr.split("\n") if f"{path.name}: " in line)
        assert name in line
        assert cause in line or "is damaged" in line
    assert "Traceback" not in stderr


def test_a_run_without_checkpoints_is_refused_and_not_changed(
    runs: Runs, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for has_folder in (True, False):
        run = stopped_run(runs, folder / "run")
        shutil.rmtree(run / checkpoint.FOLDER)
        if has_folder:
            (run / checkpoint.FOLDER).mkdir()
        before = contents(run)
        assert command("train", "--resume", run) == 2
        assert contents(run) == before
        assert "no checkpoint" in capsys.readouterr().err


# --- runs that were changed after training started -------------------------------------------------


def rewrite_manifest(run: Path) -> None:
    """Update the sizes and checksums of the manifest."""
    manifest = json.loads((run / durable.MANIFEST).read_bytes())
    for name in manifest["files"]:
        path = run / name
        manifest["files"][name] = {"size": path.stat().st_size, "sha256": durable.file_sha256(path)}
    (run / durable.MANIFEST).write_text(json.dumps(manifest))


def other_tokens(run: Path, runs: Runs, folder: Path) -> None:
    text = folder / "other.txt"
    text.write_text(runs.text.read_text()[::-1])
    api.train(text, model="ngram", tokenizer=str(run), out=folder / "other", valid=0.1)
    shutil.copy(folder / "other" / "tokens" / "train.safetensors", run / "tokens" / "train.safetensors")


def flipped_tokens(run: Path, runs: Runs, folder: Path) -> None:
    flip_a_bit(run / "tokens" / "train.safetensors")


def other_tokenizer(run: Path, runs: Runs, folder: Path) -> None:
    text = folder / "other.txt"
    text.write_text(runs.text.read_text().replace("T", "X"))
    api.train(text, model="ngram", tokenizer="char", out=folder / "other")
    shutil.copy(folder / "other" / "tokenizer.json", run / "tokenizer.json")


def other_tokenizer_and_manifest(run: Path, runs: Runs, folder: Path) -> None:
    other_tokenizer(run, runs, folder)
    rewrite_manifest(run)


def other_settings(run: Path, runs: Runs, folder: Path) -> None:
    path = run / "config.json"
    path.write_text(path.read_text().replace('"learning_rate": 0.01', '"learning_rate": 0.02'))


def other_torch(run: Path, runs: Runs, folder: Path) -> None:
    path = run / "config.json"
    path.write_text(path.read_text().replace(f'"torch": "{torch.__version__}"', '"torch": "1.0"'))
    rewrite_manifest(run)


# Change of a run, and the part of the message that names it.
CHANGES = {
    "the tokens of another text": (other_tokens, "train.safetensors"),
    "a flipped bit of the tokens": (flipped_tokens, "train.safetensors"),
    "another tokenizer": (other_tokenizer, "tokenizer.json"),
    "another tokenizer and its manifest": (other_tokenizer_and_manifest, "tokenizer.json"),
    "other settings": (other_settings, "config.json"),
    "another torch": (other_torch, "torch 1.0"),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_a_changed_run_is_not_resumed_and_the_change_is_reported(
    kind: str, runs: Runs, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change, message = CHANGES[kind]
    run = stopped_run(runs, folder / "run")
    change(run, runs, folder)
    before = contents(run)
    assert command("train", "--resume", run) == 2
    stderr = capsys.readouterr().err
    assert message in stderr
    assert "Traceback" not in stderr
    assert contents(run) == before


@pytest.mark.parametrize(
    "options",
    [["--threads", "2"], ["--steps", "9"], ["--set", "training.learning_rate=1"], ["--seed", "3"], ["--model", "gru"]],
    ids=lambda options: options[0],
)
def test_settings_are_refused_when_resuming(
    options: list[str], runs: Runs, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = stopped_run(runs, folder / "run")
    assert command("train", "--resume", run, *options) == 2
    assert options[0] in capsys.readouterr().err
    assert newest_step(run) == 5


def test_a_resumed_run_keeps_its_number_of_threads(runs: Runs, folder: Path) -> None:
    threads: set[int] = set()

    @contextlib.contextmanager
    def record(number: int) -> Iterator[None]:
        threads.add(torch.get_num_threads())
        yield

    run = stopped_run(runs, folder / "run")
    # In this process: a forked child would wait for threads that it does not have.
    torch.set_num_threads(2)
    assert resume(run, around_save=record) == 0
    assert threads == {1}
    assert torch.get_num_threads() == 2
    assert outcome(run) == runs.outcome("dan", **{**SHORT, "training.keep": 2})


# --- resuming after every step ---------------------------------------------------------------------


SCHEDULES: dict[str, dict[str, Any]] = {
    # An epoch of 400 ids has 8 steps: the epochs end at steps 8 and 16 of 20; warm-up ends at step 5.
    "epochs": {"steps": None, "epochs": 2.4, "warmup": 0.25, "decay": 0.5},
    "accumulate": {"steps": 10, "accumulate": 3, "batch_tokens": 96},
    "documents": {"steps": 12, "stream": False},
    "muon": {"steps": 10, "optimizer": "muon"},
}


def scheduled_trainer(name: str, **changes: Any) -> loop.Trainer:
    """Return a trainer with one of the schedules."""
    options = {**SCHEDULES[name], **changes}
    stream = options.pop("stream", True)
    trainer = test_resume.trainer("modern" if name == "muon" else "gru", **options)
    if not stream:
        ids = test_resume.text()
        ids[::9] = ids[-1] = test_resume.END
        assert isinstance(trainer.job, LanguageJob)
        trainer.job = LanguageJob(
            trainer.job.network, ids, test_resume.END, trainer.settings, stream=False, valid=trainer.job.valid
        )
    return trainer


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_training_resumed_after_any_step_ends_with_the_same_bits(name: str, folder: Path) -> None:
    uninterrupted = scheduled_trainer(name)
    assert uninterrupted.run() == "finished"
    steps = uninterrupted.state.step
    if name == "epochs":
        assert uninterrupted.job.steps_per_epoch * 2 < steps < uninterrupted.job.steps_per_epoch * 3
    for at in range(1, steps):
        run = folder / str(at)
        first = scheduled_trainer(name, saved=test_resume.saving_to(run), stop=stop_after(at), checkpoint_every=1000)
        with random_global_seed():
            first.run()
        second = scheduled_trainer(name)
        assert restore(run, second) == ()
        assert second.state.step == at
        if at == 3:
            control = scheduled_trainer(name)
            restore(run, control)
            control.state.step += 1
            control.run()
            assert test_resume.bits(control) != test_resume.bits(uninterrupted)
        with random_global_seed():
            second.run()
        assert test_resume.bits(second) == test_resume.bits(uninterrupted), at


def test_saves_validations_and_samples_do_not_change_the_training(
    runs: Runs, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    final_arrays = {}
    losses_by_step: dict[int, set[str]] = {}
    for saves, validations, samples in [(1, 1, 0.0), (1, 1000, 30.0), (7, 1, 0.0), (7, 3, 30.0), (1000, 1000, 0.0)]:
        monkeypatch.setattr(callbacks, "SAMPLE_EVERY", samples)
        options = {"training.checkpoint_every": saves, "training.evaluate_every": validations}
        run = create_run(runs.text, "transformer", folder / f"{saves}-{validations}-{samples}", **options)
        assert resume(run) == 0
        last = checkpoints(run)[-1]
        final_arrays[saves, validations, samples] = read_arrays(last / checkpoint.MODEL) | read_arrays(
            last / checkpoint.OPTIMIZER
        )
        for step, (loss, _) in curve(run).items():
            losses_by_step.setdefault(step, set()).add(loss)
        sampled = (run / "samples.jsonl").read_bytes().count(b"\n")
        assert sampled == len(curve(run)) if samples == 0 else sampled == 1
    assert all(arrays == final_arrays[1, 1, 0.0] for arrays in final_arrays.values())
    assert len(losses_by_step) == STEPS
    assert all(len(losses) == 1 for losses in losses_by_step.values())
    other = create_run(runs.text, "transformer", folder / "other", **{"training.seed": 1})
    assert resume(other) == 0
    assert read_arrays(checkpoints(other)[-1] / checkpoint.MODEL).items() != final_arrays[1, 1, 0.0].items()
    assert set(curve(other)[3]) & losses_by_step[3] == set()


# --- invalid losses and gradients ------------------------------------------------------------------


def all_finite(trainer: loop.Trainer) -> bool:
    """Return whether all parameters and optimizer states are finite."""
    parameters = saving.parameters(trainer.job.network)
    states = trainer.optimizer.state()
    return all(np.isfinite(array).all() for array in parameters.values()) and all(
        bool(value.isfinite().all()) for value in states.values()
    )


def infinite_row(trainer: loop.Trainer) -> None:
    """Set one row of the gradient of the embedding to infinity."""
    assert isinstance(trainer.job, LanguageJob)
    gradient = trainer.job.network.encoder.embedding.weight.grad
    assert gradient is not None
    gradient[3] = math.inf


def nan_element(trainer: loop.Trainer) -> None:
    """Set one element of the last gradient to NaN."""
    gradient = trainer.optimizer.parameters[-1].grad
    assert gradient is not None
    gradient.view(-1)[0] = math.nan


@contextlib.contextmanager
def changed_gradients(trainer: loop.Trainer, steps: set[int], change: Callable[[loop.Trainer], None]) -> Iterator[None]:
    """Change the gradients of the given steps before their norm is computed."""
    original = torch.nn.utils.get_total_norm

    def norm(gradients: Any) -> Any:
        if trainer.state.step in steps:
            change(trainer)
        return original(gradients)

    with patched(torch.nn.utils, "get_total_norm", norm):
        yield


# Factor of the loss, or change of the gradients.
INVALID: dict[str, float | Callable[[loop.Trainer], None]] = {
    "NaN loss": math.nan,
    "infinite loss": math.inf,
    "minus infinite loss": -math.inf,
    "a thousand times the loss": 1000.0,
    "NaN in one gradient": nan_element,
    "infinity in the gradient of one row": infinite_row,
}


@pytest.mark.parametrize("kind", INVALID)
@counts(10, 100)
def test_steps_with_invalid_losses_or_gradients_are_skipped_and_do_not_change_the_parameters(
    kind: str, count: int
) -> None:
    invalid = INVALID[kind]
    rng = random.Random(f"{kind} {count}")
    # Large losses are detected after 25 steps, when there are enough recent losses to compare with.
    first = 30 if invalid == 1000.0 else 0
    steps = set(rng.sample(range(first, first + 3 * count), count))
    trainer = test_resume.trainer("learned", steps=first + 3 * count, evaluate_every=1000)
    job_loss = trainer.job.loss
    parameters: list[Any] = []

    def loss(step: int, shard: int, shards: int) -> Any:
        if parameters and step - 1 in steps:
            assert test_resume.bits(trainer)[0] == parameters[-1], "a skipped step changed the parameters"
        parameters.append(test_resume.bits(trainer)[0])
        assert all_finite(trainer)
        result = job_loss(step, shard, shards)
        return result._replace(total=result.total * invalid) if isinstance(invalid, float) and step in steps else result

    trainer.job.loss = loss  # type: ignore[method-assign]
    with changed_gradients(trainer, steps, invalid) if callable(invalid) else contextlib.nullcontext():
        assert trainer.run() == "finished"
    assert all_finite(trainer)
    assert trainer.state.skipped == count
    assert trainer.state.step == first + 3 * count
    assert all(map(math.isfinite, trainer.state.recent))
    # The other steps changed the parameters.
    assert parameters[0] != parameters[-1]


def test_large_losses_from_the_first_step_on_leave_the_parameters_finite() -> None:
    trainer = test_resume.trainer("learned", steps=30, evaluate_every=1000)
    job_loss = trainer.job.loss

    def loss(step: int, shard: int, shards: int) -> Any:
        result = job_loss(step, shard, shards)
        return result._replace(total=result.total * (1e30 if step % 3 == 0 else 1))

    trainer.job.loss = loss  # type: ignore[method-assign]
    trainer.run()
    assert all_finite(trainer)


def nan_losses(steps: range) -> AbstractContextManager[None]:
    """Return a context manager that makes the losses of the given steps of every training NaN."""
    original = loop.Trainer.run

    def run(trainer: loop.Trainer) -> loop.StopReason:
        job_loss = trainer.job.loss

        def loss(step: int, shard: int, shards: int) -> Any:
            result = job_loss(step, shard, shards)
            return result._replace(total=result.total * math.nan) if step in steps else result

        trainer.job.loss = loss  # type: ignore[method-assign]
        return original(trainer)

    return patched(loop.Trainer, "run", run)


def test_20_consecutive_skipped_steps_end_a_training_and_19_do_not(
    runs: Runs, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = {"steps": 40}
    run = runs.untrained("dan", folder / "twenty", **options)
    with nan_losses(range(10, 30)):
        assert command("train", "--resume", run) == 2
    stderr = capsys.readouterr().err
    assert "20 consecutive steps were skipped, the last with loss nan" in stderr
    assert "Traceback" not in stderr
    assert all(map(is_undamaged, checkpoints(run)))
    # Resumed from a checkpoint between the skipped steps, with valid losses, the training finishes.
    assert 10 < newest_step(run) < 30
    assert resume(run) == 0
    run = runs.untrained("dan", folder / "nineteen", **options)
    with nan_losses(range(10, 29)):
        assert command("train", "--resume", run) == 0
    uninterrupted = outcome(run)
    assert uninterrupted != runs.outcome("dan", **options)
    # The number of skipped steps is part of the saved state.
    for at in (12, 20, 28):
        run = runs.untrained("dan", folder / "stopped", **options)
        with nan_losses(range(10, 29)):
            assert resume(run, should_stop=stop_after(at)) == 0
            assert resume(run) == 0
        assert outcome(run) == uninterrupted


def test_metrics_are_valid_json_without_any_valid_loss(runs: Runs, folder: Path) -> None:
    run = runs.untrained("dan", folder / "run")
    with nan_losses(range(EVALUATE_EVERY)):
        assert resume(run) == 0
    for line in (run / "metrics.jsonl").read_bytes().strip().split(b"\n"):
        durable.from_json(line, "metrics.jsonl")


def test_an_incomplete_line_of_the_metrics_is_ignored(runs: Runs, folder: Path) -> None:
    run = copy_run(runs.get("dan")[1], folder / "run")
    expected = api.bits_by_step(satchel.load(run, task="lm"))
    path = run / "metrics.jsonl"
    first, *others = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([first, b'{"step": 3, "sec', *others]) + b'{"step": 9')
    assert api.bits_by_step(satchel.load(run, task="lm")) == expected


# --- loading during training, and lack of memory ---------------------------------------------------


@counts(60, 1000)
def test_a_run_can_be_loaded_at_any_time_during_training(count: int, runs: Runs, folder: Path) -> None:
    options = {"training.checkpoint_every": 1, "training.evaluate_every": 1}
    run = create_run(runs.text, "dan", folder / "run", 20 * count, **options)
    monitor = Monitor()
    child = fork(partial(resume, run, monitor))
    try:
        assert wait_until(child, lambda: monitor.step > 3)
        model_steps: set[str] = set()
        longest = 0
        for _ in range(count):
            assert is_running(child)
            model = satchel.load(run, task="lm")
            model_steps.add(tensors.read(run / "model.safetensors")[1]["step"])
            assert np.isfinite(model.score("The cat").logprobs).all()
            *lines, incomplete = (run / "metrics.jsonl").read_bytes().split(b"\n")
            del incomplete
            steps = [json.loads(line)["step"] for line in lines]
            assert steps == list(range(1, len(steps) + 1))
            assert len(steps) >= longest
            longest = len(steps)
    finally:
        os.kill(child, signal.SIGKILL)
        wait_for(child)
    assert len(model_steps) >= 5, "the model did not change during the test"
    assert resume(run, should_stop=stop_after(1)) == 0


def test_lack_of_memory_is_reported_and_does_not_change_the_run(runs: Runs, folder: Path) -> None:
    # One thread, because a forked child does not have the threads of its parent.
    settings = {"training.batch_tokens": 1 << 20, "training.threads": 1}
    big = create_run(runs.text, "transformer", folder / "big", 6, **settings)
    # A batch of a million tokens needs more than the limit.

    def run_with_limit() -> int:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + (64 << 20)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        return command("train", "--resume", big)

    before = contents(big)
    code, stderr = run_in_child(run_with_limit, folder / "stderr")
    assert "Traceback" not in stderr, stderr[-500:]
    assert stderr.startswith("satchel: not enough memory")
    assert code == 2
    assert contents(big) == before
