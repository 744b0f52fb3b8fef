"""Run folders of the previous version load, and give the numbers that the previous version gave."""

import contextlib
import io
import json
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

import satchel
from satchel.cli.main import run as run_command
from tests.compatibility.questions import DATA, EXPECTED, RUNS, command, differences, recorded_form
from tests.compatibility.tensor_files import machine_difference, renamed_digests, trained_digests

RECORDED: dict[str, Any] = json.loads(EXPECTED.read_text(encoding="utf-8"))
ANSWERS: dict[str, dict[str, Any]] = RECORDED["answers"]
EVALUATED = [name for name in ANSWERS if "evaluate RUN" in ANSWERS[name]]


def printed(*arguments: str) -> str:
    """Return the standard output of a command."""
    output, messages = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(messages):
        code = run_command(list(arguments))
    assert code == 0, messages.getvalue()
    return output.getvalue()


@pytest.mark.parametrize(("run", "line"), [(run, line) for run in ANSWERS for line in ANSWERS[run]])
def test_a_command_prints_the_numbers_of_the_previous_version(
    run: str, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(DATA)
    question = tuple(shlex.split(line))
    actual = recorded_form(question, printed(*command(question, run)))
    assert differences(ANSWERS[run][line], actual) == []


@pytest.mark.parametrize("run", EVALUATED)
def test_the_python_interface_gives_the_numbers_of_the_command_line(run: str) -> None:
    model: Any = satchel.load(RUNS / run)
    answers = ANSWERS[run]
    evaluation = answers["evaluate RUN"]
    measure = "nats_per_token" if evaluation["task"] in ("lm", "translate") else "accuracy"
    assert differences(evaluation[measure], getattr(model.evaluate(), measure)) == []
    for line, expected in answers.items():
        match shlex.split(line):
            case ["score", "RUN", text]:
                assert differences(expected["total_logprob"], model.score(text).total_logprob) == []
            case ["score", "RUN", source, "--target", target]:
                assert differences(expected["total_logprob"], model.score(source, target).total_logprob) == []
            case ["classify", "RUN", text]:
                prediction, (recorded,) = model.classify(text), expected["predictions"]
                assert prediction.label == recorded["label"]
                assert differences(recorded["probabilities"], prediction.probabilities) == []
            case ["tag", "RUN", text]:
                assert list(model.tag(text).tags) == expected["predictions"][0]["tags"]
            case ["translate", "RUN", text]:
                assert model.translate(text).target == expected["translations"][0]["target"]


@pytest.mark.parametrize("run", RECORDED["resumed"])
def test_a_resumed_training_ends_with_the_bits_of_the_previous_version(run: str, tmp_path: Path) -> None:
    if difference := machine_difference(RECORDED["machine"]):
        pytest.skip(f"the bits were recorded on another machine: {difference}")
    shutil.copytree(RUNS / run, tmp_path / run)
    printed("train", "--resume", str(tmp_path / run))
    assert trained_digests(tmp_path / run) == renamed_digests(RECORDED["resumed"][run])
