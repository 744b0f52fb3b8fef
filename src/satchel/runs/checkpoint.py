"""Checkpoints: a folder for each, whole or not there, never written over; the newest sound one is where to go on.

Nothing points to the newest: it is found by looking. A checkpoint that is damaged is told and passed over.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
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
    if target.exists() and not _damage(target):
        return
    with durable.new_folder(target, lambda folder: bool(_damage(folder))) as folder:
        for name, arrays in ((MODEL, model), (OPTIMIZER, optimizer)):
            with folder.create(name) as handle:
                tensors.write(handle, arrays, {"format": "satchel", "step": str(step)})
        folder.write(PROGRESS, durable.to_json(dict(progress)))


def prune(run: Path, keep: int, best: int) -> None:
    """Remove all checkpoints but the last `keep` sound ones and that of the best step."""
    sound = 0
    for path in reversed(_found(run)):
        if sound >= keep and path.name != name_of(best):
            durable.remove_folder(path)
        elif not _damage(path):
            sound += 1


def clear(run: Path) -> None:
    """Remove what a process that was killed left unfinished or half gone. Only for who has locked the run."""
    durable.remove_temporary(run / FOLDER)


def is_there(run: Path) -> bool:
    """Return whether there is a checkpoint, sound or not."""
    return bool(_found(run))


def read_newest(run: Path) -> Checkpoint:
    """Return the newest checkpoint that is sound."""
    faults: list[str] = []
    for path in reversed(_found(run)):
        try:
            found = _read(path)
        except (RunError, OSError) as error:
            faults.append(f"{path.name}: {error}".replace("\n", "; "))
            continue
        return replace(found, passed_over=tuple(faults))
    what = f"none of its {len(faults)} checkpoints is sound" if faults else "it has no checkpoint"
    raise RunError("\n".join([f"cannot be gone on with: {what}", *faults]), where=str(run))


def read_step(run: Path, step: int) -> Checkpoint | None:
    """Return the checkpoint of a step, if it is there and sound."""
    try:
        return _read(run / FOLDER / name_of(step))
    except (RunError, OSError):
        return None


def _read(path: Path) -> Checkpoint:
    progress = durable.from_json(durable.read_verified(path, PROGRESS, durable.LARGEST_JSON), str(path))
    return Checkpoint(int(path.name.split("-")[1]), _verified(path, MODEL), _verified(path, OPTIMIZER), progress)


def _found(run: Path) -> list[Path]:
    folder = run / FOLDER
    return sorted(path for path in folder.glob("step-*") if path.is_dir()) if folder.is_dir() else []


def _verified(path: Path, name: str) -> dict[str, tensors.Array]:
    _check(path, name)
    return tensors.read(path / name)[0]


def _check(path: Path, name: str) -> None:
    """Refuse a file that is not the one the manifest was made of: a header that changed has no sum of its own."""
    entry = durable.read_manifest(path).get(name)
    if not isinstance(entry, dict):
        raise RunError(f"{name} is not in the manifest", where=str(path))
    digest = hashlib.sha256()
    with durable.open_regular(path / name) as handle:
        while part := handle.read(1 << 20):
            digest.update(part)
        size = handle.tell()
    if size != entry.get("size") or digest.hexdigest() != entry.get("sha256"):
        raise RunError("is damaged: its contents differ from the manifest's", where=str(path / name))


def _damage(path: Path) -> str:
    """Return what is wrong with a checkpoint's folder."""
    try:
        for name in (MODEL, OPTIMIZER, PROGRESS):
            _check(path, name)
    except (RunError, OSError) as error:
        return str(error)
    return ""


def append_line(path: Path, line: Mapping[str, Any]) -> None:
    """Add a line of JSON to a file of them; what is not finite is null."""
    nothing = {name: None for name, value in line.items() if isinstance(value, float) and not math.isfinite(value)}
    durable.append_line(path, json.dumps({**line, **nothing}, ensure_ascii=False, allow_nan=False).encode())
