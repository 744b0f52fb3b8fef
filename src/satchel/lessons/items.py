"""The numbered items of the lectures: one claim, formula or worked example each, with the commands that show it."""

import tomllib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from satchel.errors import SettingsError
from satchel.lessons.steps import load_texts


@dataclass(frozen=True)
class StepReference:
    """A step of a lesson with default settings, and the command that prints it."""

    lesson: str
    step: int
    command: str


@dataclass(frozen=True)
class Item:
    """An item of the lectures: the steps and commands that show it, and the explanation of their output."""

    number: int
    title: str
    topic: str
    lecture: str
    steps: tuple[StepReference, ...]
    commands: tuple[str, ...]
    read: str

    @property
    def all_commands(self) -> list[str]:
        """The commands of the steps, then the other commands in the order in which they are to be run."""
        return [*(step.command for step in self.steps), *self.commands]

    def document(self) -> dict[str, Any]:
        """Return the keys of `lesson --items --json`."""
        return asdict(self)


def find_items(query: str | None) -> list[Item]:
    """Return all items, the item with a number, or the items that contain a text."""
    if query is None:
        return list(ITEMS.values())
    if query.isdecimal():
        selected = [ITEMS[int(query)]] if int(query) in ITEMS else []
    else:
        selected = [item for item in ITEMS.values() if query.casefold() in " ".join(_texts(item)).casefold()]
    if not selected:
        raise SettingsError(
            f"--items {query}: no item has this number or contains this text",
            f"expected a number from 1 to {len(ITEMS)} or a word, for example satchel lesson --items gradient",
        )
    return selected


def _texts(item: Item) -> Iterator[str]:
    yield from (item.title, item.topic, item.lecture, item.read, *item.all_commands)


def _reference(text: str) -> StepReference:
    """Return the step `lesson: beginning of the title`."""
    lesson, _, beginning = text.partition(": ")
    numbers = [number for number, title in enumerate(step_titles(lesson), start=1) if title.startswith(beginning)]
    return StepReference(lesson, numbers[0], f"satchel lesson {lesson} --step {numbers[0]}")


@cache
def step_titles(lesson: str) -> list[str]:
    """Return the titles of the steps of a lesson, which are in the order of its file of texts."""
    texts = load_texts(lesson)
    return [*texts["steps"], *([texts["training_result"]["title"]] if "training_result" in texts else [])]


def _items() -> Iterator[Item]:
    number = 0
    for topic in tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))["topics"]:
        for entry in topic["items"]:
            number += 1
            steps = tuple(map(_reference, entry.get("steps", ())))
            commands = tuple(entry.get("commands", ()))
            yield Item(number, entry["title"], topic["name"], topic["lecture"], steps, commands, entry["read"])


# By number, from 1.
ITEMS = {item.number: item for item in _items()}
