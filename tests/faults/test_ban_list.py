"""What the package never does, read off its syntax: no pickles, no code from text, no network, one writer of files."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import satchel

PACKAGE = Path(satchel.__file__).parent
SOURCES = sorted(PACKAGE.rglob("*.py"))

MODULES = {
    "pickle", "_pickle", "marshal", "shelve", "dill", "joblib", "cloudpickle", "yaml", "ruamel",
    "subprocess", "multiprocessing", "pty", "runpy", "code", "codeop",
    "socket", "socketserver", "ssl", "asyncio", "urllib", "urllib3", "http", "httpx", "requests", "aiohttp", "ftplib",
    "smtplib", "xmlrpc", "webbrowser", "huggingface_hub",
}  # fmt: skip
BUILTINS = {"eval", "exec", "compile", "__import__"}
# By the module or the object they are called on; None is any object.
CALLS: dict[str | None, set[str]] = {
    "torch": {"load", "save"},
    "np": {"load", "save", "savez", "savez_compressed", "savetxt", "fromfile"},
    "numpy": {"load", "save", "savez", "savez_compressed", "savetxt", "fromfile"},
    "builtins": BUILTINS,
    "importlib": {"import_module", "__import__", "reload"},
    "os": {"system", "popen", "fork", "forkpty", "posix_spawn", "posix_spawnp", "startfile"},
}
WRITES: dict[str | None, set[str]] = {
    "os": {
        "rename", "renames", "replace", "unlink", "remove", "rmdir", "removedirs", "mkdir", "makedirs", "link",
        "symlink", "truncate", "ftruncate", "chmod", "chown", "mkfifo", "mknod", "write", "pwrite", "utime",
    },
    "shutil": {"rmtree", "copy", "copy2", "copyfile", "copyfileobj", "copytree", "move", "unpack_archive"},
    "tempfile": {"NamedTemporaryFile", "TemporaryDirectory", "mkstemp", "mkdtemp", "SpooledTemporaryFile"},
    None: {
        "write_text", "write_bytes", "mkdir", "unlink", "rmdir", "rename", "touch", "symlink_to", "hardlink_to",
        "tofile", "rmtree", "chmod", "save_file", "to_csv",
    },
}  # fmt: skip


def offences(source: str, name: str) -> list[str]:
    """Return what a file of the package does that it should not, each as `line: what`."""
    return [f"{line}: {what}" for line, what in _offences(ast.parse(source), name)]


def _offences(tree: ast.AST, name: str) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, what) for alias in node.names for what in _import(alias.name))
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            yield from ((node.lineno, what) for what in _import(module))
            banned = _all(CALLS, module) | (_all(WRITES, module) if name != "durable.py" else set())
            yield from ((node.lineno, f"imports {alias.name}") for alias in node.names if alias.name in banned)
        elif isinstance(node, ast.Attribute) and node.attr == "splitlines":
            yield node.lineno, "splits at more than newlines"
        elif isinstance(node, ast.Call):
            yield from ((node.lineno, what) for what in _call(node, name))


def _import(module: str) -> Iterator[str]:
    if module.split(".")[0] in MODULES:
        yield f"imports {module}"


def _all(table: dict[str | None, set[str]], module: str) -> set[str]:
    return table.get(module, set())


def _call(node: ast.Call, name: str) -> Iterator[str]:
    function = node.func
    keywords = {keyword.arg for keyword in node.keywords}
    if "allow_pickle" in keywords:
        yield "says allow_pickle"
    if isinstance(function, ast.Name):
        if function.id in BUILTINS:
            yield f"calls {function.id}"
        if function.id == "zip" and "strict" not in keywords:
            yield "zips without strict"
    if isinstance(function, ast.Attribute):
        owner = function.value.id if isinstance(function.value, ast.Name) else None
        called = f"{owner or '...'}.{function.attr}"
        # One place finds its own modules by name, so that importing the package costs nothing.
        is_lazy_import = called == "importlib.import_module" and name == "__init__.py"
        if function.attr in _all(CALLS, owner or "") and not is_lazy_import:
            yield f"calls {called}"
        if owner == "os" and function.attr.startswith(("exec", "spawn")):
            yield f"calls {called}"
        if name != "durable.py" and (function.attr in _all(WRITES, owner or "") or function.attr in WRITES[None]):
            yield f"calls {called}"
    if name != "durable.py" and _opens_to_write(node):
        yield "opens a file to write"


def _opens_to_write(node: ast.Call) -> bool:
    """Return whether a call of `open` in any form has a mode other than reading."""
    function = node.func
    attribute = (
        function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
    )
    owner = function.value.id if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) else ""
    if attribute == "memmap":
        place = 2
    elif attribute == "GzipFile":
        place = 1
    elif attribute in ("open", "fdopen"):
        # Path.open takes the mode first; open, io.open and gzip.open take the file first.
        place = 1 if isinstance(function, ast.Name) or owner in ("os", "io", "gzip", "bz2", "lzma", "codecs") else 0
    else:
        return False
    if owner == "os" and attribute == "open":
        # What is written to the null device is nowhere.
        flags = ast.dump(node)
        return "O_RDWR" in flags or ("O_WRONLY" in flags and "devnull" not in ast.dump(node.args[0]))
    modes = [keyword.value for keyword in node.keywords if keyword.arg == "mode"] + node.args[place : place + 1]
    return any(not isinstance(mode, ast.Constant) or set(str(mode.value)) & set("wax+c") for mode in modes)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_no_file_of_the_package_does_what_is_banned(path: Path) -> None:
    assert offences(path.read_text(encoding="utf-8"), path.relative_to(PACKAGE).as_posix()) == []


def test_every_file_of_the_package_was_read() -> None:
    names = {path.relative_to(PACKAGE).as_posix() for path in SOURCES}
    assert {"__init__.py", "durable.py", "tensors.py", "runs/folder.py", "runs/checkpoint.py", "cli/main.py"} <= names


@pytest.mark.parametrize(
    "offence",
    [
        "import pickle",
        "import pickle as harmless",
        "from pickle import loads",
        "def f():\n    import marshal",
        "import shelve, json",
        "import dill",
        "from joblib import load",
        "import cloudpickle",
        "import yaml",
        "torch.load(path)",
        "torch.save(model, path)",
        "from torch import load",
        "np.load(path)",
        "numpy.load(path)",
        "np.save(path, array)",
        "from numpy import load",
        "np.anything(path, allow_pickle=False)",
        "eval(text)",
        "exec(text)",
        "compile(text, '', 'exec')",
        "__import__(name)",
        "builtins.eval(text)",
        "importlib.import_module(name)",
        "from importlib import import_module",
        "import subprocess",
        "os.system(text)",
        "os.execv(path, [])",
        "import socket",
        "import urllib.request",
        "from urllib import request",
        "from http.client import HTTPConnection",
        "text.splitlines()",
        "list(map(str.splitlines, texts))",
        "zip(a, b)",
        "dict(zip(a, b))",
        "open(path, 'w')",
        "open(path, 'ab')",
        "open(path, mode='x')",
        "open(path, 'r+b')",
        "open(path, mode)",
        "path.open('w')",
        "path.open(mode='wb')",
        "gzip.open(path, 'wt')",
        "os.fdopen(number, 'wb')",
        "os.open(path, os.O_WRONLY)",
        "os.open(path, os.O_RDWR)",
        "np.memmap(path, 'u2', 'r+')",
        "path.write_text(text)",
        "path.write_bytes(data)",
        "os.rename(a, b)",
        "os.replace(a, b)",
        "os.unlink(a)",
        "os.mkdir(a)",
        "from os import replace",
        "path.mkdir()",
        "(a / b).unlink()",
        "path.rename(b)",
        "shutil.rmtree(a)",
        "from shutil import rmtree",
        "shutil.copytree(a, b)",
        "tempfile.NamedTemporaryFile()",
        "tempfile.mkdtemp()",
        "array.tofile(path)",
    ],
)
def test_each_rule_finds_its_offence(offence: str) -> None:
    assert len(offences(f"x = 1\n{offence}\n", "api/models.py")) == 1


@pytest.mark.parametrize(
    ("harmless", "name"),
    [
        ("import json, struct", "tensors.py"),
        ("from importlib.metadata import version", "runs/folder.py"),
        ("importlib.import_module(name)", "__init__.py"),
        ("re.compile(text)", "tensors.py"),
        ("zip(a, b, strict=True)", "tensors.py"),
        ("zip(a, b, strict=False)", "tensors.py"),
        ("open(path, 'rb')", "text/reading.py"),
        ("open(path)", "text/reading.py"),
        ("source.open()", "text/reading.py"),
        ("gzip.GzipFile(fileobj=handle)", "text/reading.py"),
        ("np.memmap(handle, dtype, 'r', offset)", "data/tokens.py"),
        ("tempfile.TemporaryFile()", "data/tokens.py"),
        ("text.replace('a', 'b')", "text/reading.py"),
        ("os.open(os.devnull, os.O_WRONLY)", "cli/main.py"),
        ("os.open(path, os.O_RDONLY)", "text/reading.py"),
        ("os.replace(a, b)", "durable.py"),
        ("open(path, 'wb')", "durable.py"),
        ("model.load(path)", "cli/main.py"),
    ],
)
def test_no_rule_finds_what_is_harmless(harmless: str, name: str) -> None:
    assert offences(harmless, name) == []


def test_durable_may_write_but_not_unpickle() -> None:
    assert len(offences("import pickle\nopen(path, 'wb')\neval(text)", "durable.py")) == 2
