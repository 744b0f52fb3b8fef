"""The items of the lectures: every item has commands, and every command runs, with short trainings."""

import glob
import io
import re
import shlex
import subprocess
from itertools import chain
from pathlib import Path

import pytest

from satchel.cli.main import run
from satchel.lessons import LESSONS
from satchel.lessons.items import ITEMS, step_titles
from tests.cli.conftest import Cli, json_of

# Distinct commands in the order in which they are to be run.
COMMANDS = list(dict.fromkeys(command for item in ITEMS.values() for command in item.all_commands))
# Commands that need neither a trained model nor a long time.
CHEAP = [
    command
    for command in COMMANDS
    if command.startswith("satchel lesson") and "train=true" not in command and "-o " not in command
]
# The training of the models of a lesson has its own test.
OTHERS = [command for command in COMMANDS if command not in CHEAP and "train=true" not in command]


def shortened(command: str) -> str:
    """Return a command whose training takes two steps on little data."""
    if command.startswith("satchel train"):
        command = re.sub(r" --(minutes|epochs|steps) \S+", "", command).replace("@python-docs", "verse.txt")
        size = "" if re.search(r"train (?:@python|@ab|\w)", command) else " --set data.size=300"
        steps = "" if "--model ngram" in command else " --steps 2"
        return f"{command}{size}{steps}"
    return command.replace("--lengths 64,256,1024", "--lengths 16,32")


def test_every_item_has_a_command_and_an_explanation() -> None:
    assert list(ITEMS) == list(range(1, 105))
    for item in ITEMS.values():
        assert item.all_commands
        assert item.read.endswith(".")
        assert item.lecture


def test_the_steps_of_items_have_the_numbers_of_the_lessons() -> None:
    for name, lesson in LESSONS.items():
        # The titles of the file of texts are templates; their first word is the same.
        titles = [title.partition(" ")[0].partition("_")[0] for title in step_titles(name)]
        assert [step.title.partition(" ")[0].partition("_")[0] for step in lesson.run()] == titles
        covered = {number for number in lesson.items if any(step.lesson == name for step in ITEMS[number].steps)}
        assert set(lesson.items) - covered <= {104}


@pytest.mark.parametrize("number", [11, 43, 44, 45, 46, 47, 50, 52, 80, 86, 103])
def test_one_item_is_shown_with_its_commands_and_their_explanation(number: int, cli: Cli) -> None:
    code, printed, _ = cli("lesson", "--items", number)
    assert code == 0
    item = ITEMS[number]
    assert printed.startswith(f"{number}. {item.title}")
    assert all(command in printed for command in item.all_commands)
    assert " ".join(item.read.split()) in " ".join(printed.split())
    (document,) = json_of(cli, "lesson", "--items", number)["items"]
    assert document["number"] == number
    assert document["commands"] == list(item.commands)


def test_all_items_are_listed_by_lecture(cli: Cli) -> None:
    code, printed, _ = cli("lesson", "--items")
    assert code == 0
    assert all(f"{item.number:>5}  " in printed and item.topic in printed for item in ITEMS.values())
    assert "satchel look gradients" in printed
    assert len(json_of(cli, "lesson", "--items")["items"]) == 104


@pytest.mark.parametrize(
    ("word", "numbers"),
    [("gradient", {34, 47, 58, 77}), ("Swedish", {43}), ("decoder-only", {79, 103}), ("tied", {22, 80})],
)
def test_items_are_found_by_a_word(word: str, numbers: set[int], cli: Cli) -> None:
    assert {item["number"] for item in json_of(cli, "lesson", "--items", word)["items"]} == numbers


@pytest.mark.parametrize(
    "arguments",
    [["--items", "0"], ["--items", "105"], ["--items", "xyzzy"], ["--items", "--ask"], ["3", "--items", "-o", "a.svg"]],
)
def test_invalid_items_are_errors(arguments: list[str], cli: Cli) -> None:
    code, printed, error = cli("lesson", *arguments)
    assert (code, printed) == (2, "")
    assert error.startswith("satchel: ")


def test_the_lesson_commands_of_all_items_run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for command in CHEAP:
        monkeypatch.setattr("sys.stdin", io.StringIO())
        assert run(shlex.split(command)[1:]) == 0, command
    assert capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_other_commands_of_all_items_run_with_short_trainings(verse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(verse.parent)
    for command in map(shortened, OTHERS):
        if command.startswith("satchel "):
            # The shell expands patterns such as runs/families/*.
            arguments = chain.from_iterable(sorted(glob.glob(each)) or [each] for each in shlex.split(command)[1:])
            assert run(list(arguments)) == 0, command
        else:
            subprocess.run(command, shell=True, check=True)
