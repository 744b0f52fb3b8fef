"""Start-up, help, pipes and standard input of the `satchel` process."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from satchel.cli import main
from satchel.cli.look import VIEWS
from tests.cli.conftest import (
    Cli,
    process,
)

COMMANDS = [*(name.rstrip("_") for name in main.COMMANDS), "look"]


def imported(*arguments: object, cwd: Path) -> set[str]:
    """Return the packages that a command imports."""
    code = (
        "import sys, json\n"
        "from satchel.cli.main import run\n"
        "code = run(sys.argv[1:])\n"
        "print('\\n' + json.dumps([code, sorted({name.partition('.')[0] for name in sys.modules})]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True, check=True, cwd=cwd
    )
    exit_code, names = json.loads(done.stdout.splitlines()[-1])
    assert exit_code == 0, done.stderr
    return set(names)


def test_help_and_the_bare_package_do_not_import_heavy_packages(tmp_path: Path) -> None:
    assert not {"torch", "numpy", "tokenizers", "altair"} & imported("--help", cwd=tmp_path)
    code = "import sys, satchel; print({'torch', 'numpy', 'pydantic', 'typer', 'tokenizers'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"


def test_no_ngram_command_imports_torch(tmp_path: Path, verse: Path) -> None:
    for arguments in (
        ("train", verse, "--model", "ngram", "--tokenizer", "char", "--valid", "0.1", "-o", "run"),
        ("evaluate", "run", verse),
        ("score", "run", "The cat"),
        ("generate", "run", "The", "--tokens", 5),
        ("tokenize", "run", "The"),
        ("export", "run", "--to", "arpa", "-o", "run.arpa"),
        ("import", "run.arpa", "--tokenizer", "char", "-o", "again"),
        ("data", verse),
        ("info", "run"),
        ("info", "run", "--tensors"),
    ):
        assert "torch" not in imported(*arguments, cwd=tmp_path), arguments


@pytest.mark.slow
def test_help_is_printed_in_a_third_of_a_second() -> None:
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        assert process("--help").returncode == 0
        seconds.append(time.perf_counter() - start)
    # The fastest of several: other processes may slow down some of them.
    assert min(seconds) < 0.33


@pytest.mark.parametrize("command", [*([name] for name in COMMANDS), *(["look", view] for view in VIEWS)], ids=" ".join)
def test_every_command_has_help(
    command: list[str], cli: Cli, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    code, printed, _ = cli(*command, "--help")
    assert (code, f"Usage: satchel {' '.join(command)}" in printed) == (0, True)
    assert "\x1b" not in printed


def test_commands_and_views_are_listed(cli: Cli) -> None:
    for arguments, names in (((), COMMANDS), (("--help",), COMMANDS), (("look",), VIEWS)):
        code, printed, messages = cli(*arguments)
        assert (code, messages) == (0, "")
        assert all(re.search(rf"^│ {name} ", printed, re.MULTILINE) for name in names)
    assert cli("--version")[1].startswith("satchel 0.")


def test_a_dash_reads_standard_input(tmp_path: Path, verse: Path) -> None:
    text = verse.read_text()
    done = process(
        "train", "-", "--model", "ngram", "--tokenizer", "char", "-o", "run", "--json", cwd=tmp_path, input=text
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "stdin.txt").read_text() == text
    by_file, by_pipe = (
        json.loads(process("evaluate", "run", data, "--json", cwd=tmp_path, input=text).stdout) for data in (verse, "-")
    )
    assert by_file == by_pipe
    scored = json.loads(process("score", "run", "-", "--json", cwd=tmp_path, input="The cat").stdout)
    assert len(scored["tokens"]) == 7
    assert process("score", "run", "-", cwd=tmp_path, input="caf\udce9", errors="surrogateescape").returncode == 2


def test_a_closed_pipe_is_not_an_error(tmp_path: Path, verse: Path) -> None:
    process("train", verse, "--model", "ngram", "--tokenizer", "char", "-o", "run", cwd=tmp_path)
    command = f"{sys.executable} -m satchel generate run T --tokens 5000 --json; echo $? >&2"
    done = subprocess.run(
        ["bash", "-c", f"({command}) | head -c 10 > /dev/null"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=True,
    )
    assert done.stderr.splitlines()[-1] == "0"


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_pipe_closed_before_the_first_line_is_not_an_error(unbuffered: str, tmp_path: Path) -> None:
    command = f"({sys.executable} -m satchel lesson sense-selection; echo $? >&2) | true"
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, cwd=tmp_path, check=True, env=environment
    )
    assert done.stderr.split("\n")[-2] == "0"
    assert "Error" not in done.stderr


def test_control_characters_are_escaped_on_the_terminal(cli: Cli, ngram: Path) -> None:
    for arguments in (("score", ngram, "\x1b[31mred\u202e"), ("tokenize", ngram, "\x1b[31m\u202e")):
        assert "\x1b[31m" not in cli(*arguments)[1]
    assert "\x1b" not in cli("generate", ngram, "\x1b[2J", "--tokens", 1)[1]
    assert "\x1b" not in cli("train", "\x1b[31m.txt")[2]
