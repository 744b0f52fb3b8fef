"""Settings given by the user, and settings chosen for them, with the reasons."""

from typing import Any

from satchel import config
from satchel.training.settings import RunSettings
from satchel.training.task import Task, Tasks, build_settings, find_task


class Choices:
    """A settings tree that is completed step by step."""

    def __init__(self, tasks: Tasks, tree: config.Tree, where: str = "") -> None:
        self.tree, self.where = tree, where
        self.reasons: list[str] = []
        self.chosen: set[str] = set()  # keys that were not given by the user
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
