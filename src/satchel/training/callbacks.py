"""Callbacks of the training loop: progress lines, metrics, samples and checkpoints."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from satchel import durable
from satchel.errors import MachineError, RunError, SatchelError
from satchel.runs import checkpoint
from satchel.runs import folder as runs
from satchel.runs.folder import RunFolder
from satchel.text.display import quoted, visible
from satchel.training import loop, saving
from satchel.training.networks import Sampler
from satchel.training.report import Hooks, ignore

# Minimum number of seconds of training between two samples.
SAMPLE_EVERY = 30.0


class RunCallbacks:
    """Writes metrics, samples and checkpoints into a run, and reports progress."""

    def __init__(
        self,
        run: RunFolder,
        hooks: Hooks,
        sampler: Sampler | None,
        bytes_per_token: float | None = None,
        lock: durable.FolderLock | None = None,
    ) -> None:
        self.run, self.hooks = run, hooks
        self._lock = lock  # of the run folder; None in processes that do not write
        self.failed_save = ""  # reason why the last save failed; empty if it succeeded
        self._sampler, self._bytes_per_token = sampler, bytes_per_token
        self._last_sample = 0.0

    def callbacks(self, *, is_first: bool) -> loop.Callbacks:
        """Return the callbacks of a process; only the first process writes and reports."""
        if not is_first:
            return loop.Callbacks(ignore, ignore, ignore, self.hooks.should_stop)
        return loop.Callbacks(self.stepped, self.validated, self.save, self.hooks.should_stop, self.hooks.interruptible)

    def stepped(self, state: loop.TrainingState, done: float) -> None:
        """Report the progress after a step."""
        rate = state.tokens / max(state.seconds, 1e-9)
        left = (state.time.elapsed - state.time.prepared) * (1 - done) / max(done, 1e-9)
        bits = ""
        if self._bytes_per_token:
            bits = f" ({state.loss / self._bytes_per_token / np.log(2):.3f} bits/byte)"
        self.hooks.progress(
            f"step {state.step:,}, loss {state.loss:.3f}{bits}, {rate:,.0f} tokens/s, {_clock(left)} left", done
        )

    def validated(self, state: loop.TrainingState, result: loop.ValidationResult) -> None:
        """Append the metrics of a validation to the run, and every SAMPLE_EVERY seconds a sample."""
        metrics: dict[str, Any] = {
            "step": state.step,
            "seconds": state.seconds,
            "wall_seconds": state.time.elapsed,
            "train_loss": state.loss,
            "valid_loss": result.loss,
        }
        if result.accuracy is not None:
            metrics["valid_accuracy"] = result.accuracy
        if result.senses is not None:
            metrics["senses"] = result.senses
        if self._last_sample == 0.0 or state.seconds - self._last_sample >= SAMPLE_EVERY:
            self._last_sample = state.seconds
            accuracy = f", accuracy {100 * result.accuracy:.1f} %" if result.accuracy is not None else ""
            self.hooks.note(
                f"step {state.step:,}: validation loss {result.loss:.4f}{accuracy}{_sense_summary(result.senses)}"
            )
            self._sample(state.step)
        self._append(runs.METRICS, metrics)

    def _sample(self, step: int) -> None:
        if self._sampler is None:
            return
        sample = self._sampler(step)
        source = f"{visible(sample['source'])} -> " if "source" in sample else ""
        self.hooks.note(f"  {source}{visible(sample['text'])}")
        self._append(runs.SAMPLES, {"step": step, **sample})

    def _append(self, name: str, line: dict[str, Any]) -> None:
        """Append a line to a file of the run, also if the folder was moved; not if it was deleted."""
        path = self._location()
        if path is not None:
            self._try(lambda: checkpoint.append_line(path / name, line))

    def _location(self) -> Path | None:
        """Return the current path of the run folder; None if it was deleted."""
        path = self._lock.location() if self._lock is not None else self.run.path
        return path if path is not None and (path / runs.CONFIG).exists() else None

    def save(self, trainer: loop.Trainer) -> None:
        """Write a checkpoint. A failure, such as a full disk, is reported and does not end the training.

        If the run folder was moved or deleted, write the parameters and raise RunError.
        """
        path, sha256 = self._location(), self.run.tokenizer.sha256
        if path == self.run.path:
            self.failed_save = self._try(lambda: saving.save(path, trainer, sha256))
            return
        step = f"step {trainer.state.step:,}"
        if path is None:
            copy = saving.write_copy(self.run, trainer)
            raise RunError(
                f"was deleted or replaced during the training, which stopped; the model of {step} is in {copy}",
                f"use this model, or train a new run from its parameters with --from {quoted(str(copy))}",
                where=str(self.run.path),
            )
        saving.save(path, trainer, sha256)
        raise RunError(
            f"was moved during the training, which stopped and was saved at {step} in {path}",
            f"continue with: satchel train --resume {quoted(str(path))}",
            where=str(self.run.path),
        )

    def _try(self, write: Callable[[], None]) -> str:
        """Call a function that writes files; return the reason if it fails."""
        try:
            write()
        except (OSError, MachineError) as error:
            reason = str(error) if isinstance(error, SatchelError) else f"{error.strerror or error}"
            self.hooks.note(f"could not save: {reason}; training continues and will save again")
            return reason
        return ""


def _sense_summary(senses: dict[str, Any] | None) -> str:
    """Return one line on the senses of a Backpack."""
    if senses is None:
        return ""
    costs = senses["cost_without"]
    best = max(range(len(costs)), key=costs.__getitem__)
    return (
        f"; mean cosine of the senses of a token {senses['cosine']:.2f}, largest ablation cost "
        f"{costs[best]:.2f} nats (sense {best} of {len(costs)})"
    )


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
