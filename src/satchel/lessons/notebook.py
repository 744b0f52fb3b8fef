"""Lessons as notebooks: the settings in the first cell, then one cell per step."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from satchel.lessons.steps import Step, Steps


Cell = dict[str, Any]


def notebook(steps: "Steps") -> dict[str, Any]:
    """Return the notebook that computes these steps, with its outputs."""
    lesson, settings = steps.lesson, dict(steps.settings)
    introduction = (
        f"# {lesson.title}\n\n{lesson.source}\n\nChange the settings in the first cell and run all cells again."
    )
    assignments = "\n".join(f"{name} = {_without_point(value)!r}" for name, value in settings.items())
    arguments = "".join(f"\n    {name}={name}," for name in settings)
    run = f"import satchel\n\nsteps = satchel.lessons.LESSONS[{lesson.name!r}].run({arguments}\n)"
    return {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "cells": [
            {"cell_type": "markdown", "id": "lesson", "metadata": {}, "source": introduction},
            _code("settings", assignments, 1),
            _code("run", run, 2),
            *(
                _code(f"step-{step.number}", f"steps[{step.number - 1}]", count, step)
                for count, step in enumerate(steps, 3)
            ),
        ],
    }


def _without_point(value: object) -> object:
    """Return a setting with integral floats as integers, which are converted back when the lesson runs."""
    if isinstance(value, tuple):
        return tuple(map(_without_point, value))
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 1e15 else value


def _code(name: str, source: str, count: int, output: "Step | None" = None) -> Cell:
    """Return a code cell, with a step as its output."""
    data = {} if output is None else {"text/html": output._repr_html_(), "text/plain": output.title}
    result = {"output_type": "execute_result", "execution_count": count, "metadata": {}, "data": data}
    return {
        "cell_type": "code",
        "id": name,
        "metadata": {},
        "execution_count": count,
        "source": source,
        "outputs": [result] if data else [],
    }
