"""The runs and the data files that requests can name. An id is looked up; it is never used as a path.

Each component of an id must be the name of a listed file or folder. Symbolic links and hidden files are not listed.
"""

import itertools
import os
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Any

import satchel
from satchel.datasets.registry import DATASETS
from satchel.errors import DataError
from satchel.runs import folder, listing
from satchel.web import limits
from satchel.web.errors import ConflictError, InvalidFieldError, NotFoundError

BUNDLED = Path(satchel.__file__).parent / "bundled"
BUNDLED_PREFIX = "@model:"
# A component of the id of a new run.
NEW_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
# Levels of folders in a folder of data.
MAX_DATA_DEPTH = 16


class Catalogue:
    """The runs below a folder and further runs, and the data files below some folders."""

    def __init__(self, root: Path, runs: Sequence[Path] = (), data: Sequence[Path] = ()) -> None:
        self.root = root.resolve()
        self._others: dict[str, Path] = {}  # runs outside of the root, by id
        for path in runs:
            self._add_run(path)
        self._folders: dict[str, Path] = {}  # folders of data, by the first component of the ids of their files
        for path in data:
            if not path.is_dir():
                raise DataError("is not a folder", "--data names a folder of data files", where=str(path))
            resolved = path.resolve()
            if resolved not in self._folders.values():
                self._folders[_unique(resolved.name or "data", self._folders.__contains__)] = resolved

    def _add_run(self, path: Path) -> None:
        folder.read_config(path)
        resolved = path.resolve()
        if self._id_below_root(resolved) is None and resolved not in self._others.values():
            is_used = lambda name: name in self._others or self._below_root(name) is not None  # noqa: E731
            self._others[_unique(resolved.name, is_used)] = resolved

    # --- runs

    def run(self, run_id: str) -> Path:
        """Return the folder of a run; raise NotFoundError if it is not listed."""
        if run_id.startswith(BUNDLED_PREFIX):
            path = _run_below(BUNDLED, run_id.removeprefix(BUNDLED_PREFIX), 1)
        else:
            path = self._others.get(run_id) or self._below_root(run_id)
        if path is None:
            raise NotFoundError(f"there is no run {run_id[:80]}", "/api/runs/list lists the runs")
        return path

    def run_id(self, path: Path) -> str:
        """Return the id of a run folder; raise NotFoundError if it is not listed."""
        resolved = path.resolve()
        for name, other in self._others.items():
            if other == resolved:
                return name
        name_below = self._id_below_root(resolved)
        if name_below is None:
            raise NotFoundError(f"there is no run {path}", "expected a run folder below --root, or a RUN argument")
        return name_below

    def list_runs(self) -> list[dict[str, Any]]:
        """Return the documents of all runs except the bundled ones, sorted by id."""
        others = [listing.summarise(name, path) for name, path in self._others.items()]
        below = [each for each in listing.list_runs(self.root) if each.run not in self._others]
        summaries = [each for each in (*others, *below) if each is not None]
        return [_document(each) for each in sorted(summaries, key=lambda each: each.run)]

    def list_models(self) -> list[dict[str, Any]]:
        """Return the documents of the bundled models."""
        return [_document(each, prefix=BUNDLED_PREFIX) for each in listing.list_runs(BUNDLED)]

    def new_run(self, run_id: str) -> Path:
        """Return the folder of a run that is to be created; raise an error unless it is new and below the root."""
        names = run_id.split("/")
        if len(names) > listing.MAX_DEPTH or not all(map(NEW_NAME.fullmatch, names)):
            raise InvalidFieldError(
                "run",
                f"{run_id[:80]!r} cannot be the name of a run",
                "expected letters, digits, '.', '_' and '-', beginning with a letter or a digit, at most 64 characters",
            )
        if run_id in self._others or os.path.lexists(self.root.joinpath(*names)):
            raise ConflictError(f"{run_id} exists already", "choose another name")
        for number in range(1, len(names)):
            parent = self.root.joinpath(*names[:number])
            if os.path.lexists(parent) and (parent.is_symlink() or not parent.is_dir() or folder.is_run(parent)):
                raise InvalidFieldError("run", f"{'/'.join(names[:number])} is not a folder of runs")
        return self.root.joinpath(*names)

    def changeable_run(self, run_id: str) -> Path:
        """Return the folder of a run below the root; raise ConflictError for other runs, which are not changed."""
        path = self.run(run_id)
        if not path.is_relative_to(self.root):
            raise ConflictError(f"{run_id} is not below the folder of runs and is not changed", "use the command line")
        return path

    def _below_root(self, run_id: str) -> Path | None:
        return _run_below(self.root, run_id, listing.MAX_DEPTH)

    def _id_below_root(self, path: Path) -> str | None:
        if not path.is_relative_to(self.root):
            return None
        name = path.relative_to(self.root).as_posix()
        return name if self._below_root(name) is not None else None

    # --- data

    def data(self, name: str) -> Path | str:
        """Return the name of a built-in data set, the path of a listed file, or two such paths joined by a comma."""
        if name in DATASETS:
            return name
        if (path := self._file(name)) is not None:
            return path
        for place in (match.start() for match in re.finditer(",", name)):
            pair = self._file(name[:place]), self._file(name[place + 1 :])
            if None not in pair and not any("," in str(path) for path in pair):
                return ",".join(map(str, pair))
        raise NotFoundError(f"there is no data {name[:80]}", "/api/data lists the built-in data sets and the files")

    def list_data(self) -> list[dict[str, Any]]:
        """Return the built-in data sets, and the files in the folders of data with their sizes."""
        built_in = [
            {"name": each.name, "task": each.task, "title": each.description, "bytes": None}
            for each in DATASETS.values()
        ]
        files = (
            (name, size) for first, path in self._folders.items() for name, size in _files(path, first, MAX_DATA_DEPTH)
        )
        listed = itertools.islice(files, limits.MAX_FILES)
        return [*built_in, *({"name": name, "task": None, "title": None, "bytes": size} for name, size in listed)]

    def _file(self, name: str) -> Path | None:
        first, _, rest = name.partition("/")
        path = self._folders.get(first)
        return _find(path, rest, MAX_DATA_DEPTH, is_file=True) if path is not None else None


def _document(summary: listing.RunSummary, prefix: str = "") -> dict[str, Any]:
    """Return a summary as JSON, with the time of the last change in seconds since 1970."""
    created = int(datetime.fromisoformat(summary.date).timestamp())
    return {**summary.document(), "run": prefix + summary.run, "created": created}


def _unique(name: str, is_used: Callable[[str], bool]) -> str:
    """Return the name, or with -2, -3, ... the first that is not used."""
    names = itertools.chain([name], (f"{name}-{number}" for number in itertools.count(2)))
    return next(each for each in names if not is_used(each))


def _run_below(root: Path, run_id: str, depth: int) -> Path | None:
    """Return the folder of a run below a folder; None if it is not listed. Runs in runs are not listed."""
    path = _find(root, run_id, depth, is_file=False)
    if path is None or not folder.is_run(path):
        return None
    between = list(path.relative_to(root).parents)[:-1]
    return None if any(folder.is_run(root / parent) for parent in between) else path


def _find(base: Path, name: str, depth: int, *, is_file: bool) -> Path | None:
    """Return the path of a listed file or folder below a folder; None if there is none."""
    names = name.split("/")
    if len(names) > depth or not all(map(listing.is_listed_name, names)):
        return None
    path = base
    for number, each in enumerate(names, start=1):
        path /= each
        try:
            mode = os.lstat(path).st_mode
        except OSError:
            return None
        if not (S_ISREG(mode) if is_file and number == len(names) else S_ISDIR(mode)):
            return None
    return path


def _files(parent: Path, prefix: str, depth: int) -> Iterator[tuple[str, int]]:
    """Yield the ids and sizes of the listed files in a folder, in the order of their names."""
    try:
        with os.scandir(parent) as scanned:
            listed = [each for each in scanned if listing.is_listed_name(each.name)]
    except OSError:
        return
    for entry in sorted(listed, key=lambda each: each.name):
        name = f"{prefix}/{entry.name}"
        if entry.is_file(follow_symlinks=False):
            yield name, entry.stat(follow_symlinks=False).st_size
        elif depth > 1 and entry.is_dir(follow_symlinks=False):
            yield from _files(Path(entry.path), name, depth - 1)
