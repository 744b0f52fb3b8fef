"""Data types of lessons (`Matrix`, `Step`, `Steps`, `Lesson`), number formatting, and the check of answers."""

import inspect
import math
import re
import shlex
import tomllib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import create_model

from satchel import config
from satchel.config import Settings
from satchel.lessons.arithmetic import Cell, format_cell

# Tolerances of a numeric answer, relative and absolute: an answer rounded to two decimals is correct.
RELATIVE_TOLERANCE = 0.02
ABSOLUTE_TOLERANCE = 0.011


@dataclass(frozen=True)
class Matrix:
    """A named matrix or table, with optional row and column labels."""

    name: str
    values: tuple[tuple[Cell, ...], ...]
    rows: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()


def matrix(
    name: str, values: Iterable[Iterable[Cell]], rows: Iterable[str] = (), columns: Iterable[str] = ()
) -> Matrix:
    """Return a `Matrix` from any iterables."""
    return Matrix(name, tuple(map(tuple, values)), tuple(rows), tuple(columns))


def vector(name: str, values: Iterable[Cell], columns: Iterable[str] = ()) -> Matrix:
    """Return a `Matrix` with one row."""
    return matrix(name, [values], columns=columns)


@dataclass(frozen=True)
class Step:
    """One step of a lesson. If it has a question, `--ask` asks it before showing the text and the matrices.

    `answer` holds the expected answer: numbers in order, or alternative words of which one is enough; empty if the
    answer is not checked.
    """

    title: str
    text: str = ""
    matrices: tuple[Matrix, ...] = ()
    question: str = ""
    answer: tuple[Cell, ...] = ()

    def _repr_html_(self) -> str:
        """Return the step as HTML for a notebook."""
        from satchel.lessons import page

        return page.fragment([self])


@cache
def load_texts(lesson: str) -> dict[str, Any]:
    """Return title, source, items, and the texts and questions by title of step (templates of `str.format`)."""
    return tomllib.loads((Path(__file__).parent / "texts" / f"{lesson}.toml").read_text(encoding="utf-8"))


def build_step(
    lesson: str, title: str, /, *matrices: Matrix, answer: Cell | Sequence[Cell] = (), **values: object
) -> Step:
    """Return the step with this title template; `values` are inserted into its title, text and question.

    An answer of a single cell need not be wrapped in a tuple. Answers that do not depend on the settings are in the
    file of the texts.
    """
    texts = load_texts(lesson)["steps"][title]
    answer = texts.get("answer", answer)
    title, text, question = (part.format(**values) for part in (title, texts["text"], texts.get("question", "")))
    expected = tuple(answer) if isinstance(answer, Sequence) and not isinstance(answer, str) else (answer,)
    return Step(title, text, matrices, question, expected)


class Steps(list[Step]):
    """The steps of a lesson run with given settings; displays itself in a notebook and can be saved to a file."""

    def __init__(self, steps: Iterable[Step], lesson: "Lesson", settings: Settings) -> None:
        super().__init__(steps)
        self.lesson = lesson
        self.settings = settings

    @property
    def command(self) -> str:
        """The shell command that prints these steps."""
        options = [f"--set {shlex.quote(f'{name}={format_setting(value)}')}" for name, value in self.settings]
        return " ".join(["satchel", "lesson", self.lesson.name, *options])

    def _repr_html_(self) -> str:
        """Return the steps as HTML for a notebook."""
        from satchel.lessons import page

        return page.fragment(self)

    def document(self) -> dict[str, Any]:
        """Return the keys of `lesson NAME --json`; fractions become floats."""
        return {
            "name": self.lesson.name,
            "title": self.lesson.title,
            "source": self.lesson.source,
            "items": list(self.lesson.items),
            "steps": [_without_fractions(asdict(step)) for step in self],
        }

    def save(self, path: str | Path) -> None:
        """Write the steps to a file; the suffix selects the format (.html, .svg, .png, .pdf, .tex or .ipynb)."""
        from satchel.lessons import files

        files.save(self, Path(path))


def _without_fractions(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_fractions(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_fractions(inner) for inner in value]
    return float(value) if isinstance(value, Fraction) else value


@dataclass(frozen=True)
class Lesson:
    """A worked example of a lecture: a function that maps settings to steps."""

    name: str
    title: str
    source: str  # lecture the example is taken from
    items: Sequence[int]  # numbers of the lecture items it covers
    function: Callable[..., list[Step]]
    training_result: Step | None = None  # last step: results of trained models

    @property
    def settings_class(self) -> type[Settings]:
        """A settings class with one field per parameter of the function."""
        parameters = inspect.signature(self.function, eval_str=True).parameters.values()
        fields: dict[str, Any] = {parameter.name: (parameter.annotation, parameter.default) for parameter in parameters}
        return create_model(f"{self.name} settings", __base__=Settings, **fields)

    def run(self, **settings: object) -> Steps:
        """Return the steps for the given settings."""
        validated = config.build(
            self.settings_class, {name: self._convert(name, value) for name, value in settings.items()}
        )
        steps = self.function(**dict(validated))
        return Steps([*steps, *([self.training_result] if self.training_result else [])], self, validated)

    def _convert(self, name: str, value: object) -> object:
        """Undo the parsing of commas on the command line: join a list for a text setting, wrap a single number."""
        fields = self.settings_class.model_fields
        default = fields[name].default if name in fields else None
        if isinstance(default, str) and isinstance(value, list):
            return ", ".join(map(str, value))
        return [value] if isinstance(default, tuple) and not isinstance(value, (list, tuple)) else value


# --- formatting ---------------------------------------------------------------------------------------


def format_cells(cells: Sequence[Cell]) -> str:
    """Return the formatted cells, separated by commas."""
    return ", ".join(map(format_cell, cells))


def format_setting(value: object) -> str:
    """Return the value of a setting in the syntax of `--set`."""
    if isinstance(value, tuple):
        return ",".join(map(format_setting, value))
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)


def text_lines(matrix: Matrix) -> list[str]:
    """Return a matrix as lines of text with aligned columns and its row and column labels."""
    cells = [[format_cell(cell) for cell in row] for row in matrix.values]
    header = [list(matrix.columns)] if matrix.columns else []
    widths = [max(map(len, column)) for column in zip(*header, *cells, strict=True)]
    label_width = max(map(len, matrix.rows), default=0)
    labels = [*([""] if header else []), *(matrix.rows or [""] * len(cells))]
    return [
        f"{label:>{label_width}}  {'  '.join(map(str.rjust, row, widths))}".rstrip()
        for label, row in zip(labels, [*header, *cells], strict=True)
    ]


# --- answers ------------------------------------------------------------------------------------------


def is_correct(answer: str, expected: tuple[Cell, ...]) -> bool:
    """Return whether an answer contains one of the expected words, or equals the expected numbers after rounding."""
    if all(isinstance(cell, str) for cell in expected):
        return any(str(word).casefold() in answer.casefold() for word in expected)
    # 196,608 is one number; 4x4 and (1, 2) are two.
    without_groups = re.sub(r"(?<=\d),(?=\d{3}\b)", "", answer)
    numbers = [_parse_number(word) for word in re.sub(r"[][(),;x×]", " ", without_groups).split()]
    return len(numbers) == len(expected) and all(
        number is not None and math.isclose(number, float(cell), rel_tol=RELATIVE_TOLERANCE, abs_tol=ABSOLUTE_TOLERANCE)
        for number, cell in zip(numbers, expected, strict=True)
    )


def _parse_number(word: str) -> float | None:
    numerator, slash, denominator = word.partition("/")
    try:
        return float(numerator) / float(denominator) if slash else float(numerator)
    except (ValueError, ZeroDivisionError):
        return None
