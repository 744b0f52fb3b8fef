"""Between a training and its run folder: checkpoints, and the best weights so far."""

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
from satchel.training.loop import Progress, Trainer

Arrays = dict[str, tensors.Array]

# Parts of tensor names in files of earlier versions, and their current names.
RENAMED_TENSORS = {
    ".make_source_senses.": ".source_sense_network.",
    ".make_senses.": ".sense_network.",
    ".weigh.": ".sense_attention.",
}


def weights(network: nn.Module) -> Arrays:
    """Return the parameters of a network by name, each once."""
    return {name: _array(parameter) for name, parameter in network.named_parameters()}


def current_names(arrays: Arrays) -> Arrays:
    """Return the tensors of a file, which an earlier version may have written, by their current names."""
    renamed = {}
    for name, array in arrays.items():
        for before, after in RENAMED_TENSORS.items():
            name = name.replace(before, after)
        renamed[name] = array
    return renamed


def load_weights(network: nn.Module, arrays: Arrays, where: str) -> None:
    """Give a network its weights, all of them and no others."""
    arrays = current_names(arrays)
    named = dict(network.named_parameters())
    if set(arrays) != set(named):
        odd = sorted(set(arrays) ^ set(named))
        raise RunError(f"found other tensors than the network has: {', '.join(odd[:6])}", where=where)
    for name, parameter in named.items():
        if arrays[name].shape != tuple(parameter.shape):
            expected = list(parameter.shape)
            raise RunError(f"{name} has the shape {list(arrays[name].shape)}, expected {expected}", where=where)
        if arrays[name].dtype != np.float32:
            raise RunError(f"{name} holds {arrays[name].dtype} numbers, expected float32", where=where)
    with torch.no_grad():
        for name, parameter in named.items():
            parameter.copy_(_tensor(arrays[name]))


def save(run: Path, trainer: Trainer, tokenizer_sha256: str) -> None:
    """Write a checkpoint; where the weights are the best so far, write them as the run's model too."""
    progress, network = trainer.progress, trainer.job.network
    own = weights(network)
    remembered = {name: _array(value) for name, value in trainer.optimizer.state().items()}
    checkpoint.write_checkpoint(run, progress.step, own, remembered, _as_json(progress))
    keep_best(run, trainer, tokenizer_sha256)
    checkpoint.prune(run, trainer.settings.keep, progress.best_step)


def keep_best(run: Path, trainer: Trainer, tokenizer_sha256: str) -> None:
    """Make the run's model the best weights so far, if it is not: a process may have died, or a disk been full."""
    progress = trainer.progress
    step = progress.best_step if progress.best is not None else progress.step
    try:
        if tensors.read_metadata(run / runs.MODEL).get("step") == str(step):
            return
    except RunError:  # not there, or not readable: it is written anew
        pass
    if step == progress.step:
        own = weights(trainer.job.network)
    else:
        found = checkpoint.read_step(run, step)
        if found is None:
            if step < progress.step:  # it could not be saved, so it is not the best that there is
                progress.best, progress.best_step, progress.validations_since_best = None, 0, 0
            return
        own = current_names(found.model)
    header = {"format": "satchel", "step": str(step), "tokenizer": tokenizer_sha256}
    with durable.new_file(run / runs.MODEL) as handle:
        tensors.write(handle, own, header)


def restore(run: Path, trainer: Trainer) -> tuple[str, ...]:
    """Take a training back to its newest sound checkpoint; return what was passed over."""
    found = checkpoint.read_newest(run)
    load_weights(trainer.job.network, found.model, str(run))
    trainer.optimizer.load({name: _tensor(array) for name, array in current_names(found.optimizer).items()})
    trainer.progress = _from_json(found.progress, str(run))
    return found.passed_over


def _as_json(progress: Progress) -> dict[str, Any]:
    """Return the progress with its floats in hexadecimal, which loses nothing."""
    tree = asdict(progress)
    tree["recent"] = [value.hex() for value in progress.recent]
    tree["best"] = None if progress.best is None else progress.best.hex()
    return tree


def _from_json(tree: dict[str, Any], where: str) -> Progress:
    try:
        values = {each.name: tree[each.name] for each in fields(Progress)}
        values["recent"] = [float.fromhex(value) for value in values["recent"]]
        values["best"] = None if values["best"] is None else float.fromhex(values["best"])
    except (KeyError, TypeError, ValueError) as error:
        raise RunError(f"its progress lacks {error}", where=where) from None
    return Progress(**values)


def _array(tensor: Tensor) -> tensors.Array:
    return np.asarray(tensor.detach().cpu().numpy())


def _tensor(array: tensors.Array) -> Tensor:
    return torch.from_numpy(np.array(array, array.dtype.newbyteorder("=")))
