"""No module imports itself, directly or through others, counting the imports inside functions."""

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src"


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in SOURCE.rglob("*.py")}


def imports(node: ast.AST) -> Iterator[str]:
    """Return the modules of satchel imported below a node, except for type checking only."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names if alias.name in MODULES)
        elif isinstance(child, ast.ImportFrom) and child.module in MODULES:
            for alias in child.names:
                submodule = f"{child.module}.{alias.name}"
                yield submodule if submodule in MODULES else child.module
        yield from imports(child)


def top_level_imports(tree: ast.Module) -> set[str]:
    return set(imports(ast.Module([each for each in tree.body if isinstance(each, ast.Import | ast.ImportFrom)], [])))


def graph() -> dict[str, set[str]]:
    trees = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in MODULES.items()}
    # The root package holds the version only; its public names are imported on first use.
    return {name: set(imports(tree)) - {name, "satchel"} for name, tree in trees.items()}


def test_there_is_no_import_cycle_counting_imports_inside_functions() -> None:
    dependencies = graph()
    assert "satchel.training.jobs.language" in dependencies["satchel.api.tasks"]  # an import inside a function
    try:
        TopologicalSorter(dependencies).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_importing_api_imports_no_network_module() -> None:
    """The task table and the methods of models import them when they are needed."""
    top_level = {name: top_level_imports(ast.parse(path.read_text("utf-8"))) for name, path in MODULES.items()}
    reached, stack = set(), ["satchel.api"]
    while stack:
        name = stack.pop()
        if name not in reached:
            reached.add(name)
            stack += top_level[name]
    networks = ("satchel.models", "satchel.nn", "satchel.tasks", "satchel.training.jobs", "satchel.training.loop")
    assert sorted(name for name in reached if name.startswith(networks)) == []
