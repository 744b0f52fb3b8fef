"""Inputs and outputs common to all trainings. Imports no torch."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from satchel.data.tokens import TokenCounts
from satchel.progress import Progress, silent


def ignore(*arguments: object) -> None:
    """Do nothing."""
    del arguments


@dataclass(frozen=True)
class Hooks:
    """Functions of the caller of a training."""

    progress: Progress = silent
    note: Callable[[str], None] = ignore  # receives lines worth keeping
    should_stop: Callable[[], bool] = lambda: False  # asked after every step
    on_start: Callable[[], None] = ignore  # called before the first step


@dataclass(frozen=True)
class Fitted:
    """The result of a training."""

    counts: TokenCounts  # of the training data
    parameters: int
    seconds: float
    tokens: int  # number of tokens trained on
    train_loss: float | None
    predictor: Any = None  # None if the best parameters are to be loaded from the run
    valid: Any = None  # metrics on the held-out data, if they are known
    steps: int = 0
    stopped: str = "finished"
    notes: tuple[str, ...] = ()
    failed_save: str = ""  # why the last save failed, if it did
