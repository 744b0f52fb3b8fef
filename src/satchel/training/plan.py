"""What a training would do, before it does it."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from satchel import config
from satchel.data.tagged import has_character_tags
from satchel.datasets.corpora import infer_task, open_corpus
from satchel.datasets.registry import DATASETS, dataset_for_task
from satchel.errors import DataError, SettingsError
from satchel.runs.folder import read_config
from satchel.text.reading import Corpus, DataSettings
from satchel.text.tables import read_examples, read_pairs, read_tagged
from satchel.text.tokenizer import KINDS, Tokenizer, load_tokenizer, parse_tokenizer
from satchel.training import defaults
from satchel.training.recipes import read_recipe
from satchel.training.run_settings import NETWORKS, TASKS, ClassifierSettings, LanguageSettings, build_settings

if TYPE_CHECKING:
    from satchel.training.run_settings import RunSettings


USUAL_MINUTES = 5.0
# Where spaces are further apart than this on average, they do not separate words.
LONGEST_WORDS = 20
# What compressed text unpacks to, about.
GZIP = 3
# A text that comes through a pipe is taken to have so many.
USUAL_CHARACTERS = 1_000_000
# As many rows of a table tell what its tags belong to.
SEEN_ROWS = 100


@dataclass(frozen=True)
class Plan:
    """What a training would do: its settings, its text, its tokenizer if there is one already, and why."""

    settings: "RunSettings"
    data: str
    tokenizer: Tokenizer | None
    reasons: tuple[str, ...]
    chosen: frozenset[str] = frozenset()  # the settings that were chosen here, and not by the user
    own: Any = None  # an encoder of the user's own, or what makes one
    start: Path | None = None  # the run whose weights are begun with

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
        from satchel.training.networks import TrainedSettings, network_costs

        assert isinstance(self.settings, TrainedSettings)
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
# Kinds that are made of attention.
ATTENDING = ("transformer", "backpack")
# What says how long a training takes.
BUDGETS = frozenset({"steps", "epochs", "minutes"})
# What is trained where nobody says which kind.
USUAL_KINDS = {"lm": "transformer", "tag": "transformer", "classify": "dan", "translate": "transformer"}


class Choices:
    """The settings that were given, and those that are chosen beside them, with the reasons."""

    def __init__(self, tree: config.Tree) -> None:
        self.tree = tree
        self.reasons: list[str] = []
        self.chosen: set[str] = set()

    def is_set(self, key: str) -> bool:
        """Return whether a setting was given or chosen; what is no group of settings is told later."""
        group, name = key.split(".")
        held = self.tree.get(group, {})
        return not isinstance(held, dict) or name in held

    def choose(self, key: str, value: Any, why: str) -> None:
        """Choose a setting that was not given."""
        if self.is_set(key):
            return
        self.give(key, value)
        self.chosen.add(key)
        self.reasons.append(f"{key}={value:g}: {why}" if isinstance(value, float) else f"{key}={value}: {why}")

    def give(self, key: str, value: Any) -> None:
        """Take a setting for one that was given."""
        self.tree = config.merge(self.tree, _nested(key, value))


def plan(data: str | Path, **options: Unpack[TrainOptions]) -> Plan:
    """Return what `train` would do with the same arguments."""
    tree: config.Tree = {}
    for key, value in (options.get("settings") or {}).items():
        tree = config.merge(tree, _nested(key, value))
    for option, key in KEYS.items():
        if (given := options.get(option)) is not None:
            tree = config.merge(tree, _nested(key, given))
    recipe, model = options.get("recipe"), options.get("model")
    choices = Choices(_on_recipe(str(recipe), tree) if recipe is not None else tree)
    if model is not None:
        kind = {"kind": model} if isinstance(model, str) else {"kind": "own", "name": _name_of(model)}
        choices.give("model", kind)
    where = str(recipe) if recipe is not None else ""
    start = options.get("start")
    existing = _chosen_tokenizer(choices, options.get("tokenizer"), start)
    if existing is not None and existing.kind in KINDS:
        choices.give("tokenizer.kind", existing.kind)
    elif existing is None and (choice := options.get("tokenizer")) is not None:
        chosen = parse_tokenizer(str(choice))
        assert not isinstance(chosen, Path)
        choices.give("tokenizer", chosen.model_dump(exclude_unset=True, exclude_none=True))
    if "task" not in choices.tree:
        choices.give("task", _task_of(str(data), choices.tree))
        if choices.tree["task"] != "lm":
            choices.reasons.append(f"task={choices.tree['task']}: as the data says")
    data = dataset_for_task(str(data), str(choices.tree["task"]))
    if start is not None:
        _as_begun(choices, Path(start))
    _usual_kind(choices)
    tokens = choices.tree.get("tokenizer", {})
    if choices.tree["task"] == "translate" and isinstance(tokens, dict) and not tokens.get("joint", True):
        choices.choose("model.shared", False, "words that have other tokens have other vectors")
    build_settings(choices.tree, where)  # whatever is wrong with what was given is told before anything is chosen
    _network_defaults(choices, str(data), options.get("size"), is_new=start is None)
    if recipe is None:
        _language_defaults(choices, str(data), existing)
        _classifier_defaults(choices, str(data), existing)
        _translator_defaults(choices, str(data), existing)
    _suited(choices, str(data), existing)
    return Plan(
        build_settings(choices.tree, where),
        str(data),
        existing,
        tuple(choices.reasons),
        frozenset(choices.chosen),
        own=model if model is not None and not isinstance(model, str) else None,
        start=Path(start) if start is not None else None,
    )


def _on_recipe(recipe: str, tree: config.Tree) -> config.Tree:
    """Return the settings of a recipe, and what was given instead: whoever says how long replaces all it says of it."""
    basis, training = read_recipe(recipe), tree.get("training")
    if isinstance(training, dict) and BUDGETS & set(training):
        basis = {**basis, "training": {k: v for k, v in basis.get("training", {}).items() if k not in BUDGETS}}
    return config.merge(basis, tree)


def _chosen_tokenizer(choices: Choices, choice: str | Path | None, start: str | Path | None) -> Tokenizer | None:
    """Return the tokenizer that is there already: one that was named, or that of the run that is begun with."""
    chosen = parse_tokenizer(str(choice)) if choice is not None else None
    if start is not None and choice is None and "tokenizer" not in choices.tree:
        chosen = Path(start)
    if not isinstance(chosen, Path):
        return None
    existing = load_tokenizer(chosen)
    choices.reasons.append(f"tokenizer: {existing.kind}, {existing.size:,} tokens, from {chosen}")
    return existing


def _as_begun(choices: Choices, start: Path) -> None:
    """Take over the model of the run whose weights are begun with."""
    model = read_config(start).settings["model"]
    if model.get("kind") not in NETWORKS:
        raise SettingsError("is no network: there are no weights to begin with", where=str(start))
    choices.reasons.append(f"model: {model['kind']}, as in {start}")
    choices.tree = config.merge({"model": model}, choices.tree)


def _usual_kind(choices: Choices) -> None:
    model, task = choices.tree.get("model", {}), choices.tree["task"]
    if not isinstance(model, dict):
        return
    # Settings that only counting has say that counting is meant.
    counts = {"order", "smoothing", "prune", "background"} & set(model)
    kind = "ngram" if counts else USUAL_KINDS.get(task, "ngram")
    choices.choose("model.kind", kind, f"the usual one for the task {task}")


def _suited(choices: Choices, data: str, existing: Tokenizer | None) -> None:
    """Choose what suits the data and nobody set: documents, a tokenizer, an order."""
    task = choices.tree["task"]
    if data in DATASETS:
        dataset = DATASETS[data]
        if task == "lm":
            choices.choose("data.documents", dataset.documents, f"as suits {data}")
        if existing is None and dataset.tokenizer != "bpe":
            choices.choose("tokenizer.kind", dataset.tokenizer, f"as suits {data}")
    elif task == "tag" and existing is None and not choices.is_set("tokenizer.kind"):
        corpus = open_corpus(data, config.build(DataSettings, choices.tree.get("data", {})))
        by_letter = has_character_tags(islice(read_tagged(corpus), SEEN_ROWS))
        choices.choose("tokenizer.kind", "char" if by_letter else "word", "what the tags belong to")
    settings = build_settings(choices.tree)
    kind = existing.kind if existing else settings.tokenizer.kind
    counts = isinstance(settings, (LanguageSettings, ClassifierSettings))
    if counts and kind in ("char", "byte"):
        single = "characters" if kind == "char" else "bytes"
        choices.choose("model.order", 7 if task == "lm" else 6, f"single {single} need a longer context")


def _name_of(model: Any) -> str:
    made = model if isinstance(model, type) or hasattr(model, "__qualname__") else type(model)
    return f"{made.__module__}.{made.__qualname__}"


def _network_defaults(choices: Choices, data: str, size: str | None, *, is_new: bool) -> None:
    """Choose what a network needs and nobody set: a size, a budget, something held out."""
    model = choices.tree.get("model", {})
    if not isinstance(model, dict) or model.get("kind") not in (*NETWORKS, "own"):
        if size is not None:
            raise SettingsError(f"--size {size}: n-grams have none", "name a network with --model, such as transformer")
        return
    attends = model.get("kind") in ATTENDING
    if size is not None:
        from satchel.models.build import SIZES, size_tree

        if size not in SIZES:
            raise SettingsError(f"--size {size}: found no such size", f"expected {', '.join(SIZES)}")
        choices.tree = config.merge({"model": size_tree(model["kind"], size)}, choices.tree)
    training = choices.tree.get("training", {})
    if isinstance(training, dict) and not BUDGETS & set(training):
        choices.choose("training.minutes", USUAL_MINUTES, "nobody said how long")
    if attends and is_new:  # what was learned before would not outlast its large steps
        choices.choose("training.optimizer", "muon", "what attends learns quicker with it")
    if valid := DATASETS[data].valid if data in DATASETS else 0.05:
        choices.choose("data.valid", valid, "to see how it goes")
    if length := DATASETS[data].length if data in DATASETS else None:
        key = "model.context" if attends else "training.length"
        choices.choose(key, length, f"as long as the documents of {data}")


def _language_defaults(choices: Choices, data: str, existing: Tokenizer | None) -> None:
    """Choose what suits an amount of prose and a time: pieces of words, a size, how it is read, what it stands on."""
    settings = build_settings(choices.tree)
    is_prose = data not in DATASETS or DATASETS[data].tokenizer == "bpe"
    if settings.task != "lm" or settings.model.kind not in ATTENDING or not is_prose:
        return
    characters = USUAL_CHARACTERS if data == "-" else _characters(open_corpus(data, settings.data))
    kind = existing.kind if existing else settings.tokenizer.kind
    if existing is None and kind in ("bpe", "unigram"):
        choices.choose(*defaults.tokenizer_size(characters))
    vocabulary = existing.size if existing else _vocabulary(choices, kind)
    tokens = characters / defaults.characters_per_token(kind, vocabulary)
    training: Any = settings.training
    budget = _budget(training, tokens)
    if training.steps is not None:
        choices.give("training.batch_tokens", training.batch_tokens)  # who counts updates has a size in mind
    if not any(choices.is_set(f"model.{name}") for name in ("width", "layers", "heads")):
        for choice in defaults.language_shape(budget, vocabulary):
            choices.choose(*choice)
    model: Any = build_settings(choices.tree).model
    shape = defaults.Shape(model.width, model.layers, model.heads)
    for choice in defaults.language_reading(tokens, budget.read_by(shape.parameters(vocabulary))):
        choices.choose(*choice)
    if "model.kind" in choices.chosen and tokens <= defaults.MOST_COUNTED:
        choices.choose("model.ngram", defaults.ngram_order(kind), "what was counted need not be learned")


def _classifier_defaults(choices: Choices, data: str, existing: Tokenizer | None) -> None:
    """Choose what suits a mean of words, unless something of it was given: then that is what somebody wants to see."""
    settings = build_settings(choices.tree)
    given = set(choices.tree["model"]) - {"kind"}
    if settings.task != "classify" or settings.model.kind != "dan" or given or data == "-":
        return
    corpus = open_corpus(data, settings.data)
    first = [example.text for example in islice(read_examples(corpus), SEEN_ROWS)]
    characters, seen = _characters(corpus), max(1, sum(map(len, first)))
    has_words = sum(text.count(" ") for text in first) > seen / LONGEST_WORDS
    if existing is None and "tokenizer" not in choices.tree and has_words:
        for choice in defaults.words_of_texts():
            choices.choose(*choice)
    for choice in defaults.averaging(round(characters * len(first) / seen), characters):
        is_budget = choice.key == "training.epochs" and choices.is_set("training.steps")
        if not is_budget:
            choices.choose(*choice)


def _translator_defaults(choices: Choices, data: str, existing: Tokenizer | None) -> None:
    """Choose what suits a number of pairs and a time."""
    settings = build_settings(choices.tree)
    if settings.task != "translate" or data in DATASETS or data == "-":
        return
    kind = existing.kind if existing else settings.tokenizer.kind
    # Pairs are few, and a table may have other columns: they are read.
    pairs = read_pairs(open_corpus(data, settings.data))
    characters = sum(len(pair.source) + len(pair.target) for pair in pairs)
    if existing is None and kind in ("bpe", "unigram"):
        choices.choose(*defaults.tokenizer_size(characters))
    vocabulary = existing.size if existing else _vocabulary(choices, kind)
    tokens = characters / 2 / defaults.characters_per_token(kind, vocabulary)
    for choice in defaults.pair_reading(kind == "bpe"):
        choices.choose(*choice)
    training: Any = build_settings(choices.tree).training
    named = any(choices.is_set(f"model.{name}") for name in ("width", "layers", "heads"))
    if settings.model.kind in ATTENDING and not named:
        for choice in defaults.pair_shape(_budget(training, tokens), vocabulary, tokens):
            choices.choose(*choice)


def _characters(corpus: Corpus) -> int:
    """Return about how many characters there are, without reading them."""
    return sum(source.size * (GZIP if source.name.endswith(".gz") else 1) for source in corpus.sources)


def _vocabulary(choices: Choices, kind: str) -> int:
    """Return about how many tokens there will be."""
    given = choices.tree.get("tokenizer", {})
    return given.get("size") or {"char": 100, "byte": 256}.get(kind, 20_000)


def _budget(training: Any, tokens: float) -> defaults.Budget:
    if training.minutes is not None:
        return defaults.minutes_of_work(training.minutes, training.device, training.threads)
    if training.epochs is not None:
        return defaults.Budget(tokens=training.epochs * tokens)
    return defaults.Budget(tokens=training.steps * training.batch_tokens)


def _task_of(data: str, tree: config.Tree) -> str:
    """Return the task that the data is for, if there are models for it."""
    if data == "-":
        return "lm"
    if data in DATASETS:
        return DATASETS[data].task
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


def _nested(key: str, value: Any) -> config.Tree:
    tree: config.Tree = {}
    config.place(tree, key, value)
    return tree


def default_out(data: str) -> Path:
    """Return where a run goes whose folder was not named."""
    stem = Path(data.split(",")[0]).name.lstrip("@").split(".")[0] if data != "-" else "stdin"
    return Path("runs") / (stem or "run")
