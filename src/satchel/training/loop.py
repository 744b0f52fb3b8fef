"""The loop: a step is a transaction, and everything it depends on is the seed, the step, and what a checkpoint holds.

A step computes the loss and its gradient, looks whether both are sound, and only then changes the weights. Nothing
outside of it draws from its random numbers: they are seeded anew in every step.
"""

import contextlib
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from satchel.data.batches import seeded_rng
from satchel.errors import SatchelError
from satchel.nn.dropout import switch_dropout
from satchel.training.distributed import ALONE, Team, apart
from satchel.training.optimizer import Optimizer
from satchel.training.schedule import learning_rate
from satchel.training.settings import TrainingSettings

Stopped = Literal["finished", "time", "patience", "interrupted"]

# A loss this many times the recent ones, and a nat more, is none to learn from; so many in a row end the training.
SPIKE = 3.0
RECENT = 50
MOST_SKIPPED = 20


class Job(Protocol):
    """What is trained: a network, and what each step's loss is."""

    @property
    def network(self) -> nn.Module:
        """What is trained."""

    @property
    def steps_per_epoch(self) -> int:
        """How many steps it takes to see all of the data."""

    def loss(self, step: int, part: int, parts: int) -> "Loss":
        """Return the loss of one part of a step's batch."""

    def validate(self) -> "ValidationResult | None":
        """Return how it does on what is held out, if anything is."""


class Loss(NamedTuple):
    """The summed loss of some targets, how many they are, and how many tokens were read for them."""

    total: Tensor
    targets: int
    tokens: int


@dataclass(frozen=True)
class ValidationResult:
    """How a network does on what was held out: its mean loss, which is to become small; and how often it is right."""

    loss: float
    accuracy: float | None = None
    senses: dict[str, Any] | None = None  # how those of a Backpack fare


@dataclass
class Progress:
    """How far a training is; all of it is in a checkpoint. Floats are kept as they are, to the last bit."""

    step: int = 0
    seconds: float = 0.0
    tokens: int = 0
    recent: list[float] = field(default_factory=list)
    skipped: int = 0
    skipped_in_a_row: int = 0
    best: float | None = None
    best_step: int = 0
    validations_since_best: int = 0

    @property
    def loss(self) -> float:
        """The mean of the recent losses."""
        return sum(self.recent) / len(self.recent) if self.recent else math.nan


class DivergedError(SatchelError):
    """Nothing but losses that cannot be learned from."""


@dataclass(frozen=True)
class Events:
    """What is done on the way: nothing that changes the training."""

    stepped: Callable[[Progress, float], None]  # with the share of the training that is done
    validated: Callable[[Progress, ValidationResult], None]
    save: Callable[["Trainer"], None]
    should_stop: Callable[[], bool]


class _Losses(nn.Module):
    """A job as a module whose answer is a loss: what torch needs where several processes share gradients."""

    def __init__(self, job: Job) -> None:
        super().__init__()
        self.job, self.network = job, job.network

    def forward(self, step: int, part: int, parts: int) -> Loss:
        return self.job.loss(step, part, parts)


class Trainer:
    """Trains a job until its budget is spent. Several processes train one job: each reads its part of every batch."""

    def __init__(self, job: Job, settings: TrainingSettings, events: Events, team: Team = ALONE) -> None:
        self.job, self.settings, self.events, self.team = job, settings, events, team
        self.optimizer = Optimizer(job.network, settings)
        self.progress = Progress()

    @property
    def total_steps(self) -> int | None:
        """How many steps there will be at most; None where the clock alone decides."""
        if self.settings.steps is not None:
            return self.settings.steps
        if self.settings.epochs is not None:
            return max(1, math.ceil(self.settings.epochs * self.job.steps_per_epoch))
        return None

    def done(self) -> float:
        """Return the share of the training that is done: of its steps or of its time, whichever ends it sooner."""
        return min(1.0, max(self._steps_done(), self._time_done()))

    def _steps_done(self) -> float:
        return self.progress.step / self.total_steps if self.total_steps is not None else 0.0

    def _time_done(self) -> float:
        return self.progress.seconds / (60 * self.settings.minutes) if self.settings.minutes is not None else 0.0

    def run(self) -> Stopped:
        """Train, and return why it ended. What was reached is saved."""
        progress, settings = self.progress, self.settings
        assert self.total_steps is not None or settings.minutes is not None, "a training without an end"
        self.job.network.train()
        losses = self.team.shared(_Losses(self.job))
        stopped: Stopped | None = None
        while self.done() < 1:
            began = time.perf_counter()
            self._step(losses)
            # All processes have the same clock, and stop together.
            seconds, asked = self.team.added(time.perf_counter() - began, self.events.should_stop())
            progress.seconds += seconds / self.team.size
            self.events.stepped(progress, self.done())
            is_last = self.done() >= 1
            improved = False
            if progress.step % settings.evaluate_every == 0 or is_last:
                improved = self._validate()
            if settings.patience and progress.validations_since_best >= settings.patience:
                stopped = "patience"
                break
            if asked:
                stopped = "interrupted"
                break
            if (improved or progress.step % settings.checkpoint_every == 0) and not is_last:
                self.events.save(self)
        self.events.save(self)
        return stopped or ("finished" if self._steps_done() >= 1 else "time")

    def _step(self, losses: nn.Module) -> None:
        progress, settings, team = self.progress, self.settings, self.team
        # What is read for the first time cannot have been learned by heart yet.
        switch_dropout(self.job.network, progress.step >= settings.dropout_after * self.job.steps_per_epoch)
        self.optimizer.zero_grad()
        device = self.optimizer.parameters[0].device.type
        half = torch.autocast(device, torch.bfloat16, enabled=settings.precision == "bfloat16")
        own: dict[str, Any] = {"devices": []} if device == "cpu" else {"device_type": device}
        with torch.random.fork_rng(**own), half:
            others = () if team.is_first else (team.rank,)
            seed = int(seeded_rng("step", settings.seed, progress.step, *others).integers(0, 1 << 62))
            # The general way asks every device there could be, which takes longer than all else here.
            (torch.default_generator.manual_seed if device == "cpu" else torch.manual_seed)(seed)
            found: list[Loss] = []
            for part in range(settings.parts):
                is_last = part == settings.parts - 1
                with contextlib.nullcontext() if is_last else apart(losses):
                    loss = losses(progress.step, part * team.size + team.rank, settings.parts * team.size)
                    loss.total.backward()
                found.append(Loss(loss.total.detach(), loss.targets, loss.tokens))
            total, targets, tokens = team.added(
                float(sum(loss.total for loss in found)),
                sum(loss.targets for loss in found),
                sum(loss.tokens for loss in found),
            )
        mean = total / max(1, targets)
        gradients = [parameter.grad for parameter in self.optimizer.parameters if parameter.grad is not None]
        # From the mean over the processes to the sum over all targets, and to the mean over those.
        factor = team.size / max(1, targets)
        norm = float(nn.utils.get_total_norm(gradients)) * factor
        if self._is_sound(mean, norm):
            torch._foreach_mul_(gradients, factor * min(1.0, settings.clip / max(norm, 1e-12)))
            self.optimizer.step(learning_rate(self.done(), settings.warmup, settings.decay))
            progress.recent = [*progress.recent[1 - RECENT :], mean]
            progress.skipped_in_a_row = 0
        else:
            progress.skipped += 1
            progress.skipped_in_a_row += 1
            if progress.skipped_in_a_row >= MOST_SKIPPED:
                raise DivergedError(
                    f"{MOST_SKIPPED} steps in a row had a loss that cannot be learned from, the last {mean:g}",
                    "take a lower training.learning_rate; the last checkpoint is whole",
                )
        self.optimizer.zero_grad()
        progress.step += 1
        progress.tokens += int(tokens)

    def _is_sound(self, loss: float, norm: float) -> bool:
        if not (math.isfinite(loss) and math.isfinite(norm)):
            return False
        # At the beginning losses fall too fast to say what is usual.
        settled = len(self.progress.recent) >= RECENT // 2
        # Where losses are small, a few times as much is no accident but what learning looks like.
        return not settled or loss <= SPIKE * self.progress.loss + 1.0

    def _validate(self) -> bool:
        """Validate, and return whether it never went better."""
        progress = self.progress
        found = self.team.told(self.job.validate() if self.team.is_first else None)
        self.job.network.train()
        if found is None:
            return False
        improved = progress.best is None or found.loss < progress.best
        if improved:
            progress.best, progress.best_step, progress.validations_since_best = found.loss, progress.step, 0
        else:
            progress.validations_since_best += 1
        self.events.validated(progress, found)
        return improved
