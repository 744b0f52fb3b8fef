"""What is told and written while a network is trained."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from satchel.errors import MachineError, SatchelError
from satchel.inspection.senses import HARDLY_USED
from satchel.progress import Progress
from satchel.runs import checkpoint
from satchel.runs import folder as runs
from satchel.text.display import visible
from satchel.text.tokenizer import Tokenizer
from satchel.training import loop, saving
from satchel.training.run_jobs import Sampler

# A sample is shown no more often than this, in seconds of training.
SAMPLE_EVERY = 30.0


@dataclass(frozen=True)
class Watcher:
    """Who wants to know how a training goes, and may stop it."""

    progress: Progress
    note: Callable[[str], None]  # something worth a line of its own
    should_stop: Callable[[], bool]
    begins: Callable[[], None] = lambda: None  # from here on steps are made that a stop has to save


def _of_senses(senses: dict[str, Any] | None) -> str:
    """Return in a few words how senses fare."""
    if senses is None:
        return ""
    used = sum(share > HARDLY_USED / len(senses["use"]) for share in senses["use"])
    best = max(range(len(senses["cost_without"])), key=senses["cost_without"].__getitem__)
    return (
        f"; {used} of {len(senses['use'])} senses in use, {senses['cosine']:.2f} alike, "
        f"sense {best} is worth {senses['cost_without'][best]:.2f} nats"
    )


class RunEvents:
    """What is told and written while a network is trained. None of it changes the training."""

    def __init__(
        self,
        run: Path,
        watcher: Watcher,
        tokenizer: Tokenizer,
        sampler: Sampler | None,
        bytes_per_token: float | None = None,
    ) -> None:
        self.run, self.watcher, self.tokenizer = run, watcher, tokenizer
        self.failed_save = ""
        self._sampler, self._bytes = sampler, bytes_per_token
        self._sampled = 0.0

    def as_asked(self, *, is_first: bool) -> loop.Events:
        """Return what the loop calls; of several processes one tells and writes."""
        if not is_first:
            return loop.Events(_untold, _untold, _untold, self.watcher.should_stop)
        return loop.Events(self.stepped, self.validated, self.save, self.watcher.should_stop)

    def stepped(self, state: loop.Progress, done: float) -> None:
        """Say how far it is."""
        rate = state.tokens / max(state.seconds, 1e-9)
        left = state.seconds * (1 - done) / max(done, 1e-9)
        bits = ""
        if self._bytes:
            bits = f" ({state.loss / self._bytes / np.log(2):.3f} bits/byte)"
        self.watcher.progress(
            f"step {state.step:,}, loss {state.loss:.3f}{bits}, {rate:,.0f} tokens/s, {_clock(left)} left", done
        )

    def validated(self, state: loop.Progress, found: loop.ValidationResult) -> None:
        """Write a line of measurements, and now and then a sample."""
        measured: dict[str, Any] = {
            "step": state.step,
            "seconds": state.seconds,
            "train_loss": state.loss,
            "valid_loss": found.loss,
        }
        if found.accuracy is not None:
            measured["valid_accuracy"] = found.accuracy
        if found.senses is not None:
            measured["senses"] = found.senses
        if self._sampled == 0.0 or state.seconds - self._sampled >= SAMPLE_EVERY:
            self._sampled = state.seconds
            right = f", {found.accuracy:.2%} right" if found.accuracy is not None else ""
            self.watcher.note(f"step {state.step:,}: held-out loss {found.loss:.4f}{right}{_of_senses(found.senses)}")
            self._sample(state.step)
        self._kept(lambda: checkpoint.append_line(self.run / runs.METRICS, measured))

    def _sample(self, step: int) -> None:
        if self._sampler is None:
            return
        made = self._sampler(step)
        source = f"{visible(made['source'])} -> " if "source" in made else ""
        self.watcher.note(f"  {source}{visible(made['text'])}")
        self._kept(lambda: checkpoint.append_line(self.run / runs.SAMPLES, {"step": step, **made}))

    def save(self, trainer: loop.Trainer) -> None:
        """Write a checkpoint. A full disk is told, and tried again at the next; it does not end a training."""
        self.failed_save = self._kept(lambda: saving.save(self.run, trainer, self.tokenizer.sha256))

    def _kept(self, write: Callable[[], None]) -> str:
        """Write, and return why that failed, if it did."""
        try:
            write()
        except (OSError, MachineError) as error:
            why = str(error) if isinstance(error, SatchelError) else f"{error.strerror or error}"
            self.watcher.note(f"could not save: {why}; going on, and trying again")
            return why
        return ""


def _untold(*anything: object) -> None:
    del anything


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
