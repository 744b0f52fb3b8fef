"""Operations without predictions: facts about a run, and lessons."""

import difflib
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from satchel.web import commands, limits
from satchel.web.errors import InvalidFieldError
from satchel.web.operation import Context, Request, RunRequest
from satchel.web.operations.requests import Word, reply

# --- info -----------------------------------------------------------------------------------------------


class InfoRequest(RunRequest):
    """Request of /api/info."""

    tensors: bool = Field(False, description="return name, shape, dtype and meaning of each tensor instead")


def info(context: Context, request: InfoRequest) -> Mapping[str, Any]:
    """Return the facts of a run."""
    from satchel.api.info import describe, describe_tensors

    folder, run = str(context.model(request.run).folder), context.shown(request.run)
    function = "describe_tensors" if request.tensors else "describe"
    tree = {"tensors": describe_tensors(folder)} if request.tensors else describe(folder)
    line = commands.terminal("info", [run], commands.given(request, "tensors"))
    call = f"{function}({run!r})"
    result = f"{{'run': {run!r}, 'tensors': {call}}}" if request.tensors else call
    program = f"from satchel.api.info import {function}\n\nresult = {result}\nprint(result)\n"
    return reply({**tree, "run": request.run}, line, program)


# --- lesson ---------------------------------------------------------------------------------------------

Setting = bool | int | float | Annotated[str, Field(max_length=2000)] | list[float]
# Settings that start trainings, which take minutes.
TRAINING = "train"


class LessonRequest(Request):
    """Request of /api/lesson."""

    name: Word = Field(description="name of the lesson, as listed by /api/lessons")
    settings: dict[Word, Setting] = Field({}, max_length=limits.MAX_WORDS, description="values of the settings")
    step: int | None = limits.bounded("step", None, "only this step, counted from 1")


def lesson(context: Context, request: LessonRequest) -> Mapping[str, Any]:
    """Return the steps of a lesson."""
    from satchel.lessons import LESSONS

    context.progress("computing", None)
    if request.name not in LESSONS:
        near = difflib.get_close_matches(request.name, LESSONS, n=1)
        guess = f"did you mean {near[0]}? " if near else ""
        raise InvalidFieldError(
            "name", f"there is no lesson {request.name}", f"{guess}the lessons are {', '.join(LESSONS)}"
        )
    chosen = LESSONS[request.name]
    settings: dict[str, Any] = dict(request.settings)
    if settings.get(TRAINING) not in (None, False, "false"):
        remedy = f"use `satchel lesson {request.name} --set {TRAINING}=true`"
        raise InvalidFieldError("settings", f"{TRAINING}=true trains models, which takes minutes", remedy)
    steps = chosen.run(**settings)
    only = "" if request.step is None else f".only({request.step})"
    if request.step is not None:
        steps = steps.only(request.step)
    call = commands.arguments(**settings)
    return reply(
        steps.document(),
        f"{steps.command} --json",
        f"from satchel.lessons import LESSONS\n\nresult = LESSONS[{request.name!r}].run({call}){only}.document()\n"
        "print(result)\n",
    )
