"""What there is to say of a run, a file of settings, or this installation."""

import math
import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import satchel
from satchel import config, tensors
from satchel.api.loading import read_settings
from satchel.api.settings import build_settings
from satchel.runs import folder as runs

LIBRARIES = (
    "torch",
    "numpy",
    "tokenizers",
    "safetensors",
    "pydantic",
    "typer",
    "rich",
    "altair",
    "vl-convert-python",
)


def describe(name: str | None) -> dict[str, Any]:
    """Return a tree of facts about what `name` names; without a name, about this installation."""
    if name is None:
        return _installation()
    if name.endswith(".toml"):
        settings = build_settings(config.read_toml(Path(name)), name)
        return {"settings": settings.model_dump(mode="json")}
    return _run(Path(name))


def _run(folder: Path) -> dict[str, Any]:
    described = runs.read_config(folder)
    settings = read_settings(described, folder)
    arrays = tensors.read_header(folder / runs.MODEL)
    files = {
        path.relative_to(folder).as_posix(): path.stat().st_size for path in sorted(folder.rglob("*")) if path.is_file()
    }
    return {
        "run": str(folder),
        "task": described.task,
        "model": settings.model.model_dump(mode="json"),
        "parameters": sum(
            math.prod(shape) for name, shape in arrays.items() if not name.endswith(("keys", "starts", "classes"))
        ),
        "tensors": {name: math.prod(shape) for name, shape in arrays.items()},
        **({"labels": list(described.labels)} if described.labels else {}),
        "tokenizer": described.tokenizer.model_dump(),
        "data": {**described.data.model_dump(), "documents": settings.data.documents},
        "facts": described.facts,
        "versions": described.versions,
        "bytes": files,
    }


def _installation() -> dict[str, Any]:
    return {
        "satchel": satchel.__version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "cores": os.cpu_count() or 1,
        "folder": str(Path(satchel.__file__).parent),
        "executable": sys.executable,
        "libraries": {name: _version(name) for name in LIBRARIES},
    }


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
