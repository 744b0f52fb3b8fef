"""What a training would do, before it does it."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from satchel import config
from satchel.api.recipes import read_recipe
from satchel.api.settings import NETWORKS, TASKS, ClassifierSettings, LanguageSettings, build_settings
from satchel.data.tagged import are_characters
from satchel.errors import DataError, SettingsError
from satchel.runs.folder import read_config
from satchel.text.builtin import BUILTINS
from satchel.text.corpora import infer_task, open_corpus
from satchel.text.reading import DataSettings
from satchel.text.tables import read_tagged
from satchel.text.tokenizer import KINDS, Tokenizer, load_tokenizer, parse_tokenizer

if TYPE_CHECKING:
    from satchel.api.settings import RunSettings


USUAL_MINUTES = 5.0
# As many rows of a table tell what its tags belong to.
SEEN_ROWS = 100


@dataclass(frozen=True)
class Plan:
    """What a training would do: its settings, its text, its tokenizer if there is one already, and why."""

    settings: "RunSettings"
    data: str
    tokenizer: Tokenizer | None
    reasons: tuple[str, ...]
    own: Any = None  # an encoder of the user's own, or what makes one
    start: Path | None = None  # the run whose weights are begun with

    def chose(self, key: str) -> bool:
        """Return whether a setting was chosen here, and not by the user."""
        return any(reason.startswith(f"{key}=") for reason in self.reasons)

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
        width = getattr(self.settings.model, "width", 0)
        return {
            "parameters": costs.parameters,
            "training_flops_per_token": costs.training_operations,
            "memory_bytes": 16 * costs.parameters + 200 * training.batch_tokens * width,
            **({"seconds": int(60 * training.minutes)} if training.minutes else {}),
        }


class TrainOptions(TypedDict, total=False):
    """What can be said by name about a training; everything else is a setting."""

    task: str | None
    model: Any  # the name of a kind; or an encoder of one's own, or what makes one for a number of ids
    recipe: str | Path | None
    tokenizer: str | Path | None
    valid: str | float | None
    seed: int | None
    size: str | None
    minutes: float | None
    steps: int | None
    epochs: float | None
    threads: int | None
    device: str | None
    start: str | Path | None  # a run whose weights are begun with
    settings: Mapping[str, Any] | None  # may use dotted keys


# Options that are settings by another name.
KEYS = {
    "task": "task",
    "valid": "data.valid",
    "seed": "training.seed",
    "minutes": "training.minutes",
    "steps": "training.steps",
    "epochs": "training.epochs",
    "threads": "training.threads",
    "device": "training.device",
}
# What is trained where nobody says which kind.
USUAL_KINDS = {"lm": "transformer", "tag": "transformer", "classify": "dan"}


def plan(data: str | Path, **options: Unpack[TrainOptions]) -> Plan:
    """Return what `train` would do with the same arguments."""
    tree: config.Tree = {}
    for key, value in (options.get("settings") or {}).items():
        tree = config.merge(tree, _nested(key, value))
    recipe, model = options.get("recipe"), options.get("model")
    tree = config.merge(read_recipe(str(recipe)) if recipe is not None else {}, tree)
    for option, key in KEYS.items():
        if (given := options.get(option)) is not None:
            tree = config.merge(tree, _nested(key, given))
    if model is not None:
        kind = {"kind": model} if isinstance(model, str) else {"kind": "own", "name": _name_of(model)}
        tree = config.merge(tree, {"model": kind})
    reasons: list[str] = []
    where = str(recipe) if recipe is not None else ""
    start = options.get("start")
    existing = _chosen_tokenizer(tree, options.get("tokenizer"), start, reasons)
    if existing is not None and existing.kind in KINDS:
        tree = config.merge(tree, {"tokenizer": {"kind": existing.kind}})
    elif existing is None and (choice := options.get("tokenizer")) is not None:
        chosen = parse_tokenizer(str(choice))
        assert not isinstance(chosen, Path)
        tree = config.merge(tree, {"tokenizer": chosen.model_dump(exclude_unset=True, exclude_none=True)})
    if "task" not in tree:
        tree["task"] = _task_of(str(data), tree)
        if tree["task"] != "lm":
            reasons.append(f"task={tree['task']}: as the data says")
    if start is not None:
        tree = _as_begun(tree, Path(start), reasons)
    tree = _usual_kind(tree, reasons)
    tree = _network_defaults(tree, str(data), options.get("size"), reasons)
    build_settings(tree, where)  # whatever is wrong with what was given is told before anything is chosen
    tree = _suited(tree, str(data), existing, reasons)
    settings = build_settings(tree, where)
    own = model if model is not None and not isinstance(model, str) else None
    return Plan(settings, str(data), existing, tuple(reasons), own, Path(start) if start is not None else None)


def _chosen_tokenizer(
    tree: config.Tree, choice: str | Path | None, start: str | Path | None, reasons: list[str]
) -> Tokenizer | None:
    """Return the tokenizer that is there already: one that was named, or that of the run that is begun with."""
    chosen = parse_tokenizer(str(choice)) if choice is not None else None
    if start is not None and choice is None and "tokenizer" not in tree:
        chosen = Path(start)
    if not isinstance(chosen, Path):
        return None
    existing = load_tokenizer(chosen)
    reasons.append(f"tokenizer: {existing.kind}, {existing.size:,} tokens, from {chosen}")
    return existing


def _as_begun(tree: config.Tree, start: Path, reasons: list[str]) -> config.Tree:
    """Return the tree with the model of the run whose weights are begun with."""
    model = read_config(start).settings["model"]
    if model.get("kind") not in NETWORKS:
        raise SettingsError("is no network: there are no weights to begin with", where=str(start))
    reasons.append(f"model: {model['kind']}, as in {start}")
    return config.merge({"model": model}, tree)


def _usual_kind(tree: config.Tree, reasons: list[str]) -> config.Tree:
    model = tree.get("model", {})
    if not isinstance(model, dict) or "kind" in model:
        return tree
    # Settings that only counting has say that counting is meant.
    task = tree["task"]
    counts = {"order", "smoothing", "prune", "background"} & set(model)
    kind = "ngram" if counts else USUAL_KINDS.get(task, "ngram")
    reasons.append(f"model.kind={kind}: the usual one for the task {task}")
    return config.merge(tree, _nested("model.kind", kind))


def _suited(tree: config.Tree, data: str, existing: Tokenizer | None, reasons: list[str]) -> config.Tree:
    """Return the tree with what suits the data and nobody set: documents, a tokenizer, an order."""

    def choose(key: str, value: Any, why: str) -> None:
        nonlocal tree
        tree = config.merge(tree, _nested(key, value))
        reasons.append(f"{key}={value}: {why}")

    if data in BUILTINS:
        builtin = BUILTINS[data]
        if tree["task"] == "lm" and not _is_set(tree, "data.documents"):
            choose("data.documents", builtin.documents, f"as suits {data}")
        if existing is None and not _is_set(tree, "tokenizer.kind") and builtin.tokenizer != "bpe":
            choose("tokenizer.kind", builtin.tokenizer, f"as suits {data}")
    elif tree["task"] == "tag" and existing is None and not _is_set(tree, "tokenizer.kind"):
        corpus = open_corpus(data, config.build(DataSettings, tree.get("data", {})))
        by_letter = are_characters(islice(read_tagged(corpus), SEEN_ROWS))
        choose("tokenizer.kind", "char" if by_letter else "word", "what the tags belong to")
    settings = build_settings(tree)
    kind = existing.kind if existing else settings.tokenizer.kind
    counts = isinstance(settings, (LanguageSettings, ClassifierSettings))
    if counts and kind in ("char", "byte") and not _is_set(tree, "model.order"):
        single = "characters" if kind == "char" else "bytes"
        choose("model.order", 7 if tree["task"] == "lm" else 6, f"single {single} need a longer context")
    return tree


def _name_of(model: Any) -> str:
    made = model if isinstance(model, type) or hasattr(model, "__qualname__") else type(model)
    return f"{made.__module__}.{made.__qualname__}"


def _network_defaults(tree: config.Tree, data: str, size: str | None, reasons: list[str]) -> config.Tree:
    """Return the tree with what a network needs and nobody set: a size, a budget, something held out."""
    model = tree.get("model", {})
    if not isinstance(model, dict) or model.get("kind") not in (*NETWORKS, "own"):
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
    if model.get("kind") == "transformer" and not _is_set(tree, "training.optimizer"):
        tree = config.merge(tree, _nested("training.optimizer", "muon"))
        reasons.append("training.optimizer=muon: transformers learn quicker with it")
    valid = BUILTINS[data].valid if data in BUILTINS else 0.05
    if valid and not _is_set(tree, "data.valid"):
        tree = config.merge(tree, _nested("data.valid", valid))
        reasons.append(f"data.valid={valid}: to see how it goes")
    length = BUILTINS[data].length if data in BUILTINS else None
    key = "model.context" if model.get("kind") == "transformer" else "training.length"
    if length and not _is_set(tree, key):
        tree = config.merge(tree, _nested(key, length))
        reasons.append(f"{key}={length}: as long as the documents of {data}")
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
