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
FINISHED = 5  # exit code of a process whose training was finished

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

# Context around the n-th save of a training.
Around = Callable[[int], AbstractContextManager[object]]


def undisturbed(number: int) -> AbstractContextManager[object]:
    del number
    return contextlib.nullcontext()


class Board:
    """Shared memory in which a training writes its stage, readable after it was killed."""

    NAMES = ("phase", "began", "step", "saves", "saved", "mark")

    phase: int  # current stage
    began: int  # step at which it resumed
    step: int  # number of finished steps
    saves: int  # number of started saves
    saved: int  # step of the last finished save
    mark: int  # set by tests

    def __init__(self) -> None:
        self.__dict__["_cells"] = np.frombuffer(mmap.mmap(-1, 8 * len(self.NAMES)), np.int64)

    def __getattr__(self, name: str) -> int:
        return int(self.__dict__["_cells"][self.NAMES.index(name)])

    def __setattr__(self, name: str, value: int) -> None:
        self.__dict__["_cells"][self.NAMES.index(name)] = value


@contextlib.contextmanager
def watched(board: Board, around: Around = undisturbed) -> Iterator[None]:
    """Record the stage of trainings on the board without changing them."""
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
    """Change the global random seeds, on which no training may depend."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.seed()
        yield


@contextlib.contextmanager
def patched(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Replace an attribute within a context; for child processes, which have no fixtures."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


def begin(text: Path, kind: str, out: Path, steps: int = STEPS, **settings: Any) -> Path:
    """Create a run and kill it before its first step."""
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
    """Resume a run; return FINISHED if its training is finished."""
    with watched(board or Board(), around), other_numbers():
        try:
            api.resume(run, **options)
        except RunError as error:
            if "is finished" in str(error):
                return FINISHED
            raise
    return 0


# --- outcome of a run -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """The exact contents of a finished run, except for times."""

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
    """Return the losses by step. The last line of a step counts; only the last line of the file may be incomplete."""
    *lines, torn = (run / "metrics.jsonl").read_bytes().split(b"\n")
    del torn
    found: dict[int, tuple[str, str]] = {}
    for line in lines:
        # An incomplete line of a killed process is followed by a complete one.
        with contextlib.suppress(json.JSONDecodeError):
            tree = json.loads(line)
            found[tree["step"]] = (tree["train_loss"].hex(), tree["valid_loss"].hex())
    return found


def checkpoints(run: Path) -> list[Path]:
    """Return the checkpoints of a run, oldest first."""
    return sorted((run / checkpoint.FOLDER).glob("step-*"))


def leftovers(run: Path) -> list[str]:
    """Return the incomplete files and folders of a run."""
    return sorted(str(path.relative_to(run)) for path in run.rglob("*") if path.name.startswith("."))


def arrays_of(path: Path) -> dict[str, bytes]:
    arrays, _ = tensors.read(path)
    return {name: array.tobytes() for name, array in arrays.items()}


# --- sending signals --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Strike:
    """The stage of a training when a signal was sent."""

    phase: int
    step: int


def strike(child: int, board: Board, rng: random.Random, number: int = signal.SIGKILL) -> bool:
    """Send a signal at a random time during a save or a few steps; return whether the process was running."""
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
    """Wait until a child process reaches a stage; return whether it did."""
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
    """Return whether there were enough strikes, at least a fifth during steps and a fifth during saves.

    A loop whose strikes all land before the first step would show nothing.
    """
    assert len(strikes) < 5 * count, f"too few of {len(strikes)} land where they should: {strikes}"
    where = [strike.phase for strike in strikes]
    return len(strikes) >= count and min(where.count(TRAINING), where.count(SAVING)) >= count / 5


def train_through(run: Path, rng: random.Random, strikes: list[Strike], count: int) -> None:
    """Train a run to its end while killing it; each kill is added to `strikes`, until there are enough."""
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
    """Return the step of the newest intact checkpoint, or 0."""
    try:
        return checkpoint.read_newest(run).step
    except RunError:
        return 0


def rewrite(folder: Path, name: str, change: Callable[[dict[str, tensors.Array]], object]) -> None:
    """Change arrays of a checkpoint and update its checksums."""
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
