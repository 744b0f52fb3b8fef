"""What a training would do, before it does it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from satchel import config
from satchel.api.recipes import read_recipe
from satchel.api.settings import TASKS, LanguageSettings, RunSettings, build_settings
from satchel.errors import DataError, SettingsError
from satchel.text.builtin import BUILTINS
from satchel.text.corpora import infer_task, open_corpus
from satchel.text.reading import DataSettings
from satchel.text.tokenizer import KINDS, Tokenizer, load_tokenizer, parse_tokenizer


@dataclass(frozen=True)
class Plan:
    """What a training would do: its settings, its text, its tokenizer if there is one already, and why."""

    settings: RunSettings
    data: str
    tokenizer: Tokenizer | None
    reasons: tuple[str, ...]

    def estimates(self) -> dict[str, int]:
        """Return about how many tokens, parameters, bytes of memory and seconds the training would take."""
        corpus = open_corpus(self.data, self.settings.data, self.settings.training.seed)
        characters = sum(len(piece.text) for piece in corpus.pieces())
        kind = self.tokenizer.kind if self.tokenizer else self.settings.tokenizer.kind
        tokens = characters if kind in ("char", "byte") else int(characters / (5.5 if kind == "word" else 3.5))
        size = self.tokenizer.size if self.tokenizer else self.settings.tokenizer.size or 8000
        ngrams = sum(min(size**n, tokens) for n in range(1, self.settings.model.order + 1))
        if self.settings.task == "classify":
            ngrams *= 2  # those of the classes, and those of the background
        return {
            "characters": characters,
            "tokens": tokens,
            "parameters_at_most": 2 * ngrams,
            "memory_bytes": 100 * tokens + 40 * ngrams,
            "seconds": 1 + int(characters * 4e-7 + ngrams * 5e-7),
        }


def plan(
    data: str | Path,
    *,
    task: str | None = None,
    model: str | None = None,
    recipe: str | Path | None = None,
    tokenizer: str | Path | None = None,
    valid: str | float | None = None,
    seed: int | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Plan:
    """Return what `train` would do with the same arguments. `settings` may use dotted keys."""
    tree: config.Tree = {}
    for key, value in (settings or {}).items():
        tree = config.merge(tree, _nested(key, value))
    tree = config.merge(read_recipe(str(recipe)) if recipe is not None else {}, tree)
    reasons: list[str] = []
    existing: Tokenizer | None = None
    if tokenizer is not None:
        chosen = parse_tokenizer(str(tokenizer))
        if isinstance(chosen, Path):
            existing = load_tokenizer(chosen)
            if existing.kind in KINDS:
                tree = config.merge(tree, {"tokenizer": {"kind": existing.kind}})
            reasons.append(f"tokenizer: {existing.kind}, {existing.size:,} tokens, from {chosen}")
        else:
            tree = config.merge(tree, {"tokenizer": chosen.model_dump(exclude_unset=True, exclude_none=True)})
    for key, value in (("task", task), ("model.kind", model), ("data.valid", valid), ("training.seed", seed)):
        if value is not None:
            tree = config.merge(tree, _nested(key, value))
    where = str(recipe) if recipe is not None else ""
    if "task" not in tree:
        tree["task"] = _task_of(str(data), tree)
        if tree["task"] != "lm":
            reasons.append(f"task={tree['task']}: as the data says")
    given = build_settings(tree, where)
    if isinstance(given, LanguageSettings) and str(data) in BUILTINS and not _is_set(tree, "data.documents"):
        rule = BUILTINS[str(data)].documents
        tree = config.merge(tree, _nested("data.documents", rule))
        reasons.append(f"data.documents={rule}: as suits {data}")
    kind = existing.kind if existing else given.tokenizer.kind
    if kind in ("char", "byte") and not _is_set(tree, "model.order"):
        order = 7 if isinstance(given, LanguageSettings) else 6
        tree = config.merge(tree, _nested("model.order", order))
        reasons.append(
            f"model.order={order}: single {'characters' if kind == 'char' else 'bytes'} need a longer context"
        )
    return Plan(build_settings(tree, where), str(data), existing, tuple(reasons))


def _task_of(data: str, tree: config.Tree) -> str:
    """Return the task that the data is for, if there are models for it."""
    if data == "-":
        return "lm"
    if data in BUILTINS:
        return BUILTINS[data].task
    try:
        settings = config.build(DataSettings, tree.get("data", {}))
    except SettingsError:
        return "lm"  # whatever else is wrong with the settings is told together with this
    corpus = open_corpus(data, settings)
    task = infer_task(corpus)
    if task not in TASKS:
        raise DataError(
            f"is data for the task {task}, and this version trains {' and '.join(TASKS)} only",
            "to read it as plain text give --task lm",
            where=corpus.name,
        )
    return task


def _is_set(tree: config.Tree, key: str) -> bool:
    group, name = key.split(".")
    return name in tree.get(group, {})


def _nested(key: str, value: Any) -> config.Tree:
    tree: config.Tree = {}
    config.place(tree, key, value)
    return tree


def default_out(data: str) -> Path:
    """Return where a run goes whose folder was not named."""
    stem = Path(data.split(",")[0]).name.lstrip("@").split(".")[0] if data != "-" else "stdin"
    return Path("runs") / (stem or "run")
