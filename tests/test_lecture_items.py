"""Every numbered item of the lectures is covered by at least one test marked with its number."""

import ast
from pathlib import Path

from satchel.lessons.items import ITEMS


def marked_items(path: Path) -> set[int]:
    """Return the numbers in the `@pytest.mark.item(...)` decorators of a test file."""
    decorators = [
        decorator
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
        for decorator in node.decorator_list
    ]
    return {
        argument.value
        for decorator in decorators
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.item"
        for argument in decorator.args
        if isinstance(argument, ast.Constant) and isinstance(argument.value, int)
    }


def test_every_item_is_covered_by_a_marked_test() -> None:
    covered = set[int]().union(*map(marked_items, Path(__file__).parent.rglob("test_*.py")))
    assert sorted(covered) == sorted(ITEMS)
