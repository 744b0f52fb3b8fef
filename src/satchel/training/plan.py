"""Plan a training: complete the settings and estimate the costs before anything is written."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

from satchel import config
from satchel.datasets.corpora import infer_task, open_corpus, require_text
from satchel.datasets.registry import DATASETS, dataset_for_task
from satchel.errors import SettingsError
from satchel.runs.folder import read_config
from satchel.text.reading import DataSettings
from satchel.text.tokenizer import KINDS, Tokenizer, parse_tokenizer
from satchel.text.tokenizer_files import load_tokenizer
from satchel.training import defaults
from satchel.training.recipes import read_recipe
from satchel.training.settings import RunSettings, rename_settings
from satchel.training.task import CUSTOM, NETWORK_KINDS, Choices, Task, Tasks

# Vocabulary size assumed in estimates if the settings give none.
ESTIMATED_VOCABULARY = 8000
# Settings that only n-gram models have.
COUNTING_SETTINGS = frozenset({"order", "smoothing", "prune", "background"})


@dataclass(frozen=True)
class Plan:
    """Settings and inputs of a training, and the reasons for the settings that were chosen automatically."""

    task: Task
    settings: RunSettings
    data: str
    tokenizer: Tokenizer | None  # an existing tokenizer; None if one is to be trained
    reasons: tuple[str, ...]
    chosen: frozenset[str] = frozenset()  # keys of automatically chosen settings
    custom_encoder: Any = None  # an encoder of the user's program, or a function that returns one
    start: Path | None = None  # the run whose parameters initialise the network

    def estimates(self) -> dict[str, int]:
        """Return the expected numbers of tokens, parameters, bytes of memory and seconds."""
        settings = self.settings
        corpus = open_corpus(self.data, settings.data, settings.training.seed)
        characters = sum(len(piece.text) for piece in corpus.pieces())
        kind = self.tokenizer.kind if self.tokenizer else settings.tokenizer.kind
        tokens = characters if kind in ("char", "byte") else int(characters / (5.5 if kind == "word" else 3.5))
        size = self.tokenizer.size if self.tokenizer else settings.tokenizer.size or ESTIMATED_VOCABULARY
        costs = self.task.family(settings.model.kind).estimates(settings, size + 1, tokens, characters)
        return {"characters": characters, "tokens": tokens, **costs}


class TrainOptions(TypedDict, total=False):
    """Options of `satchel.train` besides the task; see there."""

    model: Any
    recipe: str | Path | None
    tokenizer: str | Path | None
    valid: str | Path | float | None
    seed: int | None
    size: str | None
    minutes: float | None
    steps: int | None
    epochs: float | None
    threads: int | None
    device: str | None
    start: str | Path | None
    settings: Mapping[str, Any] | None


class PlanOptions(TrainOptions, total=False):
    """All options of a plan."""

    task: str | None


# Options that are abbreviations of settings.
TRAINING_OPTIONS = ("seed", "minutes", "steps", "epochs", "threads", "device")
# Options that n-gram models do not have.
NETWORK_OPTIONS = ("minutes", "steps", "epochs", "threads", "device")
KEYS = {"task": "task", "valid": "data.valid"} | {name: f"training.{name}" for name in TRAINING_OPTIONS}


def make_plan(tasks: Tasks, data: str | Path, options: PlanOptions) -> Plan:
    """Return the plan of a training. Errors in the given settings are reported before anything is chosen."""
    model, recipe, start = options.get("model"), options.get("recipe"), options.get("start")
    choices = Choices(tasks, {}, str(recipe) if recipe is not None else "")
    for key, value in (options.get("settings") or {}).items():
        choices.give(key, value)
    for option, key in KEYS.items():
        if (value := options.get(option)) is not None:
            choices.give(key, str(value) if isinstance(value, Path) else value)
    choices.tree, notes = rename_settings(choices.tree)
    if recipe is not None:
        choices.tree, renamed = _merge_recipe(str(recipe), choices.tree)
        notes += renamed
    choices.reasons += notes
    if model is not None:
        choices.give("model", {"kind": model} if isinstance(model, str) else {"kind": CUSTOM, "name": _name(model)})
    tokenizer = _choose_tokenizer(choices, options.get("tokenizer"), start)
    if "task" not in choices.tree:
        choices.give("task", _infer_task(str(data), choices))
        if choices.tree["task"] != "lm":
            choices.reasons.append(f"task={choices.tree['task']}: inferred from the data")
    data = dataset_for_task(str(data), choices.task.name)
    if start is not None:
        _take_model(choices, Path(start))
    for name in sorted(COUNTING_SETTINGS & set(choices.group("model"))):
        choices.choose("model.kind", "ngram", f"only n-gram models have model.{name}")
    choices.choose("model.kind", choices.task.default_kind, f"default for the task {choices.task.name}")
    if choices.group("model").get("kind") == "ngram":
        _drop_network_options(choices, options)
    choices.task.choose_required(choices)
    settings = choices.settings()
    if settings.task == "lm" and data != "-":
        require_text(open_corpus(data, settings.data, settings.training.seed))
    task, size = choices.task, options.get("size")
    if choices.tree["model"]["kind"] != "ngram":
        defaults.choose_network(choices, data, size, is_new=start is None)
    elif size is not None:
        raise SettingsError(
            f"--size {size}: n-gram models have no size", "choose a network with --model, such as transformer"
        )
    if recipe is None:
        task.choose_defaults(choices, data, tokenizer)
    task.choose_format(choices, data, tokenizer)
    defaults.choose_tokens(choices, data, tokenizer)
    if choices.tree["model"]["kind"] in NETWORK_KINDS:
        defaults.choose_validation(choices, data, tokenizer)
    return Plan(
        task,
        choices.settings(),
        data,
        tokenizer,
        tuple(choices.reasons),
        frozenset(choices.chosen),
        custom_encoder=None if isinstance(model, str) else model,
        start=Path(start) if start is not None else None,
    )


def _drop_network_options(choices: Choices, options: PlanOptions) -> None:
    """Remove options from the settings of an n-gram model that only networks have, with a note for each."""
    if options.get("start") is not None:
        raise SettingsError(
            f"--from {options['start']}: n-gram models are counted and have no parameters to start from",
            "choose a network with --model, or omit --from",
        )
    training = dict(choices.group("training"))
    for name in NETWORK_OPTIONS:
        if (value := options.get(name)) is not None:
            training.pop(name)
            choices.reasons.append(f"--{name} {value} is ignored: n-gram models are counted in one pass over the data")
    choices.tree = {**choices.tree, "training": training}


def _merge_recipe(recipe: str, tree: config.Tree) -> tuple[config.Tree, list[str]]:
    """Return the settings of a recipe, overridden by `tree`, and notes. A budget in `tree` replaces the recipe's."""
    base, notes = rename_settings(read_recipe(recipe))
    training = tree.get("training")
    if isinstance(training, dict) and defaults.BUDGETS & set(training):
        kept = {key: value for key, value in base.get("training", {}).items() if key not in defaults.BUDGETS}
        base = {**base, "training": kept}
    return config.merge(base, tree), notes


def _choose_tokenizer(choices: Choices, choice: str | Path | None, start: str | Path | None) -> Tokenizer | None:
    """Return an existing tokenizer: the one named, or that of the run to start from; else set the kind and size."""
    chosen = parse_tokenizer(str(choice)) if choice is not None else None
    if start is not None and choice is None and "tokenizer" not in choices.tree:
        chosen = Path(start)
    if isinstance(chosen, Path):
        tokenizer = load_tokenizer(chosen)
        choices.reasons.append(f"tokenizer: {tokenizer.kind}, {tokenizer.size:,} tokens, from {chosen}")
        if tokenizer.kind in KINDS:
            choices.give("tokenizer.kind", tokenizer.kind)
        return tokenizer
    if chosen is not None:
        choices.give("tokenizer", chosen.model_dump(exclude_unset=True, exclude_none=True))
    return None


def _infer_task(data: str, choices: Choices) -> str:
    """Return the task for which the data is made."""
    if data == "-":
        return "lm"
    if data in DATASETS:
        return DATASETS[data].task
    try:
        settings = config.build(DataSettings, choices.group("data"))
    except SettingsError:
        return "lm"  # the validation of all settings reports these errors together with others
    return infer_task(open_corpus(data, settings))


def _take_model(choices: Choices, start: Path) -> None:
    """Take the model settings of the run whose parameters initialise the network."""
    model = read_config(start).settings["model"]
    if model.get("kind") not in NETWORK_KINDS:
        raise SettingsError("is not a network: it has no parameters to start from", where=str(start))
    if choices.task.name != "lm":  # other tasks have no causal mask
        model = {key: value for key, value in model.items() if key != "causal"}
    choices.reasons.append(f"model: {model['kind']}, as in {start}")
    choices.tree = config.merge({"model": model}, choices.tree)


def _name(model: Any) -> str:
    """Return the qualified name of an encoder's class, or of a function that returns an encoder."""
    named = model if isinstance(model, type) or hasattr(model, "__qualname__") else type(model)
    return f"{named.__module__}.{named.__qualname__}"


def default_out(data: str) -> Path:
    """Return the default folder of a run."""
    stem = Path(data.split(",")[0]).name.lstrip("@").split(".")[0] if data != "-" else "stdin"
    return Path("runs") / (stem or "run")
