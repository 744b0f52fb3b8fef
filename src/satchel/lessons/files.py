"""Lessons as files: a page, a picture, LaTeX or a notebook, whichever the ending of the name says."""

from collections.abc import Callable
from pathlib import Path

from satchel import durable
from satchel.errors import SettingsError
from satchel.lessons import latex, notebook, page, picture
from satchel.lessons.steps import Steps


def _png(steps: Steps) -> bytes:
    import vl_convert

    return bytes(vl_convert.svg_to_png(_svg(steps), scale=2))


def _pdf(steps: Steps) -> bytes:
    import vl_convert

    return bytes(vl_convert.svg_to_pdf(_svg(steps)))


def _svg(steps: Steps) -> str:
    return picture.svg(steps, steps.lesson.title)


WRITERS: dict[str, Callable[[Steps], bytes]] = {
    ".html": lambda steps: page.page(steps).encode(),
    ".svg": lambda steps: _svg(steps).encode(),
    ".png": _png,
    ".pdf": _pdf,
    ".tex": lambda steps: latex.document(steps).encode(),
    ".ipynb": lambda steps: durable.to_json(notebook.notebook(steps)),
}


def check_ending(path: Path) -> None:
    """Refuse a file of a kind that is not written here."""
    if path.suffix not in WRITERS:
        raise SettingsError(f"found the ending {path.suffix!r}", f"expected {', '.join(WRITERS)}", where=str(path))


def save(steps: Steps, path: Path) -> None:
    """Write the steps in the form that the ending says."""
    check_ending(path)
    durable.write_file(path, WRITERS[path.suffix](steps))
