"""The files of the workbench: HTML, style sheets and ES modules. They contain no data of users and need no token."""

from collections.abc import Iterator
from pathlib import Path

FOLDER = Path(__file__).parent / "static"
MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


def _paths() -> Iterator[tuple[str, Path]]:
    yield "/", FOLDER / "index.html"
    for path in sorted(FOLDER.rglob("*")):
        if path.suffix in MEDIA_TYPES and path.is_file():
            yield f"/static/{path.relative_to(FOLDER).as_posix()}", path


# Files by the path of their URL. Only these are served: no path of a request is used as the path of a file.
FILES = dict(_paths())


def read(path: str) -> tuple[bytes, str]:
    """Return the content and the media type of the file with this URL path."""
    file = FILES[path]
    return file.read_bytes(), MEDIA_TYPES[file.suffix]
