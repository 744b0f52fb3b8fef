"""`satchel lesson`: steps, questions and files of the lessons."""

import io
import subprocess
import sys
from pathlib import Path

import pytest

from satchel.lessons import LESSONS
from tests.cli.conftest import Cli, json_of

NAMES = [
    "counting", "dan", "rnn", "api", "attention", "self-attention", "encoder-decoder", "scaling", "heads", "block",
    "positions", "masking", "training-pairs", "classifier", "perplexity", "sense-selection",
]  # fmt: skip


def test_the_lessons_are_listed(cli: Cli) -> None:
    lessons = json_of(cli, "lesson")["lessons"]
    assert [lesson["name"] for lesson in lessons] == NAMES
    assert all(set(lesson) == {"name", "title", "source"} for lesson in lessons)
    code, printed, _ = cli("lesson")
    assert code == 0
    assert "That trick was sick" in " ".join(printed.split())


@pytest.mark.parametrize("name", NAMES)
def test_a_lesson_is_shown_step_by_step(name: str, cli: Cli) -> None:
    code, printed, messages = cli("lesson", name)
    assert code == 0
    assert printed.startswith(LESSONS[name].title)
    assert "settings (--set)" in messages
    assert "?" not in printed.split("\n")[3]
    result = json_of(cli, "lesson", name)
    assert result["name"] == name
    assert result["steps"][0]["title"]
    assert all(isinstance(step["matrices"], list) for step in result["steps"])


def test_settings_are_given_on_the_command_line(cli: Cli) -> None:
    code, printed, _ = cli("lesson", "attention", "--set", "q=0,10", "--set", "base=3")
    assert code == 0
    assert "0.9999" in printed
    assert cli("lesson", "perplexity", "--set", "probabilities=0.5")[0] == 0
    assert cli("lesson", "classifier", "--set", "positions=false")[0] == 0
    assert cli("lesson", "training-pairs", "--set", "text=one, two, three four five six")[0] == 0


def test_questions_are_asked_checked_and_answered(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("0 0 1 0\n9 9\n"))
    code, printed, _ = cli("lesson", "attention", "--ask")
    assert code == 0
    questions = printed[printed.index("1. Score each key") : printed.index("3. Output")]
    first, second = questions.split("2. Softmax")
    assert "? What is the score of each key?" in first
    assert "  correct." in first
    assert first.index("  correct.") < first.index("scores")
    assert "  not correct:" in second
    assert "1/6" in second
    # Without an answer, the rest of the lesson is printed.
    assert "How long must the query be?" in printed


@pytest.mark.parametrize("ending", [".html", ".svg", ".png", ".pdf", ".tex", ".ipynb"])
def test_a_lesson_is_written_to_a_file(ending: str, cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "there" / f"attention{ending}"
    code, printed, messages = cli("lesson", "attention", "--set", "q=0,10", "-o", path)
    assert (code, printed, messages) == (0, "", f"wrote {path}\n")
    if ending in (".html", ".svg"):
        assert "0.9999" in path.read_text(encoding="utf-8")
    if ending == ".tex":
        assert "\\frac{19683}{19684}" in path.read_text(encoding="utf-8")
    if ending == ".ipynb":
        assert "q = (0, 10)" in path.read_text(encoding="utf-8")
    assert path.stat().st_size > 1000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["lesson", "atention"], "there is no lesson atention"),
        (["lesson", "attention", "--set", "basis=3"], "unknown setting basis: did you mean base?"),
        (["lesson", "attention", "--set", "base=x"], "base: found"),
        (["lesson", "attention", "--set", "q"], "expected key=value"),
        (["lesson", "attention", "-o", "a.docx"], "expected .html, .svg, .png, .pdf, .tex, .ipynb"),
        # The file name is checked before the settings.
        (["lesson", "attention", "--set", "base=x", "-o", "a.docx"], "unsupported file extension '.docx'"),
        (["lesson", "attention", "-o", "a.html", "--ask"], "--ask asks in the terminal, -o writes them to a file"),
        (["lesson", "attention", "-o", "a.html", "--json"], "--json prints the steps, -o writes them to a file"),
        (["lesson", "-o", "a.html"], "for example satchel lesson attention -o a.html"),
        (["lesson", "attention", "--set", "base=x", "-o", "a.html"], "base: found"),
    ],
)
def test_invalid_input_is_reported_in_one_line(
    arguments: list[str], message: str, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, printed, error = cli(*arguments)
    assert (code, printed) == (2, "")
    assert message in error
    assert error.startswith("satchel: ")
    assert not list(Path().glob("a.*"))


@pytest.mark.parametrize("out", [[], *(["-o", f"a{ending}"] for ending in (".html", ".tex", ".ipynb"))])
def test_a_lesson_does_not_import_torch(out: list[str], tmp_path: Path) -> None:
    code = (
        f"import sys; from satchel.cli.main import run; code = run(['lesson', 'attention', *{out}]); "
        "sys.exit(code or 'torch' in sys.modules or 'numpy' in sys.modules or 'altair' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0
