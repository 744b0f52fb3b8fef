"""The callback by which long computations report their progress."""

from collections.abc import Callable
from typing import TypeAlias

# Called with the current stage ("tokenizing") and the finished fraction from 0 to 1, or None if it is unknown.
Progress: TypeAlias = Callable[[str, float | None], None]


def silent(stage: str, done: float | None) -> None:
    """Ignore the progress."""
    del stage, done
