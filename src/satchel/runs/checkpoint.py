"""Checkpoints: a folder for each, whole or not there, never written over; the newest sound one is where to go on.

Nothing points to the newest: it is found by looking. A checkpoint that is damaged is told and passed over.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from satchel import durable, tensors
from satchel.errors import RunError

FOLDER = "checkpoints"
MODEL, OPTIMIZER, PROGRESS = "model.safetensors", "optimizer.safetensors", "progress.json"


@dataclass(frozen=True)
class Checkpoint:
    """Everything that training goes on from, and what was passed over to find it."""

    step: int
    model: dict[str, tensors.Array]
    optimizer: dict[str, tensors.Array]
    progress: dict[str, Any]
    passed_over: tuple[str, ...] = ()


def name_of(step: int) -> str:
    """Return the name of a step's checkpoint; names sort as steps do."""
    return f"step-{step:010d}"


def write_checkpoint(
    run: Path,
    step: int,
    model: Mapping[str, tensors.Array],
    optimizer: Mapping[str, tensors.Array],
    progress: Mapping[str, Any],
) -> None:
    """Write the checkpoint of a step, unless it is there already."""
    target = run / FOLDER / name_of(step)
    if target.exists() and not _fault(target):
        return
    with durable.new_folder(target, lambda folder: bool(_fault(folder))) as folder:
        for name, arrays in ((MODEL, model), (OPTIMIZER, optimizer)):
            with folder.create(name) as handle:
                tensors.write(handle, arrays, {"format": "satchel", "step": str(step)})
        folder.write(PROGRESS, durable.to_json(dict(progress)))


def prune(run: Path, keep: int, best: int) -> None:
    """Remove all checkpoints but the last `keep` sound ones and that of the best step."""
    sound = [path for path in _found(run) if not _fault(path)]
    for path in sound[:-keep]:
        if path.name != name_of(best):
            durable.remove_folder(path)


def read_newest(run: Path) -> Checkpoint:
    """Return the newest checkpoint that is sound."""
    faults: list[str] = []
    for path in reversed(_found(run)):
        try:
            progress = durable.from_json(durable.read_verified(path, PROGRESS, durable.LARGEST_JSON), str(path))
            model, _ = _verified(path, MODEL)
            optimizer, _ = _verified(path, OPTIMIZER)
        except (RunError, OSError) as error:
            faults.append(f"{path.name}: {error}".replace("\n", "; "))
            continue
        return Checkpoint(int(path.name.split("-")[1]), model, optimizer, progress, tuple(faults))
    what = f"none of its {len(faults)} checkpoints is sound" if faults else "it has no checkpoint"
    raise RunError("\n".join([f"cannot be gone on with: {what}", *faults]), where=str(run))


def _found(run: Path) -> list[Path]:
    folder = run / FOLDER
    return sorted(path for path in folder.glob("step-*") if path.is_dir()) if folder.is_dir() else []


def _verified(path: Path, name: str) -> tuple[dict[str, tensors.Array], dict[str, str]]:
    if name not in durable.read_manifest(path):
        raise RunError(f"{name} is not in the manifest", where=str(path))
    return tensors.read(path / name)


def _fault(path: Path) -> str:
    """Return what is wrong with a checkpoint's folder at first sight."""
    try:
        entries = durable.read_manifest(path)
    except (RunError, OSError) as error:
        return str(error)
    for name in (MODEL, OPTIMIZER, PROGRESS):
        file = path / name
        if name not in entries or not file.is_file() or file.stat().st_size != entries[name].get("size"):
            return f"{name} is not whole"
    return ""


def append_line(path: Path, line: Mapping[str, Any]) -> None:
    """Add a line of JSON to a file of them."""
    durable.append_line(path, json.dumps(line, ensure_ascii=False).encode())
