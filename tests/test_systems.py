"""Every numbered item of the lectures has a test that names it."""

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parent
ITEMS = range(1, 105)


def named(name: str) -> set[int]:
    """Return the items in the name of a test: item_5, items_5_and_7, items_5_to_9_and_12."""
    found = re.match(r"test_items?_((?:\d+|and|to|_)+)", name)
    if not found:
        return set()
    words = [word for word in found[1].split("_") if word]
    items: set[int] = set()
    for place, word in enumerate(words):
        if word.isdigit():
            items.add(int(word))
        elif word == "to" and place + 1 < len(words):
            items |= set(range(int(words[place - 1]), int(words[place + 1]) + 1))
    return items


def test_the_items_of_a_name_are_read() -> None:
    assert named("test_item_5_a_dan") == {5}
    assert named("test_items_5_7_and_9_things") == {5, 7, 9}
    assert named("test_items_15_to_18_and_20_a_query") == {15, 16, 17, 18, 20}
    assert named("test_other") == set()


def test_every_item_has_a_test() -> None:
    tested: set[int] = set()
    for path in TESTS.rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                tested |= named(node.name)
    assert not sorted(set(ITEMS) - tested)
