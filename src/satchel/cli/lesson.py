"""`satchel lesson`: the worked examples of the lectures, step by step."""

import difflib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol

from typer import Argument, Option

from satchel.cli.options import AsJson
from satchel.cli.output import TEXT, emit_json, message, print, print_table
from satchel.errors import SettingsError
from satchel.text.display import quoted, safe

if TYPE_CHECKING:
    from satchel.lessons import Step, Steps
    from satchel.lessons.items import Item


def lesson(
    name: Annotated[
        str | None, Argument(metavar="NAME", help="Name of the lesson; without it, list all lessons.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        Option(
            "--set", help="Setting of the lesson, such as q=0,10, base=e, probabilities=1/4,1/3 or positions=false."
        ),
    ] = None,
    step: Annotated[int | None, Option("--step", metavar="N", help="Show only step N, counted from 1.")] = None,
    ask: Annotated[
        bool, Option("--ask", help="Ask the questions before showing the answers, and print a score at the end.")
    ] = False,
    tries: Annotated[int, Option(help="With --ask: number of tries for each question.", min=1)] = 2,
    items: Annotated[
        bool,
        Option("--items", help="List the items of the lectures with their commands; NAME is then a number or a word."),
    ] = False,
    out: Annotated[
        Path | None, Option("-o", "--out", help="Write a file: .html, .svg, .png, .pdf, .tex or .ipynb (a notebook).")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print a worked example of the lectures, step by step, or write it to a file; without NAME list the examples."""
    from satchel import config
    from satchel.lessons import LESSONS
    from satchel.lessons.steps import format_setting

    if items:
        _check_unused({"--set": settings, "--step": step, "--ask": ask, "-o": out}, "--items lists the lecture items")
        _show_items(name, as_json)
        return
    if out is not None:
        _check_file(out, name, ask=ask, as_json=as_json)
    if name is None:
        _check_unused({"--set": settings, "--step": step, "--ask": ask}, "without NAME, the lessons are listed")
        _list(as_json)
        return
    if name not in LESSONS:
        near = difflib.get_close_matches(name, LESSONS, n=1)
        guess = f"did you mean {near[0]}? " if near else ""
        raise SettingsError(f"there is no lesson {name}", f"{guess}the lessons are {', '.join(LESSONS)}")
    steps = LESSONS[name].run(**dict(map(config.split_assignment, settings or [])))
    if step is not None:
        steps = steps.only(step)
    if out is not None:
        steps.save(out)
        message(f"wrote {out}")
        return
    if ask:
        _ask_all(steps, tries, as_json)
        return
    if as_json:
        emit_json(steps.document())
        return
    print(f"{steps.lesson.title} ({steps.lesson.source})")
    for each in steps:
        _show(each)
    values = ", ".join(f"{key}={format_setting(value)}" for key, value in steps.settings)
    message(f"\nsettings (--set): {values}")
    if any(each.curves for each in steps):
        message(f"line charts of this lesson: add -o {name}.svg or -o {name}.html")


def _check_file(out: Path, name: str | None, *, ask: bool, as_json: bool) -> None:
    """Raise if the lesson cannot be written to this file with these options."""
    from satchel.lessons import files

    if ask or as_json:
        other = "--ask asks in the terminal" if ask else "--json prints the steps"
        raise SettingsError(f"{other}, -o writes them to a file", "use only one of the two options")
    if name is None:
        raise SettingsError("-o needs the name of a lesson", f"for example satchel lesson attention -o {quoted(out)}")
    files.check_ending(out)


def _check_unused(options: dict[str, object], cause: str) -> None:
    """Raise if an option is given that has no effect."""
    for option, value in options.items():
        if value not in (None, False, []):
            remedy = f"give the name of a lesson: satchel lesson attention {option}"
            raise SettingsError(f"{option} needs the name of a lesson: {cause}", remedy)


def _list(as_json: bool) -> None:
    from satchel.lessons import LESSONS

    rows = [[lesson.name, lesson.title, lesson.source] for lesson in LESSONS.values()]
    if as_json:
        emit_json({"lessons": [dict(zip(("name", "title", "source"), row, strict=True)) for row in rows]})
        return
    print_table({"name": TEXT, "title": TEXT, "lecture": TEXT}, rows)
    message("\nnext: satchel lesson attention --ask", "the items of the lectures: satchel lesson --items")


def _show_items(query: str | None, as_json: bool) -> None:
    """Print all items of the lectures, one item by its number, or the items that contain a text."""
    from satchel.lessons.items import find_items

    items = find_items(query)
    if as_json:
        emit_json({"items": [item.document() for item in items]})
        return
    if query is not None and query.isdecimal():
        _show_item(items[0])
        return
    topic = ""
    for item in items:
        if item.topic != topic:
            topic = item.topic
            print(f"\n{topic} ({item.lecture})")
        # Without a step of a lesson, the last command shows the item; the commands before it train the models.
        note = f"  (first: satchel lesson --items {item.number})" if len(item.commands) > 1 else ""
        command = item.steps[0].command if item.steps else item.commands[-1] + note
        for place, line in enumerate(_wrap(item.title)):
            print(f"  {item.number:>3}  {line}" if place == 0 else f"       {line}")
        print(f"       {command}")
    message("\nnext: satchel lesson --items 47 (all commands of one item), satchel lesson --items gradient (search)")


def _show_item(item: "Item") -> None:
    print(f"{item.number}. {item.title}\n{item.topic} ({item.lecture})\n")
    for command in item.all_commands:
        print(f"  {command}")
    print()
    for line in _wrap(item.read):
        print(line)
    if any(command.startswith("satchel train ") for command in item.commands):
        message("\nitems share run folders: a training that is complete need not be run again")


def _show(step: "Step") -> None:
    print(f"\n{step.heading}")
    _show_content(step)


def _show_content(step: "Step") -> None:
    from satchel.lessons.steps import text_lines

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


# --- questions ----------------------------------------------------------------------------------------


def _ask_all(steps: "Steps", tries: int, as_json: bool) -> None:
    """Ask the questions of the steps and print the score; with `as_json` print answers and score as JSON."""
    from satchel.lessons.answers import RULE

    questions = [step for step in steps if step.question]
    if not questions:
        raise SettingsError(
            f"step {steps[0].number} of the lesson {steps.lesson.name} has no question",
            f"`satchel lesson {steps.lesson.name} --ask` asks all questions of the lesson",
        )
    # In JSON mode the questions are messages, so that standard output contains only the document.
    say = _say_on_stderr if as_json else print
    say(f"{steps.lesson.title} ({steps.lesson.source})\n{RULE}; an empty line skips a question")
    results = []
    for step in steps:
        say(f"\n{step.heading}")
        if step.question:
            answers, is_correct = _ask(step, tries, say)
            results.append((step, answers, is_correct))
        if not as_json:
            _show_content(step)
    correct = sum(is_correct for _, _, is_correct in results)
    at_first = sum(is_correct and len(answers) == 1 for _, answers, is_correct in results)
    answered = sum(bool(answers) for _, answers, _ in results)
    if as_json:
        emit_json(
            {
                "name": steps.lesson.name,
                "questions": [
                    {
                        "step": step.number,
                        "question": step.question,
                        "answers": answers,
                        "correct": is_correct,
                        "expected": _format_answer(step),
                    }
                    for step, answers, is_correct in results
                ],
                "score": {
                    "questions": len(results),
                    "answered": answered,
                    "correct": correct,
                    "correct_at_first_try": at_first,
                },
            }
        )
        return
    later = f", {correct - at_first} of them after the first try" if correct > at_first else ""
    skipped = f"; {len(results) - answered} not answered" if answered < len(results) else ""
    print(f"\nscore: {correct} of {len(results)} questions correct{later}{skipped}")


class Say(Protocol):
    """Prints a line, or the prompt of an answer without an end of line."""

    def __call__(self, text: str = "", *, end: str = "\n", flush: bool = False) -> None: ...


def _say_on_stderr(text: str = "", *, end: str = "\n", flush: bool = False) -> None:
    sys.stderr.write(safe(text) + end)
    sys.stderr.flush()


def _ask(step: "Step", tries: int, say: Say) -> tuple[list[str], bool]:
    """Ask a question up to `tries` times; return the answers and whether the last one is correct."""
    for number, line in enumerate(_wrap(step.question)):
        say(f"  {' ' if number else '?'} {line}")
    answers: list[str] = []
    for remaining in reversed(range(tries)):
        say("  > ", end="", flush=True)
        answer = sys.stdin.readline().strip()
        if not sys.stdin.isatty():
            say(answer)
        if not answer:
            break
        answers.append(answer)
        if step.is_correct(answer):
            say("  correct.")
            return answers, True
        say("  not correct, try again" if remaining else "  not correct:")
    if len(answers) < tries:
        say(f"  the answer: {_format_answer(step)}")
    return answers, False


def _format_answer(step: "Step") -> str:
    """Return the expected answer of a question."""
    from satchel.lessons.steps import format_cells

    return format_cells(step.answer)
