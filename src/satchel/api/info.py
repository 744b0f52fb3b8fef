"""Facts about a run, a settings file, a published model, or the installation."""

import os
import platform
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import satchel
from satchel import config
from satchel.api.tasks import TASKS, read_settings
from satchel.errors import SettingsError
from satchel.runs import folder as runs
from satchel.runs.meanings import tensor_meaning
from satchel.training.task import build_settings

if TYPE_CHECKING:
    from satchel.models.costs import Costs
    from satchel.training.speed import SpeedReport

# Prefixes of the names of published models; a prefix alone names all of its models.
PAPERS = ("gpt3", "vaswani", "backpack")
# Libraries whose versions are listed.
LIBRARIES = ("torch", "numpy", "tokenizers", "safetensors", "pydantic", "typer", "rich", "altair", "vl-convert-python")


def describe(name: str | None) -> dict[str, Any]:
    """Return facts about a run, a .toml file or a published model; without a name, about the installation."""
    if name is None:
        return _installation()
    if name.endswith(".toml"):
        return _settings_file(name)
    if not Path(name).exists() and name.startswith(PAPERS):
        return _papers(name)
    return _run(Path(name))


def measure_speed(kinds: Sequence[str] = ("lstm", "transformer"), **options: Any) -> "SpeedReport":
    """Return the measured speed of training and decoding of networks with about the same number of parameters.

    Options are those of `satchel.training.speed.measure_speed`: lengths, parameters, rounds, threads, progress, ...
    """
    from satchel.training import speed

    return speed.measure_speed(kinds, **options)


def _settings_file(name: str) -> dict[str, Any]:
    settings: Any = build_settings(TASKS, config.read_toml(Path(name)), name)
    tree = {"settings": settings.model_dump(mode="json")}
    if settings.model.kind == "ngram":
        return tree
    costs = TASKS[settings.task].network().costs(settings, settings.vocabulary)
    return {**tree, "vocabulary": settings.vocabulary, **_costs(costs)}


def _papers(name: str) -> dict[str, Any]:
    """Return the costs of a published model, or of all those whose names start with `name`."""
    from satchel.models.presets import PRESETS

    if preset := PRESETS.get(name):
        costs = {"preset": name, **preset.shape, "published": int(preset.published), **_costs(preset.count())}
        return costs | ({"note": preset.note} if preset.note else {})
    chosen = [preset for preset in PRESETS.values() if preset.name.startswith(f"{name}-")]
    if not chosen:
        raise SettingsError(f"preset {name} not found", f"use {', '.join([*PAPERS, *PRESETS])}")
    return {
        "presets": [
            {
                "name": preset.name,
                **preset.shape,
                "parameters": preset.count().parameters,
                "published": int(preset.published),
                "note": preset.note,
            }
            for preset in chosen
        ]
    }


def _costs(costs: "Costs") -> dict[str, Any]:
    """Return parameters and operations by component, with fractions of the total."""
    return {
        "parameters": costs.parameters,
        "flops_per_token": costs.operations,
        "training_flops_per_token": costs.training_operations,
        "components": [
            {
                "component": cost.component,
                "parameters": cost.parameters,
                "parameters_share": cost.parameters / max(1, costs.parameters),
                "flops_per_token": cost.operations,
                "flops_share": cost.operations / max(1, costs.operations),
            }
            for cost in costs.components
        ],
    }


def _all_parameters(costs: "Costs", parameters: int) -> "Costs":
    """Return costs that include the parameters of a run outside the encoder: the head of labels, the n-gram gate."""
    from satchel.models.costs import Cost, Costs

    others = parameters - costs.parameters
    return Costs((*costs.components, Cost("head and gate", others, 0))) if others > 0 else costs


def _run(folder: Path) -> dict[str, Any]:
    run = runs.read_config(folder)
    settings = read_settings(run, folder)
    arrays = runs.tensor_header(folder, runs.MODEL)
    files = {
        path.relative_to(folder).as_posix(): path.stat().st_size
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }
    parameters = runs.count_parameters(arrays)
    costs: dict[str, Any] = {}
    if settings.model.kind not in ("ngram", "mix"):
        task, vocabulary = TASKS[run.task].network(), run.tokenizer.size + 1
        task.check_file(run, settings, arrays, str(folder / runs.MODEL))
        costs = _costs(_all_parameters(task.costs(settings, vocabulary), parameters))
        costs["sites"] = task.site_names(settings, vocabulary, len(run.labels))
    return {
        "run": str(folder),
        "task": run.task,
        "model": settings.model.model_dump(mode="json"),
        "parameters": parameters,
        "tensors": {name: array.size for name, array in arrays.items()},
        **({"labels": list(run.labels)} if run.labels else {}),
        "tokenizer": run.tokenizer.model_dump(),
        "data": {**run.data.model_dump(), "documents": settings.data.documents},
        "facts": run.facts,
        "versions": run.versions,
        "bytes": files,
        **costs,
    }


def describe_tensors(name: str) -> list[dict[str, Any]]:
    """Return name, shape, dtype and meaning of each tensor of a run; a mixture has those of its parts too."""
    runs.read_config(Path(name))
    folders = {
        "": Path(name),
        **{f"{runs.PARTS}/{part.name}/": part for part in runs.part_folders(Path(name))},
    }
    return [
        {"name": prefix + tensor, "shape": list(array.shape), "dtype": array.dtype, "meaning": tensor_meaning(tensor)}
        for prefix, folder in folders.items()
        for file in (runs.MODEL, runs.NGRAM)
        if (folder / file).exists()
        for tensor, array in runs.tensor_header(folder, file).items()
    ]


def _installation() -> dict[str, Any]:
    from satchel.nn.precision import instruction_sets, resolve

    names = instruction_sets("cpu")
    return {
        "satchel": satchel.__version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "cores": os.cpu_count() or 1,
        "instruction_sets": list(names),
        "precision": resolve("auto", names),
        "folder": str(Path(satchel.__file__).parent),
        "executable": sys.executable,
        "libraries": {name: _version(name) for name in LIBRARIES},
    }


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
