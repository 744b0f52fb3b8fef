"""Trainings under faults: kills, signals, full disks, damaged files, invalid losses. No saved step is lost.

Repeated tests have a short form, and a slow one with the full number of repetitions.
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
from satchel.training import callbacks as events
from satchel.training import loop, saving
from satchel.training.jobs import language as jobs
from satchel.training.jobs.language import LanguageJob
from tests.faults.system import Fault, contents, error_at, faulty, fork, kill_at, wait_for
from tests.training import test_resume
from tests.training.harness import (
    EVALUATE_EVERY,
    FINISHED,
    SAVING,
    STARTING,
    STEPS,
    TRAINING,
    Board,
    Outcome,
    Strike,
    arrays_of,
    begin,
    checkpoints,
    copied,
    curve,
    enough,
    is_running,
    leftovers,
    other_numbers,
    outcome,
    patched,
    rewrite,
    step_of,
    step_vectors,
    strike,
    train_through,
    wait_until,
    watched,
    write_text,
)

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="needs fork and signals"),
    pytest.mark.timeout(900),
]

FAMILIES = ["dan", "window", "gru", "lstm", "transformer"]


def counts(short: int, full: int) -> pytest.MarkDecorator:
    """Parametrise a test with a short and a slow number of repetitions."""
    return pytest.mark.parametrize("count", [short, pytest.param(full, marks=pytest.mark.slow)])


class Runs:
    """Prepared runs, and the results of their uninterrupted training; each is computed once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.text = write_text(folder)
        self._made: dict[str, tuple[Path, Path]] = {}

    def made(self, kind: str, **options: Any) -> tuple[Path, Path]:
        """Return an untrained run and the outcome of its uninterrupted training."""
        name = "-".join([kind, *(f"{key}={value}" for key, value in sorted(options.items()))])
        if name not in self._made:
            fresh = begin(self.text, kind, self.folder / name, **options)
            whole = copied(fresh, self.folder / f"{name}, whole")
            assert step_vectors(whole) == 0
            self._made[name] = fresh, whole
        return self._made[name]

    def fresh(self, kind: str, to: Path, **options: Any) -> Path:
        return copied(self.made(kind, **options)[0], to)

    def outcome(self, kind: str, **options: Any) -> Outcome:
        return outcome(self.made(kind, **options)[1])


MEMORY = Path("/dev/shm")


def new_place() -> Iterator[Path]:
    """A folder in memory if available, which is faster; killing a process does not depend on it."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def made() -> Iterator[Runs]:
    """The runs of this module. Torch uses one thread before the first fork, as threads do not survive a fork."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    # Short samples suffice.
    with patched(jobs, "SAMPLE_TOKENS", 4):
        for folder in new_place():
            yield Runs(folder)
    torch.set_num_threads(before)


@pytest.fixture
def place() -> Iterator[Path]:
    """An empty folder."""
    yield from new_place()


# --- kills at random times: T1 --------------------------------------------------------------------------


@pytest.mark.parametrize("kind", FAMILIES)
@counts(10, 200)
def test_a_training_killed_again_and_again_ends_with_the_same_bits(
    kind: str, count: int, made: Runs, place: Path
) -> None:
    rng = random.Random(f"{kind} {count}")
    strikes: list[Strike] = []
    while not enough(strikes, count):
        run = made.fresh(kind, place / "run")
        train_through(run, rng, strikes, count)
        assert outcome(run) == made.outcome(kind)
    assert len({strike.step for strike in strikes}) >= 4, strikes


def one_more(trainer: loop.Trainer) -> None:
    """Train each step on the batch of the next step."""
    usual = trainer.job.loss
    trainer.job.loss = lambda step, shard, shards: usual(step + 1, shard, shards)  # type: ignore[method-assign]


def one_ulp(run: Path) -> None:
    def change(arrays: dict[str, tensors.Array]) -> None:
        weight = arrays["encoder.embedding.weight"]
        weight[3, 3] = np.nextafter(weight[3, 3], np.float32(9))

    rewrite(checkpoints(run)[-1], checkpoint.MODEL, change)


def forgets_a_moment(run: Path) -> None:
    def change(arrays: dict[str, tensors.Array]) -> None:
        arrays["encoder.embedding.weight.exp_avg"][3] = 0

    rewrite(checkpoints(run)[-1], checkpoint.OPTIMIZER, change)


@pytest.mark.parametrize(
    "kind", ["transformer", *(pytest.param(kind, marks=pytest.mark.slow) for kind in FAMILIES[:-1])]
)
def test_a_different_batch_dropout_mask_or_parameter_changes_the_bits(kind: str, made: Runs, place: Path) -> None:
    """Control of the comparisons in this module: almost identical trainings are not equal."""
    half = made.fresh(kind, place / "half")
    assert step_vectors(half, should_stop=stopping_at(7)) == 0
    expected = made.outcome(kind)

    def gone_on(name: str, patch: AbstractContextManager[object], change: Callable[[Path], object]) -> Outcome:
        run = copied(half, place / name)
        change(run)
        with patch:
            assert step_vectors(run) == 0
        return outcome(run)

    real = loop.Trainer.run

    def shifted(trainer: loop.Trainer) -> loop.StopReason:
        one_more(trainer)
        return real(trainer)

    nothing: Callable[[Path], object] = lambda run: None  # noqa: E731
    still = patched(loop, "seeded_rng", lambda *key: seeded_rng("step", 0, 0))
    assert gone_on("same", contextlib.nullcontext(), nothing) == expected
    found = {
        "order": gone_on("order", patched(loop.Trainer, "run", shifted), nothing),
        "generator": gone_on("generator", still, nothing),
        "moment": gone_on("moment", contextlib.nullcontext(), forgets_a_moment),
    }
    for name, other in found.items():
        assert other.model != expected.model, name
        assert other.state != expected.state, name
        assert other.curve != expected.curve, name
    one_ulp(place / "same")
    assert outcome(place / "same").state != expected.state


def stopping_at(step: int) -> Callable[[], bool]:
    asked = itertools.count(1)
    return lambda: next(asked) == step


@pytest.mark.slow
@pytest.mark.parametrize("kind", FAMILIES)
def test_a_real_command_killed_again_and_again_ends_with_the_same_bits(kind: str, made: Runs, place: Path) -> None:
    options = {"steps": 300, "training.checkpoint_every": 10, "training.evaluate_every": 20}
    rng = random.Random(kind)
    run = made.fresh(kind, place / "run", **options)
    command = [sys.executable, "-m", "satchel", "train", "--resume", str(run)]
    reached, moved = 0, 0
    for _ in range(10):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while step_of(run) <= reached and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.002)
        time.sleep(rng.uniform(0, 0.05))
        process.kill()
        if process.wait() == 0:
            break
        moved += step_of(run) > reached
        reached = step_of(run)
    assert moved >= 5
    assert step_vectors(run) in (0, FINISHED)
    assert outcome(run) == made.outcome(kind, **options)


# --- kills at every system call of a save: T2, T15, T21 ------------------------------------------------------

# A short training with saves after steps 2, 4 and 6, each the best so far; each removes old checkpoints.
SHORT: dict[str, Any] = {
    "steps": 6, "training.checkpoint_every": 2, "training.evaluate_every": 2, "training.keep": 1,
}  # fmt: skip
SAVES = {"first": 1, "middle": 2, "last": 3}


@contextlib.contextmanager
def at_save(number: int, now: int, **moments: Fault) -> Iterator[None]:
    """Inject faults into the system calls of one save."""
    if now == number:
        with faulty(**moments):
            yield
    else:
        yield


def calls_of_saves(run: Path, **options: Any) -> dict[int, list[str]]:
    """Train a run and return the names of the system calls of each save."""
    names: dict[int, list[str]] = {}

    @contextlib.contextmanager
    def counted(number: int) -> Iterator[None]:
        names[number] = []
        with faulty(before=lambda k, name: names[number].append(name)):
            yield

    assert step_vectors(run, around=counted, **options) == 0
    return names


def chosen(names: list[str], every: bool) -> list[int]:
    """Return the indices of all system calls; or of the first of each kind and of all renames."""
    return [
        k
        for k, name in enumerate(names, start=1)
        if every or name in ("rename", "replace") or name not in names[: k - 1] or k == len(names)
    ]


sweeps = pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["some", "every"])


@pytest.mark.parametrize("save", SAVES)
@sweeps
def test_a_save_killed_at_any_call_loses_only_the_steps_since_the_one_before(
    save: str, every: bool, made: Runs, place: Path
) -> None:
    number = SAVES[save]
    names = calls_of_saves(made.fresh("dan", place / "counted", **SHORT))[number]
    assert {"mkdir", "open file", "write", "fsync", "rename", "replace"} <= set(names)
    expected = made.outcome("dan", **SHORT)
    lost: list[str] = []
    steps = []
    for k in chosen(names, every):
        for moment in ("before", "after") if every else ("after",):
            where = f"{moment} call {k} of {len(names)}, {names[k - 1]}"
            run = made.fresh("dan", place / "run", **SHORT)
            board = Board()
            around = (
                partial(at_save, number, before=kill_at(k))
                if moment == "before"
                else partial(at_save, number, after=kill_at(k))
            )
            assert wait_for(fork(partial(step_vectors, run, board, around))) == -signal.SIGKILL, where
            assert board.phase == SAVING
            steps.append(step_of(run))
            again = Board()
            try:
                # T15: the lock of a killed process is released.
                assert step_vectors(run, again) in (0, FINISHED)
                assert again.phase == STARTING or again.began >= board.saved
                assert outcome(run) == expected
                assert leftovers(run) == []
            except (RunError, AssertionError) as error:
                lost.append(f"{where}: {str(error)[:300]}")
    assert not lost, f"{len(lost)} of {len(steps)}:\n" + "\n".join(lost)
    # A checkpoint that exists is not lost; kills before and after its creation were tried.
    assert steps == sorted(steps)
    assert set(steps) == {2 * number - 2, 2 * number}


def costs_by_step(costs: dict[int, float]) -> Callable[[loop.Trainer], None]:
    """Return a function that replaces the validation losses of a training."""

    def change(trainer: loop.Trainer) -> None:
        trainer.job.validate = lambda: loop.ValidationResult(costs[trainer.state.step])  # type: ignore[method-assign]

    return change


@contextlib.contextmanager
def believing(costs: dict[int, float]) -> Iterator[None]:
    """Replace the validation losses, so that the best step is known."""
    real = loop.Trainer.run

    def run(trainer: loop.Trainer) -> loop.StopReason:
        costs_by_step(costs)(trainer)
        return real(trainer)

    with patched(loop.Trainer, "run", run):
        yield


# The second save, at step 4, is the best; the third removes checkpoints that are neither last nor best.
BEST_IN_THE_MIDDLE = {2: 3.0, 4: 1.0, 6: 2.0, 8: 2.5}
FOUR_SAVES = {**SHORT, "steps": 8}


@pytest.mark.parametrize("number", [2, 3, pytest.param(4, marks=pytest.mark.slow)])
@sweeps
def test_the_best_parameters_survive_a_kill_at_any_call(number: int, every: bool, made: Runs, place: Path) -> None:
    """T21: at any time, the required number of intact checkpoints exists, and the best one."""
    with believing(BEST_IN_THE_MIDDLE):
        names = calls_of_saves(made.fresh("dan", place / "whole", **FOUR_SAVES))[number]
        expected = outcome(place / "whole")
        best = checkpoint.folder_name(4)
        assert arrays_of(place / "whole" / "model.safetensors") == arrays_of(
            place / "whole" / checkpoint.FOLDER / best / checkpoint.MODEL
        )
        wrong: list[str] = []
        for k in chosen(names, every):
            where = f"call {k} of {len(names)}, {names[k - 1]}"
            run = made.fresh("dan", place / "run", **FOUR_SAVES)
            around = partial(at_save, number, after=kill_at(k))
            assert wait_for(fork(partial(step_vectors, run, Board(), around))) == -signal.SIGKILL, where
            sound = [path for path in checkpoints(run) if is_sound(path)]
            kept_best = number == 2 or run / checkpoint.FOLDER / best in sound
            if len(sound) < FOUR_SAVES["training.keep"] or not kept_best:
                wrong.append(f"{where}: {[path.name for path in sound]} are left")
            assert step_vectors(run) in (0, FINISHED)
            if outcome(run) != expected:
                wrong.append(f"{where}: the model of the run is not the best one")
    assert wrong == []


def is_sound(folder: Path) -> bool:
    try:
        for name in durable.read_manifest(folder):
            durable.read_verified(folder, name, 1 << 30)
    except RunError:
        return False
    return True


@sweeps
def test_incomplete_files_of_a_killed_save_are_removed(every: bool, made: Runs, place: Path) -> None:
    """T21: an interruption saves after a step without a regular save; a second signal kills that save."""
    names = calls_of_saves(made.fresh("dan", place / "counted", **SHORT), should_stop=stopping_at(3))[2]
    wrong: list[str] = []
    left = 0
    for k in chosen(names, every):
        run = made.fresh("dan", place / "run", **SHORT)
        around = partial(at_save, 2, after=kill_at(k))
        child = fork(partial(step_vectors, run, Board(), around, should_stop=stopping_at(3)))
        assert wait_for(child) == -signal.SIGKILL
        left += bool(leftovers(run))
        assert step_vectors(run) == 0
        assert outcome(run) == made.outcome("dan", **SHORT)
        if found := leftovers(run):
            wrong.append(f"call {k} of {len(names)}, {names[k - 1]}: {found}")
    assert left > 3
    assert wrong == []


# --- disk errors: T8, T9, T10 ---------------------------------------------------------------------

CODES = [errno.ENOSPC, errno.EIO, errno.EDQUOT]


@pytest.mark.parametrize("code", CODES, ids=errno.errorcode.get)
@sweeps
def test_a_save_that_fails_at_any_call_is_reported_and_training_continues(
    code: int, every: bool, made: Runs, place: Path
) -> None:
    names = calls_of_saves(made.fresh("dan", place / "counted", **SHORT))[2]
    expected = made.outcome("dan", **SHORT)
    untold: list[str] = []
    failures = 0
    ks = [k for k in chosen(names, every) if not names[k - 1].startswith("clear")]
    for k in ks:
        where = f"call {k} of {len(names)}, {names[k - 1]}"
        run = made.fresh("dan", place / "run", **SHORT)
        notes: list[str] = []
        is_done: list[bool] = []

        @contextlib.contextmanager
        def failing(number: int, k: int = k, run: Path = run, is_done: list[bool] = is_done) -> Iterator[None]:
            if number == 2:
                with faulty(before=error_at(k, code)):
                    yield
                assert leftovers(run) == []
                assert checkpoints(run)
                assert all(map(is_sound, checkpoints(run)))
                model = tensors.read(run / "model.safetensors")[1]["step"]
                is_done.append((step_of(run), model) == (4, "4"))
            else:
                yield

        assert step_vectors(run, around=failing, note=notes.append) == 0, where
        assert leftovers(run) == []
        assert outcome(run) == expected, where
        told = any("could not save" in note and os.strerror(code) in note for note in notes)
        # Failures to create an existing folder or to list an old one do not affect a save.
        if not told and is_done == [False]:
            untold.append(where)
        failures += told
    assert untold == []
    assert failures >= 4


@pytest.mark.parametrize("code", CODES, ids=errno.errorcode.get)
def test_the_best_parameters_become_the_model_even_if_their_first_save_failed(
    code: int, made: Runs, place: Path
) -> None:
    """The parameters of a failed save are lost; the best parameters named by the run always exist."""
    with believing(BEST_IN_THE_MIDDLE):
        names = calls_of_saves(made.fresh("dan", place / "counted", **FOUR_SAVES))[2]
        wrong: list[str] = []
        for k in (names.index("write") + 1, names.index("replace") + 1):
            run = made.fresh("dan", place / "run", **FOUR_SAVES)
            assert step_vectors(run, around=partial(at_save, 2, before=error_at(k, code))) == 0
            progress = checkpoint.read_newest(run).progress
            model = arrays_of(run / "model.safetensors")
            named = run / checkpoint.FOLDER / checkpoint.folder_name(progress["best_step"]) / checkpoint.MODEL
            if not named.exists():
                wrong.append(f"{names[k - 1]}: the best is step {progress['best_step']}, which nothing has kept")
            elif arrays_of(named) != model:
                wrong.append(f"{names[k - 1]}: the model of the run is not that of its best step")
    assert wrong == []


def command(*arguments: str | Path) -> int:
    return command_line.run([str(argument) for argument in arguments])


def refused_from(first: int, code: int = errno.ENOSPC) -> Fault:
    """Return a fault: the disk is full from a given system call on."""

    def fault(number: int, name: str) -> None:
        if number >= first and not name.startswith("clear"):
            raise OSError(code, os.strerror(code), name)

    return fault


def test_only_a_failure_of_the_last_save_changes_the_exit_code(
    made: Runs, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    codes = {}
    for save, number in SAVES.items():
        run = made.fresh("dan", place / save, **SHORT)
        with watched(Board(), partial(at_save, number, before=refused_from(1))):
            codes[save] = command("train", "--resume", run)
        assert step_of(run) == (4 if save == "last" else 6)
        said = capsys.readouterr().err
        assert "could not save: " in said
        assert os.strerror(errno.ENOSPC) in said
        assert ("the last save failed" in said) == (save == "last")
        assert leftovers(run) == []
    assert codes == {"first": 0, "middle": 0, "last": 3}


def test_an_interrupted_training_whose_save_fails_does_not_claim_to_be_saved(
    made: Runs, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = made.fresh("dan", place / "run", **SHORT)

    @contextlib.contextmanager
    def stopped_and_full(number: int) -> Iterator[None]:
        if number == 1:
            os.kill(os.getpid(), signal.SIGTERM)
            yield
        else:
            with faulty(before=refused_from(1)):
                yield

    with watched(Board(), stopped_and_full):
        code = command("train", "--resume", run)
    said = capsys.readouterr().err
    assert step_of(run) == 2
    assert "could not save" in said
    assert "saved at step 3" not in said
    assert code == 3


def test_training_continues_on_a_full_disk(place: Path, made: Runs) -> None:
    disk = place / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=400k", "none", str(disk)]
    if os.getuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode != 0:
        pytest.skip("no disk can be mounted here")
    try:
        run = made.fresh("dan", disk / "run", **SHORT)
        filler = disk / "filler"
        notes: list[str] = []

        @contextlib.contextmanager
        def full(number: int) -> Iterator[None]:
            if number == 2:
                with contextlib.suppress(OSError), open(filler, "wb", buffering=0) as handle:
                    while handle.write(b"x" * 4096):
                        pass
                yield
                assert step_of(run) == 2
                assert leftovers(run) == []
                filler.unlink()
            else:
                yield

        assert step_vectors(run, around=full, note=notes.append) == 0
        assert any("No space left on device" in note for note in notes)
        assert outcome(run) == made.outcome("dan", **SHORT)
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


def interrupted_at(made: Runs, to: Path, step: int = 5, **options: Any) -> Path:
    """Return an interrupted run with two checkpoints."""
    run = made.fresh("dan", to, **{**SHORT, "training.keep": 2, **options})
    assert step_vectors(run, should_stop=stopping_at(step)) == 0
    assert [int(path.name[-3:]) for path in checkpoints(run)] == [step - 1, step]
    return run


@contextlib.contextmanager
def unreadable(folder: Path, at: str) -> Iterator[None]:
    """Let opening or reading the files of a folder fail."""
    real_open, real_file = os.open, open

    def open_descriptor(path: Any, *args: Any, **options: Any) -> int:
        if at == "open" and Path(path).parent == folder and Path(path).is_file():
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        return real_open(path, *args, **options)

    class Bad(io.RawIOBase):
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
        if at == "read" and isinstance(file, int) and Path(os.readlink(f"/proc/self/fd/{file}")).parent == folder:
            return io.BufferedReader(Bad(file))
        return real_file(file, *args, **options)

    import builtins

    with patched(os, "open", open_descriptor), patched(builtins, "open", open_file):
        yield


@pytest.mark.parametrize("at", ["open", "read"])
def test_an_unreadable_checkpoint_is_reported_and_skipped(
    at: str, made: Runs, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = interrupted_at(made, place / "run")
    board = Board()
    with unreadable(checkpoints(run)[-1], at), watched(board):
        assert command("train", "--resume", run) == 0
    assert board.began == 4
    said = capsys.readouterr().err
    assert f"skipped a damaged checkpoint: {checkpoint.folder_name(5)}" in said
    assert os.strerror(errno.EIO) in said


def test_a_read_only_folder_is_an_error_before_training(made: Runs, place: Path) -> None:
    """T10: the run folder must be writable, as a training without saves is useless."""
    os.chmod(place, 0o755)
    run = made.fresh("dan", place / "run", **SHORT)
    text = place / "text.txt"
    shutil.copy(made.text, text)
    locked = place / "locked"
    locked.mkdir()
    for path in [locked, *run.rglob("*"), run]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    board = Board()

    def tried(arguments: list[str | Path]) -> int:
        if os.getuid() == 0:  # root may write everywhere
            os.setgid(65534)
            os.setuid(65534)
        with watched(board):
            return command(*arguments)

    model = ["--model", "dan", "--tokenizer", "char", "--steps", "3"]
    beginnings: list[list[str | Path]] = [["train", text, *model, "-o", locked / "new"], ["train", "--resume", run]]
    for arguments in beginnings:
        code, said = told(partial(tried, arguments), place / "said")
        assert code == 2, f"{arguments[:2]} ended with {code}: {said}"
        cause, remedy = said.strip("\n").split("\n")[-2:]
        assert cause.startswith("satchel: ")
        assert "Permission denied" in cause
        assert remedy.startswith("         ")
        assert "Traceback" not in said
    assert board.phase == STARTING


def told(work: Callable[[], object], where: Path) -> tuple[int, str]:
    """Run a function in a child process; return its exit status and its standard error."""

    def child() -> object:
        handle = where.open("w")
        os.dup2(handle.fileno(), 2)
        sys.stderr = handle
        try:
            return work()
        finally:
            handle.flush()

    code = wait_for(fork(child))
    return code, where.read_text()


# --- signals: T4, T5, T6, T7 --------------------------------------------------------------------------------


def by_command(run: Path, board: Board, around: Callable[[int], Any] = lambda number: contextlib.nullcontext()) -> int:
    """Resume a run by the command line, with its signal handlers; return the exit code."""
    arguments = ["satchel", "train", "--resume", str(run)]
    with watched(board, around), other_numbers(), patched(sys, "argv", arguments):
        try:
            command_line.main()
        except SystemExit as left:
            return int(left.code or 0)


NUMBERS = {signal.SIGTERM: 143, signal.SIGINT: 130}


@pytest.mark.parametrize(("number", "code"), NUMBERS.items(), ids=["SIGTERM", "SIGINT"])
@counts(8, 50)
def test_a_signal_at_any_time_saves_all_steps_and_ends_the_training(
    number: int, code: int, count: int, made: Runs, place: Path
) -> None:
    rng = random.Random(number + count)
    strikes: list[Strike] = []
    late = 0
    while not enough(strikes, count):
        run = made.fresh("transformer", place / "run")
        reached = 0
        while True:
            board = Board()
            child = fork(partial(by_command, run, board))
            strike(child, board, rng, number)
            struck = Strike(board.phase, board.step)
            began = time.monotonic()
            left = wait_for(child)
            assert time.monotonic() - began < 5
            if board.phase == STARTING:
                break  # the training was finished
            assert board.began == reached
            reached = step_of(run)
            assert reached == board.step, "a step was lost"
            assert leftovers(run) == []
            if left == 0:
                late += 1
                break
            assert left == code
            strikes.append(struck)
        assert outcome(run) == made.outcome("transformer")
    assert late


@contextlib.contextmanager
def signalled(save: int, number: int, at: tuple[int, ...], now: int) -> Iterator[None]:
    """Send this process a signal at given system calls of a save."""

    def fault(k: int, name: str) -> None:
        del name
        for _ in range(at.count(k)):
            os.kill(os.getpid(), number)

    with at_save(save, now, before=fault):
        yield


@pytest.mark.parametrize(("number", "code"), NUMBERS.items(), ids=["SIGTERM", "SIGINT"])
@sweeps
def test_a_signal_during_a_save_lets_it_finish(number: int, code: int, every: bool, made: Runs, place: Path) -> None:
    names = calls_of_saves(made.fresh("dan", place / "counted", **SHORT))[2]
    ks = chosen(names, every)
    for k in ks if every else sorted({ks[0], *ks[number % 2 :: 4], ks[-1]}):
        run = made.fresh("dan", place / "run", **SHORT)
        board = Board()
        began = time.monotonic()
        child = fork(partial(by_command, run, board, partial(signalled, 2, number, (k,))))
        assert wait_for(child) == code
        assert time.monotonic() - began < 5
        # The save of step 4 was finished, followed by one save of the step in progress.
        assert (board.saves, board.saved) == (3, 5)
        assert step_of(run) == 5
        assert all(map(is_sound, checkpoints(run)))
        assert leftovers(run) == []
        assert step_vectors(run) == 0
        assert outcome(run) == made.outcome("dan", **SHORT)


@pytest.mark.parametrize(("number", "code"), NUMBERS.items(), ids=["SIGTERM", "SIGINT"])
@sweeps
def test_a_second_signal_exits_at_once_and_the_previous_checkpoint_is_intact(
    number: int, code: int, every: bool, made: Runs, place: Path
) -> None:
    names = calls_of_saves(made.fresh("dan", place / "counted", **SHORT))[2]
    ks = chosen(names, every)
    reached = []
    for k in ks if every else sorted({ks[0], *ks[number % 2 :: 4], ks[-1]}):
        run = made.fresh("dan", place / "run", **SHORT)
        board = Board()
        began = time.monotonic()
        child = fork(partial(by_command, run, board, partial(signalled, 2, number, (1, k))))
        wait_until(child, lambda board=board: board.saves == 2)  # type: ignore[misc]
        began = time.monotonic()
        assert wait_for(child) == code
        assert time.monotonic() - began < 1
        # It did not wait for the running save.
        assert (board.phase, board.saves) == (SAVING, 2)
        reached.append(step_of(run))
        assert step_vectors(run) == 0
        assert outcome(run) == made.outcome("dan", **SHORT)
    assert reached == sorted(reached)
    assert set(reached) == {2, 4}


@pytest.mark.parametrize(("number", "code"), NUMBERS.items(), ids=["SIGTERM", "SIGINT"])
def test_a_signal_in_the_first_step_saves_too(number: int, code: int, made: Runs, place: Path) -> None:
    """The first step after a start must be saved too, as a step may take long."""
    run = made.fresh("dan", place / "run", **SHORT)
    real = loop.Trainer.run

    def signalled_at_once(trainer: loop.Trainer) -> loop.StopReason:
        usual = trainer.job.loss

        def loss(step: int, shard: int, shards: int) -> Any:
            if step == 0:
                os.kill(os.getpid(), number)
            return usual(step, shard, shards)

        trainer.job.loss = loss  # type: ignore[method-assign]
        return real(trainer)

    with patched(loop.Trainer, "run", signalled_at_once):
        assert wait_for(fork(partial(by_command, run, Board()))) == code
    assert step_of(run) == 1
    assert step_vectors(run) == 0
    assert outcome(run) == made.outcome("dan", **SHORT)


@counts(4, 40)
def test_a_suspended_process_continues_with_identical_bits(count: int, made: Runs, place: Path) -> None:
    rng = random.Random(count)
    strikes: list[Strike] = []
    while len(strikes) < count:
        run = made.fresh("gru", place / "run")
        board = Board()
        child = fork(partial(step_vectors, run, board))
        for _ in range(3):
            if strike(child, board, rng, signal.SIGSTOP):
                time.sleep(0.05)
                strikes.append(Strike(board.phase, board.step))
                before = board.step, board.phase
                time.sleep(rng.uniform(0.05, 0.2))
                assert (board.step, board.phase) == before, "it did not sleep"
                os.kill(child, signal.SIGCONT)
        assert wait_for(child) == 0
        assert outcome(run) == made.outcome("gru")
    assert {TRAINING, SAVING} & {strike.phase for strike in strikes}


def test_a_jumping_clock_changes_only_the_reported_time(made: Runs, place: Path) -> None:
    rng = random.Random(0)
    run = made.fresh("gru", place / "run")
    with patched(time, "perf_counter", lambda: rng.uniform(-1e6, 1e6)):
        assert step_vectors(run) == 0
    assert outcome(run) == made.outcome("gru")
    seconds = [json.loads(line)["seconds"] for line in (run / "metrics.jsonl").read_bytes().strip().split(b"\n")]
    assert seconds != sorted(seconds)  # the clock jumped


# --- damage: T11, T12, T14 ----------------------------------------------------------------------------------


class Damaged:
    """A run with two checkpoints, of which the newest is damaged."""

    def __init__(self, run: Path) -> None:
        self.run = run
        made = test_resume.trainer("learned", saved=test_resume.saving_to(run), evaluate_every=1000)
        made.run()
        self.before, self.newest = checkpoints(run)[-2:]
        self.files = {path.name: path.read_bytes() for path in sorted(self.newest.iterdir())}
        self.again = test_resume.trainer("learned")
        saving.restore(run, self.again)
        assert self.again.state.step == 12
        shutil.move(self.newest, run / "aside")
        saving.restore(run, self.again)
        self.expected = test_resume.bits(self.again)
        shutil.move(run / "aside", self.newest)

    def falls_back(self, name: str, data: bytes) -> str:
        """Return the error for a file of the newest checkpoint with other contents."""
        (self.newest / name).write_bytes(data)
        try:
            told = saving.restore(self.run, self.again)
        except Exception as error:
            return f"{type(error).__name__}: {str(error)[:200]}"
        finally:
            (self.newest / name).write_bytes(self.files[name])
        if self.again.state.step != 8 or test_resume.bits(self.again) != self.expected:
            return f"went on from step {self.again.state.step}"
        if len(told) != 1 or not told[0].startswith(self.newest.name):
            return f"said {told}"
        named = name in told[0] or name == durable.MANIFEST
        return "" if named else f"did not name the file: {told[0]}"


@pytest.fixture
def damaged(place: Path) -> Damaged:
    return Damaged(place / "run")


def places(data: bytes, rng: random.Random) -> Iterator[int]:
    """Return random offsets in a file; half of them in its header, if it has one."""
    header = 8 + int.from_bytes(data[:8], "little")
    while True:
        yield rng.randrange(len(data))
        if header < len(data):
            yield rng.randrange(header)


@counts(160, 1000)
def test_a_flipped_bit_in_a_checkpoint_is_detected_and_the_previous_one_is_used(count: int, damaged: Damaged) -> None:
    rng = random.Random(count)
    tried = 0
    wrong: list[str] = []
    for name, data in damaged.files.items():
        for place in itertools.islice(places(data, rng), count // len(damaged.files)):
            bit = rng.randrange(8)
            changed = bytearray(data)
            changed[place] ^= 1 << bit
            tried += 1
            if fault := damaged.falls_back(name, bytes(changed)):
                wrong.append(f"{name}, bit {bit} of byte {place} of {len(data)}: {fault}")
    assert tried == count
    assert not wrong, f"{len(wrong)} of {count}:\n" + "\n".join(wrong[:20])
    assert damaged.falls_back(name, data) == "went on from step 12"  # without a flipped bit


@counts(8, 50)
def test_a_truncated_emptied_or_extended_checkpoint_is_detected(count: int, damaged: Damaged) -> None:
    for name, data in damaged.files.items():
        others = [data[: len(data) * part // count] for part in range(count)]
        # A missing newline at the end of the manifest is not damage.
        others += [data[:-2] if name == durable.MANIFEST else data[:-1], data + b"\0", data + data, bytes(len(data))]
        for other in others:
            assert not damaged.falls_back(name, other), f"{name}, {len(other)} of {len(data)} bytes"


@pytest.mark.parametrize("name", [durable.MANIFEST, checkpoint.MODEL, checkpoint.OPTIMIZER, checkpoint.PROGRESS])
def test_a_checkpoint_with_a_missing_file_is_detected(name: str, damaged: Damaged) -> None:
    (damaged.newest / name).unlink()
    (told,) = saving.restore(damaged.run, damaged.again)
    assert told.startswith(damaged.newest.name)
    assert name in told
    assert damaged.again.state.step == 8


def flip_the_middle(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-100] ^= 1
    path.write_bytes(data)


def test_a_damaged_checkpoint_is_rewritten_when_its_step_is_repeated(made: Runs, place: Path) -> None:
    """Otherwise intact checkpoints would be removed in its favour."""
    run = interrupted_at(made, place / "run", step=5)
    flip_the_middle(checkpoints(run)[-1] / checkpoint.MODEL)
    flip_the_middle(checkpoints(run)[-2] / checkpoint.MODEL)
    with pytest.raises(RunError, match="all of its 2 checkpoints are damaged"):
        step_vectors(run)
    run = interrupted_at(made, place / "run", step=5)
    flip_the_middle(checkpoints(run)[-1] / checkpoint.MODEL)
    board = Board()
    assert step_vectors(run, board, should_stop=stopping_at(1)) == 0
    assert board.began == 4
    assert step_of(run) == 5
    assert all(map(is_sound, checkpoints(run)))


def test_damaged_checkpoints_do_not_count_as_kept(made: Runs, place: Path) -> None:
    run = interrupted_at(made, place / "run", step=5)
    flip_the_middle(checkpoints(run)[-1] / checkpoint.OPTIMIZER)
    # The next save is that of step 6; step 5 is not saved again.
    assert step_vectors(run) == 0
    sound = [int(path.name[-3:]) for path in checkpoints(run) if is_sound(path)]
    assert sound[-2:] == [4, 6]


def test_if_all_checkpoints_are_damaged_each_is_reported_and_training_does_not_restart(
    made: Runs, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = interrupted_at(made, place / "run")
    first, second = checkpoints(run)
    (first / checkpoint.PROGRESS).unlink()
    (second / checkpoint.MODEL).write_bytes(b"")
    before = contents(run)
    board = Board()
    with watched(board):
        assert command("train", "--resume", run) == 2
    assert board.phase == STARTING
    assert contents(run) == before
    said = capsys.readouterr().err
    assert "all of its 2 checkpoints are damaged" in said
    for path, name, why in (
        (first, checkpoint.PROGRESS, os.strerror(errno.ENOENT)),
        (second, checkpoint.MODEL, "has 0 bytes"),
    ):
        (line,) = (line for line in said.split("\n") if f"{path.name}: " in line)
        assert name in line
        assert why in line or "is damaged" in line
    assert "Traceback" not in said


def test_if_all_checkpoints_are_missing_training_does_not_restart(
    made: Runs, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for gone in ("those in the folder", "the folder"):
        run = interrupted_at(made, place / "run")
        shutil.rmtree(run / checkpoint.FOLDER)
        if gone == "those in the folder":
            (run / checkpoint.FOLDER).mkdir()
        before = contents(run)
        assert command("train", "--resume", run) == 2
        assert contents(run) == before
        assert "no checkpoint" in capsys.readouterr().err


# --- modified runs: T16 ------------------------------------------------------


def seal(run: Path) -> None:
    """Update the manifest of a run to its changed files, as an attacker would."""
    manifest = json.loads((run / durable.MANIFEST).read_bytes())
    for name in manifest["files"]:
        path = run / name
        manifest["files"][name] = {"size": path.stat().st_size, "sha256": durable.file_sha256(path)}
    (run / durable.MANIFEST).write_text(json.dumps(manifest))


def other_tokens(run: Path, made: Runs, place: Path) -> None:
    text = place / "other.txt"
    text.write_text(made.text.read_text()[::-1])
    api.train(text, model="ngram", tokenizer=str(run), out=place / "other", valid=0.1)
    shutil.copy(place / "other" / "tokens" / "train.safetensors", run / "tokens" / "train.safetensors")


def flipped_tokens(run: Path, made: Runs, place: Path) -> None:
    flip_the_middle(run / "tokens" / "train.safetensors")


def other_tokenizer(run: Path, made: Runs, place: Path) -> None:
    text = place / "other.txt"
    text.write_text(made.text.read_text().replace("T", "X"))
    api.train(text, model="ngram", tokenizer="char", out=place / "other")
    shutil.copy(place / "other" / "tokenizer.json", run / "tokenizer.json")


def other_tokenizer_on_purpose(run: Path, made: Runs, place: Path) -> None:
    other_tokenizer(run, made, place)
    seal(run)


def other_settings(run: Path, made: Runs, place: Path) -> None:
    path = run / "config.json"
    path.write_text(path.read_text().replace('"learning_rate": 0.01', '"learning_rate": 0.02'))


def other_torch(run: Path, made: Runs, place: Path) -> None:
    path = run / "config.json"
    path.write_text(path.read_text().replace(f'"torch": "{torch.__version__}"', '"torch": "1.0"'))
    seal(run)


CHANGES = {
    "the tokens of another text": (other_tokens, "train.safetensors"),
    "a flipped bit of the tokens": (flipped_tokens, "train.safetensors"),
    "another tokenizer": (other_tokenizer, "tokenizer.json"),
    "another tokenizer and its manifest": (other_tokenizer_on_purpose, "tokenizer.json"),
    "other settings": (other_settings, "config.json"),
    "another torch": (other_torch, "torch 1.0"),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_a_modified_run_is_not_resumed_and_the_modified_file_is_named(
    kind: str, made: Runs, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change, named = CHANGES[kind]
    run = interrupted_at(made, place / "run")
    change(run, made, place)
    before = contents(run)
    assert command("train", "--resume", run) == 2
    said = capsys.readouterr().err
    assert named in said
    assert "Traceback" not in said
    assert contents(run) == before


@pytest.mark.parametrize(
    "options",
    [["--threads", "2"], ["--steps", "9"], ["--set", "training.learning_rate=1"], ["--seed", "3"], ["--model", "gru"]],
    ids=lambda options: options[0],
)
def test_resume_accepts_no_settings(
    options: list[str], made: Runs, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Otherwise the setting would be ignored without notice."""
    run = interrupted_at(made, place / "run")
    assert command("train", "--resume", run, *options) == 2
    assert options[0] in capsys.readouterr().err
    assert step_of(run) == 5


def test_a_resumed_run_keeps_its_number_of_threads(made: Runs, place: Path) -> None:
    seen: set[int] = set()

    @contextlib.contextmanager
    def asked(number: int) -> Iterator[None]:
        seen.add(torch.get_num_threads())
        yield

    run = interrupted_at(made, place / "run")
    # Not in a child process, as threads do not survive a fork.
    torch.set_num_threads(2)
    assert step_vectors(run, around=asked) == 0
    assert seen == {1}
    assert torch.get_num_threads() == 2
    assert outcome(run) == made.outcome("dan", **{**SHORT, "training.keep": 2})


# --- interruptions at every step: T17, T18, T19 ----------------------------------------------------------------


RHYTHMS: dict[str, dict[str, Any]] = {
    # 400 ids are 8 steps of 48: epochs end at steps 8 and 16 of 20, and the warm-up ends at step 5.
    "epochs": {"steps": None, "epochs": 2.4, "warmup": 0.25, "decay": 0.5},
    "accumulate": {"steps": 10, "accumulate": 3, "batch_tokens": 96},
    "documents": {"steps": 12, "stream": False},
    "muon": {"steps": 10, "optimizer": "muon"},
}


def rhythm(name: str, **others: Any) -> loop.Trainer:
    options = {**RHYTHMS[name], **others}
    stream = options.pop("stream", True)
    made = test_resume.trainer("modern" if name == "muon" else "gru", **options)
    if not stream:
        ids = test_resume.text()
        ids[::9] = ids[-1] = test_resume.END
        assert isinstance(made.job, LanguageJob)
        made.job = LanguageJob(
            made.job.network, ids, test_resume.END, made.settings, stream=False, valid=made.job.valid
        )
    return made


@pytest.mark.parametrize("name", RHYTHMS)
def test_a_training_can_be_stopped_after_every_step(name: str, place: Path) -> None:
    whole = rhythm(name)
    assert whole.run() == "finished"
    steps = whole.state.step
    if name == "epochs":
        assert whole.job.steps_per_epoch * 2 < steps < whole.job.steps_per_epoch * 3
    for at in range(1, steps):
        run = place / str(at)
        first = rhythm(name, saved=test_resume.saving_to(run), stop=stopping_at(at), checkpoint_every=1000)
        with other_numbers():
            first.run()
        second = rhythm(name)
        assert saving.restore(run, second) == ()
        assert second.state.step == at
        if at == 3:
            control = rhythm(name)
            saving.restore(run, control)
            control.state.step += 1
            control.run()
            assert test_resume.bits(control) != test_resume.bits(whole)
        with other_numbers():
            second.run()
        assert test_resume.bits(second) == test_resume.bits(whole), at


def test_saves_validations_and_samples_do_not_change_the_losses(
    made: Runs, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = {}
    common: dict[int, set[str]] = {}
    for saves, validations, samples in [(1, 1, 0.0), (1, 1000, 30.0), (7, 1, 0.0), (7, 3, 30.0), (1000, 1000, 0.0)]:
        monkeypatch.setattr(events, "SAMPLE_EVERY", samples)
        options = {"training.checkpoint_every": saves, "training.evaluate_every": validations}
        run = begin(made.text, "transformer", place / f"{saves}-{validations}-{samples}", **options)
        assert step_vectors(run) == 0
        last = checkpoints(run)[-1]
        ends[saves, validations, samples] = arrays_of(last / checkpoint.MODEL) | arrays_of(last / checkpoint.OPTIMIZER)
        for step, (loss, _) in curve(run).items():
            common.setdefault(step, set()).add(loss)
        sampled = (run / "samples.jsonl").read_bytes().count(b"\n")
        assert sampled == len(curve(run)) if samples == 0 else sampled == 1
    assert all(end == ends[1, 1, 0.0] for end in ends.values())
    assert len(common) == STEPS
    assert all(len(losses) == 1 for losses in common.values())
    other = begin(made.text, "transformer", place / "other", **{"training.seed": 1})
    assert step_vectors(other) == 0
    assert arrays_of(checkpoints(other)[-1] / checkpoint.MODEL).items() != ends[1, 1, 0.0].items()
    assert set(curve(other)[3]) & common[3] == set()


# --- invalid losses: T23 ------------------------------------------------------------------------------


def all_finite(trainer: loop.Trainer) -> bool:
    own = saving.parameters(trainer.job.network)
    remembered = trainer.optimizer.state()
    return all(np.isfinite(array).all() for array in own.values()) and all(
        bool(value.isfinite().all()) for value in remembered.values()
    )


def infinite_row(trainer: loop.Trainer) -> None:
    assert isinstance(trainer.job, LanguageJob)
    gradient = trainer.job.network.encoder.embedding.weight.grad
    assert gradient is not None
    gradient[3] = math.inf


def one_gradient(trainer: loop.Trainer) -> None:
    gradient = trainer.optimizer.parameters[-1].grad
    assert gradient is not None
    gradient.view(-1)[0] = math.nan


@contextlib.contextmanager
def spoiled(trainer: loop.Trainer, steps: set[int], spoil: Callable[[loop.Trainer], None]) -> Iterator[None]:
    """Change the gradients between the backward pass and the check of their norm."""
    real = torch.nn.utils.get_total_norm

    def norm(gradients: Any) -> Any:
        if trainer.state.step in steps:
            spoil(trainer)
        return real(gradients)

    with patched(torch.nn.utils, "get_total_norm", norm):
        yield


BAD: dict[str, float | Callable[[loop.Trainer], None]] = {
    "NaN loss": math.nan,
    "infinite loss": math.inf,
    "minus infinite loss": -math.inf,
    "a thousand times the loss": 1000.0,
    "NaN in one gradient": one_gradient,
    "infinity in the gradient of one row": infinite_row,
}


@pytest.mark.parametrize("kind", BAD)
@counts(10, 100)
def test_steps_with_invalid_losses_are_skipped_without_an_update(kind: str, count: int) -> None:
    bad = BAD[kind]
    rng = random.Random(f"{kind} {count}")
    # In the first 25 steps there is no reference for spikes: a large loss updates the parameters.
    first = 30 if bad == 1000.0 else 0
    steps = set(rng.sample(range(first, first + 3 * count), count))
    made = test_resume.trainer("learned", steps=first + 3 * count, evaluate_every=1000)
    usual = made.job.loss
    weights: list[Any] = []

    def loss(step: int, shard: int, shards: int) -> Any:
        if weights and step - 1 in steps:
            assert test_resume.bits(made)[0] == weights[-1], "a step that is skipped changes nothing"
        weights.append(test_resume.bits(made)[0])
        assert all_finite(made)
        found = usual(step, shard, shards)
        return found._replace(total=found.total * bad) if isinstance(bad, float) and step in steps else found

    made.job.loss = loss  # type: ignore[method-assign]
    with spoiled(made, steps, bad) if callable(bad) else contextlib.nullcontext():
        assert made.run() == "finished"
    assert all_finite(made)
    assert made.state.skipped == count
    assert made.state.step == first + 3 * count
    assert all(map(math.isfinite, made.state.recent))
    # Control: the valid steps changed the parameters.
    assert weights[0] != weights[-1]


def test_a_large_loss_in_the_first_steps_leaves_the_parameters_finite() -> None:
    made = test_resume.trainer("learned", steps=30, evaluate_every=1000)
    usual = made.job.loss

    def loss(step: int, shard: int, shards: int) -> Any:
        found = usual(step, shard, shards)
        return found._replace(total=found.total * (1e30 if step % 3 == 0 else 1))

    made.job.loss = loss  # type: ignore[method-assign]
    made.run()
    assert all_finite(made)


def spoiling(steps: range) -> Callable[[], AbstractContextManager[None]]:
    """Return a context in which the losses of given steps are NaN."""
    real = loop.Trainer.run

    def run(trainer: loop.Trainer) -> loop.StopReason:
        usual = trainer.job.loss

        def loss(step: int, shard: int, shards: int) -> Any:
            found = usual(step, shard, shards)
            return found._replace(total=found.total * math.nan) if step in steps else found

        trainer.job.loss = loss  # type: ignore[method-assign]
        return real(trainer)

    return lambda: patched(loop.Trainer, "run", run)


def test_twenty_consecutive_skipped_steps_end_a_training_and_nineteen_do_not(
    made: Runs, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = {"steps": 40}
    run = made.fresh("dan", place / "twenty", **options)
    with spoiling(range(10, 30))():
        assert command("train", "--resume", run) == 2
    said = capsys.readouterr().err
    assert "20 consecutive steps were skipped, the last with loss nan" in said
    assert "Traceback" not in said
    assert all(map(is_sound, checkpoints(run)))
    # Resumed without the fault, from a checkpoint during it, the training finishes.
    assert 10 < step_of(run) < 30
    assert step_vectors(run) == 0
    run = made.fresh("dan", place / "nineteen", **options)
    with spoiling(range(10, 29))():
        assert command("train", "--resume", run) == 0
    whole = outcome(run)
    assert whole != made.outcome("dan", **options)
    # Skipped steps are part of the state: a resumed training continues to skip.
    for at in (12, 20, 28):
        run = made.fresh("dan", place / "stopped", **options)
        with spoiling(range(10, 29))():
            assert step_vectors(run, should_stop=stopping_at(at)) == 0
            assert step_vectors(run) == 0
        assert outcome(run) == whole


def test_metrics_are_valid_json_without_a_loss(made: Runs, place: Path) -> None:
    run = made.fresh("dan", place / "run")
    with spoiling(range(EVALUATE_EVERY))():
        assert step_vectors(run) == 0
    for line in (run / "metrics.jsonl").read_bytes().strip().split(b"\n"):
        durable.from_json(line, "metrics.jsonl")


def test_an_incomplete_line_of_metrics_is_ignored(made: Runs, place: Path) -> None:
    run = copied(made.made("dan")[1], place / "run")
    whole = api.bits_by_step(satchel.load(run, task="lm"))
    path = run / "metrics.jsonl"
    first, *others = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([first, b'{"step": 3, "sec', *others]) + b'{"step": 9')
    assert api.bits_by_step(satchel.load(run, task="lm")) == whole


# --- loading during training, and out of memory: T25, T27 ---------------------------------------------------


@counts(60, 1000)
def test_a_run_can_be_loaded_at_any_time_during_training(count: int, made: Runs, place: Path) -> None:
    options = {"training.checkpoint_every": 1, "training.evaluate_every": 1}
    run = begin(made.text, "dan", place / "run", 20 * count, **options)
    board = Board()
    child = fork(partial(step_vectors, run, board))
    try:
        assert wait_until(child, lambda: board.step > 3)
        seen: set[str] = set()
        longest = 0
        for _ in range(count):
            assert is_running(child)
            model = satchel.load(run, task="lm")
            seen.add(tensors.read(run / "model.safetensors")[1]["step"])
            assert np.isfinite(model.score("The cat").logprobs).all()
            *lines, torn = (run / "metrics.jsonl").read_bytes().split(b"\n")
            del torn  # only the last line may be incomplete
            steps = [json.loads(line)["step"] for line in lines]
            assert steps == list(range(1, len(steps) + 1))
            assert len(steps) >= longest
            longest = len(steps)
    finally:
        os.kill(child, signal.SIGKILL)
        wait_for(child)
    assert len(seen) >= 5, "it changed while it was looked at"
    assert step_vectors(run, should_stop=stopping_at(1)) == 0


def test_out_of_memory_is_reported_and_the_checkpoint_is_intact(made: Runs, place: Path) -> None:
    # On one thread, as threads do not survive a fork.
    settings = {"training.batch_tokens": 1 << 20, "training.threads": 1}
    big = begin(made.text, "transformer", place / "big", 6, **settings)
    # A batch of a million tokens needs more than the available memory.

    def starved() -> int:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + (64 << 20)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        return command("train", "--resume", big)

    before = contents(big)
    code, said = told(starved, place / "said")
    assert "Traceback" not in said, said[-500:]
    assert said.startswith("satchel: not enough memory")
    assert code == 2
    assert contents(big) == before
