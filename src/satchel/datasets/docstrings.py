"""Docstrings and help topics of the Python standard library, parsed from its source files without importing them."""

import ast
import functools
import inspect
import sysconfig
import warnings
from collections.abc import Iterator
from pathlib import Path

# Folders of the standard library without documentation, or with code of other projects.
EXCLUDED_FOLDERS = {"site-packages", "test", "tests", "idlelib", "lib2to3", "turtledemo", "ensurepip", "__pycache__"}

Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


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
    for node in _documented_nodes(tree):
        if docstring := ast.get_docstring(node, clean=False):
            name = getattr(node, "name", "")
            yield f"{relative}:{name}:{getattr(node, 'lineno', 0)}", _clean(docstring)


def _documented_nodes(tree: ast.Module) -> Iterator[Documented]:
    """Yield the nodes that can have a docstring, in source order; expressions are not visited."""
    stack: list[ast.stmt | ast.Module] = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, Documented):
            yield node
        children = [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt)]
        stack.extend(reversed(children))


def _clean(text: str) -> str:
    """Return a docstring without common indentation, trailing spaces and unpaired surrogates."""
    lines = inspect.cleandoc(text).split("\n")
    return "\n".join(line.rstrip() for line in lines).encode("utf-8", "ignore").decode()
