"""Operations on runs, trainings, data and settings. All but plans and settings are answered in the HTTP process."""

import functools
import time
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from satchel import durable
from satchel.config import groups
from satchel.errors import RunError
from satchel.runs import folder
from satchel.runs.removal import delete_runs
from satchel.text.display import quoted
from satchel.text.reading import DataSettings
from satchel.web import limits, training_options
from satchel.web.context import ServerContext
from satchel.web.errors import ConflictError, InvalidFieldError
from satchel.web.operation import Context, Document, Operation, Place, Request, RunRequest
from satchel.web.training_options import Kind, PlanRequest, StartRequest, is_settable, terminal
from satchel.web.trainings import Training

# Seconds between two looks at the files of a training, and at most between two events of a stream.
POLL_SECONDS = 0.5
EVENT_SECONDS = 5.0
# Keywords of JSON Schema in the description of a setting.
SCHEMA_KEYS = frozenset(
    {"type", "enum", "items", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength"}
)
MODELS = typing.get_args(Kind)


class ServerRequest(Request):
    """A request whose ids are looked up by the function that answers it."""

    def run_ids(self) -> Iterator[str]:
        """Yield nothing."""
        yield from ()


class NamedRequest(ServerRequest, RunRequest):
    """A request about one run that is answered in the HTTP process."""


class NewRunRequest(ServerRequest, StartRequest):
    """A request to start a training; its run does not exist yet."""


class MetricsRequest(NamedRequest):
    """A request for the measurements of a run after an offset."""

    metrics_offset: int = limits.bounded("offset", 0, "bytes of metrics.jsonl to skip; see the reply")
    samples_offset: int = limits.bounded("offset", 0, "bytes of samples.jsonl to skip; see the reply")
    follow: bool = Field(False, description="send further entries as server-sent events until the training ends")


class DeleteRequest(NamedRequest):
    """A request to delete a run."""

    confirm: str = limits.name(description="the id of the run, again")


class DataRequest(Request):
    """A request for the list of data, or with `data` for statistics of one of them."""

    data: str | None = limits.name(None, "name of the data")
    valid: str | None = limits.name(None, "name of validation data, to count what is also in the data")

    def data_ids(self) -> Iterator[str]:
        """Yield the names of the data that the request names."""
        yield from (name for name in (self.data, self.valid) if name is not None)

    def place(self) -> Place | None:
        """Return the place of the operation for this request."""
        return "long" if self.data is not None else None


# --- runs and trainings ---------------------------------------------------------------------------------


def list_runs(context: ServerContext, request: Request) -> Document:
    """Return all runs, and the state of the training."""
    return {
        "runs": context.catalogue.list_runs(),
        "training": context.trainings.current(),
        "terminal": f"satchel runs --root {quoted(context.catalogue.root)}",
    }


def list_models(context: ServerContext, request: Request) -> Document:
    """Return the bundled models."""
    return {"models": context.catalogue.list_models()}


def metrics(context: ServerContext, request: MetricsRequest) -> Document | Iterator[Document]:
    """Return entries of metrics.jsonl and samples.jsonl; with `follow`, an iterator over further ones."""
    training = context.trainings.running
    if training is None or training.run != request.run:
        training = None
    # The folder of a training that is being prepared does not exist yet.
    path = training.path if training is not None else context.catalogue.run(request.run)
    offsets = request.metrics_offset, request.samples_offset
    return _follow(path, training, *offsets) if request.follow else _measurements(path, training, *offsets)


def _follow(path: Path, training: Training | None, metrics: int, samples: int) -> Iterator[Document]:
    """Yield new entries as they are written, and at least the state of the training every EVENT_SECONDS."""
    last_event = -EVENT_SECONDS
    while True:
        is_running = training.is_running if training is not None else _is_locked(path)
        document = _measurements(path, training, metrics, samples)
        has_entries = bool(document["metrics"] or document["samples"])
        if has_entries or not is_running or time.monotonic() - last_event >= EVENT_SECONDS:
            last_event = time.monotonic()
            yield document
        metrics, samples = document["metrics_offset"], document["samples_offset"]
        if not has_entries and not is_running:
            return
        if not has_entries:
            time.sleep(POLL_SECONDS)


def _is_locked(path: Path) -> bool:
    try:
        return durable.is_locked(path)
    except OSError:  # it has been deleted
        return False


def _measurements(path: Path, training: Training | None, metrics: int, samples: int) -> Document:
    metrics_entries, metrics_end = folder.entries_after(path / folder.METRICS, metrics)
    samples_entries, samples_end = folder.entries_after(path / folder.SAMPLES, samples)
    return {
        "metrics": metrics_entries,
        "metrics_offset": metrics_end,
        "samples": samples_entries,
        "samples_offset": samples_end,
        "training": training.document() if training is not None else None,
        "terminal": terminal(["look", "training", str(path)]),
    }


def start(context: ServerContext, request: NewRunRequest) -> Document:
    """Start a training."""
    return context.trainings.start(request)


def stop(context: ServerContext, request: NamedRequest) -> Document:
    """Request that a training saves and stops."""
    return context.trainings.stop(request.run)


def resume(context: ServerContext, request: NamedRequest) -> Document:
    """Continue an interrupted training."""
    return context.trainings.resume(request.run)


def delete(context: ServerContext, request: DeleteRequest) -> Document:
    """Delete a run."""
    path = context.catalogue.changeable_run(request.run)
    if request.confirm != request.run:
        raise InvalidFieldError("confirm", "is not the id of the run", "repeat the id to confirm the deletion")
    running = context.trainings.running
    if durable.is_locked(path) or (running is not None and running.run == request.run):
        raise ConflictError(f"{request.run} is being trained", "stop it first")
    try:
        (size,) = delete_runs([path])
    except RunError as error:
        error.where = request.run
        raise
    return {"run": request.run, "bytes": size, "terminal": terminal(["runs", "delete", str(path)])}


# --- data, lessons, plans and settings ------------------------------------------------------------------


def data(context: ServerContext | Context, request: DataRequest) -> Document:
    """Return the built-in data sets and the data files; with `data`, the statistics of one of them."""
    if request.data is None:
        assert isinstance(context, ServerContext)
        return {"data": context.catalogue.list_data(), "terminal": "satchel data"}
    from satchel.datasets.corpora import open_corpus
    from satchel.datasets.report import describe

    names = [str(context.data(name)) for name in request.data_ids()]
    corpora = [open_corpus(name, DataSettings()) for name in names]
    report = describe(corpora[0], corpora[1] if len(corpora) > 1 else None, lambda stage: context.progress(stage, None))
    words = ["data", *(f"--valid={name}" for name in names[1:]), "--", names[0]]
    return {**report, "terminal": terminal(words)}


def list_lessons(context: ServerContext, request: Request) -> Document:
    """Return the names and titles of the lessons."""
    from satchel.lessons import LESSONS

    lessons = [{"name": each.name, "title": each.title, "source": each.source} for each in LESSONS.values()]
    return {"lessons": lessons, "terminal": "satchel lesson"}


def plan(context: Context, request: PlanRequest) -> Document:
    """Return the settings of a training as they would be used, and estimates of its costs."""
    from satchel import api

    options = training_options.resolve(request, context.run, context.data)
    planned, words = api.plan(**options), training_options.arguments(options)
    return {
        "settings": planned.settings.model_dump(mode="json"),
        "estimates": planned.estimates(),
        "reasons": list(planned.reasons),
        "terminal": terminal([*words[:-2], "--dry-run", *words[-2:]]),
        "python": training_options.python(options),
    }


def settings(context: Context, request: Request) -> Document:
    """Return the settings that the request of a training can change, by group, tasks and kinds of models."""
    return _all_settings()


@functools.cache
def _all_settings() -> Document:
    from satchel.api.tasks import TASKS

    found: dict[Any, dict[str, Any]] = {}
    for task in TASKS.values():
        counting = [task.counting.settings] if task.counting is not None else []
        for run_settings in (*counting, task.network().settings):
            kinds = [kind for each in groups(run_settings.model_fields["model"].annotation) for kind in _kinds(each)]
            for name in ("data", "tokenizer", "training", "model"):
                for group in groups(run_settings.model_fields[name].annotation):
                    entry = found.setdefault(group, _group(name, group))
                    entry["tasks"] = list(dict.fromkeys([*entry["tasks"], task.name]))
                    entry["models"] = list(dict.fromkeys([*entry["models"], *(_kinds(group) or kinds)]))
    return {"groups": [entry for entry in found.values() if entry["models"] != ["own"]]}


def _group(name: str, group: type[BaseModel]) -> dict[str, Any]:
    """Return a group of settings, without the tasks and kinds of models that have it."""
    fields = group.model_json_schema()["properties"]
    entries = [_setting(key, schema) for each, schema in fields.items() if is_settable(key := f"{name}.{each}")]
    return {"group": name, "tasks": [], "models": [], "settings": entries}


def _kinds(group: type[BaseModel]) -> list[str]:
    """Return the kinds of models of a group of model settings; an empty list for other groups."""
    field = group.model_fields.get("kind")
    return [kind for kind in typing.get_args(field.annotation) if kind in MODELS] if field is not None else []


def _setting(key: str, schema: dict[str, Any]) -> dict[str, Any]:
    """Return a setting: its type, bounds and choices as in JSON Schema, and whether it can be null."""
    options = [each for each in schema.get("anyOf", [schema]) if each.get("type") != "null"]
    return {
        "key": key,
        "default": schema.get("default"),
        "description": schema.get("description"),
        "is_optional": len(options) < len(schema.get("anyOf", [schema])),
        **{name: value for each in reversed(options) for name, value in each.items() if name in SCHEMA_KEYS},
    }


_HERE = "satchel.web.operations_runs"
TRAINING_KEYS = (
    "run", "status", "step", "seconds", "messages", "exit_code", "error", "result", "terminal", "python",
)  # fmt: skip
METRICS_KEYS = ("metrics", "metrics_offset", "samples", "samples_offset", "training", "terminal")


def _operation(
    name: str, request: type[Request], function: Callable[..., Any], keys: tuple[str, ...], **options: Any
) -> Operation:
    summary = (function.__doc__ or "").split("\n")[0]
    options = {"place": "server", **options}
    return Operation(name, request, f"{_HERE}:{function.__name__}", summary, keys, **options)


RUN_OPERATIONS: tuple[Operation, ...] = (
    _operation("runs/list", Request, list_runs, ("runs", "training", "terminal")),
    _operation("runs/metrics", MetricsRequest, metrics, METRICS_KEYS, is_stream=True),
    _operation("runs/start", NewRunRequest, start, TRAINING_KEYS),
    _operation("runs/stop", NamedRequest, stop, TRAINING_KEYS),
    _operation("runs/resume", NamedRequest, resume, TRAINING_KEYS),
    _operation("runs/delete", DeleteRequest, delete, ("run", "bytes", "terminal")),
    _operation("lessons", Request, list_lessons, ("lessons", "terminal")),
    _operation("models", Request, list_models, ("models",)),
    _operation("data", DataRequest, data, ("terminal",)),
    _operation("settings", Request, settings, ("groups",), place="worker"),
    _operation("plan", PlanRequest, plan, ("settings", "estimates", "reasons", "terminal", "python"), place="long"),
)
