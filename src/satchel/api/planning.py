"""What a training would do, before it does it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from satchel import config
from satchel.api.recipes import read_recipe
from satchel.api.settings import NETWORKS, TASKS, ClassifierSettings, LanguageSettings, build_settings
from satchel.errors import DataError, SettingsError
from satchel.text.builtin import BUILTINS
from satchel.text.corpora import infer_task, open_corpus
from satchel.text.reading import DataSettings
from satchel.text.tokenizer import KINDS, Tokenizer, load_tokenizer, parse_tokenizer

if TYPE_CHECKING:
    from satchel.api.settings import RunSettings


USUAL_MINUTES = 5.0


@dataclass(frozen=True)
class Plan:
    """What a training would do: its settings, its text, its tokenizer if there is one already, and why."""

    settings: "RunSettings"
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
        if not isinstance(self.settings, (LanguageSettings, ClassifierSettings)):
            return {"characters": characters, "tokens": tokens, **self._network_estimates(size + 1)}
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

    def _network_estimates(self, vocabulary: int) -> dict[str, int]:
        """Return the parameters of a network, and the memory its training takes: weights, gradients and two moments."""
        from satchel.api.networks import NetworkSettings, network_costs

        assert isinstance(self.settings, NetworkSettings)
        costs, training = network_costs(self.settings, vocabulary), self.settings.training
        return {
            "parameters": costs.parameters,
            "training_flops_per_token": costs.training_operations,
            "memory_bytes": 16 * costs.parameters + 200 * training.batch_tokens * self.settings.model.width,
            **({"seconds": int(60 * training.minutes)} if training.minutes else {}),
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
    size: str | None = None,
    minutes: float | None = None,
    steps: int | None = None,
    epochs: float | None = None,
    threads: int | None = None,
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
    chosen_by_name = {
        "task": task,
        "model.kind": model,
        "data.valid": valid,
        "training.seed": seed,
        "training.minutes": minutes,
        "training.steps": steps,
        "training.epochs": epochs,
        "training.threads": threads,
    }
    for key, value in chosen_by_name.items():
        if value is not None:
            tree = config.merge(tree, _nested(key, value))
    where = str(recipe) if recipe is not None else ""
    if "task" not in tree:
        tree["task"] = _task_of(str(data), tree)
        if tree["task"] != "lm":
            reasons.append(f"task={tree['task']}: as the data says")
    tree = _network_defaults(tree, size, reasons)
    given = build_settings(tree, where)
    if tree["task"] == "lm" and str(data) in BUILTINS and not _is_set(tree, "data.documents"):
        rule = BUILTINS[str(data)].documents
        tree = config.merge(tree, _nested("data.documents", rule))
        reasons.append(f"data.documents={rule}: as suits {data}")
    kind = existing.kind if existing else given.tokenizer.kind
    counts = isinstance(given, (LanguageSettings, ClassifierSettings))
    if counts and kind in ("char", "byte") and not _is_set(tree, "model.order"):
        order = 7 if isinstance(given, LanguageSettings) else 6
        tree = config.merge(tree, _nested("model.order", order))
        reasons.append(
            f"model.order={order}: single {'characters' if kind == 'char' else 'bytes'} need a longer context"
        )
    return Plan(build_settings(tree, where), str(data), existing, tuple(reasons))


def _network_defaults(tree: config.Tree, size: str | None, reasons: list[str]) -> config.Tree:
    """Return the tree with what a network needs and nobody set: a size, a budget, something held out."""
    model = tree.get("model", {})
    if not isinstance(model, dict) or model.get("kind") not in NETWORKS:
        if size is not None:
            raise SettingsError(f"--size {size}: n-grams have none", "name a network with --model, such as transformer")
        return tree
    if size is not None:
        from satchel.models.build import SIZES, size_tree

        if size not in SIZES:
            raise SettingsError(f"--size {size}: found no such size", f"expected {', '.join(SIZES)}")
        tree = config.merge({"model": size_tree(model["kind"], size)}, tree)
    training = tree.get("training", {})
    if isinstance(training, dict) and not {"steps", "minutes", "epochs"} & set(training):
        tree = config.merge(tree, _nested("training.minutes", USUAL_MINUTES))
        reasons.append(f"training.minutes={USUAL_MINUTES:g}: nobody said how long")
    if not _is_set(tree, "data.valid"):
        tree = config.merge(tree, _nested("data.valid", 0.05))
        reasons.append("data.valid=0.05: to see how it goes")
    return tree


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
