"""Lessons as files: page, figure, LaTeX or notebook, selected by the file extension."""

from collections.abc import Callable
from pathlib import Path

from satchel import durable
from satchel.errors import SettingsError
from satchel.lessons import latex, notebook, page, picture
from satchel.lessons.steps import Steps

WRITERS: dict[str, Callable[[Steps], bytes]] = {
    ".html": lambda steps: page.page(steps).encode(),
    ".svg": lambda steps: picture.figure(steps, steps.lesson.title).svg("slides").encode(),
    ".png": lambda steps: picture.figure(steps, steps.lesson.title).png("slides"),
    ".pdf": lambda steps: picture.figure(steps, steps.lesson.title).pdf("slides"),
    ".tex": lambda steps: latex.document(steps).encode(),
    ".ipynb": lambda steps: durable.to_json(notebook.notebook(steps)),
}


def check_ending(path: Path) -> None:
    """Raise SettingsError if the file extension is not supported."""
    if path.suffix not in WRITERS:
        raise SettingsError(
            f"unsupported file extension {path.suffix!r}", f"expected {', '.join(WRITERS)}", where=str(path)
        )


def save(steps: Steps, path: Path) -> None:
    """Write the steps in the format of the file extension."""
    check_ending(path)
    durable.write_file(path, WRITERS[path.suffix](steps))
