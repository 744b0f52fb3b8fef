"""Output of all commands with names that contain control characters; texts that are names of files."""

import ast
import json
import shutil
import unicodedata
from pathlib import Path

import pytest

from satchel.cli import main
from satchel.text.display import INVISIBLE
from tests.cli.conftest import Cli

# Sets the title of the terminal, switches colours, moves the cursor, reverses the direction, and breaks the line.
NAME = "my \x1b]0;title\x07 \x1b[31mred\x9b2J\u202e run\nsatchel: done\r"


def assert_escaped(*texts: str) -> None:
    for text in texts:
        characters = {each for each in text if unicodedata.category(each) in INVISIBLE} - {"\n"}
        assert not characters, (characters, text)
        assert "\nsatchel: done" not in text


def commands(folder: Path) -> list[list[object]]:
    """Return a command line for every command that prints the name of a run or of an output."""
    text, run = "the cat sat", folder / f"{NAME} transformer"
    backpack, ngram = folder / f"{NAME} backpack", folder / f"{NAME} ngram"
    tagger, translator = folder / f"{NAME} tagger", folder / f"{NAME} translator"
    return [
        ["info", run],
        ["info", ngram, "--tensors"],
        ["evaluate", run],
        ["evaluate", folder / "missing\x1b[31m"],
        ["score", ngram, text],
        ["tokenize", run, text],
        ["generate", ngram, "the", "--tokens", 3],
        ["generate", run, "the", "--tokens", 3],
        ["tag", tagger, "ab"],
        ["translate", translator, "abc"],
        ["classify", run, text],  # the wrong task
        ["senses", backpack, "cat"],
        ["similar", run, "cat"],
        ["compare", ngram, run, "--data", folder / f"{NAME}.txt"],
        ["compare", ngram, run, "--data", folder / f"{NAME}.txt", "-o", folder / f"{NAME}.md"],
        ["mix", ngram, run, "-o", folder / f"{NAME} mix"],
        ["score", folder / f"{NAME} mix", text],
        ["evaluate", folder / f"{NAME} mix"],
        ["data", folder / f"{NAME}.txt"],
        ["train", folder / f"{NAME}.txt", "--model", "ngram", "-o", folder / f"{NAME} new"],
        ["train", folder / f"{NAME}.txt", "--model", "ngram", "-o", folder / f"{NAME} new"],  # exists
        ["train", folder / f"{NAME}.txt", "--dry-run", "--tokenizer", ngram],
        ["train", "--resume", run],
        ["report", run, "-o", folder / f"{NAME}.html"],
        ["export", ngram, "--to", "arpa", "-o", folder / f"{NAME}.arpa"],
        ["import", folder / f"{NAME}.arpa", "-o", folder / f"{NAME} import"],
        ["lesson", "perplexity", "-o", folder / f"{NAME}.tex"],
        ["look", "attention", run, text],
        ["look", "attention", run, text, "-o", folder / f"{NAME}.svg"],
        ["look", "surprise", ngram, text],
        ["look", "training", run],
        ["look", NAME],
        [NAME],
        ["info", f"--{NAME}"],
    ]


@pytest.fixture
def named_runs(runs: dict[str, Path], verses: Path, tmp_path: Path) -> Path:
    """A folder with runs and a text whose names contain control characters."""
    for name, path in runs.items():
        shutil.copytree(path, tmp_path / f"{NAME} {name}")
    shutil.copy(verses, tmp_path / f"{NAME}.txt")
    return tmp_path


def test_no_command_prints_control_characters_of_names(cli: Cli, named_runs: Path) -> None:
    for arguments in commands(named_runs):
        code, printed, messages = cli(*arguments)
        assert code in (0, 2), (arguments, messages)
        assert printed or messages
        assert_escaped(printed, messages)
        if code == 0 and arguments[0] not in ("export", "import", "report") and "-o" not in arguments:
            code, printed, messages = cli(*arguments, "--json")
            assert_escaped(printed, messages)
            assert code == 2 or json.loads(printed)


def test_paths_in_hints_are_quoted_for_the_shell(cli: Cli, verse: Path, tmp_path: Path) -> None:
    out = tmp_path / "my run"
    code, _, messages = cli("train", verse, "--model", "ngram", "-o", out)
    assert (code, messages.splitlines()[-1]) == (0, f"next: satchel generate '{out}' --tokens 100")


def test_a_text_that_is_the_name_of_a_file_gets_a_hint(
    cli: Cli, ngram: Path, classifier: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a b.txt").write_text("some text", encoding="utf-8")
    assert "to read its rows, use --input 'a b.txt'" in cli("classify", classifier, "a b.txt")[2]
    Path("cat").mkdir()
    redirect = "use - and redirect it: - < 'a b.txt'"
    for command, hint in (("score", "--input 'a b.txt'"), ("tokenize", redirect), ("generate", redirect)):
        code, printed, messages = cli(command, ngram, "a b.txt")
        assert (code, "'a b.txt' is also the name of a file" in messages) == (0, True)
        assert hint in messages
        assert "note" not in printed
    assert "is also the name of a folder" in cli("score", ngram, "cat")[2]
    assert cli("score", ngram, "the cat")[2] == ""


def test_every_command_prints_with_the_function_that_escapes_control_characters() -> None:
    folder = Path(main.__file__).parent
    for path in folder.rglob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        is_called = any(isinstance(node, ast.Name) and node.id == "print" for node in nodes)
        imported = {name.name for node in nodes if isinstance(node, ast.ImportFrom) for name in node.names}
        assert not is_called or "print" in imported or path.name == "main.py", path
