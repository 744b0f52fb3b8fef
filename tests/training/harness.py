"""Trainings in child processes that tests kill: shared memory with the current stage, and the outcome of a run.

Processes are forked, because importing torch would take longer than the tests.
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
from satchel.training import loop
from tests.conftest import VERSE
from tests.faults.system import fork, wait_for

STARTING, TRAINING, SAVING, DONE = range(4)
PHASES = ("starting", "training", "saving", "done")
FINISHED = 5  # the exit code of a process that found nothing left to do

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
OWN: dict[str, dict[str, Any]] = {
    "transformer": {"model.heads": 2, "model.layers": 1, "model.context": 12},
    "window": {"model.window": 3},
}

# What is done around a training's n-th save.
Around = Callable[[int], AbstractContextManager[object]]


def undisturbed(number: int) -> AbstractContextManager[object]:
    del number
    return contextlib.nullcontext()


class Board:
    """Numbers that a training writes and others read, whatever becomes of it."""

    NAMES = ("phase", "began", "step", "saves", "saved", "mark")

    phase: int  # where it is
    began: int  # the step that it went on from
    step: int  # steps that are done
    saves: int  # saves that were begun
    saved: int  # the step of the last save that was completed
    mark: int  # what a test itself wants to know

    def __init__(self) -> None:
        self.__dict__["_cells"] = np.frombuffer(mmap.mmap(-1, 8 * len(self.NAMES)), np.int64)

    def __getattr__(self, name: str) -> int:
        return int(self.__dict__["_cells"][self.NAMES.index(name)])

    def __setattr__(self, name: str, value: int) -> None:
        self.__dict__["_cells"][self.NAMES.index(name)] = value


@contextlib.contextmanager
def watched(board: Board, around: Around = undisturbed) -> Iterator[None]:
    """Write on the board where trainings are. They are told nothing, and do what they always do."""
    real = loop.Trainer.run

    def run(trainer: loop.Trainer) -> loop.StopReason:
        events = trainer.callbacks

        def stepped(progress: loop.TrainingState, done: float) -> None:
            board.step = progress.step
            events.stepped(progress, done)

        def save(trainer: loop.Trainer) -> None:
            board.saves += 1
            board.phase = SAVING
            with around(board.saves):
                events.save(trainer)
            board.saved, board.phase = trainer.state.step, TRAINING

        board.began = board.step = trainer.state.step
        board.phase = TRAINING
        trainer.callbacks = replace(events, stepped=stepped, save=save)
        try:
            return real(trainer)
        finally:
            board.phase = DONE

    with patched(loop.Trainer, "run", run):
        yield


@contextlib.contextmanager
def other_numbers() -> Iterator[None]:
    """Be where random numbers that nobody chose are others than anywhere else: no training may depend on them."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.seed()
        yield


@contextlib.contextmanager
def patched(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Put something in the place of another for a while; a child process has no fixtures that would do it."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


def begin(text: Path, kind: str, out: Path, steps: int = STEPS, **settings: Any) -> Path:
    """Make a run that was killed before its first step was done, and return it."""
    tree = {**SETTINGS, **OWN.get(kind, {}), **settings}
    planned = api.plan(text, model=kind, tokenizer="char", steps=steps, settings=tree)

    def killed() -> None:
        with patched(loop.Trainer, "run", lambda trainer: os.kill(os.getpid(), signal.SIGKILL)):
            api.run_plan(planned, out=out)

    assert wait_for(fork(killed)) == -signal.SIGKILL
    assert not (out / checkpoint.FOLDER).exists()
    return out


def write_text(folder: Path) -> Path:
    path = folder / "verse.txt"
    path.write_text(VERSE * 12)
    return path


def step_vectors(run: Path, board: Board | None = None, around: Around = undisturbed, **options: Any) -> int:
    """Go on with a run; return FINISHED where there was nothing to do."""
    with watched(board or Board(), around), other_numbers():
        try:
            api.resume(run, **options)
        except RunError as error:
            if "is finished" in str(error):
                return FINISHED
            raise
    return 0


# --- what came of it -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """A finished run to the last bit, but for the time it took."""

    model: str  # the sha256 of the file
    state: dict[str, str]  # the sha256 of each file of the last checkpoint
    curve: dict[int, tuple[str, str]]  # the losses by step, as hexadecimal floats


def outcome(run: Path) -> Outcome:
    last = checkpoints(run)[-1]
    progress = json.loads((last / checkpoint.PROGRESS).read_bytes())
    del progress["seconds"]
    state = {name: sha256((last / name).read_bytes()) for name in (checkpoint.MODEL, checkpoint.OPTIMIZER)}
    return Outcome(
        sha256((run / "model.safetensors").read_bytes()),
        {**state, "progress": json.dumps(progress)},
        curve(run),
    )


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def curve(run: Path) -> dict[int, tuple[str, str]]:
    """Return the losses by step. The last line of a step counts; only the last line of all may be torn."""
    *lines, torn = (run / "metrics.jsonl").read_bytes().split(b"\n")
    del torn
    found: dict[int, tuple[str, str]] = {}
    for line in lines:
        # A line that a killed process did not finish is followed by a whole one.
        with contextlib.suppress(json.JSONDecodeError):
            tree = json.loads(line)
            found[tree["step"]] = (tree["train_loss"].hex(), tree["valid_loss"].hex())
    return found


def checkpoints(run: Path) -> list[Path]:
    """Return the checkpoints of a run, oldest first."""
    return sorted((run / checkpoint.FOLDER).glob("step-*"))


def leftovers(run: Path) -> list[str]:
    """Return what is unfinished in a run, or half gone."""
    return sorted(str(path.relative_to(run)) for path in run.rglob("*") if path.name.startswith("."))


def arrays_of(path: Path) -> dict[str, bytes]:
    arrays, _ = tensors.read(path)
    return {name: array.tobytes() for name, array in arrays.items()}


# --- striking --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Strike:
    """Where a training was when a signal hit it."""

    phase: int
    step: int


def strike(child: int, board: Board, rng: random.Random, number: int = signal.SIGKILL) -> bool:
    """Send a signal at a random moment, of a save or of a few steps; return whether it still ran."""
    if rng.random() < 0.6:
        saves = rng.choice([1, 2, 2, 3])
        found = wait_until(child, lambda: board.phase == SAVING and board.saves >= saves)
        time.sleep(rng.uniform(0, 0.003))
    else:
        steps = rng.randint(0, 2 * CHECKPOINT_EVERY)
        found = wait_until(child, lambda: board.phase == TRAINING and board.step >= board.began + steps)
        time.sleep(rng.uniform(0, 0.003))
    if found and is_running(child):
        os.kill(child, number)
    return found


def wait_until(child: int, condition: Callable[[], bool]) -> bool:
    """Wait until a child is where it should be; return whether it came there."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if condition():
            return True
        if not is_running(child):
            return False
        time.sleep(0.0002)
    raise TimeoutError


def is_running(child: int) -> bool:
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None


def enough(strikes: list[Strike], count: int) -> bool:
    """Return whether there were so many strikes, a fifth of them at least within steps and a fifth within saves.

    A loop whose strikes all land before the first step would show nothing.
    """
    assert len(strikes) < 5 * count, f"too few of {len(strikes)} land where they should: {strikes}"
    where = [strike.phase for strike in strikes]
    return len(strikes) >= count and min(where.count(TRAINING), where.count(SAVING)) >= count / 5


def train_through(run: Path, rng: random.Random, strikes: list[Strike], count: int) -> None:
    """Train a run to its end through kills, each of which is added to `strikes`, until there are enough."""
    reached = 0
    while True:
        board = Board()
        child = fork(functools.partial(step_vectors, run, board))
        if not enough(strikes, count):
            strike(child, board, rng)
        code = wait_for(child)
        assert board.phase == STARTING or board.began >= reached, "steps were lost that a save had kept"
        reached = max(reached, board.saved)
        if code in (0, FINISHED):
            return
        assert code == -signal.SIGKILL, f"the training ended with {code}, in the phase {PHASES[board.phase]}"
        strikes.append(Strike(board.phase, board.step))


def copied(run: Path, to: Path) -> Path:
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(run, to)
    return to


def step_of(run: Path) -> int:
    """Return the step of the newest sound checkpoint, or 0."""
    try:
        return checkpoint.read_newest(run).step
    except RunError:
        return 0


def rewrite(folder: Path, name: str, change: Callable[[dict[str, tensors.Array]], object]) -> None:
    """Change arrays of a checkpoint so that nobody can tell: its sums fit."""
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
