"""Train the network of a prepared run, from the start or from its newest checkpoint."""

import contextlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from satchel import durable, tensors
from satchel.data.tokens import TokenCounts
from satchel.errors import RunError
from satchel.runs import checkpoint
from satchel.runs import folder as runs
from satchel.runs.folder import RunFolder
from satchel.training import loop, saving
from satchel.training.callbacks import RunCallbacks
from satchel.training.distributed import Team, process_group
from satchel.training.examples.common import open_data
from satchel.training.networks import NetworkRunSettings
from satchel.training.plan import Plan
from satchel.training.prepare import arithmetic, check_device, prepare
from satchel.training.report import Hooks, TrainReport

if TYPE_CHECKING:
    from satchel.training.network_task import NetworkTask


def train(task: "NetworkTask", plan: Plan, target: Path, hooks: Hooks, *, force: bool) -> TrainReport:
    """Write a new run and train its network. A process that was restarted continues its run."""
    settings = plan.settings
    assert isinstance(settings, NetworkRunSettings)
    check_device(settings.training)
    with process_group() as team:
        if team.is_first and not (team.restarts and _is_started(target, settings)):
            changing = (runs.MODEL, runs.METRICS, runs.SAMPLES)
            with durable.new_folder(target, runs.is_run if force else None, changing) as folder:
                prepare(folder, open_data(folder, plan, hooks.progress), plan, hooks.progress, team)
        team.barrier()  # until rank 0 has written the run
        report = fit(task, target, settings, hooks, team, plan.custom_encoder)
    return replace(report, reasons=(*plan.reasons, *report.reasons))


def _is_started(target: Path, settings: NetworkRunSettings) -> bool:
    """Return whether the target is a run with the same settings."""
    return runs.is_run(target) and runs.read_config(target).settings == settings.model_dump(mode="json")


def fit(
    task: "NetworkTask",
    path: Path,
    settings: NetworkRunSettings,
    hooks: Hooks,
    team: Team,
    custom_encoder: Any = None,
) -> TrainReport:
    """Train the network of a run until its budget is spent."""
    with durable.locked(path) if team.is_first else contextlib.nullcontext():
        run = runs.open_run(path)
        _check_arithmetic(run, settings, team)
        _check_files(path)
        arrays, metadata = tensors.read(path / runs.MODEL)
        network: Any = task.load_network(run, settings, arrays, custom_encoder)
        network.to(run.config.facts["arithmetic"]["device"])
        if settings.training.compile:
            network.encoder.contextualise = torch.compile(network.encoder.contextualise)
        job = task.job(run, settings, network)
        callbacks = RunCallbacks(run, hooks, task.sampler(run, settings, network), _bytes_per_token(run))
        trainer = loop.Trainer(job, settings.training, callbacks.callbacks(is_first=team.is_first), team)
        if team.is_first:
            durable.check_writable(path)
            checkpoint.clear(path)
        team.barrier()  # until rank 0 has removed incomplete checkpoints
        notes: tuple[str, ...] = ()
        if checkpoint.exists(path):
            notes = tuple(f"skipped a damaged checkpoint: {fault}" for fault in saving.restore(path, trainer))
            if team.is_first:
                saving.keep_best(path, trainer, run.tokenizer.sha256)
        elif metadata.get("step") != "0":
            raise RunError("has no checkpoint to resume from", "train it again", where=str(path))
        if trainer.done() >= 1:
            raise RunError(
                "the training is finished and cannot be resumed",
                "to train a new run from its parameters, use --from",
                where=str(path),
            )
        hooks.on_start()
        stopped = _with_threads(run.config.facts["arithmetic"]["threads"], trainer)
        team.barrier()  # until rank 0 has written the last checkpoint
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
    )


def _bytes_per_token(run: RunFolder) -> float | None:
    """Return the mean number of bytes per token of a language model; None if its tokenizer loses information."""
    counts = TokenCounts(**run.config.facts["counts"])
    is_exact = run.config.task == "lm" and counts.lossless and counts.tokens
    return counts.bytes / counts.tokens if is_exact else None


def _check_files(path: Path) -> None:
    """Raise an error if the token files or the n-gram model have changed since the run was created."""
    for name, entry in durable.read_manifest(path).items():
        is_input = name.startswith("tokens/") or name == runs.NGRAM
        if is_input and durable.file_sha256(path / name) != entry.get("sha256"):
            raise RunError("has changed since the run was created", where=str(path / name))


def _check_arithmetic(run: RunFolder, settings: NetworkRunSettings, team: Team) -> None:
    """Raise an error if this process would round sums differently from the one that created the run."""
    before = run.config.facts["arithmetic"]
    now = arithmetic(settings.training, run.config.facts["parameters"], team) | {"threads": before["threads"]}
    for name, value in before.items():
        if now[name] != value:
            raise RunError(
                f"was trained with {name} {value}, and this is {now[name]}: results would not be bit-identical",
                f"resume it with {name} {value}, or train it again",
                where=str(run.path),
            )


def _with_threads(threads: int, trainer: loop.Trainer) -> loop.StopReason:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        return trainer.run()
    finally:
        torch.set_num_threads(before)
