"""The models of a worker process: loaded when they are first used, and again when their run has been replaced."""

from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from satchel import api
from satchel.api.tasks import check_task
from satchel.durable import MANIFEST
from satchel.progress import Progress
from satchel.web.commands import relative

# Number of models that a worker keeps.
MAX_MODELS = 4


class Models:
    """The most recently used models, by the path of their run."""

    def __init__(self) -> None:
        self._models: OrderedDict[Path, tuple[tuple[int, int], Any]] = OrderedDict()

    def load(self, path: Path) -> Any:
        """Return the model of a run folder. Requests that use an older version keep it until they end."""
        version = _version(path)
        loaded = self._models.pop(path, None)
        model = loaded[1] if loaded is not None and loaded[0] == version else api.load(path)
        self._models[path] = version, model
        while len(self._models) > MAX_MODELS:
            self._models.popitem(last=False)
        return model


def _version(path: Path) -> tuple[int, int]:
    """Return values that differ between two versions of a run: writing a run replaces its files."""
    try:
        status = (path / MANIFEST).stat()
    except OSError:
        return 0, 0
    return status.st_ino, status.st_mtime_ns


class RequestContext:
    """The models and data that a request names (see `operation.Context`)."""

    def __init__(self, models: Models, paths: Mapping[str, str], progress: Progress) -> None:
        self._models, self._paths, self.progress = models, paths, progress

    def model(self, run: str, *, task: str | None = None) -> Any:
        """Return the model of a run; with `task`, refuse runs for other tasks."""
        model = self._models.load(self.run(run))
        if task is not None:
            check_task(model.run, task, run)
        return model

    def run(self, run: str) -> Path:
        """Return the folder of a run."""
        return Path(self._paths[run])

    def data(self, name: str) -> Path | str:
        """Return the path of a data file, or the name of a dataset (@NAME)."""
        return name if name.startswith("@") else Path(self._paths[name])

    def shown(self, name: str) -> str:
        """Return the path of a run or of data as commands and programs name it, relative to the current folder."""
        return relative(self._paths.get(name, name))
