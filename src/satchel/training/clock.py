"""The wall time of a training, and its limit. Imports no torch."""

import math
import time
from dataclasses import dataclass, field

# Fraction of the limit reserved for the work after the last step until its costs have been measured.
RESERVED = 0.1
# Largest fraction of the limit reserved for the work after the last step.
MOST_RESERVED = 0.3
# Fraction of the limit that is always used for training steps.
LEAST_TRAINING = 0.25
# Largest fraction of the limit for an evaluation on all held-out data; otherwise a sample is evaluated.
EVALUATION_SHARE = 0.1
# Tolerance of the limit for the work after the last step, as a fraction of the limit and in seconds.
TOLERANCE, TOLERANCE_SECONDS = 0.05, 5.0


@dataclass
class Clock:
    """Wall time of all `train` commands of a run, from the start of each command, and the limit of `--minutes`."""

    minutes: float | None = None
    spent: float = 0.0  # seconds of earlier commands
    began: float = field(default_factory=time.perf_counter)

    def elapsed(self) -> float:
        """Return the seconds of all commands so far."""
        return self.spent + time.perf_counter() - self.began

    def remaining(self) -> float:
        """Return the seconds until the limit and its tolerance are reached; infinity without a limit."""
        if self.minutes is None:
            return math.inf
        return (1 + TOLERANCE) * 60 * self.minutes + TOLERANCE_SECONDS - self.elapsed()


@dataclass
class TrainingTime:
    """Measured seconds of a training; part of a checkpoint, so that a resumed training continues with them."""

    elapsed: float = 0.0  # wall time of all commands of the run
    prepared: float = 0.0  # wall time before the first step: reading, tokenizing, counting
    paused: float = 0.0  # validations and checkpoints
    reserved: float | None = None  # expected work after the last step; None: not measured

    def done(self, minutes: float) -> float:
        """Return the finished fraction of a training of this many minutes, from the first step to the last."""
        limit = 60 * minutes
        reserved = RESERVED * limit if self.reserved is None else min(self.reserved, MOST_RESERVED * limit)
        end = max(limit - reserved, self.prepared + LEAST_TRAINING * limit)
        return (self.elapsed - self.prepared) / (end - self.prepared)
