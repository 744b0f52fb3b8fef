"""Callbacks of the training loop: progress lines, metrics, samples and checkpoints."""

from collections.abc import Callable
from typing import Any

import numpy as np

from satchel.errors import MachineError, SatchelError
from satchel.inspection.senses import HARDLY_USED
from satchel.runs import checkpoint
from satchel.runs import folder as runs
from satchel.runs.folder import RunFolder
from satchel.text.display import visible
from satchel.training import loop, saving
from satchel.training.networks import Sampler
from satchel.training.report import Hooks, ignore

# Minimum number of seconds of training between two samples.
SAMPLE_EVERY = 30.0


class RunCallbacks:
    """Writes metrics, samples and checkpoints into a run, and reports progress."""

    def __init__(
        self, run: RunFolder, hooks: Hooks, sampler: Sampler | None, bytes_per_token: float | None = None
    ) -> None:
        self.run, self.hooks = run, hooks
        self.failed_save = ""  # reason why the last save failed; empty if it succeeded
        self._sampler, self._bytes_per_token = sampler, bytes_per_token
        self._last_sample = 0.0

    def callbacks(self, *, is_first: bool) -> loop.Callbacks:
        """Return the callbacks of a process; only the first process writes and reports."""
        if not is_first:
            return loop.Callbacks(ignore, ignore, ignore, self.hooks.should_stop)
        return loop.Callbacks(self.stepped, self.validated, self.save, self.hooks.should_stop)

    def stepped(self, state: loop.TrainingState, done: float) -> None:
        """Report the progress after a step."""
        rate = state.tokens / max(state.seconds, 1e-9)
        left = state.seconds * (1 - done) / max(done, 1e-9)
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
        self._try(lambda: checkpoint.append_line(self.run.path / runs.METRICS, metrics))

    def _sample(self, step: int) -> None:
        if self._sampler is None:
            return
        sample = self._sampler(step)
        source = f"{visible(sample['source'])} -> " if "source" in sample else ""
        self.hooks.note(f"  {source}{visible(sample['text'])}")
        self._try(lambda: checkpoint.append_line(self.run.path / runs.SAMPLES, {"step": step, **sample}))

    def save(self, trainer: loop.Trainer) -> None:
        """Write a checkpoint. A failure, such as a full disk, is reported and does not end the training."""
        self.failed_save = self._try(lambda: saving.save(self.run.path, trainer, self.run.tokenizer.sha256))

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
    count = len(senses["use"])
    used = sum(share > HARDLY_USED / count for share in senses["use"])
    best = max(range(count), key=senses["cost_without"].__getitem__)
    return (
        f"; {used}/{count} senses used, mean cosine {senses['cosine']:.2f}, "
        f"largest ablation cost {senses['cost_without'][best]:.2f} nats (sense {best})"
    )


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
