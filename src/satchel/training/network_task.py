"""Build, train, resume and load the network of a task."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from satchel import durable, tensors
from satchel.data.tokens import TokenCounts
from satchel.errors import RunError, SettingsError
from satchel.inspection.sites import site_paths
from satchel.models.build import SIZES, size_tree
from satchel.models.costs import Costs, training_rate
from satchel.ngram.tables import Table
from satchel.nn.precision import chosen_device, explain, instruction_sets
from satchel.nn.shapes import shapes_only
from satchel.runs import checkpoint
from satchel.runs import folder as runs
from satchel.runs.checkpoint import Checkpoint
from satchel.runs.folder import RunConfig, RunFolder
from satchel.training import loop, saving
from satchel.training.callbacks import RunCallbacks
from satchel.training.clock import EVALUATION_SHARE, LEAST_TRAINING, RESERVED
from satchel.training.counting import counting_seconds
from satchel.training.defaults import baseline_seconds, preparation_seconds
from satchel.training.distributed import SINGLE_PROCESS, Team, process_group
from satchel.training.examples.common import open_data
from satchel.training.networks import CustomSettings, NetworkRunSettings, Sampler, Sizes, read_ngram
from satchel.training.plan import Plan
from satchel.training.prepare import arithmetic, check_device, prepare
from satchel.training.report import Hooks, TrainReport

# Memory of a process with torch.
PROCESS_BYTES = 450_000_000


@dataclass(frozen=True)
class FinalWork:
    """Expected times of the evaluation and the baseline after a training."""

    cost: float  # of an evaluation, as a multiple of that of a validation on the same data
    ratio: float  # size of all held-out data divided by that of the sample for validations
    baseline: float  # seconds
    minutes: float | None

    def evaluation(self, validation_seconds: float) -> float:
        """Return the seconds of an evaluation on all held-out data."""
        return validation_seconds * self.cost * self.ratio

    def seconds(self, validation_seconds: float) -> float:
        """Return the seconds of an evaluation, on a sample if all data takes too long, and of the baseline."""
        seconds = self.evaluation(validation_seconds)
        if self.minutes is not None and seconds > EVALUATION_SHARE * 60 * self.minutes:
            seconds /= self.ratio
        return seconds + self.baseline


@dataclass(frozen=True)
class NetworkTask:
    """Builds, trains and loads the network of a task."""

    settings: type[NetworkRunSettings]
    # Returns a network with randomly initialised parameters; called with settings, sizes, custom encoder and n-grams.
    network: Callable[[Any, Sizes, Any, Table | None], nn.Module]
    # Returns the parameters and operations by component for settings and a vocabulary size, without allocating memory.
    costs: Callable[[Any, int], Costs]
    # Returns the predictor used by evaluation and generation.
    predictor: Callable[[Any, RunFolder], Any]
    # Returns the batches and losses of a run.
    job: Callable[[RunFolder, Any, Any], loop.Job]
    # Returns a function that samples text from the network, or None.
    sampler: Callable[[RunFolder, Any, Any], Sampler | None] = lambda run, settings, network: None
    # Returns the number of held-out tokens, or of other units to which the time of an evaluation is proportional.
    held_out_size: Callable[[RunFolder], int] = lambda run: (
        tokens.counts.tokens if (tokens := run.valid_tokens()) else 0
    )
    # Time of an evaluation as a multiple of that of a validation on the same data.
    evaluation_cost: float = 1.0

    def build(self, settings: Any, sizes: Sizes, custom_encoder: Any = None, ngram: Table | None = None) -> nn.Module:
        """Return a new network, initialised by the seed of the settings alone."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(settings.training.seed)
            return self.network(settings, sizes, custom_encoder, ngram)

    def new_network(self, run: RunFolder, settings: Any, custom_encoder: Any = None) -> nn.Module:
        """Return the network of a run with randomly initialised parameters."""
        ngram = read_ngram(run, settings.model.ngram) if settings.model.ngram else None
        return self.build(settings, _sizes(run.config), custom_encoder, ngram)

    def check_file(self, config: RunConfig, settings: Any, header: dict[str, tensors.ArrayInfo], where: str) -> None:
        """Raise RunError if the tensors of a model file are not those of the network; allocates no memory for them.

        The tensors of an encoder of the user's program are compared when they are loaded.
        """
        if not isinstance(settings.model, CustomSettings):
            saving.check_tensors(header, self._on_meta_device(settings, _sizes(config)), where)

    def _on_meta_device(self, settings: Any, sizes: Sizes) -> nn.Module:
        """Return the network without memory for its parameters."""
        ngram = Table(sizes.vocabulary, ()) if settings.model.ngram else None
        with shapes_only():
            return self.build(settings, sizes, None, ngram)

    def load(self, run: RunFolder, settings: Any, custom_encoder: Any = None) -> Any:
        """Return the predictor of a trained run, with its network in evaluation mode."""
        self.check_file(run.config, settings, run.header(), str(run.path / runs.MODEL))
        network = self.new_network(run, settings, custom_encoder)
        saving.load_parameters(network, run.arrays(), str(run.path / runs.MODEL))
        return self.predictor(network.eval(), run)

    def site_names(self, settings: Any, vocabulary: int, labels: int) -> list[str]:
        """Return the names of the network's sites as used by traces, without allocating the network."""
        if isinstance(settings.model, CustomSettings):
            return []
        return list(site_paths(self._on_meta_device(settings, Sizes(vocabulary, vocabulary, labels))))

    def size_settings(self, kind: str, size: str) -> dict[str, int]:
        """Return the model settings of a named size."""
        if size not in SIZES:
            raise SettingsError(f"--size {size}: unknown size", f"expected {', '.join(SIZES)}")
        return size_tree(kind, size)

    def tokens_per_second(self, settings: Any, vocabulary: int) -> float:
        """Return the expected speed of the training steps on this machine."""
        costs, training = self.costs(settings, vocabulary), settings.training
        machine = arithmetic(training, costs.parameters, SINGLE_PROCESS)
        rate = training_rate(machine["device"], machine["threads"], machine["precision"])
        return rate / max(1, costs.training_operations)

    def precision_note(self, settings: Any) -> str:
        """Return the precision of a training on this machine, and the reason for it."""
        device = chosen_device(settings.training.device)
        return explain(settings.training.precision, device, instruction_sets(device))

    def estimates(self, settings: Any, vocabulary: int, tokens: int, characters: int) -> dict[str, int]:
        """Return the expected numbers of parameters, operations, steps, bytes of memory and seconds of the training.

        Steps, memory and seconds are estimated from the operations and the class of the processor, within a factor of
        about two on an idle machine.
        """
        costs, training = self.costs(settings, vocabulary), settings.training
        width = getattr(settings.model, "width", 0)
        speed = self.tokens_per_second(settings, vocabulary)
        before = preparation_seconds(characters)
        if settings.model.ngram:
            before += 2 * counting_seconds(tokens, settings.model.ngram)
        limits = []
        if training.minutes is not None:
            # The least share of training steps is granted even if the preparation takes all of the time.
            limit = 60 * training.minutes
            seconds = max(limit * (1 - RESERVED) - before, LEAST_TRAINING * limit)
            limits.append(max(1, int(seconds * speed / training.batch_tokens)))
        if training.epochs is not None:
            limits.append(max(1, round(training.epochs * tokens / training.batch_tokens)))
        if training.steps is not None:
            limits.append(training.steps)
        steps = min(limits)
        # Validations and checkpoints take about a tenth, the evaluation another tenth.
        seconds = before + 1.2 * steps * training.batch_tokens / speed
        return {
            "parameters": costs.parameters,
            "training_flops_per_token": costs.training_operations,
            "steps": steps,
            # Parameters, gradients and two optimizer moments in float32; activations; the process.
            "memory_bytes": 16 * costs.parameters + 200 * training.batch_tokens * width + PROCESS_BYTES,
            "seconds": round(seconds),
        }

    def train(self, plan: Plan, target: Path, hooks: Hooks, *, force: bool) -> tuple[TrainReport, None]:
        """Write a new run, train its network, and return a report; the best parameters are in the run.

        A process that was restarted continues its run.
        """
        settings = plan.settings
        assert isinstance(settings, NetworkRunSettings)
        check_device(settings.training)
        with process_group() as team, contextlib.ExitStack() as stack:
            lock = None
            if team.is_first and team.restarts and _is_started(target, settings):
                lock = stack.enter_context(durable.locked(target))
            elif team.is_first:
                changing = (runs.MODEL, runs.METRICS, runs.SAMPLES)
                with durable.new_folder(target, runs.check_replaceable if force else None, changing) as folder:
                    prepare(folder, open_data(folder, plan, hooks.progress), plan, hooks.progress, team)
                    # Locked before it is renamed, so that no other process can replace it before the training starts.
                    lock = replace(stack.enter_context(durable.locked(folder.path)), path=target)
            team.barrier()  # until rank 0 has written the run
            report = self._fit(target, settings, hooks, team, lock, plan.custom_encoder)
        return replace(report, reasons=(*plan.reasons, *report.reasons)), None

    def resume(self, run: Path, settings: NetworkRunSettings, hooks: Hooks, custom_encoder: Any = None) -> TrainReport:
        """Continue the training of a run."""
        with process_group() as team, durable.locked(run) if team.is_first else contextlib.nullcontext() as lock:
            return self._fit(run, settings, hooks, team, lock, custom_encoder)

    def _fit(
        self,
        path: Path,
        settings: NetworkRunSettings,
        hooks: Hooks,
        team: Team,
        lock: durable.FolderLock | None,
        custom_encoder: Any,
    ) -> TrainReport:
        """Train the network of a run until its budget is spent; `lock` is the lock of the folder in the first process.

        A training that is complete gets its report again.
        """
        run = runs.open_run(path)
        settings = _with_recorded_precision(run, settings)
        _check_arithmetic(run, settings, team)
        newest = checkpoint.read_newest(path) if checkpoint.exists(path) else None
        if newest is None and runs.saved_step(path) != 0:
            raise RunError("has no checkpoint to resume from", "train it again", where=str(path))
        arrays, where = (newest.model, str(newest.path)) if newest else (run.arrays(), str(path / runs.MODEL))
        self.check_file(run.config, settings, saving.array_infos(arrays), where)
        network: Any = self.new_network(run, settings, custom_encoder)
        saving.load_parameters(network, arrays, where)
        network.to(run.config.facts["arithmetic"]["device"])
        if settings.training.compile:
            network.encoder.contextualise = torch.compile(network.encoder.contextualise)
        sampled = replace(run, held_out_limit=settings.training.validation_tokens)
        job = self.job(sampled, settings, network)
        callbacks = RunCallbacks(run, hooks, self.sampler(sampled, settings, network), _bytes_per_token(run), lock)
        hooks.clock.minutes = settings.training.minutes
        final = FinalWork(
            self.evaluation_cost,
            max(1, self.held_out_size(run)) / max(1, self.held_out_size(sampled)),
            baseline_seconds(run.config, run.tokenizer.kind),
            settings.training.minutes,
        )
        trainer = loop.Trainer(
            job, settings.training, callbacks.callbacks(is_first=team.is_first), team, hooks.clock, final.seconds
        )
        if team.is_first:
            durable.check_writable(path)
            checkpoint.clear(path)
        team.barrier()  # until rank 0 has removed incomplete checkpoints
        notes = _restore(run, trainer, newest, team) if newest else ()
        hooks.on_start()
        with _threads(run.config.facts["arithmetic"]["threads"]):
            stopped = trainer.run()
        team.barrier()  # until rank 0 has written the last checkpoint
        hooks.on_end()
        state = trainer.state
        return TrainReport(
            run=str(path),
            parameters=run.config.facts["parameters"],
            seconds=state.seconds,
            tokens_per_second=state.tokens / max(state.seconds, 1e-9),
            train_loss=state.loss,
            counts=TokenCounts(**run.config.facts["counts"]),
            reasons=notes,
            steps=state.step,
            stopped=stopped,
            failed_save=callbacks.failed_save,
            saved_step=runs.saved_step(path),
            evaluation_seconds=final.evaluation(trainer.validation_seconds),
        )


def _restore(run: RunFolder, trainer: loop.Trainer, newest: Checkpoint, team: Team) -> tuple[str, ...]:
    """Restore the state of a checkpoint; write the model again if it is damaged. Return notes for the report."""
    path = run.path
    saving.restore(trainer, newest)
    notes = [f"skipped a damaged checkpoint: {fault}" for fault in newest.damaged]
    if team.is_first:
        try:
            run.arrays()
            is_damaged = False
        except RunError as error:
            is_damaged = True
            notes.append(f"{error.where}: {error.cause}; it is written again from the checkpoints")
        saving.keep_best(path, trainer, run.tokenizer.sha256, is_damaged=is_damaged)
    if trainer.done() >= 1:
        notes.append(f"the training was complete at step {trainer.state.step:,}: no further step is trained")
    return tuple(notes)


def _sizes(config: RunConfig) -> Sizes:
    """Return the sizes of the network of a run."""
    source_tokenizer = config.source_tokenizer or config.tokenizer
    return Sizes(config.tokenizer.size + 1, source_tokenizer.size + 1, len(config.labels))


def _is_started(target: Path, settings: NetworkRunSettings) -> bool:
    """Return whether the target is a run with the same settings."""
    return runs.is_run(target) and runs.read_config(target).settings == settings.model_dump(mode="json")


def _bytes_per_token(run: RunFolder) -> float | None:
    """Return the mean number of bytes per token of a language model.

    None if its tokenizer loses information, or if the model sees its targets: bits per byte are then not defined.
    """
    counts = TokenCounts(**run.config.facts["counts"])
    is_causal = run.config.settings["model"].get("causal") is not False
    is_exact = run.config.task == "lm" and is_causal and counts.lossless and counts.tokens
    return counts.bytes / counts.tokens if is_exact else None


def _with_recorded_precision(run: RunFolder, settings: NetworkRunSettings) -> NetworkRunSettings:
    """Return the settings with the precision that was chosen when the run was created."""
    setting = settings.training.precision
    # Earlier versions had no precision `auto`, and recorded no precision.
    default = "float32" if setting == "auto" else setting
    precision = run.config.facts["arithmetic"].get("precision", default)
    return settings.model_copy(update={"training": settings.training.model_copy(update={"precision": precision})})


def _check_arithmetic(run: RunFolder, settings: NetworkRunSettings, team: Team) -> None:
    """Raise an error if this process would round sums differently from the one that created the run."""
    before = run.config.facts["arithmetic"]
    now = arithmetic(settings.training, run.config.facts["parameters"], team) | {"threads": before["threads"]}
    for name, value in before.items():
        if name != "bfloat16" and now[name] != value:
            raise RunError(
                f"was trained with {name} {value}, and this is {now[name]}: results would not be bit-identical",
                f"resume it with {name} {value}, or train it again",
                where=str(run.path),
            )
    if "bfloat16" in before and now["bfloat16"] != before["bfloat16"]:
        raise RunError(
            f"was trained with {before['bfloat16']} bfloat16, and on this processor bfloat16 is {now['bfloat16']}: "
            "results would not be bit-identical",
            f"start a new run: satchel train DATA --from {run.path} --set training.precision=float32",
            where=str(run.path),
        )


@contextlib.contextmanager
def _threads(number: int) -> Iterator[None]:
    """Use this number of threads in a context."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)
