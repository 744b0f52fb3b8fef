"""List the runs below a folder. Reads small files only, follows no symbolic links and imports no torch."""

import contextlib
import json
import os
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from stat import S_ISREG
from typing import Any, Literal, NamedTuple

from satchel import durable, tensors
from satchel.errors import RunError
from satchel.runs import checkpoint, folder
from satchel.runs.folder import RunConfig

# Bounds of a listing: levels of folders below the root, folders that are read, runs, and files of a run.
MAX_DEPTH = 4
MAX_FOLDERS = 100_000
MAX_RUNS = 10_000
MAX_FILES = 100_000
MAX_NAME = 255
# Bytes at the end of metrics.jsonl that are read.
METRICS_TAIL = 1 << 20

Status = Literal["complete", "interrupted", "training", "damaged"]


class Metric(NamedTuple):
    """Name and value of the main metric on held-out data, and the best baseline on the same data."""

    name: str | None = None
    value: float | None = None
    baseline: dict[str, Any] | None = None


NO_METRIC = Metric()


class Size(NamedTuple):
    """Number of files or folders, and their bytes."""

    number: int
    bytes: int


@dataclass(frozen=True)
class RunSummary:
    """A run in a listing. Values that the run does not record are None."""

    run: str  # id
    path: Path
    status: Status
    date: str  # of the last change, in ISO 8601, UTC
    size: int  # bytes of all files
    checkpoints: Size
    task: str | None = None
    model: str | None = None
    parameters: int | None = None
    metric: Metric = NO_METRIC
    data: str | None = None
    reason: str | None = None  # of the status `damaged`

    def document(self) -> dict[str, Any]:
        """Return the summary as JSON."""
        return {
            "run": self.run,
            "task": self.task,
            "model": self.model,
            "parameters": self.parameters,
            "metric": self.metric.name,
            "value": self.metric.value,
            "baseline": self.metric.baseline,
            "data": self.data,
            "size": self.size,
            "checkpoints": self.checkpoints._asdict(),
            "date": self.date,
            "status": self.status,
            "reason": self.reason,
        }


def list_runs(root: Path) -> list[RunSummary]:
    """Return the runs below a folder, sorted by id: their paths relative to the folder."""
    summaries = (summarise("/".join(path.relative_to(root).parts), path) for path in find_runs(root))
    return sorted((each for each in summaries if each is not None), key=lambda each: each.run)


def find_runs(root: Path) -> Iterator[Path]:
    """Yield the run folders below a folder. Folders in a run, such as the parts of a mix, are not searched."""
    waiting, visited, found = [(root, 0)], 0, 0
    while waiting and visited < MAX_FOLDERS and found < MAX_RUNS:
        parent, depth = waiting.pop()
        visited += 1
        if depth and folder.is_run(parent):
            found += 1
            yield parent
        elif depth < MAX_DEPTH:
            waiting += [(parent / name, depth + 1) for name in _subfolders(parent)]


def is_listed_name(name: str) -> bool:
    """Return whether a file or folder with this name is listed: not hidden, and without control characters.

    No such name leads out of its folder, on any operating system.
    """
    is_simple = bool(name) and not name.startswith(".") and not set(name) & set("/\\:")
    is_visible = all(unicodedata.category(each) not in ("Cc", "Cs") for each in name)
    return is_simple and is_visible and len(name) <= MAX_NAME


def _subfolders(parent: Path) -> list[str]:
    """Return the names of the folders in a folder, in reverse order; none if it cannot be read."""
    try:
        with os.scandir(parent) as entries:
            names = [each.name for each in entries if each.is_dir(follow_symlinks=False)]
    except OSError:
        return []
    return sorted(filter(is_listed_name, names), reverse=True)


def summarise(name: str, path: Path) -> RunSummary | None:
    """Return the summary of a run folder with this id; None if it has been deleted."""
    files = list(_files(path))
    checkpoints = [size for names, size, _ in files if names[0] == checkpoint.FOLDER]
    shown = (folder.CONFIG, folder.METRICS, folder.MODEL, folder.EVALUATION)
    date = max((time for names, _, time in files if names[0] in shown), default=None)
    if date is None:
        return None
    size = sum(size for _, size, _ in files)
    facts: dict[str, Any] = {}
    try:
        status: Status = "training" if durable.is_locked(path) else "complete"
        config = folder.read_config(path)
        kind = config.settings["model"]["kind"]
        facts |= {"task": config.task, "model": str(kind), "data": config.data.name}
        header = _check_files(path)
        facts["parameters"] = config.facts.get("parameters", folder.count_parameters(header))
        facts["metric"] = _metric(path, config)
        if status != "training" and "arithmetic" in config.facts and not _is_complete(path, config):
            status = "interrupted"
    except (RunError, OSError, KeyError, TypeError, ValueError) as error:
        status, facts["reason"] = "damaged", str(error)
    number = len({names[1] for names, _, _ in files if names[0] == checkpoint.FOLDER and len(names) > 1})
    iso = datetime.fromtimestamp(int(date), UTC).isoformat().replace("+00:00", "Z")
    return RunSummary(name, path, status, iso, size, Size(number, sum(checkpoints)), **facts)


def folder_size(path: Path) -> int:
    """Return the number of bytes of the files in a folder."""
    return sum(size for _, size, _ in _files(path))


def _files(path: Path) -> Iterator[tuple[tuple[str, ...], int, float]]:
    """Yield the relative path, the bytes and the modification time of the files in a folder."""
    number = 0
    for parent, _, names in os.walk(path):
        for name in names:
            number += 1
            if number > MAX_FILES:
                return
            # A training deletes files at any time.
            with contextlib.suppress(OSError):
                status = os.lstat(os.path.join(parent, name))
                if S_ISREG(status.st_mode):
                    yield Path(parent, name).relative_to(path).parts, status.st_size, status.st_mtime


def _check_files(path: Path) -> dict[str, tensors.ArrayInfo]:
    """Return the header of the model; raise RunError if a file of the manifest is missing or has another size."""
    manifest = durable.read_manifest(path)
    for name, entry in manifest.items():
        file = durable.inside(path, name)
        if not file.is_file() or file.is_symlink():
            raise RunError("is missing", where=str(file))
        if file.stat().st_size != entry.size:
            raise RunError(f"has {file.stat().st_size} bytes, expected {entry.size}", where=str(file))
    return tensors.read_header(path / folder.MODEL)[0]


def _metric(path: Path, config: RunConfig) -> Metric:
    """Return the evaluation of a run after its training, or else the best validation during the training."""
    if evaluation := folder.read_evaluation(path):
        baseline = evaluation.baseline
        return Metric(evaluation.metric, evaluation.value, baseline.model_dump() if baseline else None)
    lines = _metrics_tail(path / folder.METRICS)
    key, name = "valid_loss", "nats_per_token"
    if config.task in ("classify", "tag"):
        key, name = "valid_accuracy", "accuracy"
    values = [value for line in lines if isinstance(value := line.get(key), int | float)]
    if not values:
        return Metric()
    return Metric(name, max(values) if name == "accuracy" else min(values))


def _metrics_tail(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the last entries of metrics.jsonl."""
    if not os.path.lexists(path):
        return
    with durable.open_regular(path) as handle:
        handle.seek(max(0, handle.seek(0, os.SEEK_END) - METRICS_TAIL))
        lines = handle.read(METRICS_TAIL).split(b"\n")
    for line in lines:
        # The first line may be cut, and the last one incomplete.
        with contextlib.suppress(ValueError):
            if isinstance(entry := json.loads(line), dict):
                yield entry


def _is_complete(path: Path, config: RunConfig) -> bool:
    """Return whether the training of a network has spent its budget, or can no longer be resumed."""
    for saved in reversed(checkpoint.folders(path)):
        try:
            data = durable.read_file(saved / checkpoint.PROGRESS, durable.LARGEST_JSON)
            progress = durable.from_json(data, str(saved))
        except RunError:
            continue
        # Earlier versions did not record whether a training is complete.
        steps = config.settings["training"]["steps"]
        return bool(progress.get("is_complete", steps is None or progress["step"] >= steps))
    return folder.saved_step(path) != 0
