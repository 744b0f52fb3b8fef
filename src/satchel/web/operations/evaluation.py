"""Operations on data: the evaluation of a run and the comparison of several."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from satchel.web import commands, limits
from satchel.web.errors import InvalidFieldError
from satchel.web.operation import Context, Request, RunRequest
from satchel.web.operations.requests import Word, reply

COLUMNS = ("text_column", "label_column", "tags_column", "source_column", "target_column")
DATA = "name of a data file, as listed by /api/data, or @NAME; default: the held-out data"


class DataRequest(Request):
    """A request about data."""

    data: Word | None = Field(None, description=DATA)
    text_column: Word | None = Field(None, description="name of the column with the text")
    label_column: Word | None = Field(None, description="name of the column with the label")
    tags_column: Word | None = Field(None, description="name of the column with the tags")
    source_column: Word | None = Field(None, description="name of the column with the source text")
    target_column: Word | None = Field(None, description="name of the column with the translation")

    def options(self) -> dict[str, Any]:
        """Return the options of Python functions that read the data."""
        columns = commands.given(self, *COLUMNS)
        return {"reading": columns} if columns else {}


def _data(context: Context, request: DataRequest) -> Path | str | None:
    return None if request.data is None else context.data(request.data)


def _shown_data(context: Context, request: DataRequest) -> str | None:
    return None if request.data is None else context.shown(request.data)


# --- evaluate -------------------------------------------------------------------------------------------


class EvaluateRequest(DataRequest, RunRequest):
    """Request of /api/evaluate."""

    by: Literal["distance", "length", "position"] | None = Field(None, description="group the results")
    beam: int | None = limits.bounded("beam", None, "translators: beam size (4)")
    similarity: Word | None = Field(
        None, description="Backpacks: name of a file with ratings of the similarity of words"
    )

    @model_validator(mode="after")
    def _check_options(self) -> Self:
        if self.similarity is not None and commands.given(self, "data", "by", "beam", *COLUMNS):
            raise ValueError("similarity cannot be combined with other options")
        return self

    def data_ids(self) -> Iterator[str]:
        """Yield the names of the data that the request names."""
        yield from filter(None, (self.data, self.similarity))


def evaluate(context: Context, request: EvaluateRequest) -> Mapping[str, Any]:
    """Return the metrics of a run."""
    model = context.model(request.run)
    if request.beam is not None and model.task != "translate":
        raise InvalidFieldError("beam", f"does not apply to the task {model.task}", "omit it")
    run, data = context.shown(request.run), _shown_data(context, request)
    if request.similarity is not None:
        context.progress("comparing words", None)
        agreements = [asdict(each) for each in model.sense_vectors.agreement(context.data(request.similarity))]
        ratings = context.shown(request.similarity)
        line = commands.terminal("evaluate", [run], {"similarity": ratings})
        result = f"[asdict(each) for each in model.sense_vectors.agreement({ratings!r})]"
        program = commands.python(run, f"{{'similarity': {result}}}", "from dataclasses import asdict")
        return reply({"similarity": agreements}, line, program)
    flags = commands.given(request, "by", "beam", *COLUMNS)
    line = commands.terminal("evaluate", [run, *([] if data is None else [data])], flags)
    chosen = {**request.options(), **commands.given(request, "beam")}
    options: dict[str, Any] = {**chosen, "data": _data(context, request), "progress": context.progress}
    call = {"data": data, **chosen}
    if request.by is not None:
        document = model.evaluate_by(request.by, **options).document()
        result = f"model.evaluate_by({commands.arguments(repr(request.by), **call)}).document()"
    else:
        document = model.metrics_document(model.evaluate(**options))
        result = f"model.metrics_document(model.evaluate({commands.arguments(**call)}))"
    return reply(document, line, commands.python(run, result))


# --- compare --------------------------------------------------------------------------------------------


class CompareRequest(DataRequest):
    """Request of /api/compare."""

    runs: list[Word] = Field(min_length=2, max_length=limits.MAX_RUNS, description="ids of two or more runs")


def compare(context: Context, request: CompareRequest) -> Mapping[str, Any]:
    """Return the values of a metric for runs, their differences, and the documents that differ most."""
    from satchel.api.compare import compare_models

    models = [context.model(run) for run in request.runs]
    options, runs, data = request.options(), list(map(context.shown, request.runs)), _shown_data(context, request)
    document = compare_models(
        request.runs, models, _data(context, request), progress=context.progress, **options
    ).document()
    flags = {**commands.given(request, *COLUMNS), **({} if data is None else {"data": data})}
    line = commands.terminal("compare", runs, flags)
    call = commands.arguments(repr(runs), data=data, **options)
    program = f"import satchel\n\nresult = satchel.compare({call}).document()\nprint(result)\n"
    return reply(document, line, program)
