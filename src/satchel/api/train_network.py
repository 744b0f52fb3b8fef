"""Train the network of a run."""

import contextlib
from pathlib import Path
from typing import Any

import torch

from satchel import durable, tensors
from satchel.api.baseline import counting_baseline
from satchel.api.load import AnyModel, load_model, read_settings
from satchel.api.model import TrainReport
from satchel.data.tokens import open_tokens
from satchel.errors import RunError
from satchel.runs import checkpoint
from satchel.runs import folder as runs
from satchel.training import loop, saving
from satchel.training.callbacks import RunEvents, Watcher
from satchel.training.distributed import Team
from satchel.training.networks import (
    TrainedSettings,
)
from satchel.training.prepare import arithmetic
from satchel.training.run_jobs import build_job, sampler


def train_run(run: Path, watcher: Watcher, team: Team, reasons: tuple[str, ...] = (), own: Any = None) -> Any:
    """Train the network of a run from its beginning, or from its newest checkpoint, and return the model."""
    with durable.locked(run) if team.is_first else contextlib.nullcontext():
        described = runs.read_config(run)
        settings = read_settings(described, run)
        assert isinstance(settings, TrainedSettings)
        _check_arithmetic(settings, described, run, team)
        _check_files(run)
        tokenizer = runs.read_run_tokenizer(run, described)
        arrays, metadata = tensors.read(run / runs.MODEL)
        tokens = open_tokens(run / runs.TRAIN_TOKENS, tokenizer=tokenizer)
        job = build_job(run, tokens, tokenizer, settings, described, arrays, own)
        counts = tokens.counts
        is_exact = settings.task == "lm" and counts.lossless and counts.tokens
        bytes_per_token = counts.bytes / counts.tokens if is_exact else None
        events = RunEvents(run, watcher, tokenizer, sampler(run, job, tokenizer), bytes_per_token)
        trainer = loop.Trainer(job, settings.training, events.as_asked(is_first=team.is_first), team)
        if team.is_first:
            durable.check_writable(run)
            checkpoint.clear(run)
        team.told(None)  # nobody reads what is being cleared
        if checkpoint.is_there(run):
            passed_over = saving.restore(run, trainer)
            reasons = (*reasons, *(f"damaged, and passed over: {fault}" for fault in passed_over))
            if team.is_first:
                saving.keep_best(run, trainer, tokenizer.sha256)
        elif metadata.get("step") != "0":
            raise RunError("has no checkpoint to go on from", "train it again", where=str(run))
        if trainer.done() >= 1:
            raise RunError(
                "is finished: there is nothing to go on with",
                "a new run can begin with its weights: --from",
                where=str(run),
            )
        watcher.begins()
        stopped = _on_threads(described.facts["arithmetic"]["threads"], trainer)
        team.told(None)  # all of it is written
    model: AnyModel = load_model(run, own)
    state = trainer.progress
    # Who interrupts does not want to wait.
    measures = (
        team.is_first
        and stopped != "interrupted"
        and any((run / name).exists() for name in (runs.VALID_TOKENS, runs.VALID_PAIRS))
    )
    if measures:
        watcher.progress("evaluating", None)
    model.report = TrainReport(
        run=str(run),
        parameters=described.facts["parameters"],
        seconds=state.seconds,
        tokens_per_second=state.tokens / max(state.seconds, 1e-9),
        train_loss=state.loss,
        valid=model.evaluate() if measures else None,
        reasons=reasons,
        counts=tokens.counts,
        steps=state.step,
        stopped=stopped,
        baseline=counting_baseline(model, watcher.progress) if measures else None,
        failed_save=events.failed_save,
    )
    return model


def _check_files(run: Path) -> None:
    """Refuse token files, or an n-gram, that are not those the run was begun with."""
    for name, entry in durable.read_manifest(run).items():
        is_read = name.startswith("tokens/") or name == runs.NGRAM
        if is_read and durable.file_sha256(run / name) != entry.get("sha256"):
            raise RunError("is not the file that the run was begun with", where=str(run / name))


def _check_arithmetic(settings: TrainedSettings, described: runs.RunConfig, run: Path, team: Team) -> None:
    before = described.facts["arithmetic"]
    now = arithmetic(settings.training, described.facts["parameters"], team) | {"threads": before["threads"]}
    for name, value in before.items():
        if now[name] != value:
            raise RunError(
                f"was trained with {name} {value}, and this is {now[name]}: the bits would differ",
                "go on where it was begun, or train it again",
                where=str(run),
            )


def _on_threads(threads: int, trainer: loop.Trainer) -> loop.Stopped:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        return trainer.run()
    finally:
        torch.set_num_threads(before)
