"""The interface of an entry of the task table, `satchel.api.tasks.TASKS`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from satchel import config, durable
from satchel.errors import SettingsError
from satchel.progress import Progress
from satchel.text.reading import Corpus
from satchel.text.tokenizer import Tokenizer
from satchel.training.counting import Counting
from satchel.training.examples.common import Examples
from satchel.training.settings import RunSettings, rename_settings

if TYPE_CHECKING:
    from satchel.training.network_task import NetworkTask
    from satchel.training.plan import Plan

# Called with the settings so far, the name of the data, and an existing tokenizer.
Chooser: TypeAlias = "Callable[[Choices, str, Tokenizer | None], None]"
# Values of model.kind that are networks.
NETWORK_KINDS = ("dan", "window", "rnn", "gru", "lstm", "transformer", "backpack")
KINDS = ("ngram", *NETWORK_KINDS)
# Values of model.kind that have a causal mask, which model.causal=false removes.
MASKED_KINDS = ("transformer", "backpack")
# Value of model.kind for an encoder that the user's program defines.
CUSTOM = "own"


@dataclass(frozen=True)
class Task:
    """A task: which models solve it and how their data is prepared."""

    name: str
    noun: str  # "a classifier"
    usage: str  # "use `satchel classify`"
    data: str  # training data: "a table with labels and texts"
    kinds: tuple[str, ...]  # supported values of model.kind
    default_kind: str
    unsupported: str  # follows "model.kind=dan" in the error message for other kinds
    write_examples: Callable[[durable.NewFolder, Corpus, "Plan", Progress], Examples]
    network: "Callable[[], NetworkTask]"  # imports torch
    counting: Counting | None = None
    # Choose defaults for the data and an existing tokenizer; skipped if a recipe is given.
    choose_defaults: Chooser = lambda choices, data, tokenizer: None
    # Choose the settings that the format of the data requires.
    choose_format: Chooser = lambda choices, data, tokenizer: None
    # Choose the settings that other settings require.
    choose_required: "Callable[[Choices], None]" = lambda choices: None

    def family(self, kind: str) -> "Counting | NetworkTask":
        """Return the implementation of a kind of model: n-grams or a network."""
        return self.counting if kind == "ngram" and self.counting else self.network()


Tasks: TypeAlias = Mapping[str, Task]


def find_task(tasks: Tasks, name: object, where: str = "") -> Task:
    """Return the task with this name."""
    for task in tasks.values():
        if task.name == name:
            return task
    raise SettingsError(f"task: found {name!r}, expected {', '.join(tasks)}", where=where)


def build_settings(tasks: Tasks, tree: config.Tree, where: str = "") -> RunSettings:
    """Return the settings of a tree; the task defaults to lm, the kind of model to ngram."""
    tree, _ = rename_settings(tree)
    task, model = find_task(tasks, tree.get("task", "lm"), where), tree.get("model")
    kind = model.get("kind", "ngram") if isinstance(model, dict) else "ngram"
    if kind not in (*KINDS, CUSTOM):
        raise SettingsError(f"model.kind: found {kind!r}, expected {', '.join(KINDS)}", where=where)
    if kind not in task.kinds:
        kinds = ", ".join(kind for kind in task.kinds if kind != CUSTOM)
        raise SettingsError(f"model.kind={kind} {task.unsupported}", f"use {kinds}", where=where)
    if isinstance(model, dict) and model.get("causal") is False and kind not in MASKED_KINDS:
        raise SettingsError(
            f"model.causal=false: a model of kind {kind} has no causal mask to remove",
            f"use {' or '.join(MASKED_KINDS)}",
            where=where,
        )
    return config.build(task.family(kind).settings, tree, where)


class Choices:
    """A settings tree that is completed step by step."""

    def __init__(self, tasks: Tasks, tree: config.Tree, where: str = "") -> None:
        self.tree, self.where = tree, where
        self.reasons: list[str] = []
        self.chosen: set[str] = set()  # keys that were not given by the user
        self.sizes: dict[str, int] = {}  # approximate numbers of characters of data, by name
        self._tasks = tasks

    @property
    def task(self) -> Task:
        """The task of the settings."""
        return find_task(self._tasks, self.tree["task"], self.where)

    def settings(self) -> RunSettings:
        """Return the validated settings."""
        return build_settings(self._tasks, self.tree, self.where)

    def group(self, name: str) -> config.Tree:
        """Return a group of settings; empty if it is missing or not a table, which validation reports later."""
        settings = self.tree.get(name, {})
        return settings if isinstance(settings, dict) else {}

    def is_set(self, key: str) -> bool:
        """Return whether a setting has been given or chosen, or its group cannot hold it."""
        group, name = key.split(".")
        return not isinstance(self.tree.get(group, {}), dict) or name in self.group(group)

    def choose(self, key: str, value: Any, reason: str) -> None:
        """Choose a value for a setting unless it is set."""
        if self.is_set(key):
            return
        self.give(key, value)
        self.chosen.add(key)
        self.reasons.append(f"{key}={value:g}: {reason}" if isinstance(value, float) else f"{key}={value}: {reason}")

    def give(self, key: str, value: Any) -> None:
        """Set a value as if the user had given it."""
        tree: config.Tree = {}
        config.place(tree, key, value)
        self.tree = config.merge(self.tree, tree)
