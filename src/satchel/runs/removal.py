"""Delete runs, or their checkpoints. Only files that Satchel wrote are deleted, and no run that is being trained."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from satchel import durable
from satchel.errors import MachineError, RunError
from satchel.runs import checkpoint, folder
from satchel.runs.listing import folder_size


def delete_runs(paths: Sequence[Path]) -> list[int]:
    """Delete runs after checking all of them; return the bytes of each."""
    return _remove(paths, lambda path: path)


def slim_runs(paths: Sequence[Path]) -> list[int]:
    """Delete the checkpoints of runs after checking all of them; return the bytes of each. The models are kept."""
    return _remove(paths, lambda path: durable.inside(path, f"{checkpoint.FOLDER}/{checkpoint.MODEL}").parent)


def _remove(paths: Sequence[Path], part: Callable[[Path], Path]) -> list[int]:
    """Remove a part of each run; return the bytes of each."""
    with ExitStack() as locks:
        for path in paths:
            _check_run(path)
            locks.enter_context(durable.locked(path))
            folder.check_written(path, part(path), "delete the folder with another program")
        targets = [part(path) for path in paths]
        sizes = [folder_size(target) for target in targets]
        for target in filter(Path.is_dir, targets):
            try:
                durable.remove_folder(target)
            except OSError as error:
                raise MachineError(f"cannot be deleted: {error.strerror}", where=str(target)) from error
    return sizes


def _check_run(path: Path) -> None:
    """Raise RunError if a path is not the folder of a run, or is that of a part of a run."""
    if path.is_symlink():
        raise RunError("is a symbolic link, expected a run folder", "name the folder itself", where=str(path))
    if not folder.is_run(path):
        raise RunError("is not a run folder", "`satchel runs` lists the runs", where=str(path))
    for parent in path.resolve().parents:
        if folder.is_run(parent):
            raise RunError(f"is a part of the run {parent}", "name that run", where=str(path))
