"""The public functions have explicit, documented and typed signatures."""

import inspect
import pydoc
import subprocess
import sys
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import satchel
from satchel.errors import RunError

FUNCTIONS = ["compare", "load", "mix", "resume", "train"]
ROOT = Path(__file__).resolve().parents[2]


def function(name: str) -> Callable[..., Any]:
    return typing.cast(Callable[..., Any], getattr(satchel, name))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_option_is_a_named_parameter_with_a_type_and_a_description(name: str) -> None:
    signature = inspect.signature(function(name))
    assert signature.return_annotation not in (inspect.Signature.empty, Any)
    documentation = inspect.getdoc(function(name)) or ""
    for parameter in signature.parameters.values():
        assert parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY), parameter
        assert parameter.annotation is not parameter.empty, parameter
        assert f"\n    {parameter.name}: " in documentation, parameter
    assert "Returns:" in documentation


def test_help_shows_the_options_of_train() -> None:
    text = pydoc.plain(pydoc.render_doc(satchel.train))
    for option in ("minutes: float | None = None", "epochs: float | None = None", "force: bool = False"):
        assert option in text
    assert "The maximum training time of a network in minutes." in text


@pytest.mark.parametrize(
    ("name", "wrong", "right"),
    [
        ("train", "minute", "minutes"),
        ("train", "epoch", "epochs"),
        ("load", "tasks", "task"),
        ("mix", "forced", "force"),
    ],
)
def test_a_misspelled_option_is_corrected(name: str, wrong: str, right: str) -> None:
    message = rf"^{name}\(\) got an unexpected keyword argument '{wrong}'; did you mean '{right}'\?$"
    with pytest.raises(TypeError, match=message):
        function(name)("data", **{wrong: 1})


def test_an_option_unlike_all_others_lists_them() -> None:
    with pytest.raises(TypeError, match=r"'xyz'; expected run, task, model$"):
        function("load")("run", xyz=1)


def test_the_task_decides_the_class_for_type_checkers() -> None:
    classes = {"lm": "LanguageModel", "classify": "Classifier", "tag": "Tagger", "translate": "Translator"}
    for name in ("train", "load", "resume"):
        overloads = [inspect.signature(each) for each in typing.get_overloads(function(name))]
        results = {
            typing.get_args(each.parameters["task"].annotation): each.return_annotation.__name__
            for each in overloads
            if isinstance(each.return_annotation, type)
        }
        assert results == {(task,): kind for task, kind in classes.items()}, name
        assert len(overloads) == len(results) + 1, name  # without a task it is one of the four


@pytest.mark.slow
def test_mypy_infers_the_class_of_a_model(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import satchel\n"
        'reveal_type(satchel.train("my.txt", task="lm", minutes=1))\n'
        'reveal_type(satchel.load("run", task="classify"))\n'
        'reveal_type(satchel.load("run"))\n'
        'satchel.train("my.txt", minute=1)\n'
    )
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), str(program)]
    output = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False).stdout
    lines = [line.rsplit("note: ", 1)[-1].rsplit("error: ", 1)[-1] for line in output.splitlines()]
    assert 'Revealed type is "satchel.api.language.LanguageModel"' in lines[0]
    assert 'Revealed type is "satchel.api.classification.Classifier"' in lines[1]
    assert lines[2].count("satchel.api.") == 4
    assert 'No overload variant of "train" matches' in output


def test_importing_satchel_imports_neither_torch_nor_numpy() -> None:
    program = "import satchel, sys; satchel.__all__; print(sorted({'torch', 'numpy', 'pydantic'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_all_public_names_are_attributes() -> None:
    assert set(satchel.__all__) <= set(dir(satchel))
    for name in satchel.__all__:
        assert getattr(satchel, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'trains'"):
        satchel.trains  # noqa: B018


def test_a_run_for_another_task_is_not_loaded(verse: Path, tmp_path: Path) -> None:
    satchel.train(verse, model="ngram", tokenizer="char", out=tmp_path / "run")
    assert isinstance(satchel.load(tmp_path / "run", task="lm"), satchel.LanguageModel)
    with pytest.raises(RunError, match="is a language model, expected a classifier"):
        satchel.load(tmp_path / "run", task="classify")
    with pytest.raises(satchel.SatchelError, match="expected lm, tag, classify, translate"):
        satchel.load(tmp_path / "run", task="lms")  # type: ignore[call-overload]
