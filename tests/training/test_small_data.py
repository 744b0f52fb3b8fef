"""Texts and tables of a few characters train, or the error states what is missing; large vocabularies are limited."""

import contextlib
import math
from pathlib import Path
from typing import Any

import pytest

from satchel import api
from satchel.cli.main import run as run_command
from satchel.errors import SatchelError
from satchel.evaluation.baselines import better_baseline
from satchel.text.tokenizer import TokenizerSettings
from satchel.training.defaults import NETWORK_WORDS

TEXT = "hello world, this is a short text.\nIt has lines; é and 漢字 too. Twelve and more words follow here, the end."
TINY: dict[str, Any] = {"model.width": 8, "training.batch_tokens": 64}


@pytest.mark.parametrize("length", [1, 2, 3, 4, 9, 10, 25, 60, 99, 100, 101])
def test_any_text_trains_with_default_settings(tmp_path: Path, length: int) -> None:
    path = tmp_path / "x.txt"
    path.write_text(TEXT[:length])
    model = api.train(path, steps=1, out=tmp_path / "run")
    assert model.report is not None
    assert model.report.steps == 1
    for view in ("surprise", "attention"):
        for text in ("", "\n"):
            assert run_command(["look", view, str(tmp_path / "run"), text]) in (0, 2)


@pytest.mark.parametrize("kind", ["ngram", "dan", "window", "rnn", "gru", "lstm", "transformer", "backpack"])
@pytest.mark.parametrize("length", [1, 9, 60])
def test_short_texts_train_with_every_kind_of_model(tmp_path: Path, kind: str, length: int) -> None:
    path = tmp_path / "x.txt"
    path.write_text(TEXT[:length])
    for tokenizer, documents in (("char", "line"), ("word", "stream")):
        settings = {"data.documents": documents} if kind == "ngram" else {"data.documents": documents, "model.width": 8}
        steps = None if kind == "ngram" else 1
        model = api.train(
            path, model=kind, tokenizer=tokenizer, steps=steps, settings=settings, out=tmp_path / "r", force=True
        )
        assert isinstance(model, api.LanguageModel)
        assert math.isfinite(model.score(TEXT[:length]).total_logprob)


@pytest.mark.parametrize("text", ["", " ", "\n \t\n"])
def test_a_text_without_words_is_an_error_with_a_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    path = tmp_path / "x.txt"
    path.write_text(text)
    assert run_command(["train", str(path), "--tokenizer", "word", "--steps", "1", "-o", str(tmp_path / "run")]) == 2
    messages = capsys.readouterr().err
    assert "expected at least one" in messages
    assert "Traceback" not in messages


TABLES = {
    "label\ttext": [["a\tx y"], ["a\tx", "b\ty"], ["a\tx y", "b\tz", "a\t"], ["a\t", "b\t"], ["a\tx", "a\ty"], []],
    "tags\ttext": [["A B\tx y"], ["A\tx"], ["A B\tx y", "A\tz", "\t"], []],
    "source\ttarget": [["a b\tc d"], ["a\tb", "c\td"], ["a\ta", "a\ta", "\t"], []],
}


@pytest.mark.parametrize("header", TABLES)
def test_small_tables_train_or_state_what_is_missing(tmp_path: Path, header: str) -> None:
    kinds = {"label\ttext": ("ngram", "dan", "lstm", "backpack"), "tags\ttext": ("window", "transformer")}
    for rows in TABLES[header]:
        path = tmp_path / "x.tsv"
        path.write_text("".join(f"{line}\n" for line in (header, *rows)))
        for kind in kinds.get(header, ("gru", "transformer")):
            options: dict[str, Any] = {} if kind == "ngram" else {"steps": 1, "settings": TINY}
            with contextlib.suppress(SatchelError):
                api.train(path, model=kind, out=tmp_path / "run", force=True, **options)


def test_networks_keep_the_most_frequent_words_unless_a_size_is_set(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text("a b c " * 100)
    plan = api.plan(path, model="lstm", tokenizer="word")
    assert plan.settings.tokenizer.size == NETWORK_WORDS == 50_000
    assert any("tokenizer.size=50000" in reason for reason in plan.reasons)
    chosen = api.plan(path, model="lstm", settings={"tokenizer.kind": "word", "tokenizer.size": 70_000})
    assert chosen.settings.tokenizer == TokenizerSettings(kind="word", size=70_000)
    assert api.plan(path, model="ngram", tokenizer="word").settings.tokenizer.size is None


def test_the_vocabulary_of_a_network_is_limited(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text(" ".join(f"w{number}" for number in range(60_000)) + " the end" * 100)
    model = api.train(path, model="dan", tokenizer="word", steps=1, settings=TINY, out=tmp_path / "run")
    assert model.tokenizer.size == NETWORK_WORDS
    assert model.run.facts["counts"]["unknown"] > 5000


def test_a_better_baseline_is_stated_with_the_command_that_uses_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.txt"
    path.write_text("the cat sat on the mat. the dog sat on the log.\n" * 40)
    run = str(tmp_path / "run")
    assert run_command(["train", str(path), "--model", "lstm", "--steps", "2", "-o", run]) == 0
    (line,) = (line for line in capsys.readouterr().err.splitlines() if "the baseline is better" in line)
    commands = [command.strip().split() for command in line.split("; use: ")[1].split("; ")]
    assert [command[:2] for command in commands] == [["satchel", "train"], ["satchel", "mix"]]
    for command in commands:
        assert run_command(command[1:]) == 0, "the recommended commands work as printed"


def test_baselines_of_classifiers_are_compared_by_accuracy(tmp_path: Path) -> None:
    table = tmp_path / "x.tsv"
    rows = [("good" if number % 3 else "bad", "fine film" if number % 3 else "dull film") for number in range(90)]
    table.write_text("label\ttext\n" + "".join(f"{label}\t{text} {n}\n" for n, (label, text) in enumerate(rows)))
    model: Any = api.train(table, model="lstm", valid=0.3, steps=1, settings=TINY, out=tmp_path / "run")
    better = model.report.better_baseline
    assert better.baseline == "ngram"
    assert better.value == model.report.baseline.accuracy > better.model_value == model.report.valid.accuracy
    assert "--model ngram" in better.commands[0]
    assert better_baseline(model.report.baseline, model.report.valid) is None
