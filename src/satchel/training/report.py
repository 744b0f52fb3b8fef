"""Callbacks and results common to all trainings. Imports no torch."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from satchel.data.tokens import TokenCounts
from satchel.evaluation.baselines import BetterBaseline, Metrics
from satchel.progress import Progress, silent
from satchel.training.clock import Clock


def ignore(*arguments: object) -> None:
    """Do nothing."""
    del arguments


@dataclass(frozen=True)
class Hooks:
    """Functions of the caller of a training."""

    progress: Progress = silent
    note: Callable[[str], None] = ignore  # receives messages, such as validation results
    should_stop: Callable[[], bool] = lambda: False  # called after every step; True saves and stops the training
    on_start: Callable[[], None] = ignore  # called before the first step
    on_end: Callable[[], None] = ignore  # called after the last save
    # Returns a context in which a request to stop raises StopRequested at once.
    interruptible: Callable[[], AbstractContextManager[None]] = nullcontext
    clock: Clock = field(default_factory=Clock)  # started with the command


@dataclass(frozen=True)
class TrainReport:
    """The result of a training."""

    run: str
    parameters: int
    seconds: float  # training steps, or counting
    tokens_per_second: float
    train_loss: float | None
    counts: TokenCounts  # number of tokens, characters and documents of the training data
    valid: Metrics | None = None  # metrics on the held-out data
    reasons: tuple[str, ...] = ()  # reasons for automatically chosen settings
    steps: int = 0
    stopped: str = "finished"
    baseline: Metrics | None = None  # metrics of an n-gram model of the same data
    better_baseline: BetterBaseline | None = None  # a baseline that is better than the network
    failed_save: str = ""  # reason why the last save failed; empty if it succeeded
    saved_step: int | None = None  # step of the parameters in the run's model file; None for n-gram models
    evaluation_seconds: float = 0.0  # expected time of an evaluation on all held-out data
    notes: tuple[str, ...] = ()  # deviations from the usual results, such as an evaluation on a sample
    wall_seconds: float = 0.0  # all `train` commands of the run
