"""Requests for trainings: their options with ids resolved to paths, and the command line that executes them.

No field names a file: data, runs and tokenizers are ids of the catalogue, and settings that could name a file or code
are refused.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from satchel import config
from satchel.errors import SettingsError
from satchel.text.display import quoted
from satchel.text.reading import DataSettings
from satchel.text.reading import Task as TaskName
from satchel.text.tokenizer import TokenizerSettings
from satchel.training.settings import TrainingSettings
from satchel.web import commands, limits
from satchel.web.errors import InvalidFieldError
from satchel.web.operation import Request

Kind = Literal["ngram", "dan", "window", "rnn", "gru", "lstm", "transformer", "backpack"]
SizeName = Literal["nano", "tiny", "micro", "mini", "small"]
# A new tokenizer.
NEW_TOKENIZER = re.compile(r"(char|byte|word|bpe|unigram)(:[0-9]{1,9})?")
# Groups of settings, except those of the model: the classes of networks import torch.
GROUPS: dict[str, type[config.Settings]] = {
    "data": DataSettings, "tokenizer": TokenizerSettings, "training": TrainingSettings,
}  # fmt: skip
MODEL_KEY = re.compile(r"model\.[a-z_]{1,40}")
# Settings that name a file, a class or runs, or that have a field of their own.
REFUSED = frozenset({"data.valid", "model.kind", "model.name", "model.parts"})

Scalar = Annotated[str, Field(max_length=limits.MAX_NAME)] | bool | int | float
Value = Scalar | Annotated[list[Scalar], Field(max_length=limits.MAX_VALUES)]
Options = dict[str, Any]


class PlanRequest(Request):
    """A request to plan a training. Fields that are missing are chosen by the data."""

    data: str = limits.name(description="name of the data, as listed by /api/data; two files joined by a comma")
    valid: Annotated[float, Field(ge=0, lt=1)] | Annotated[str, Field(max_length=limits.MAX_NAME)] | None = Field(
        None, description="validation data, or the fraction of the data to hold out"
    )
    task: TaskName | None = None
    model: Kind | None = Field(None, description="kind of model")
    size: SizeName | None = Field(None, description="size of a network")
    minutes: float | None = limits.bounded("minutes", None)
    steps: int | None = limits.bounded("steps", None)
    epochs: float | None = limits.bounded("epochs", None)
    tokenizer: str | None = limits.name(None, "char, byte, word, bpe:N, unigram:N, or the id of a run")
    seed: int | None = limits.bounded("seed", None)
    start: str | None = Field(
        None, alias="from", max_length=limits.MAX_NAME, description="run whose parameters initialise the network"
    )
    settings: dict[str, Value] = Field(
        default_factory=dict, max_length=limits.MAX_VALUES, description="further settings by name, see /api/settings"
    )

    def run_ids(self) -> Iterator[str]:
        """Yield the ids of the runs that the request names."""
        if self.start is not None:
            yield self.start
        if self.tokenizer is not None and not NEW_TOKENIZER.fullmatch(self.tokenizer):
            yield self.tokenizer

    def data_ids(self) -> Iterator[str]:
        """Yield the names of the data that the request names."""
        yield self.data
        if isinstance(self.valid, str):
            yield self.valid


class StartRequest(PlanRequest):
    """A request to start a training."""

    run: str = limits.name(description="id of the new run")


def is_settable(key: str) -> bool:
    """Return whether a request may change a setting."""
    if key in REFUSED:
        return False
    return bool(MODEL_KEY.fullmatch(key)) or key in {f"{group}.{name}" for group in GROUPS for name in _names(group)}


def resolve(request: PlanRequest, run: Callable[[str], Path], data: Callable[[str], Path | str]) -> Options:
    """Return the options of `satchel.train`, with the paths of the runs and the data that the request names."""
    options: Options = {"data": str(data(request.data))}
    names = ("task", "model", "size", "minutes", "steps", "epochs", "seed", "tokenizer", "valid")
    options |= {name: value for name in names if (value := getattr(request, name)) is not None}
    if isinstance(request.valid, str):
        options["valid"] = str(data(request.valid))
    if request.tokenizer is not None and not NEW_TOKENIZER.fullmatch(request.tokenizer):
        options["tokenizer"] = str(run(request.tokenizer))
    if request.start is not None:
        options["start"] = str(run(request.start))
    if request.settings:
        options["settings"] = dict(request.settings)
    _check_settings(request.settings)
    return options


def _check_settings(settings: Mapping[str, Value]) -> None:
    """Raise InvalidFieldError for settings that requests may not change, and for invalid values outside of `model`."""
    tree: config.Tree = {}
    for key, value in settings.items():
        if not is_settable(key):
            has_field = key in REFUSED
            raise InvalidFieldError(
                "settings",
                f"{key[:80]} {'cannot be changed here' if has_field else 'is not a setting'}",
                "use the fields data, valid, model, tokenizer and from" if has_field else "/api/settings lists them",
            )
        texts = [each for each in (value if isinstance(value, list) else [value]) if isinstance(each, str)]
        if not all(map(str.isprintable, texts)):
            raise InvalidFieldError("settings", f"{key}: contains control or invisible characters")
        config.place(tree, key, value)
    for group, kind in GROUPS.items():
        try:
            config.build(kind, tree.get(group, {}))
        except SettingsError as error:
            raise InvalidFieldError("settings", f"{group}: {error.cause}") from None


def _names(group: str) -> frozenset[str]:
    return frozenset(GROUPS[group].model_fields)


def arguments(options: Options, out: Path | str | None = None) -> list[str]:
    """Return the arguments of `satchel train` for options. No value can be mistaken for an option."""
    given = dict(options)
    data, settings = given.pop("data"), dict(given.pop("settings", {}))
    if isinstance(given.get("valid"), float):
        # The value of --valid is a file if one has that name.
        settings["data.valid"] = given.pop("valid")
    flags = {"from" if name == "start" else name: value for name, value in given.items()}
    result = ["train", *(f"--{name}={value}" for name, value in flags.items())]
    # JSON values are values of TOML.
    result += [f"--set={key}={json.dumps(value, ensure_ascii=False)}" for key, value in settings.items()]
    result += [f"--out={out}"] if out is not None else []
    return [*result, "--", data]


def terminal(words: list[str]) -> str:
    """Return a command line that can be copied into a POSIX shell, with paths relative to the current folder."""
    shown = [commands.relative(word) for word in words]
    if "--" in shown and not shown[-1].startswith("-"):
        shown.remove("--")
    return " ".join(["satchel", *map(quoted, shown)])


def python(options: Options, out: Path | str | None = None) -> str:
    """Return the call of `satchel.train` for options."""
    given = {name: value for name, value in options.items() if name != "data"}
    if out is not None:
        given["out"] = str(out)
    shown = {name: commands.relative(value) if isinstance(value, str) else value for name, value in given.items()}
    return f"satchel.train({commands.arguments(repr(commands.relative(options['data'])), **shown)})"
