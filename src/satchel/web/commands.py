"""Shell commands and Python programs that print the numbers of a reply."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from satchel.web.operation import Request

# A longer text cannot be an argument of a command on all systems.
LONGEST_ARGUMENT = 100_000

Values = Mapping[str, Any]


def relative(text: str) -> str:
    """Return a text with paths below the current folder made relative to it."""
    return text.replace(f"{Path.cwd()}/", "")


def given(request: Request, *names: str) -> dict[str, Any]:
    """Return the fields of a request, among those named, that differ from their defaults."""
    fields = type(request).model_fields
    return {name: value for name in names if (value := getattr(request, name)) != fields[name].default}


def terminal(verb: str, arguments: Sequence[str], options: Values, *, text: str | None = None) -> str:
    """Return a command for POSIX shells that prints a JSON document; `text` is its last argument."""
    flags = [flag for name, value in options.items() for flag in _flags(name, value)]
    words = [*arguments, *([] if text is None else [text])]
    piped = text is not None and (text == "-" or "\0" in text or len(text.encode()) > LONGEST_ARGUMENT)
    if piped:
        words[-1] = "-"
    is_option = any(word.startswith("-") and word != "-" for word in words)
    command = shlex.join(["satchel", *verb.split(), "--json", *flags, *(["--"] if is_option else []), *words])
    return f"printf {shlex.quote(_format(text or ''))} | {command}" if piped else command


def _flags(name: str, value: Any) -> list[str]:
    flag = f"--{name.replace('_', '-')}"
    if isinstance(value, list):
        return [each for part in value for each in _flags(name, part)]
    if isinstance(value, bool):
        return [flag] if value else []
    return [f"{flag}={value}"] if str(value).startswith("-") else [flag, str(value)]


def _format(text: str) -> str:
    """Return the format with which printf prints a text."""
    return text.replace("\\", "\\\\").replace("%", "%%").replace("\0", "\\000")


def arguments(*positional: str, **options: Any) -> str:
    """Return arguments of a Python call. Positional ones are expressions, options are values; None is left out."""
    named = (f"{name}={value!r}" for name, value in options.items() if value is not None)
    return ", ".join([*positional, *named])


def python(run: str, result: str, imports: str = "") -> str:
    """Return a program that loads a run as `model` and prints the value of an expression, `result`."""
    header = "\n".join(filter(None, ["import satchel", imports]))
    return f"{header}\n\nmodel = satchel.load({run!r})\nresult = {result}\nprint(result)\n"


def for_each(texts: Sequence[str], expression: Callable[[str], str]) -> str:
    """Return the expression of a list with the values of an expression of one text."""
    return f"[{expression('text')} for text in {list(texts)!r}]"
