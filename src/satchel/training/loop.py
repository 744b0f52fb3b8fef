"""The training loop. It depends only on the seed, the step and the contents of a checkpoint.

A step computes the loss and its gradient, checks both, and only then updates the parameters. Random numbers are seeded
in every step, so that code outside of the loop cannot change them.
"""

import contextlib
import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

import torch
from torch import Tensor, nn

from satchel.data.batches import seeded_rng
from satchel.errors import NonFiniteError, SatchelError, StopRequested
from satchel.nn.dropout import switch_dropout
from satchel.nn.precision import autocast, has_bfloat16, instruction_sets, resolve
from satchel.training.clock import Clock, TrainingTime
from satchel.training.defaults import VALIDATION_SHARE, VALIDATIONS
from satchel.training.distributed import SINGLE_PROCESS, Team, no_sync
from satchel.training.optimizer import Optimizer
from satchel.training.settings import TrainingSettings

StopReason: TypeAlias = Literal["finished", "time", "patience", "interrupted"]

# Skip a step if loss > SPIKE * mean(recent) + 1 nat; abort after MAX_SKIPPED consecutive skips.
SPIKE = 3.0
RECENT = 50
MAX_SKIPPED = 20


class Job(Protocol):
    """A network and the losses it is trained with."""

    @property
    def network(self) -> nn.Module:
        """The network to train."""

    @property
    def steps_per_epoch(self) -> int:
        """Number of steps per epoch."""

    def loss(self, step: int, shard: int, shards: int) -> "Loss":
        """Return the loss of one shard of a step's batch."""

    def validate(self) -> "ValidationResult | None":
        """Return the result on held-out data; None if there is none."""


class Loss(NamedTuple):
    """The loss summed over all targets, the number of targets, and the number of input tokens."""

    total: Tensor
    targets: int
    tokens: int


@dataclass(frozen=True)
class ValidationResult:
    """Mean loss and accuracy on held-out data, and metrics of a Backpack's senses."""

    loss: float
    accuracy: float | None = None
    senses: dict[str, Any] | None = None


@dataclass
class TrainingState:
    """The state of a training besides parameters and optimizer; it is part of a checkpoint."""

    step: int = 0
    seconds: float = 0.0  # sum of the times of all steps
    tokens: int = 0
    recent: list[float] = field(default_factory=list)  # losses of the last steps
    skipped: int = 0
    skipped_in_a_row: int = 0
    best: float | None = None  # lowest validation loss
    best_step: int = 0
    validations_since_best: int = 0
    is_validation_due: bool = False  # the training was interrupted before or during the validation of this step
    is_complete: bool = False  # the budget is spent: there are no further steps
    time: TrainingTime = field(default_factory=TrainingTime)

    @property
    def loss(self) -> float:
        """Mean loss of the last steps."""
        return sum(self.recent) / len(self.recent) if self.recent else math.nan


class DivergedError(SatchelError):
    """Training diverged: too many consecutive steps were skipped."""


@dataclass(frozen=True)
class Callbacks:
    """Functions called by the loop; they must not change the training."""

    stepped: Callable[[TrainingState, float], None]  # with the finished fraction of the training
    validated: Callable[[TrainingState, ValidationResult], None]
    save: Callable[["Trainer"], None]
    should_stop: Callable[[], bool]
    interruptible: Callable[[], AbstractContextManager[None]] = nullcontext


def learning_rate(done: float, warmup: float, decay: float) -> float:
    """Return the fraction of the peak learning rate after the fraction `done` of the training.

    Linear warm-up during the first fraction `warmup`, constant, linear decay to zero in the last fraction `decay`.
    """
    rise = min(1.0, done / warmup) if warmup else 1.0
    fall = min(1.0, (1.0 - done) / decay)
    return max(0.0, min(rise, fall))


class _Losses(nn.Module):
    """A job as a module that returns losses, as DistributedDataParallel requires."""

    def __init__(self, job: Job) -> None:
        super().__init__()
        self.job, self.network = job, job.network

    def forward(self, step: int, shard: int, shards: int) -> Loss:
        return self.job.loss(step, shard, shards)


class Trainer:
    """Trains a job until its budget is spent. With several processes, each trains on a shard of every batch."""

    def __init__(
        self,
        job: Job,
        settings: TrainingSettings,
        callbacks: Callbacks,
        team: Team = SINGLE_PROCESS,
        clock: Clock | None = None,
        final_seconds: Callable[[float], float] = lambda validation_seconds: 0.0,
    ) -> None:
        self.job, self.settings, self.callbacks, self.team = job, settings, callbacks, team
        self.clock = clock or Clock(settings.minutes)
        # Returns the expected seconds of the work after the training, given those of a validation.
        self.final_seconds = final_seconds
        self.device = next(job.network.parameters()).device.type
        names = instruction_sets(self.device)
        self.precision = resolve(settings.precision, names)
        # Emulated bfloat16 would be slower than float32.
        is_native = self.precision == "bfloat16" and has_bfloat16(names)
        self.optimizer = Optimizer(job.network, settings, torch.bfloat16 if is_native else torch.float32)
        self.state = TrainingState()
        self.validation_seconds = self.save_seconds = 0.0  # of the last validation and the last save
        self._validations = 0  # number of validations that were due at the last one

    @property
    def total_steps(self) -> int | None:
        """Maximum number of steps; None if only the time is limited."""
        if self.settings.steps is not None:
            return self.settings.steps
        if self.settings.epochs is not None:
            return max(1, math.ceil(self.settings.epochs * self.job.steps_per_epoch))
        return None

    def done(self) -> float:
        """Return the finished fraction of the training, by steps or by time, whichever is larger."""
        return min(1.0, max(self._steps_done(), self._time_done()))

    def _steps_done(self) -> float:
        return self.state.step / self.total_steps if self.total_steps is not None else 0.0

    def _time_done(self) -> float:
        return self.state.time.done(self.settings.minutes) if self.settings.minutes is not None else 0.0

    def run(self) -> StopReason:
        """Train, save, and return the reason for stopping."""
        state, settings = self.state, self.settings
        assert self.total_steps is not None or settings.minutes is not None, "the training has no budget"
        self.job.network.train()
        losses = self.team.data_parallel(_Losses(self.job))
        self._measure()
        if not state.step:
            state.time.prepared = state.time.elapsed
        self._validations = self._validations_due()
        stopped = self._completed()
        try:
            while stopped is None:
                # A resumed training first makes up for the validation during which it was interrupted.
                if not state.is_validation_due:
                    self._timed_step(losses)
                improved = self._timed_validation() if state.is_validation_due else False
                stopped = self._completed()
                if (improved or state.step % settings.checkpoint_every == 0) and stopped is None:
                    self._save()
        except StopRequested:
            stopped = "interrupted"
        state.is_complete = stopped != "interrupted"
        self._save()
        return stopped

    def _completed(self) -> StopReason | None:
        """Return why the training is complete; None if it is not."""
        state, settings = self.state, self.settings
        if state.is_validation_due:
            return None
        if settings.patience and state.validations_since_best >= settings.patience:
            return "patience"
        if self.done() >= 1:
            return "finished" if self._steps_done() >= 1 else "time"
        return None

    def _timed_step(self, losses: nn.Module) -> None:
        """Train one step; raise StopRequested if the training is to stop."""
        state = self.state
        began = time.perf_counter()
        self._step(losses)
        stop_requests = self._measure(time.perf_counter() - began, self.callbacks.should_stop())
        self.callbacks.stepped(state, self.done())
        state.is_validation_due = self.done() >= 1 or self._should_validate()
        if stop_requests:
            raise StopRequested

    def _timed_validation(self) -> bool:
        """Validate, and return whether the loss is the lowest so far."""
        began = time.perf_counter()
        improved = self._validate()
        self.validation_seconds = self._pause(began)
        self._measure()
        self._validations = self._validations_due()
        return improved

    def _measure(self, step_seconds: float = 0.0, should_stop: bool = False) -> float:
        """Add the time of a step, update the wall time, and return the number of processes that were asked to stop.

        Times are means over the processes, so that all of them stop at the same step; only rank 0 validates and saves.
        """
        times, rank_0 = self.state.time, self.team.is_first
        reserved = 0.0
        if self.validation_seconds:
            after = self.final_seconds(self.validation_seconds)
            reserved = self.validation_seconds + self.save_seconds + after
        seconds, elapsed, stop_requests, paused, reserved = self.team.all_reduce(
            step_seconds, self.clock.elapsed(), should_stop, rank_0 * times.paused, rank_0 * reserved
        )
        self.state.seconds += seconds / self.team.size
        times.elapsed, times.paused = elapsed / self.team.size, paused
        if reserved:
            times.reserved = reserved
        return stop_requests

    def _pause(self, began: float) -> float:
        """Return the seconds since `began`, and add them to the time without training steps."""
        seconds = time.perf_counter() - began
        self.state.time.paused += seconds
        return seconds

    def _save(self) -> None:
        """Write a checkpoint."""
        self._measure()
        began = time.perf_counter()
        self.callbacks.save(self)
        self.save_seconds = self._pause(began)

    def _validations_due(self) -> int:
        """Return the number of validations that the finished fraction of the training requires."""
        return int(VALIDATIONS * self.done() + 1e-9)

    def _should_validate(self) -> bool:
        """Return whether to validate after this step."""
        state, settings = self.state, self.settings
        if settings.evaluate_every is not None:
            return state.step % settings.evaluate_every == 0
        if self._validations_due() <= self._validations:
            return False
        # The number of validations of a training with a number of steps must not depend on the time.
        training = state.time.elapsed - state.time.prepared
        return settings.minutes is None or state.time.paused <= VALIDATION_SHARE * training

    def _step(self, losses: nn.Module) -> None:
        state, settings, team = self.state, self.settings, self.team
        # No dropout during the first epoch: unseen data cannot be overfitted.
        switch_dropout(self.job.network, state.step >= settings.dropout_after * self.job.steps_per_epoch)
        self.optimizer.zero_grad()
        device = self.device
        devices: dict[str, Any] = {"devices": []} if device == "cpu" else {"device_type": device}
        # Without other processes, a step can be abandoned until the parameters are updated.
        interruptible = self.callbacks.interruptible() if team.size == 1 else nullcontext()
        with interruptible, torch.random.fork_rng(**devices), autocast(device, self.precision):
            rank = () if team.is_first else (team.rank,)
            seed = int(seeded_rng("step", settings.seed, state.step, *rank).integers(0, 1 << 62))
            # torch.manual_seed queries all devices, which takes longer than the rest of this method.
            (torch.default_generator.manual_seed if device == "cpu" else torch.manual_seed)(seed)
            results: list[Loss] = []
            for part in range(settings.accumulate):
                is_last = part == settings.accumulate - 1
                with contextlib.nullcontext() if is_last else no_sync(losses):
                    loss = losses(state.step, part * team.size + team.rank, settings.accumulate * team.size)
                    loss.total.backward()
                results.append(Loss(loss.total.detach(), loss.targets, loss.tokens))
            total, targets, tokens = team.all_reduce(
                float(sum(loss.total for loss in results)),
                sum(loss.targets for loss in results),
                sum(loss.tokens for loss in results),
            )
        mean = total / max(1, targets)
        gradients = [parameter.grad for parameter in self.optimizer.parameters if parameter.grad is not None]
        # Gradients are means over the processes of sums over targets; the factor makes them means over all targets.
        factor = team.size / max(1, targets)
        norm = float(nn.utils.get_total_norm(gradients)) * factor
        if self._is_normal(mean, norm):
            torch._foreach_mul_(gradients, factor * min(1.0, settings.clip / max(norm, 1e-12)))
            self.optimizer.step(learning_rate(self.done(), settings.warmup, settings.decay))
            state.recent = [*state.recent[1 - RECENT :], mean]
            state.skipped_in_a_row = 0
        else:
            state.skipped += 1
            state.skipped_in_a_row += 1
            if state.skipped_in_a_row >= MAX_SKIPPED:
                raise DivergedError(
                    f"training diverged: {MAX_SKIPPED} consecutive steps were skipped, the last with loss {mean:g}",
                    "use a lower training.learning_rate; the last checkpoint is complete",
                )
        self.optimizer.zero_grad()
        state.step += 1
        state.tokens += int(tokens)

    def _is_normal(self, loss: float, norm: float) -> bool:
        """Return whether loss and gradient norm are finite and the loss is not a spike."""
        if not (math.isfinite(loss) and math.isfinite(norm)):
            return False
        # In the first steps losses fall too fast for their mean to be a reference.
        has_reference = len(self.state.recent) >= RECENT // 2
        # The added nat allows the relative fluctuations of small losses.
        return not has_reference or loss <= SPIKE * self.state.loss + 1.0

    def _validate(self) -> bool:
        """Validate, and return whether the loss is the lowest so far; raise StopRequested if it is interrupted."""
        state = self.state
        result, is_interrupted = self.team.broadcast(
            self._interruptible_validation() if self.team.is_first else (None, False)
        )
        self.job.network.train()
        if is_interrupted:
            raise StopRequested
        state.is_validation_due = False
        if result is None:
            return False
        improved = state.best is None or result.loss < state.best
        if improved:
            state.best, state.best_step, state.validations_since_best = result.loss, state.step, 0
        else:
            state.validations_since_best += 1
        self.callbacks.validated(state, result)
        return improved

    def _interruptible_validation(self) -> tuple[ValidationResult | None, bool]:
        """Return the result of the validation, and whether it was interrupted."""
        try:
            with self.callbacks.interruptible():
                return self.job.validate(), False
        except NonFiniteError:
            return ValidationResult(math.inf), False
        except StopRequested:
            return None, True
