"""`satchel lesson`: the lectures' worked examples, step by step."""

import sys
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from satchel.cli.options import AsJson
from satchel.cli.output import TEXT, emit_json, message, print_table

if TYPE_CHECKING:
    from satchel.lessons import Lesson, Step


def lesson(
    name: Annotated[str | None, Argument(help="Which one; without it they are listed.")] = None,
    settings: Annotated[list[str] | None, Option("--set", help="A dial of the lesson, such as q=0,10.")] = None,
    ask: Annotated[bool, Option("--ask", help="Be asked what the lecture asks, before it is shown.")] = False,
    out: Annotated[
        Path | None, Option("-o", "--out", help="Write it: .html, .svg, .png, .pdf, .tex or .ipynb (a notebook).")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show a worked example of the lectures, step by step, or write it to a file."""
    from satchel import config
    from satchel.errors import SettingsError
    from satchel.lessons import LESSONS

    if out is not None:
        _check_file(out, name, ask=ask, as_json=as_json)
    if name is None:
        _list(as_json)
        return
    if name not in LESSONS:
        import difflib

        near = difflib.get_close_matches(name, LESSONS, n=1)
        guess = f"did you mean {near[0]}? " if near else ""
        raise SettingsError(f"there is no lesson {name}", f"{guess}there is {', '.join(LESSONS)}")
    chosen = LESSONS[name]
    steps = chosen.run(**config.parse_assignments(settings or []))
    if out is not None:
        steps.save(out)
        message(f"wrote {out}")
        return
    if as_json:
        emit_json(_as_json(chosen, steps))
        return
    print(f"{chosen.title} ({chosen.source})")
    for step in steps:
        _show(step, ask=ask and bool(step.question))
    dials = ", ".join(f"{key}={_dial(field.default)}" for key, field in chosen.dials.model_fields.items())
    message(f"\ndials (--set): {dials}")


def _check_file(out: Path, name: str | None, *, ask: bool, as_json: bool) -> None:
    """Refuse, before anything is computed, a file that could not be written."""
    from satchel.errors import SettingsError
    from satchel.lessons import files

    if ask or as_json:
        other = "--ask asks in the terminal" if ask else "--json prints the steps"
        raise SettingsError(f"{other}, -o writes them to a file", "give one of the two")
    if name is None:
        raise SettingsError(
            "-o writes a lesson, found no name of one", f"for example satchel lesson attention -o {out}"
        )
    files.check_ending(out)


def _list(as_json: bool) -> None:
    from satchel.lessons import LESSONS

    if as_json:
        emit_json(
            {"lessons": [{"name": each.name, "title": each.title, "source": each.source} for each in LESSONS.values()]}
        )
        return
    print_table(
        {"name": TEXT, "title": TEXT, "lecture": TEXT},
        [[each.name, each.title, each.source] for each in LESSONS.values()],
    )
    message("\nnext: satchel lesson attention --ask")


def _dial(value: object) -> str:
    return (
        ",".join(f"{each:g}" if isinstance(each, float) else str(each) for each in value)
        if isinstance(value, tuple)
        else f"{value:g}"
        if isinstance(value, float)
        else str(value)
    )


def _show(step: "Step", *, ask: bool) -> None:
    from satchel.lessons.steps import lines

    print(f"\n{step.title}")
    if ask:
        _ask(step)
    for line in _wrapped(step.text):
        print(f"  {line}")
    for matrix in step.matrices:
        print(f"\n  {matrix.name}" if matrix.name else "")
        for line in lines(matrix):
            print(f"    {line}")


def _wrapped(text: str) -> list[str]:
    import shutil
    import textwrap

    width = min(100, shutil.get_terminal_size().columns - 2)
    return [line for part in text.split("\n") for line in textwrap.wrap(part, max(width, 20))]


def _ask(step: "Step") -> None:
    """Ask, check the answer where there is one to check, and go on to show it."""
    from satchel.lessons.steps import is_right

    print(f"  ? {step.question}")
    print("  > ", end="", flush=True)
    said = sys.stdin.readline().strip()
    if not sys.stdin.isatty():
        print(said)
    if not said or not step.answer:
        return
    print("  right." if is_right(said, step.answer) else "  not quite:")


def _as_json(chosen: "Lesson", steps: list["Step"]) -> dict[str, Any]:
    return {
        "name": chosen.name,
        "title": chosen.title,
        "source": chosen.source,
        "items": list(chosen.items),
        "steps": [_plain(asdict(step)) for step in steps],
    }


def _plain(value: Any) -> Any:
    """Return numbers as numbers: fractions become decimals."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    return float(value) if isinstance(value, Fraction) else value
