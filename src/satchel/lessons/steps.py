"""Data types of lessons (`Matrix`, `Step`, `Steps`, `Lesson`), their settings, and number formatting."""

import inspect
import math
import re
import shlex
import tomllib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import create_model

from satchel import config
from satchel.charts.plots import Plot, layout
from satchel.config import Settings
from satchel.errors import SettingsError
from satchel.lessons.answers import is_correct
from satchel.lessons.arithmetic import Cell, exact, format_cell
from satchel.lessons.expressions import parse_setting
from satchel.lessons.formulas import formula_latex, plain
from satchel.lessons.inputs import input_documents
from satchel.lessons.roles import describe_matrix

FORMULA = re.compile(r"\$([^$]*)\$")
# A list in brackets, such as [0, 1] or (0, 1).
BRACKETS = re.compile(r"^\s*[\[(](.*)[\])]\s*$", re.DOTALL)
BOOLEANS = {"true": True, "false": False}
INFINITE = (math.inf, -math.inf)


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
class Curves:
    """A line chart: the points of each series, and vertical lines at `marks`. With `log` both axes are logarithmic."""

    name: str
    x: str
    y: str
    series: tuple[tuple[str, tuple[tuple[float, float], ...]], ...]
    marks: tuple[tuple[float, str], ...] = ()
    log: bool = False

    def layout(self) -> Plot:
        """Return the lines and texts of the chart."""
        return layout(self.series, self.x, self.y, self.marks, log=self.log)


@dataclass(frozen=True)
class Step:
    """One step of a lesson. If it has a question, `--ask` asks it before showing the text and the matrices.

    `answer` holds the expected answer: numbers in order, or alternative words of which one is enough; `accept` are
    regular expressions of further correct answers. `formulas` are the formulas in title, text and question: as they
    occur there, and as LaTeX. `stored` is the command that produced the values of a step that are not computed when the
    lesson runs. `number` counts the steps of a lesson from 1.
    """

    title: str
    text: str = ""
    matrices: tuple[Matrix, ...] = ()
    question: str = ""
    answer: tuple[Cell, ...] = ()
    accept: tuple[str, ...] = ()
    formulas: tuple[tuple[str, str], ...] = ()
    stored: str = ""
    curves: tuple[Curves, ...] = ()
    number: int = 0

    @property
    def heading(self) -> str:
        """The number and the title."""
        return f"{self.number}. {self.title}" if self.number else self.title

    def is_correct(self, answer: str) -> bool:
        """Return whether an answer to the question is correct."""
        return is_correct(answer, self.answer, self.accept, self.question)

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

    Formulas in the text and in the question are between dollar signs; those of the title are listed in the file of
    the texts, and so are answers that do not depend on the settings. An answer of a single cell need not be wrapped in
    a tuple.
    """
    texts = load_texts(lesson)["steps"][title]
    answer = texts.get("answer", answer)
    templates = (title, texts["text"], texts.get("question", ""))
    sources = [*texts.get("formulas", ()), *(each for part in templates for each in FORMULA.findall(part))]
    formulas = dict.fromkeys(source.format(**values) for source in sources)
    title, text, question = (_fill(template, values) for template in templates)
    return Step(
        plain(title),
        text,
        matrices,
        question,
        answer=tuple(answer) if isinstance(answer, Sequence) and not isinstance(answer, str) else (answer,),
        accept=tuple(texts.get("accept", ())),
        formulas=tuple((plain(formula), formula_latex(formula)) for formula in formulas),
    )


def stored_note(command: str) -> str:
    """Return the note on values of trained models that are stored with the lesson."""
    return f"Stored results: this table is not computed when the lesson runs. It was produced by: {command}"


def _fill(template: str, values: dict[str, object]) -> str:
    """Return a template with its values and with formulas as plain text; a value may contain dollar signs."""
    parts = [part.format(**values) for part in template.split("$")]
    return "".join(plain(part) if place % 2 else part for place, part in enumerate(parts))


class Steps(list[Step]):
    """The steps of a lesson run with given settings; displays itself in a notebook and can be saved to a file."""

    def __init__(self, steps: Iterable[Step], lesson: "Lesson", settings: Settings) -> None:
        super().__init__(steps)
        self.lesson = lesson
        self.settings = settings
        self._selected: int | None = None

    @property
    def command(self) -> str:
        """The shell command that prints these steps."""
        options = [f"--set {shlex.quote(f'{name}={format_setting(value)}')}" for name, value in self.settings]
        selection = [f"--step {self._selected}"] if self._selected else []
        return " ".join(["satchel", "lesson", self.lesson.name, *options, *selection])

    def only(self, number: int) -> "Steps":
        """Return the step with this number, counted from 1, as the only step."""
        selected = [step for step in self if step.number == number]
        if not selected:
            raise SettingsError(
                f"step {number}: the lesson {self.lesson.name} has {len(self)} steps",
                f"expected a number from 1 to {len(self)}; `satchel lesson {self.lesson.name}` prints all of them",
            )
        steps = Steps(selected, self.lesson, self.settings)
        steps._selected = number
        return steps

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
            "inputs": [_plain_numbers(each) for each in input_documents(self.lesson.name, self.settings)],
            "steps": [_plain_numbers(self._step_document(step)) for step in self],
        }

    def _step_document(self, step: Step) -> dict[str, Any]:
        matrices = [{**asdict(each), **describe_matrix(self.lesson.name, each.name)} for each in step.matrices]
        return {**asdict(step), "matrices": matrices}

    def save(self, path: str | Path) -> None:
        """Write the steps to a file; the suffix selects the format (.html, .svg, .png, .pdf, .tex or .ipynb)."""
        from satchel.lessons import files

        files.save(self, Path(path))


def _plain_numbers(value: Any) -> Any:
    """Return the value for JSON: fractions as floats, infinite answers as text."""
    if isinstance(value, dict):
        answer = {"answer": [str(cell) if cell in INFINITE else cell for cell in value.get("answer", ())]}
        return {key: _plain_numbers(inner) for key, inner in {**value, **(answer if "answer" in value else {})}.items()}
    if isinstance(value, (list, tuple)):
        return [_plain_numbers(inner) for inner in value]
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

    def run(self, /, **settings: object) -> Steps:
        """Return the steps for the given settings; text is converted to the type of the setting, as with `--set`."""
        converted = {name: self._convert(name, value) for name, value in settings.items()}
        validated = config.build(self.settings_class, converted)
        steps = [*self.function(**dict(validated)), *([self.training_result] if self.training_result else [])]
        numbered = (replace(step, number=number) for number, step in enumerate(steps, start=1))
        return Steps(numbered, self, validated)

    def _convert(self, name: str, value: object) -> object:
        """Return a setting given as text as the type of its default, and a single number as a tuple of one."""
        fields = self.settings_class.model_fields
        default = fields[name].default if name in fields else ""
        if isinstance(default, tuple) and isinstance(value, (int, float)):
            return [value]
        if isinstance(default, str) or not isinstance(value, str):
            return value
        if isinstance(default, bool):
            if value.lower() not in BOOLEANS:
                raise SettingsError(f"{name}: found {value[:60]!r}, expected true or false")
            return BOOLEANS[value.lower()]
        if isinstance(default, tuple):
            text = BRACKETS.sub(r"\1", value)
            return [_number(name, part) for part in text.split(",") if part.strip()]
        return _number(name, value)


def _number(name: str, text: str) -> int | float:
    """Return a number for JSON: an integer if it is one."""
    value = parse_setting(name, text)
    return int(value) if math.isfinite(value) and value == int(value) else float(value)


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
    if value == math.e:
        return "e"
    if isinstance(value, float) and float(f"{value:g}") == value:
        return f"{value:g}"
    # 1/3 has no short decimal form.
    return str(exact(value) if isinstance(value, float) else value)


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
