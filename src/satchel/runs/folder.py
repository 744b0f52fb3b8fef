"""A run is a folder: settings, tokenizer, model, token files, measurements. Loading runs no code and trusts nothing."""

import json
import math
import os
import platform
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

import satchel
from satchel import durable, tensors
from satchel.errors import RunError
from satchel.text.reading import Task
from satchel.text.tokenizer import LARGEST_FILE, Tokenizer, read_tokenizer

CONFIG, TOKENIZER, MODEL, METRICS = "config.json", "tokenizer.json", "model.safetensors", "metrics.jsonl"
SOURCE_TOKENIZER = "source_tokenizer.json"  # where sources have other tokens than targets
SAMPLES = "samples.jsonl"
NGRAM = "ngram.safetensors"  # what a network stands on
PARTS = "parts"
TRAIN_TOKENS, VALID_TOKENS = "tokens/train.safetensors", "tokens/valid.safetensors"
TRAIN_SOURCES = "tokens/train-sources.safetensors"
VALID_PAIRS = "tokens/valid-pairs.jsonl"
ASIDE = "tokens/aside.safetensors"
TRAIN_CLASSES, VALID_CLASSES = "tokens/train-classes.safetensors", "tokens/valid-classes.safetensors"
LIBRARIES = ("numpy", "safetensors", "tokenizers")


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False)


class TokenizerIdentity(_Part):
    """Which tokenizer a run has."""

    kind: str
    size: int
    sha256: str


class DataIdentity(_Part):
    """Which text a run was made of."""

    name: str
    sha256: str


class RunConfig(_Part):
    """Everything that describes a run. Nothing in it depends on the clock."""

    schema_version: Literal[1] = 1
    task: Task
    settings: dict[str, Any]
    tokenizer: TokenizerIdentity
    source_tokenizer: TokenizerIdentity | None = None
    data: DataIdentity
    labels: tuple[str, ...] = ()  # of a classifier, by number
    facts: dict[str, Any]
    versions: dict[str, str]


def versions() -> dict[str, str]:
    """Return the versions of what made a run."""
    libraries = {name: version(name) for name in LIBRARIES}
    return {"satchel": satchel.__version__, "python": platform.python_version(), **libraries}


def describe(
    settings: BaseModel,
    tokenizer: Tokenizer,
    data: str,
    sha256: str,
    facts: dict[str, Any],
    labels: tuple[str, ...] = (),
    source_tokenizer: Tokenizer | None = None,
) -> RunConfig:
    """Return the description of a new run; `source_tokenizer` is another than that of its targets."""
    tree = settings.model_dump(mode="json")
    return RunConfig(
        task=tree["task"],
        settings=tree,
        tokenizer=_identity(tokenizer),
        source_tokenizer=None if source_tokenizer is None else _identity(source_tokenizer),
        data=DataIdentity(name=data, sha256=sha256),
        labels=labels,
        facts=facts,
        versions=versions(),
    )


def _identity(tokenizer: Tokenizer) -> TokenizerIdentity:
    return TokenizerIdentity(kind=tokenizer.kind, size=tokenizer.size, sha256=tokenizer.sha256)


def write_model(
    folder: durable.NewFolder,
    config: RunConfig,
    tokenizer: Tokenizer,
    arrays: Mapping[str, tensors.Array],
    source_tokenizer: Tokenizer | None = None,
) -> None:
    """Write what a run needs to be loaded."""
    folder.write(CONFIG, durable.to_json(config.model_dump(mode="json")))
    folder.write(TOKENIZER, tokenizer.json.encode())
    if source_tokenizer is not None:
        folder.write(SOURCE_TOKENIZER, source_tokenizer.json.encode())
    with folder.create(MODEL) as handle:
        tensors.write(handle, arrays, {"format": "satchel", "step": "0", "tokenizer": tokenizer.sha256})


def copy_run(folder: durable.NewFolder, run: Path, name: str) -> None:
    """Put a copy of what a run needs to be loaded into a new folder; its token files and pictures stay behind."""
    for path in sorted(run.rglob("*")):
        relative = path.relative_to(run).as_posix()
        if (
            relative.split("/")[0] in (CONFIG, TOKENIZER, SOURCE_TOKENIZER, MODEL, NGRAM, PARTS, durable.MANIFEST)
            and path.is_file()
        ):
            folder.copy(path, f"{name}/{relative}")


def write_metrics(folder: durable.NewFolder, **measured: float | None) -> None:
    """Write the first line of measurements; what is not finite is null."""
    finite = {name: value if value is not None and math.isfinite(value) else None for name, value in measured.items()}
    folder.write(METRICS, json.dumps(finite).encode() + b"\n")


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """Return what was measured, by step. Where a run was gone on with, a step may be there twice: the last counts."""
    return list({line["step"]: line for line in _lines(folder / METRICS) if "step" in line}.values())


def read_samples(folder: Path) -> list[dict[str, Any]]:
    """Return what was written on the way, the last of it last."""
    return [line for line in _lines(folder / SAMPLES) if isinstance(line.get("text"), str)]


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    if not path.exists():
        return
    for line in filter(None, durable.read_file(path, durable.LARGEST_JSON).split(b"\n")):
        try:
            found = durable.from_json(line, str(path))
        except RunError:  # a process was killed while it wrote this line
            continue
        if isinstance(found, dict):
            yield found


def is_run(folder: Path) -> bool:
    """Return whether a folder holds a run, be it damaged; another program's config.json and manifest.json are none."""
    own = {CONFIG: RunConfig.model_fields, durable.MANIFEST: ("schema_version", "files")}
    return all(os.path.isfile(folder / name) for name in own) and any(
        _has_keys(folder / name, keys) for name, keys in own.items()
    )


def _has_keys(path: Path, keys: Iterable[str]) -> bool:
    try:
        tree = durable.from_json(durable.read_file(path, durable.LARGEST_JSON), str(path))
    except RunError:
        return False
    return isinstance(tree, dict) and set(keys) <= set(tree)


def read_config(folder: Path) -> RunConfig:
    """Return the description of a run."""
    if not os.path.exists(folder):
        raise RunError("there is no such run", "check the name; `satchel train` makes runs", where=str(folder))
    if not all(os.path.isfile(folder / name) for name in (CONFIG, durable.MANIFEST)):
        raise RunError(
            f"is not a run: {CONFIG} or {durable.MANIFEST} is missing",
            "name the folder that `satchel train -o` wrote",
            where=str(folder),
        )
    data = durable.read_verified(folder, CONFIG, durable.LARGEST_JSON)
    # Keys that are there twice and numbers that are none: pydantic would let them pass.
    durable.from_json(data, str(folder / CONFIG))
    try:
        return RunConfig.model_validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(map(str, first["loc"]))
        raise RunError(
            f"{key}: {first['msg']}", "it was written by another version of satchel", where=str(folder / CONFIG)
        ) from None


def read_run_tokenizer(folder: Path, config: RunConfig) -> Tokenizer:
    """Return the tokenizer of a run."""
    return _read_tokenizer(folder / TOKENIZER, config.tokenizer)


def read_source_tokenizer(folder: Path, config: RunConfig) -> Tokenizer | None:
    """Return the tokenizer of a run's sources, where it is another than that of its targets."""
    if config.source_tokenizer is None:
        return None
    return _read_tokenizer(folder / SOURCE_TOKENIZER, config.source_tokenizer)


def _read_tokenizer(path: Path, identity: TokenizerIdentity) -> Tokenizer:
    data = durable.read_verified(path.parent, path.name, LARGEST_FILE)
    tokenizer = read_tokenizer(data, str(path))
    if _identity(tokenizer) != identity:
        raise RunError("is not the tokenizer that the run was trained with", where=str(path))
    return tokenizer
