"""Running commands inside the test, and reading what they print."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from satchel.cli.main import run as run_command

Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    """Runs a command and returns its exit code, stdout and stderr."""

    def call(*arguments: object) -> tuple[int, str, str]:
        code = run_command([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def answer(cli: Cli, *arguments: object) -> dict[str, Any]:
    """Return the JSON a command prints."""
    code, printed, said = cli(*arguments, "--json")
    assert code == 0, said
    document: dict[str, Any] = json.loads(printed, parse_constant=lambda constant: pytest.fail(constant))
    assert document["schema_version"] == 1
    return document


def tree(folder: Path) -> list[str]:
    """Return everything below a folder, hidden or not."""
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))
