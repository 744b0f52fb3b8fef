"""Lessons as files: page, figure, LaTeX or notebook, selected by the file extension."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from satchel import durable
from satchel.errors import SettingsError
from satchel.lessons import latex, notebook, page
from satchel.lessons.arithmetic import format_cell

if TYPE_CHECKING:
    from satchel.charts.figures import Figure
    from satchel.lessons.steps import Matrix, Step, Steps


def figure(steps: "Sequence[Step]", title: str) -> "Figure":
    """Return the matrices of all steps on one slide, with one card per step that has any."""
    # Loaded here: altair takes 0.4 s, and most formats do not need it.
    from satchel.charts.cards import Card, CardMatrix, CardPlot, card_slide

    def card_matrix(matrix: "Matrix") -> CardMatrix:
        cells = [[format_cell(cell) for cell in row] for row in matrix.values]
        return CardMatrix(matrix.name, cells, page.share_of_largest(matrix), matrix.rows, matrix.columns)

    return card_slide(
        [
            Card(
                step.heading,
                [*map(card_matrix, step.matrices), *(CardPlot(curves.name, curves.layout()) for curves in step.curves)],
            )
            for step in steps
            if step.matrices
        ],
        title,
    )


WRITERS: dict[str, Callable[["Steps"], bytes]] = {
    ".html": lambda steps: page.page(steps).encode(),
    ".svg": lambda steps: figure(steps, steps.lesson.title).svg("slides").encode(),
    ".png": lambda steps: figure(steps, steps.lesson.title).png("slides"),
    ".pdf": lambda steps: figure(steps, steps.lesson.title).pdf("slides"),
    ".tex": lambda steps: latex.document(steps).encode(),
    ".ipynb": lambda steps: durable.to_json(notebook.notebook(steps)),
}


def check_ending(path: Path) -> None:
    """Raise SettingsError if the file extension is not supported."""
    if path.suffix not in WRITERS:
        raise SettingsError(
            f"unsupported file extension {path.suffix!r}", f"expected {', '.join(WRITERS)}", where=str(path)
        )


def save(steps: "Steps", path: Path) -> None:
    """Write the steps in the format of the file extension."""
    check_ending(path)
    durable.write_file(path, WRITERS[path.suffix](steps))
