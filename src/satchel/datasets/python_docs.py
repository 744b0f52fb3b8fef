"""`@python-docs` and `@python-modules`: docstrings and help topics of the Python standard library.

They are parsed from the source files of the library without importing them.
"""

import ast
import functools
import inspect
import sysconfig
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from satchel.datasets.generated import Row, SplitName
from satchel.text.reading import DataSettings

# Folders of the standard library without documentation, or with code of other projects.
EXCLUDED_FOLDERS = {"site-packages", "test", "tests", "idlelib", "lib2to3", "turtledemo", "ensurepip", "__pycache__"}
# Minimum number of characters of a document.
SHORTEST_DOCUMENT = 60
# Minimum number of characters of a labelled docstring.
SHORTEST_TEXT = 20
# Number of labels: the modules with the most docstrings.
MODULES = 50

Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def documents(settings: DataSettings, seed: int, split: SplitName) -> Iterator[Row]:
    """Yield (name, text) of each distinct document."""
    del settings, seed, split
    seen: set[str] = set()
    for name, text in standard_library():
        if len(text) >= SHORTEST_DOCUMENT and text not in seen:
            seen.add(text)
            yield name, f"{text}\n\n"


def labelled_docstrings(settings: DataSettings, seed: int, split: SplitName) -> Iterator[Row]:
    """Yield (module, docstring) of the 50 modules with the most docstrings; texts of several modules are excluded."""
    del settings, seed, split
    modules_of_text: dict[str, set[str]] = {}
    for name, text in standard_library():
        module = name.split(":")[0].split("/")[0].removesuffix(".py")
        if len(text) >= SHORTEST_TEXT and module != "topics":
            modules_of_text.setdefault(text, set()).add(module)
    rows = [(modules.pop(), text) for text, modules in modules_of_text.items() if len(modules) == 1]
    counts = Counter(module for module, _ in rows)
    largest = set(sorted(counts, key=lambda module: (-counts[module], module))[:MODULES])
    yield from (row for row in rows if row[0] in largest)


def standard_library() -> Iterator[tuple[str, str]]:
    """Yield (name, text) of every docstring and help topic, sorted by file."""
    folder = Path(sysconfig.get_path("stdlib"))
    for path in _source_files(folder):
        yield from _read_documents(path, path.relative_to(folder).as_posix())


def _source_files(folder: Path) -> Iterator[Path]:
    """Yield the Python files below a folder in sorted order, without excluded folders."""
    for path in sorted(folder.iterdir()):
        if path.is_dir() and path.name not in EXCLUDED_FOLDERS:
            yield from _source_files(path)
        elif path.suffix == ".py":
            yield path


@functools.cache
def _read_documents(path: Path, relative: str) -> tuple[tuple[str, str], ...]:
    """Return (name, text) of the docstrings of a source file; of `pydoc_data/topics.py`, its help topics."""
    try:
        with warnings.catch_warnings():
            # Parsing old modules emits SyntaxWarnings about invalid escape sequences.
            warnings.simplefilter("ignore")
            tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, OSError):
        return ()
    return tuple(_help_topics(tree) if relative == "pydoc_data/topics.py" else _docstrings(tree, relative))


def _help_topics(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for table in (node for node in ast.walk(tree) if isinstance(node, ast.Dict)):
        for key, text in zip(table.keys, table.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(text, ast.Constant) and isinstance(text.value, str):
                yield f"topics/{key.value!s}", _clean(text.value)


def _docstrings(tree: ast.Module, relative: str) -> Iterator[tuple[str, str]]:
    """Yield (name, text) of the docstrings in source order; expressions are not visited."""
    stack: list[ast.stmt | ast.Module] = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, Documented) and (docstring := ast.get_docstring(node, clean=False)):
            yield f"{relative}:{getattr(node, 'name', '')}:{getattr(node, 'lineno', 0)}", _clean(docstring)
        children = [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt)]
        stack.extend(reversed(children))


def _clean(text: str) -> str:
    """Return a docstring without common indentation, trailing spaces and unpaired surrogates."""
    lines = inspect.cleandoc(text).split("\n")
    return "\n".join(line.rstrip() for line in lines).encode("utf-8", "ignore").decode()
