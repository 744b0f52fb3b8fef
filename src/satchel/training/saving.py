"""Write checkpoints and the best parameters of a training, and restore them."""

import itertools
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, TypeVar

import numpy as np
import torch
from pydantic import AllowInfNan, BeforeValidator, Field
from torch import Tensor, nn

from satchel import durable, tensors
from satchel.errors import RunError
from satchel.runs import checkpoint
from satchel.runs import folder as runs
from satchel.runs.folder import RunFolder
from satchel.training.clock import TrainingTime
from satchel.training.loop import MAX_SKIPPED, RECENT, Trainer, TrainingState

T = TypeVar("T")
Arrays = dict[str, tensors.Array]

# Largest absolute value of a parameter. Larger ones, which no training produces, overflow in products.
LARGEST_PARAMETER = 1e9

# Parts of tensor names in files of earlier versions, and their current names.
RENAMED_TENSORS = {
    ".make_source_senses.": ".source_sense_network.",
    ".make_senses.": ".sense_network.",
    ".weigh.": ".sense_attention.",
}


def _from_hex(value: object) -> float:
    if not isinstance(value, str):
        raise ValueError("expected a float in hexadecimal notation")
    return float.fromhex(value)


# Floats that later steps depend on are written in hexadecimal notation, which is exact.
HexFloat = Annotated[float, AllowInfNan(True), BeforeValidator(_from_hex)]


class Times(durable.Record):
    """The wall times in a checkpoint."""

    elapsed: float = Field(ge=0)
    prepared: float = Field(0.0, ge=0)
    paused: float = Field(0.0, ge=0)
    reserved: float | None = Field(None, ge=0)


class Progress(durable.Record):
    """The training state in a checkpoint."""

    step: int = Field(ge=0, le=1 << 40)
    seconds: float = Field(ge=0)
    tokens: int = Field(ge=0, lt=1 << 63)
    recent: list[HexFloat] = Field(max_length=RECENT)
    skipped: int = Field(ge=0)
    skipped_in_a_row: int = Field(ge=0, lt=MAX_SKIPPED)
    best: HexFloat | None
    best_step: int = Field(ge=0)
    validations_since_best: int = Field(ge=0)
    is_validation_due: bool = False  # earlier versions always validated before they saved
    is_complete: bool = False  # not recorded by earlier versions
    time: Times | None = None  # earlier versions measured the steps only

    def state(self) -> TrainingState:
        """Return the state of the trainer."""
        times = self.time or Times(elapsed=self.seconds)
        return TrainingState(**dict(self) | {"time": TrainingTime(**dict(times))})


def parameters(network: nn.Module) -> Arrays:
    """Return the parameters of a network by name; shared parameters occur once."""
    return {name: _array(parameter) for name, parameter in network.named_parameters()}


def current_names(arrays: Mapping[str, T]) -> dict[str, T]:
    """Return the tensors of a file, which an earlier version may have written, by their current names."""
    renamed: dict[str, T] = {}
    for name, array in arrays.items():
        for before, after in RENAMED_TENSORS.items():
            name = name.replace(before, after)
        renamed[name] = array
    return renamed


def load_parameters(network: nn.Module, arrays: Arrays, where: str) -> None:
    """Copy all parameters of a network from arrays; `where` is their file, for error messages."""
    arrays = current_names(arrays)
    check_tensors(array_infos(arrays), network, where)
    for name, array in arrays.items():
        largest = max(float(array.max()), -float(array.min())) if array.size else 0.0
        if largest > LARGEST_PARAMETER:
            raise RunError(
                f"{name} contains the value {largest:g}, expected at most {LARGEST_PARAMETER:g}", where=where
            )
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            parameter.copy_(_tensor(arrays[name]))


def array_infos(arrays: Arrays) -> dict[str, tensors.ArrayInfo]:
    """Return the type and shape of each array."""
    return {name: tensors.ArrayInfo(array.dtype.name, array.shape) for name, array in arrays.items()}


def check_tensors(infos: Mapping[str, tensors.ArrayInfo], network: nn.Module, where: str) -> None:
    """Raise RunError if the tensors of a file are not the parameters of a network, which may be on the meta device."""
    infos, named = current_names(infos), dict(network.named_parameters())
    if set(infos) != set(named):
        different = sorted(set(infos) ^ set(named))
        raise RunError(f"found other tensors than the network has: {', '.join(different[:6])}", where=where)
    for name, parameter in named.items():
        expected = tensors.ArrayInfo("float32", tuple(parameter.shape))
        if infos[name].shape != expected.shape:
            raise RunError(f"{name} has shape {list(infos[name].shape)}, expected {list(expected.shape)}", where=where)
        if infos[name].dtype != expected.dtype:
            raise RunError(f"{name} has type {infos[name].dtype}, expected {expected.dtype}", where=where)


def save(run: Path, trainer: Trainer, tokenizer_sha256: str) -> None:
    """Write a checkpoint, write the parameters as the run's model if they are the best, and prune checkpoints."""
    state = trainer.state
    optimizer = {name: _array(value) for name, value in trainer.optimizer.state().items()}
    checkpoint.write_checkpoint(run, state.step, parameters(trainer.job.network), optimizer, _to_json(state))
    keep_best(run, trainer, tokenizer_sha256)
    checkpoint.prune(run, trainer.settings.keep, state.best_step)


def write_copy(run: RunFolder, trainer: Trainer) -> Path:
    """Write the current parameters as a new run beside the folder of a deleted run, and return its path."""
    network: Any = trainer.job.network
    names = (f"{run.path.name}-recovered{f'-{number}' if number else ''}" for number in itertools.count())
    target = next(path for name in names if not os.path.lexists(path := run.path.with_name(name)))
    source_tokenizer = run.source_tokenizer if run.config.source_tokenizer is not None else None
    with durable.new_folder(target) as folder:
        arrays, step = parameters(network), trainer.state.step
        runs.write_model(folder, run.config, run.tokenizer, arrays, source_tokenizer, step=step)
        if (ngram := getattr(network, "ngram", None)) is not None:
            runs.write_ngram(folder, ngram.arrays(), run.tokenizer)
    return target


def keep_best(run: Path, trainer: Trainer, tokenizer_sha256: str, *, is_damaged: bool = False) -> None:
    """Write the best parameters as the run's model, unless they are and the file is not damaged.

    An earlier attempt may have failed because the process was killed or the disk was full.
    """
    state = trainer.state
    step = state.best_step if state.best is not None else state.step
    if runs.saved_step(run) == step and not is_damaged:
        return
    if step == state.step:
        arrays = parameters(trainer.job.network)
    else:
        best = checkpoint.read_step(run, step)
        if best is None:
            if step < state.step:  # the checkpoint of the best step could not be saved: forget it
                state.best, state.best_step, state.validations_since_best = None, 0, 0
            return
        arrays = current_names(best.model)
    header = {"format": "satchel", "step": str(step), "tokenizer": tokenizer_sha256}
    with durable.new_file(run / runs.MODEL) as handle:
        tensors.write(handle, arrays, header)


def restore(trainer: Trainer, saved: checkpoint.Checkpoint) -> None:
    """Restore the optimizer and the training state of a checkpoint, whose parameters the network has."""
    arrays = {name: _tensor(array) for name, array in current_names(saved.optimizer).items()}
    trainer.optimizer.load(arrays, str(saved.path / checkpoint.OPTIMIZER))
    where = str(saved.path / checkpoint.PROGRESS)
    progress = durable.parse(Progress, saved.progress, where)
    if progress.step != saved.step:
        raise RunError(f"step: found {progress.step}, expected {saved.step}", where=where)
    trainer.state = progress.state()
    trainer.clock.spent = trainer.state.time.elapsed


def _to_json(state: TrainingState) -> dict[str, Any]:
    """Return the state as JSON; see Progress."""
    tree = asdict(state)
    tree["recent"] = [value.hex() for value in state.recent]
    tree["best"] = None if state.best is None else state.best.hex()
    return tree


def _array(tensor: Tensor) -> tensors.Array:
    return np.asarray(tensor.detach().cpu().numpy())


def _tensor(array: tensors.Array) -> Tensor:
    return torch.from_numpy(np.array(array, array.dtype.newbyteorder("=")))
