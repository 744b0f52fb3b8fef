"""Static checks of the package: no pickle, no eval, no network, and file writes only in durable.py."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import satchel

PACKAGE = Path(satchel.__file__).parent
SOURCES = sorted(PACKAGE.rglob("*.py"))

BANNED_MODULES = {
    "pickle", "_pickle", "marshal", "shelve", "dill", "joblib", "cloudpickle", "yaml", "ruamel",
    "subprocess", "multiprocessing", "pty", "runpy", "code", "codeop",
    "socket", "socketserver", "ssl", "asyncio", "urllib", "urllib3", "http", "httpx", "requests", "aiohttp", "ftplib",
    "smtplib", "xmlrpc", "webbrowser", "huggingface_hub",
}  # fmt: skip
# Files that may import a banned module. Figures are rendered, models are served and runs are trained in processes of
# their own; only server.py opens a socket.
ALLOWED_IMPORTS = {
    ("charts/renderer.py", "subprocess"),
    ("web/pool.py", "asyncio"),
    ("web/protocol.py", "asyncio"),
    ("web/security.py", "asyncio"),
    ("web/server.py", "asyncio"),
    ("web/server.py", "socket"),
    ("web/streams.py", "asyncio"),
    ("web/trainings.py", "subprocess"),
}
BANNED_BUILTINS = {"eval", "exec", "compile", "__import__"}
# Banned functions by the module or object they are called on; None stands for any object.
BANNED_CALLS: dict[str | None, set[str]] = {
    "torch": {"load", "save"},
    "np": {"load", "save", "savez", "savez_compressed", "savetxt", "fromfile"},
    "numpy": {"load", "save", "savez", "savez_compressed", "savetxt", "fromfile"},
    "builtins": BANNED_BUILTINS,
    "importlib": {"import_module", "__import__", "reload"},
    "os": {"system", "popen", "fork", "forkpty", "posix_spawn", "posix_spawnp", "startfile"},
}
# Functions that write to the disk, allowed in durable.py only.
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


def violations(source: str, name: str) -> list[str]:
    """Return the banned constructs of a source file, each as `line: description`."""
    return [f"{line}: {description}" for line, description in _violations(ast.parse(source), name)]


def _violations(tree: ast.AST, name: str) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, text) for alias in node.names for text in _banned_import(alias.name, name))
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            yield from ((node.lineno, text) for text in _banned_import(module, name))
            banned = BANNED_CALLS.get(module, set()) | (WRITES.get(module, set()) if name != "durable.py" else set())
            for alias in node.names:
                # Calls of import_module are checked by their argument.
                is_import_module = (module, alias.name, alias.asname) == ("importlib", "import_module", None)
                if alias.name in banned and not is_import_module:
                    yield node.lineno, f"imports {alias.name}"
        elif isinstance(node, ast.Attribute) and node.attr == "splitlines":
            yield node.lineno, "uses splitlines, which splits at other characters than newlines too"
        elif isinstance(node, ast.Call):
            yield from ((node.lineno, text) for text in _banned_call(node, name))


def _banned_import(module: str, name: str) -> Iterator[str]:
    """Yield a description if the module is banned in the file."""
    if module.split(".")[0] in BANNED_MODULES and (name, module) not in ALLOWED_IMPORTS:
        yield f"imports {module}"


def _banned_call(node: ast.Call, name: str) -> Iterator[str]:
    """Yield a description of each rule that a call breaks."""
    function = node.func
    keywords = {keyword.arg for keyword in node.keywords}
    if "allow_pickle" in keywords:
        yield "uses allow_pickle"
    if isinstance(function, ast.Name):
        if function.id in BANNED_BUILTINS:
            yield f"calls {function.id}"
        if function.id == "import_module" and not _imports_the_package(node):
            yield "calls import_module"
        if function.id == "zip" and "strict" not in keywords:
            yield "zips without strict"
    if isinstance(function, ast.Attribute):
        owner = function.value.id if isinstance(function.value, ast.Name) else None
        called = f"{owner or '...'}.{function.attr}"
        is_lazy_import = called == "importlib.import_module" and _imports_the_package(node)
        if function.attr in BANNED_CALLS.get(owner or "", set()) and not is_lazy_import:
            yield f"calls {called}"
        if owner == "os" and function.attr.startswith(("exec", "spawn")):
            yield f"calls {called}"
        if name != "durable.py" and (function.attr in WRITES.get(owner or "", set()) or function.attr in WRITES[None]):
            yield f"calls {called}"
    if name != "durable.py" and _opens_to_write(node):
        yield "opens a file for writing"


def _imports_the_package(node: ast.Call) -> bool:
    """Return whether the argument of `import_module` is a literal or f-string that begins with `satchel.`."""
    start = node.args[0]
    if isinstance(start, ast.JoinedStr):
        start = start.values[0]
    return isinstance(start, ast.Constant) and str(start.value).startswith("satchel.")


def _opens_to_write(node: ast.Call) -> bool:
    """Return whether a call of `open` or a similar function has a mode other than reading."""
    function = node.func
    attribute = (
        function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
    )
    owner = function.value.id if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) else ""
    if attribute == "memmap":
        mode_index = 2
    elif attribute == "GzipFile":
        mode_index = 1
    elif attribute in ("open", "fdopen"):
        # Path.open takes the mode first; open, io.open and gzip.open take the file first.
        mode_index = (
            1 if isinstance(function, ast.Name) or owner in ("os", "io", "gzip", "bz2", "lzma", "codecs") else 0
        )
    else:
        return False
    if owner == "os" and attribute == "open":
        # Writing to the null device changes no file.
        flags = ast.dump(node)
        return "O_RDWR" in flags or ("O_WRONLY" in flags and "devnull" not in ast.dump(node.args[0]))
    modes = [keyword.value for keyword in node.keywords if keyword.arg == "mode"] + node.args[
        mode_index : mode_index + 1
    ]
    return any(not isinstance(mode, ast.Constant) or set(str(mode.value)) & set("wax+c") for mode in modes)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_no_file_of_the_package_uses_a_banned_construct(path: Path) -> None:
    assert violations(path.read_text(encoding="utf-8"), path.relative_to(PACKAGE).as_posix()) == []


def test_all_layers_of_the_package_are_checked() -> None:
    names = {path.relative_to(PACKAGE).as_posix() for path in SOURCES}
    assert {"__init__.py", "durable.py", "tensors.py", "runs/folder.py", "runs/checkpoint.py", "cli/main.py"} <= names


@pytest.mark.parametrize(
    "line",
    [
        "import pickle",
        "import pickle as alias",
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
        "from importlib import reload",
        "from importlib import import_module as alias",
        "import_module(name)",
        "import_module(f'{name}.cli')",
        "import_module('os')",
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
def test_each_banned_construct_is_reported_once(line: str) -> None:
    assert len(violations(f"x = 1\n{line}\n", "api/models.py")) == 1


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("import json, struct", "tensors.py"),
        ("from importlib.metadata import version", "runs/folder.py"),
        ("importlib.import_module(f'satchel.{name}')", "__init__.py"),
        ("from importlib import import_module", "cli/main.py"),
        ("import_module(f'satchel.cli.{name}')", "cli/main.py"),
        ("import_module('satchel.cli.look')", "cli/main.py"),
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
def test_allowed_constructs_are_not_reported(line: str, name: str) -> None:
    assert violations(line, name) == []


def test_durable_may_write_but_must_not_unpickle_or_eval() -> None:
    assert len(violations("import pickle\nopen(path, 'wb')\neval(text)", "durable.py")) == 2
