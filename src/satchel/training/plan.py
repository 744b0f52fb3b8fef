"""Plan a training: complete the settings and estimate the costs before anything is written."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

from satchel import config
from satchel.datasets.corpora import infer_task, open_corpus, require_text
from satchel.datasets.registry import DATASETS, dataset_for_task
from satchel.errors import SettingsError
from satchel.runs.folder import read_config
from satchel.text.reading import Corpus, DataSettings, text_pieces
from satchel.text.tables import read_examples, read_pairs, read_tagged
from satchel.text.tokenizer import KINDS, Tokenizer, parse_tokenizer
from satchel.text.tokenizer_files import load_tokenizer
from satchel.text.tokenizer_training import train_tokenizer
from satchel.training import defaults
from satchel.training.recipes import read_recipe
from satchel.training.settings import RunSettings, rename_settings
from satchel.training.task import CUSTOM, NETWORK_KINDS, Choices, Task, Tasks

# Number of characters that the tokenizer of an estimate is trained on.
SAMPLE_CHARACTERS = 5_000_000
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
        """Return the expected numbers of characters, tokens, token ids, parameters, steps, bytes of memory and seconds.

        The vocabulary is that of a tokenizer trained on the first SAMPLE_CHARACTERS characters, held-out text included.
        """
        settings = self.settings
        corpus = open_corpus(self.data, settings.data, settings.training.seed)
        characters = sample_characters = 0
        sample: list[str] = []
        for text in _texts(self.task.name, corpus):
            characters += len(text)
            if sample_characters < SAMPLE_CHARACTERS:
                sample.append(text[:SAMPLE_CHARACTERS])
                sample_characters += len(sample[-1])
        tokenizer = self.tokenizer or train_tokenizer(
            settings.tokenizer, (piece.text for piece in text_pieces(sample)), characters
        )
        sample_tokens = sum(len(tokenizer.encode(text).ids) for text in sample)
        tokens = round(sample_tokens * characters / max(1, sample_characters))
        costs = self.task.family(settings.model.kind).estimates(settings, tokenizer.size + 1, tokens, characters)
        return {"characters": characters, "tokens": tokens, "vocabulary": tokenizer.size, **costs}


def _texts(task: str, corpus: Corpus) -> Iterator[str]:
    """Yield the texts of the training data of a task."""
    if task == "classify":
        yield from (row.text for row in read_examples(corpus))
    elif task == "tag":
        yield from (row.text for row in read_tagged(corpus))
    elif task == "translate":
        yield from (text for pair in read_pairs(corpus) for text in (pair.source, pair.target))
    else:
        yield from (piece.text for piece in corpus.pieces(corpus.settings.documents))


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
        if options.get("minutes") is not None:
            defaults.check_time(choices, data)
        choices.reasons.append(task.network().precision_note(choices.settings()))
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
