"""Helpers for tests that interrupt trainings: child processes, their progress in shared memory, final states of runs.

Trainings run in forked processes: a new process would import torch, which takes longer than the training.
"""

import contextlib
import functools
import hashlib
import json
import mmap
import os
import random
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from satchel import api, tensors
from satchel.errors import RunError
from satchel.runs import checkpoint
from satchel.training import loop, saving
from tests.conftest import VERSE
from tests.faults.system import fork, wait_for

STARTING, TRAINING, SAVING, DONE = range(4)
PHASES = ("starting", "training", "saving", "done")

STEPS, CHECKPOINT_EVERY, EVALUATE_EVERY, KEEP = 20, 4, 3, 2
SETTINGS: dict[str, Any] = {
    "model.width": 12,
    "model.dropout": 0.1,
    "training.dropout_after": 0,
    "training.batch_tokens": 48,
    "training.length": 12,
    "training.learning_rate": 0.01,
    "training.checkpoint_every": CHECKPOINT_EVERY,
    "training.evaluate_every": EVALUATE_EVERY,
    "training.keep": KEEP,
}
KIND_SETTINGS: dict[str, dict[str, Any]] = {
    "transformer": {"model.heads": 2, "model.layers": 1, "model.context": 12},
    "window": {"model.window": 3},
}

# Context manager around the n-th save of a training.
SaveContext = Callable[[int], AbstractContextManager[object]]


def no_context(number: int) -> AbstractContextManager[object]:
    """Return a context manager without effect."""
    del number
    return contextlib.nullcontext()


class Monitor:
    """Progress of a training in shared memory, readable by the parent process even after a kill."""

    NAMES = ("phase", "first_step", "step", "saves", "saved_step")

    phase: int  # STARTING, TRAINING, SAVING or DONE
    first_step: int  # step at which the training started or resumed
    step: int  # number of completed steps
    saves: int  # number of started saves
    saved_step: int  # step of the last completed save

    def __init__(self) -> None:
        self.__dict__["_cells"] = np.frombuffer(mmap.mmap(-1, 8 * len(self.NAMES)), np.int64)

    def __getattr__(self, name: str) -> int:
        return int(self.__dict__["_cells"][self.NAMES.index(name)])

    def __setattr__(self, name: str, value: int) -> None:
        self.__dict__["_cells"][self.NAMES.index(name)] = value


@contextlib.contextmanager
def monitored(monitor: Monitor, around_save: SaveContext = no_context) -> Iterator[None]:
    """Record the progress of trainings in a monitor, and run their saves inside `around_save`."""
    original = loop.Trainer.run

    def run(trainer: loop.Trainer) -> loop.StopReason:
        callbacks = trainer.callbacks

        def stepped(state: loop.TrainingState, done: float) -> None:
            monitor.step = state.step
            callbacks.stepped(state, done)

        def save(trainer: loop.Trainer) -> None:
            monitor.saves += 1
            monitor.phase = SAVING
            with around_save(monitor.saves):
                callbacks.save(trainer)
            monitor.saved_step, monitor.phase = trainer.state.step, TRAINING

        monitor.first_step = monitor.step = trainer.state.step
        monitor.phase = TRAINING
        trainer.callbacks = replace(callbacks, stepped=stepped, save=save)
        try:
            return original(trainer)
        finally:
            monitor.phase = DONE

    with patched(loop.Trainer, "run", run):
        yield


@contextlib.contextmanager
def random_global_seed() -> Iterator[None]:
    """Seed the global generator of torch randomly: the result of a training must not depend on it."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.seed()
        yield


@contextlib.contextmanager
def patched(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Replace an attribute while the block runs. Unlike the fixture monkeypatch, it works in child processes."""
    original = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, original)


def create_run(text: Path, kind: str, out: Path, steps: int = STEPS, **settings: Any) -> Path:
    """Create a run, kill the process before the first step, and return the folder."""
    tree = {**SETTINGS, **KIND_SETTINGS.get(kind, {}), **settings}
    planned = api.plan(text, model=kind, tokenizer="char", steps=steps, settings=tree)

    def killed() -> None:
        with patched(loop.Trainer, "run", lambda trainer: os.kill(os.getpid(), signal.SIGKILL)):
            api.run_plan(planned, out=out)

    assert wait_for(fork(killed)) == -signal.SIGKILL
    assert not (out / checkpoint.FOLDER).exists()
    return out


def write_text(folder: Path) -> Path:
    """Write a small training text and return its path."""
    path = folder / "verse.txt"
    path.write_text(VERSE * 12)
    return path


def resume(run: Path, monitor: Monitor | None = None, around_save: SaveContext = no_context, **options: Any) -> int:
    """Resume a run; return 0."""
    with monitored(monitor or Monitor(), around_save), random_global_seed():
        api.resume(run, **options)
    return 0


def restore(run: Path, trainer: loop.Trainer) -> tuple[str, ...]:
    """Restore the newest intact checkpoint of a run; return descriptions of damaged ones."""
    newest = checkpoint.read_newest(run)
    saving.load_parameters(trainer.job.network, newest.model, str(newest.path))
    saving.restore(trainer, newest)
    return newest.damaged


# --- final state of a run --------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """Final state of a run for an exact comparison, without times."""

    model: str  # sha256 of the model file
    state: dict[str, str]  # sha256 of each file of the last checkpoint, and its progress as JSON
    curve: dict[int, tuple[str, str]]  # training and validation loss by step, as hexadecimal floats


def outcome(run: Path) -> Outcome:
    """Return the final state of a run."""
    last = checkpoints(run)[-1]
    progress = json.loads((last / checkpoint.PROGRESS).read_bytes())
    del progress["seconds"], progress["time"]
    state = {name: sha256((last / name).read_bytes()) for name in (checkpoint.MODEL, checkpoint.OPTIMIZER)}
    return Outcome(
        sha256((run / "model.safetensors").read_bytes()),
        {**state, "progress": json.dumps(progress)},
        curve(run),
    )


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def curve(run: Path) -> dict[int, tuple[str, str]]:
    """Return the losses by step. The last line of a step is valid; an incomplete last line is ignored."""
    *lines, incomplete = (run / "metrics.jsonl").read_bytes().split(b"\n")
    del incomplete
    losses: dict[int, tuple[str, str]] = {}
    for line in lines:
        # A kill can leave an incomplete line before the lines of the resumed training.
        with contextlib.suppress(json.JSONDecodeError):
            tree = json.loads(line)
            losses[tree["step"]] = (tree["train_loss"].hex(), tree["valid_loss"].hex())
    return losses


def checkpoints(run: Path) -> list[Path]:
    """Return the checkpoints of a run, oldest first."""
    return sorted((run / checkpoint.FOLDER).glob("step-*"))


def temporary_files(run: Path) -> list[str]:
    """Return the hidden files and folders of a run, which are incomplete or being removed."""
    return sorted(str(path.relative_to(run)) for path in run.rglob("*") if path.name.startswith("."))


def read_arrays(path: Path) -> dict[str, bytes]:
    """Return the bytes of each array of a file."""
    arrays, _ = tensors.read(path)
    return {name: array.tobytes() for name, array in arrays.items()}


# --- interruptions ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Interruption:
    """Phase and step of a training at the time of a signal."""

    phase: int
    step: int


def interrupt(child: int, monitor: Monitor, rng: random.Random, number: int = signal.SIGKILL) -> bool:
    """Send a signal at a random time, during a save or between steps; return whether that time was reached."""
    if rng.random() < 0.6:
        saves = rng.choice([1, 2, 2, 3])
        reached = wait_until(child, lambda: monitor.phase == SAVING and monitor.saves >= saves)
        time.sleep(rng.uniform(0, 0.003))
    else:
        steps = rng.randint(0, 2 * CHECKPOINT_EVERY)
        reached = wait_until(child, lambda: monitor.phase == TRAINING and monitor.step >= monitor.first_step + steps)
        time.sleep(rng.uniform(0, 0.003))
    if reached and is_running(child):
        os.kill(child, number)
    return reached


def wait_until(child: int, condition: Callable[[], bool]) -> bool:
    """Wait for a condition; return False if the child process ends before."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if condition():
            return True
        if not is_running(child):
            return False
        time.sleep(0.0002)
    raise TimeoutError


def is_running(child: int) -> bool:
    """Return whether a child process has not ended yet."""
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None


def has_enough(interruptions: list[Interruption], count: int) -> bool:
    """Return whether there are `count` interruptions, at least a fifth of them during steps and a fifth during saves.

    Interruptions before the first step alone would be a weak test.
    """
    assert len(interruptions) < 5 * count, f"too few during steps or saves: {interruptions}"
    phases = [interruption.phase for interruption in interruptions]
    return len(interruptions) >= count and min(phases.count(TRAINING), phases.count(SAVING)) >= count / 5


def train_with_kills(run: Path, rng: random.Random, interruptions: list[Interruption], count: int) -> None:
    """Train a run to its end with kills, which are appended to `interruptions` until there are enough."""
    saved_step = 0
    while True:
        monitor = Monitor()
        child = fork(functools.partial(resume, run, monitor))
        if not has_enough(interruptions, count):
            interrupt(child, monitor, rng)
        code = wait_for(child)
        assert monitor.phase == STARTING or monitor.first_step >= saved_step, "saved steps were lost"
        saved_step = max(saved_step, monitor.saved_step)
        if code == 0:
            return
        assert code == -signal.SIGKILL, f"the training ended with {code} in the phase {PHASES[monitor.phase]}"
        interruptions.append(Interruption(monitor.phase, monitor.step))


def copy_run(run: Path, to: Path) -> Path:
    """Copy a run folder, replacing an existing one, and return the copy."""
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(run, to)
    return to


def newest_step(run: Path) -> int:
    """Return the step of the newest undamaged checkpoint, or 0."""
    try:
        return checkpoint.read_newest(run).step
    except RunError:
        return 0


def rewrite_arrays(folder: Path, name: str, change: Callable[[dict[str, tensors.Array]], object]) -> None:
    """Change arrays of a checkpoint and update all checksums."""
    arrays, metadata = tensors.read(folder / name)
    arrays = {key: np.array(array) for key, array in arrays.items()}
    change(arrays)
    del metadata["sha256"]
    with open(folder / name, "wb") as handle:
        tensors.write(handle, arrays, metadata)
    manifest = json.loads((folder / "manifest.json").read_bytes())
    data = (folder / name).read_bytes()
    manifest["files"][name] = {"size": len(data), "sha256": sha256(data)}
    (folder / "manifest.json").write_text(json.dumps(manifest))
