"""`satchel lesson`: the worked examples of the lectures, step by step."""

import difflib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from satchel.cli.options import AsJson
from satchel.cli.output import TEXT, emit_json, message, print, print_table
from satchel.errors import SettingsError
from satchel.text.display import quoted

if TYPE_CHECKING:
    from satchel.lessons import Step


def lesson(
    name: Annotated[
        str | None, Argument(metavar="NAME", help="Name of the lesson; without it, list all lessons.")
    ] = None,
    settings: Annotated[list[str] | None, Option("--set", help="Setting of the lesson, such as q=0,10.")] = None,
    ask: Annotated[bool, Option("--ask", help="Ask the questions of the lecture before showing the answers.")] = False,
    out: Annotated[
        Path | None, Option("-o", "--out", help="Write a file: .html, .svg, .png, .pdf, .tex or .ipynb (a notebook).")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print a worked example of the lectures, step by step, or write it to a file; without NAME list the examples."""
    from satchel import config
    from satchel.lessons import LESSONS
    from satchel.lessons.steps import format_setting

    if out is not None:
        _check_file(out, name, ask=ask, as_json=as_json)
    if name is None:
        _list(as_json)
        return
    if name not in LESSONS:
        near = difflib.get_close_matches(name, LESSONS, n=1)
        guess = f"did you mean {near[0]}? " if near else ""
        raise SettingsError(f"there is no lesson {name}", f"{guess}the lessons are {', '.join(LESSONS)}")
    steps = LESSONS[name].run(**config.parse_assignments(settings or []))
    if out is not None:
        steps.save(out)
        message(f"wrote {out}")
        return
    if as_json:
        emit_json(steps.document())
        return
    print(f"{steps.lesson.title} ({steps.lesson.source})")
    for step in steps:
        _show(step, ask=ask and bool(step.question))
    fields = steps.lesson.settings_class.model_fields.items()
    message(f"\nsettings (--set): {', '.join(f'{key}={format_setting(field.default)}' for key, field in fields)}")


def _check_file(out: Path, name: str | None, *, ask: bool, as_json: bool) -> None:
    """Raise if the lesson cannot be written to this file with these options."""
    from satchel.lessons import files

    if ask or as_json:
        other = "--ask asks in the terminal" if ask else "--json prints the steps"
        raise SettingsError(f"{other}, -o writes them to a file", "use only one of the two options")
    if name is None:
        raise SettingsError("-o needs the name of a lesson", f"for example satchel lesson attention -o {quoted(out)}")
    files.check_ending(out)


def _list(as_json: bool) -> None:
    from satchel.lessons import LESSONS

    rows = [[lesson.name, lesson.title, lesson.source] for lesson in LESSONS.values()]
    if as_json:
        emit_json({"lessons": [dict(zip(("name", "title", "source"), row, strict=True)) for row in rows]})
        return
    print_table({"name": TEXT, "title": TEXT, "lecture": TEXT}, rows)
    message("\nnext: satchel lesson attention --ask")


def _show(step: "Step", *, ask: bool) -> None:
    from satchel.lessons.steps import text_lines

    print(f"\n{step.title}")
    if ask:
        _ask(step)
    for line in _wrap(step.text):
        print(f"  {line}")
    for matrix in step.matrices:
        print(f"\n  {matrix.name}" if matrix.name else "")
        for line in text_lines(matrix):
            print(f"    {line}")


def _wrap(text: str) -> list[str]:
    import shutil
    import textwrap

    width = min(100, shutil.get_terminal_size().columns - 2)
    return [line for part in text.split("\n") for line in textwrap.wrap(part, max(width, 20))]


def _ask(step: "Step") -> None:
    """Print the question, read an answer, and print whether it is correct if it can be checked."""
    from satchel.lessons.steps import is_correct

    for number, line in enumerate(_wrap(step.question)):
        print(f"  {' ' if number else '?'} {line}")
    print("  > ", end="", flush=True)
    answer = sys.stdin.readline().strip()
    if not sys.stdin.isatty():
        print(answer)
    if answer and step.answer:
        print("  correct." if is_correct(answer, step.answer) else "  not correct:")
