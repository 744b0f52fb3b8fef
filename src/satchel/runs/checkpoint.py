"""Checkpoints: one folder each, written atomically and never overwritten.

The newest intact checkpoint is found by listing the folder; damaged checkpoints are skipped and reported.
"""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from satchel import durable, tensors
from satchel.errors import RunError

FOLDER = "checkpoints"
MODEL, OPTIMIZER, PROGRESS = "model.safetensors", "optimizer.safetensors", "progress.json"
NAME = re.compile(r"step-\d{1,13}")


@dataclass(frozen=True)
class Checkpoint:
    """Parameters, optimizer state and training state of a step, and descriptions of newer damaged checkpoints."""

    path: Path
    step: int
    model: dict[str, tensors.Array]
    optimizer: dict[str, tensors.Array]
    progress: bytes  # JSON
    damaged: tuple[str, ...] = ()


def folder_name(step: int) -> str:
    """Return the folder name of a step's checkpoint; names sort in the order of steps."""
    return f"step-{step:010d}"


def write_checkpoint(
    run: Path,
    step: int,
    model: Mapping[str, tensors.Array],
    optimizer: Mapping[str, tensors.Array],
    progress: Mapping[str, Any],
) -> None:
    """Write the checkpoint of a step, unless it exists, is intact and has the same training state."""
    target, state = run / FOLDER / folder_name(step), durable.to_json(dict(progress))
    if target.exists() and not _is_damaged(target) and (target / PROGRESS).read_bytes() == state:
        return
    with durable.new_folder(target, lambda damaged: None) as folder:
        for name, arrays in ((MODEL, model), (OPTIMIZER, optimizer)):
            with folder.create(name) as handle:
                tensors.write(handle, arrays, {"format": "satchel", "step": str(step)})
        folder.write(PROGRESS, state)


def prune(run: Path, keep: int, best: int) -> None:
    """Remove all checkpoints except the last `keep` intact ones and that of the best step."""
    intact = 0
    for path in reversed(folders(run)):
        if intact >= keep and path.name != folder_name(best):
            durable.remove_folder(path)
        elif not _is_damaged(path):
            intact += 1


def clear(run: Path) -> None:
    """Remove the incomplete files of a killed process. The caller must hold the lock of the run."""
    durable.remove_temporary(run / FOLDER)


def exists(run: Path) -> bool:
    """Return whether there is a checkpoint, intact or damaged."""
    return bool(folders(run))


def read_newest(run: Path) -> Checkpoint:
    """Return the newest intact checkpoint."""
    damaged: list[str] = []
    for path in reversed(folders(run)):
        try:
            checkpoint = _read(path)
        except (RunError, OSError) as error:
            damaged.append(f"{path.name}: {error}".replace("\n", "; "))
            continue
        return replace(checkpoint, damaged=tuple(damaged))
    cause = f"all of its {len(damaged)} checkpoints are damaged" if damaged else "it has no checkpoint"
    raise RunError("\n".join([f"cannot be resumed: {cause}", *damaged]), where=str(run))


def read_step(run: Path, step: int) -> Checkpoint | None:
    """Return the checkpoint of a step; None if it is missing or damaged."""
    try:
        return _read(run / FOLDER / folder_name(step))
    except (RunError, OSError):
        return None


def _read(path: Path) -> Checkpoint:
    progress = durable.read_verified(path, PROGRESS, durable.LARGEST_JSON)
    return Checkpoint(path, int(path.name.split("-")[1]), _verified(path, MODEL), _verified(path, OPTIMIZER), progress)


def folders(run: Path) -> list[Path]:
    """Return the folders of the checkpoints, oldest first; symbolic links are not followed."""
    folder = durable.inside(run, f"{FOLDER}/{MODEL}").parent
    paths = folder.glob("step-*") if folder.is_dir() else []
    return sorted(path for path in paths if NAME.fullmatch(path.name) and path.is_dir() and not path.is_symlink())


def _verified(path: Path, name: str) -> dict[str, tensors.Array]:
    return tensors.read(path / name, durable.manifest_entry(path, name))[0]


def _is_damaged(path: Path) -> bool:
    try:
        for name in (MODEL, OPTIMIZER, PROGRESS):
            with durable.open_regular(path / name) as handle:
                durable.check_intact(path / name, handle, durable.manifest_entry(path, name))
    except (RunError, OSError):
        return True
    return False


def append_line(path: Path, line: Mapping[str, Any]) -> None:
    """Append a line of JSON to a file; non-finite numbers become null."""
    nulls = {name: None for name, value in line.items() if isinstance(value, float) and not math.isfinite(value)}
    durable.append_line(path, json.dumps({**line, **nulls}, ensure_ascii=False, allow_nan=False).encode())
