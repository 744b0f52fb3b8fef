"""`satchel lesson`: steps, questions and files of the lessons."""

import io
import json
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
    code, printed, messages = cli("lesson", "attention", "--set", "q=0,10", "--set", "base=4")
    assert code == 0
    assert "base 4" in printed
    assert "settings (--set): sequence=AABA, q=0,10, base=4," in messages
    assert cli("lesson", "perplexity", "--set", "probabilities=0.5")[0] == 0
    assert cli("lesson", "classifier", "--set", "positions=False")[0] == 0
    assert "0.3333" not in cli("lesson", "perplexity", "--set", "probabilities=1/4,1/3")[1]
    assert cli("lesson", "training-pairs", "--set", "text=one, two, three four five six")[0] == 0


def answer(monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{line}\n" for line in lines)))


@pytest.mark.item(104)
def test_questions_are_asked_with_a_second_try_and_a_score(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, "0 0 1 0", "9 9", "8 8", "1", "0.5 each")
    code, printed, _ = cli("lesson", "attention", "--ask")
    assert code == 0
    first, second, third = (
        printed[printed.index(start) : printed.index(end)]
        for start, end in (("2. Score", "3. Softmax"), ("3. Softmax", "4. Output"), ("4. Output", "5. Comparison"))
    )
    assert "? What is the score of each key?" in first
    assert first.index("  correct.") < first.index("scores")
    assert second.index("not correct, try again") < second.index("  not correct:") < second.index("1/6")
    assert third.index("not correct, try again") < third.index("  correct.") < third.index("1/2")
    # At the end of the input, the rest of the lesson is printed.
    assert "How long must the query be?" in printed
    assert printed.endswith("score: 2 of 6 questions correct, 1 of them after the first try; 3 not answered\n")


def test_the_score_and_the_answers_are_printed_as_json(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, "0 0 1 0", "", "1", "1/2, 1/2")
    code, printed, messages = cli("lesson", "attention", "--ask", "--json")
    assert code == 0
    document = json.loads(printed)
    assert document["name"] == "attention"
    first, second, third, *others = document["questions"]
    assert first == {
        "step": 2,
        "question": "What is the score of each key?",
        "answers": ["0 0 1 0"],
        "correct": True,
        "expected": "0, 0, 1, 0",
    }
    assert (second["answers"], second["correct"]) == ([], False)
    assert (third["answers"], third["correct"]) == (["1", "1/2, 1/2"], True)
    assert all(question["answers"] == [] for question in others)
    assert document["score"] == {"questions": 6, "answered": 2, "correct": 2, "correct_at_first_try": 1}
    assert "? What is the score of each key?" in messages


def test_with_one_try_each_line_answers_one_question(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, "wrong", "1/6 1/6 1/2 1/6")
    document = json_of(cli, "lesson", "attention", "--ask", "--tries", "1")
    assert [question["correct"] for question in document["questions"][:2]] == [False, True]


@pytest.mark.parametrize("text", [b"", b"0 0 1 0", b"\xff\xfe\n\n", b"\x1b[31m\n"])
def test_answers_are_read_from_a_pipe(text: bytes) -> None:
    command = [sys.executable, "-m", "satchel", "lesson", "attention", "--ask", "--step", "2"]
    done = subprocess.run(command, input=text, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert b"score: " in done.stdout
    assert b"\x1b" not in done.stdout


def test_one_step_is_shown(cli: Cli) -> None:
    code, printed, _ = cli("lesson", "attention", "--step", "3")
    assert code == 0
    assert "\n3. Softmax\n" in printed
    assert "Score each key" not in printed
    document = json_of(cli, "lesson", "attention", "--step", "3")
    assert [step["number"] for step in document["steps"]] == [3]


@pytest.mark.parametrize("ending", [".html", ".svg", ".png", ".pdf", ".tex", ".ipynb"])
def test_one_step_is_written_to_a_file(ending: str, cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / f"step{ending}"
    assert cli("lesson", "attention", "--step", "3", "--set", "base=e", "-o", path)[0] == 0
    if ending in (".html", ".svg", ".tex", ".ipynb"):
        text = path.read_text(encoding="utf-8")
        assert "3. Softmax" in text
        assert "0.1749" in text
        assert "Score each key" not in text
    if ending == ".html":
        assert "satchel lesson attention --set sequence=AABA --set q=0,1 --set base=e --set sharp=10 --step 3" in text
    if ending == ".ipynb":
        assert '"steps[2]"' in text


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
        (["lesson", "attention", "--step", "9"], "step 9: the lesson attention has 8 steps"),
        (["lesson", "attention", "--step", "0"], "expected a number from 1 to 8"),
        (["lesson", "attention", "--step", "-1", "-o", "a.html"], "step -1: the lesson attention has 8 steps"),
        (["lesson", "attention", "--step", "1", "--ask"], "step 1 of the lesson attention has no question"),
        (["lesson", "--step", "2"], "--step needs the name of a lesson"),
        (["lesson", "--ask"], "--ask needs the name of a lesson"),
        (["lesson", "perplexity", "--set", "probabilities=1/4,x"], "a number can be written as 0.25, 1/4, 25%"),
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
