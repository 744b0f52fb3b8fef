"""Routes of the JSON API that call a model: the request, and the function that answers it in a worker process."""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from pydantic import BaseModel, ConfigDict

from satchel.progress import Progress
from satchel.web import limits

Document = dict[str, Any]


class Request(BaseModel):
    """Base class of requests: no unknown fields, no type conversions, no NaN."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False)

    def run_ids(self) -> Iterator[str]:
        """Yield the ids of the runs that the request names."""
        for field in ("run", "versus_run"):
            if value := getattr(self, field, None):
                yield value
        yield from getattr(self, "runs", ())

    def data_ids(self) -> Iterator[str]:
        """Yield the names of the data that the request names."""
        if value := getattr(self, "data", None):
            yield value

    def place(self) -> "Place | None":
        """Return the place of the operation for this request, if it differs from that of other requests."""
        return None


class RunRequest(Request):
    """A request about one run."""

    run: str = limits.name(description="id of the run, as listed by /api/runs/list")


class Array(NamedTuple):
    """A reply in binary form: the bytes of an array in C order, with its shape and dtype in headers."""

    values: np.ndarray[Any, Any]


class Context(Protocol):
    """The models and data of one request; ids are resolved to paths before a worker receives the request."""

    progress: Progress

    def model(self, run: str, *, task: str | None = None) -> Any:
        """Return the model of a run; with `task`, refuse runs for other tasks."""

    def run(self, run: str) -> Path:
        """Return the folder of a run."""

    def data(self, name: str) -> Path | str:
        """Return the path of a data file, or the name of a dataset (@NAME)."""

    def shown(self, name: str) -> str:
        """Return the path of a run or of data as commands and programs name it, relative to the current folder."""


Place = Literal["worker", "long", "server"]


@dataclass(frozen=True)
class Operation:
    """A route /api/NAME that is answered by `function(context, request)`.

    `place` is the process that calls the function: a worker process; for operations on files, which take long, a worker
    process of their own; or for operations that use neither models nor torch a thread of the HTTP process, where
    `context` is a `ServerContext`. An operation returns a JSON document, an Array, or an iterator of documents, which
    are sent as server-sent events.
    """

    name: str
    request: type[Request]
    function: str  # "module:function"; the module is imported where the function is called
    summary: str  # one sentence for the OpenAPI schema
    keys: tuple[str, ...] = ()  # keys of every reply
    place: Place = "worker"
    is_stream: bool = False  # whether replies can be server-sent events


def imported(name: str) -> Any:
    """Return the object of this package named `satchel.module:object`."""
    module, _, attribute = name.removeprefix("satchel.").partition(":")
    return getattr(import_module(f"satchel.{module}"), attribute)
