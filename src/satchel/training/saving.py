"""Write checkpoints and the best parameters of a training, and restore them."""

from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from satchel import durable, tensors
from satchel.errors import RunError
from satchel.runs import checkpoint
from satchel.runs import folder as runs
from satchel.training.loop import Trainer, TrainingState

Arrays = dict[str, tensors.Array]

# Parts of tensor names in files of earlier versions, and their current names.
RENAMED_TENSORS = {
    ".make_source_senses.": ".source_sense_network.",
    ".make_senses.": ".sense_network.",
    ".weigh.": ".sense_attention.",
}


def parameters(network: nn.Module) -> Arrays:
    """Return the parameters of a network by name; shared parameters occur once."""
    return {name: _array(parameter) for name, parameter in network.named_parameters()}


def current_names(arrays: Arrays) -> Arrays:
    """Return the tensors of a file, which an earlier version may have written, by their current names."""
    renamed = {}
    for name, array in arrays.items():
        for before, after in RENAMED_TENSORS.items():
            name = name.replace(before, after)
        renamed[name] = array
    return renamed


def load_parameters(network: nn.Module, arrays: Arrays, where: str) -> None:
    """Copy all parameters of a network from arrays; `where` is their file, for error messages."""
    arrays = current_names(arrays)
    named = dict(network.named_parameters())
    if set(arrays) != set(named):
        different = sorted(set(arrays) ^ set(named))
        raise RunError(f"found other tensors than the network has: {', '.join(different[:6])}", where=where)
    for name, parameter in named.items():
        if arrays[name].shape != tuple(parameter.shape):
            expected = list(parameter.shape)
            raise RunError(f"{name} has shape {list(arrays[name].shape)}, expected {expected}", where=where)
        if arrays[name].dtype != np.float32:
            raise RunError(f"{name} has type {arrays[name].dtype}, expected float32", where=where)
    with torch.no_grad():
        for name, parameter in named.items():
            parameter.copy_(_tensor(arrays[name]))


def save(run: Path, trainer: Trainer, tokenizer_sha256: str) -> None:
    """Write a checkpoint, write the parameters as the run's model if they are the best, and prune checkpoints."""
    state = trainer.state
    optimizer = {name: _array(value) for name, value in trainer.optimizer.state().items()}
    checkpoint.write_checkpoint(run, state.step, parameters(trainer.job.network), optimizer, _to_json(state))
    keep_best(run, trainer, tokenizer_sha256)
    checkpoint.prune(run, trainer.settings.keep, state.best_step)


def keep_best(run: Path, trainer: Trainer, tokenizer_sha256: str) -> None:
    """Write the best parameters as the run's model, unless they are.

    An earlier attempt may have failed because the process was killed or the disk was full.
    """
    state = trainer.state
    step = state.best_step if state.best is not None else state.step
    try:
        if tensors.read_header(run / runs.MODEL)[1].get("step") == str(step):
            return
    except RunError:  # missing or damaged: write it again
        pass
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


def restore(run: Path, trainer: Trainer) -> tuple[str, ...]:
    """Restore the newest intact checkpoint; return descriptions of damaged ones."""
    newest = checkpoint.read_newest(run)
    load_parameters(trainer.job.network, newest.model, str(run))
    trainer.optimizer.load({name: _tensor(array) for name, array in current_names(newest.optimizer).items()})
    trainer.state = _from_json(newest.progress, str(run))
    return newest.damaged


def _to_json(state: TrainingState) -> dict[str, Any]:
    """Return the state as JSON; floats that later steps depend on are hexadecimal, which is exact."""
    tree = asdict(state)
    tree["recent"] = [value.hex() for value in state.recent]
    tree["best"] = None if state.best is None else state.best.hex()
    return tree


def _from_json(tree: dict[str, Any], where: str) -> TrainingState:
    try:
        values = {each.name: tree[each.name] for each in fields(TrainingState)}
        values["recent"] = [float.fromhex(value) for value in values["recent"]]
        values["best"] = None if values["best"] is None else float.fromhex(values["best"])
    except (KeyError, TypeError, ValueError) as error:
        raise RunError(f"invalid training state in {checkpoint.PROGRESS}: {error}", where=where) from None
    return TrainingState(**values)


def _array(tensor: Tensor) -> tensors.Array:
    return np.asarray(tensor.detach().cpu().numpy())


def _tensor(array: tensors.Array) -> Tensor:
    return torch.from_numpy(np.array(array, array.dtype.newbyteorder("=")))
