"""Run commands inside the test process or as a subprocess, and small trained runs of every kind."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import satchel
from satchel.cli.main import run as run_command
from tests.conftest import VERSE

Cli = Callable[..., tuple[int, str, str]]

SATCHEL = [sys.executable, "-m", "satchel"]
SMALL: dict[str, Any] = {"model.width": 16, "model.layers": 1, "model.heads": 2, "model.context": 32}
SMALL |= {"training.threads": 1}
TAG_OPTIONS = [
    *("--set=model.width=16", "--set=model.heads=2", "--set=model.layers=1", "--set=model.context=32"),
    *("--set=training.batch_tokens=128", "--set=training.learning_rate=0.02", "--set=training.precision=float32"),
    *("--threads", "1"),
]
PAIR_OPTIONS = [
    *("--set=model.width=32", "--set=model.heads=2", "--set=model.layers=1", "--set=model.context=48"),
    *("--set=training.batch_tokens=1024", "--set=training.learning_rate=3e-3", "--threads", "1"),
]
# Labelled texts for classifiers, dates for translators, and a text for views.
ROWS = [
    ("good", "a lovely film, warm and funny"),
    ("good", "warm, lovely, a joy to see"),
    ("good", "funny and full of joy"),
    ("good", "a joy, lovely and warm"),
    ("bad", "a dull and tired film"),
    ("bad", "tired, dull, a waste"),
    ("bad", "dull and a waste of time"),
]
SOURCES = ("5/3/21", "May 3, 2021", "the third of May, 2021")
TEXT = "the cat sat"


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    """Runs a command and returns its exit code, stdout and stderr."""

    def call(*arguments: object) -> tuple[int, str, str]:
        code = run_command([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def json_of(cli: Cli, *arguments: object) -> dict[str, Any]:
    """Return the JSON document that a command prints."""
    code, printed, messages = cli(*arguments, "--json")
    assert code == 0, messages
    document: dict[str, Any] = json.loads(printed, parse_constant=lambda constant: pytest.fail(constant))
    assert document["schema_version"] == 1
    return document


def train_ngram(cli: Cli, data: Path, out: Path, *options: object) -> Path:
    """Train an n-gram model and return its run folder."""
    code, _, messages = cli("train", data, "--model", "ngram", *options, "-o", out)
    assert code == 0, messages
    return out


def process(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command as a subprocess."""
    command = [*SATCHEL, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


def tree(folder: Path) -> list[str]:
    """Return the paths of all files and folders below a folder, including hidden ones."""
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


# --- runs made for each test -------------------------------------------------------------------------


@pytest.fixture
def ngram(cli: Cli, verse: Path, tmp_path: Path) -> Path:
    """An n-gram language model of characters."""
    return train_ngram(cli, verse, tmp_path / "runs" / "verse", "--tokenizer", "char", "--valid", "0.1")


@pytest.fixture
def orders(cli: Cli, verse: Path, tmp_path: Path) -> list[Path]:
    """Two n-gram models with the same tokenizer and different orders."""
    first = train_ngram(cli, verse, tmp_path / "order-2", "--tokenizer", "char", "--set", "model.order=2")
    return [first, train_ngram(cli, verse, tmp_path / "order-4", "--tokenizer", first, "--set", "model.order=4")]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table of labelled texts."""
    path = tmp_path / "films.tsv"
    path.write_text("label\ttext\n" + "".join(f"{label}\t{text}\n" for label, text in ROWS * 4), encoding="utf-8")
    return path


@pytest.fixture
def classifier(cli: Cli, table: Path, tmp_path: Path) -> Path:
    """An n-gram classifier."""
    return train_ngram(cli, table, tmp_path / "films", "--valid", "0.25", "--tokenizer", "word")


# --- runs made once: tests must not change them ------------------------------------------------------


@pytest.fixture(scope="session")
def verses(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small text."""
    path = tmp_path_factory.mktemp("verses") / "verse.txt"
    path.write_text(VERSE * 20, encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def backpack(verses: Path) -> Path:
    """A Backpack language model with a BPE tokenizer."""
    settings, out = {**SMALL, "model.senses": 3}, verses.parent / "backpack"
    satchel.train(verses, model="backpack", tokenizer="bpe:280", steps=60, settings=settings, out=out)
    return out


@pytest.fixture(scope="session")
def backpack_classifier(verses: Path) -> Path:
    """A Backpack classifier of praise and criticism."""
    settings = {**SMALL, "model.width": 32, "model.senses": 4, "data.size": 4000, "training.optimizer": "adamw"}
    out = verses.parent / "polarity"
    satchel.train("@polysemy", task="classify", model="backpack", epochs=30, seed=1, settings=settings, out=out)
    return out


@pytest.fixture(scope="session")
def tagger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tagger of words; its training data is beside it in words.tsv."""
    folder = tmp_path_factory.mktemp("tagger")
    rows = ["the cat sat\tD N V", "a dog ran\tD N V", "dogs ran\tN V", "sit\tV", "the dogs sat\tD N V"]
    (folder / "words.tsv").write_text("text\ttags\n" + "\n".join(rows * 12) + "\n")
    arguments = ["train", str(folder / "words.tsv"), "--steps", "60", *TAG_OPTIONS, "-o", str(folder / "run")]
    assert run_command(arguments) == 0
    return folder / "run"


@pytest.fixture(scope="session")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A translator of dates."""
    folder = tmp_path_factory.mktemp("dates") / "run"
    assert (
        run_command(["train", "@dates", "--set=data.size=400", "--steps", "40", *PAIR_OPTIONS, "-o", str(folder)]) == 0
    )
    return folder


@pytest.fixture(scope="session")
def runs(verses: Path) -> dict[str, Path]:
    """Runs of every task with two layers of two heads, by name."""
    folder = verses.parent / "views"
    settings = {**SMALL, "model.layers": 2, "training.evaluate_every": 3}
    options: dict[str, Any] = {"tokenizer": "word", "steps": 6, "valid": 0.1}
    satchel.train(verses, model="ngram", tokenizer="word", out=folder / "ngram", valid=0.1)
    satchel.train(verses, model="transformer", settings=settings, out=folder / "transformer", **options)
    senses = {**settings, "model.senses": 3}
    satchel.train(verses, model="backpack", settings=senses, out=folder / "backpack", **options)
    satchel.train("@counting", steps=2, settings={**settings, "data.size": 60}, out=folder / "tagger")
    pairs = {**settings, "data.size": 60, "model.context": 64}
    satchel.train("@reverse", steps=2, settings=pairs, out=folder / "translator")
    return {path.name: path for path in folder.iterdir()}


@pytest.fixture(scope="session")
def line_runs(verses: Path) -> Path:
    """A folder with a transformer, a Backpack and an n-gram model of the same lines, and a table of tags."""
    folder = verses.parent / "lines"
    settings = {**SMALL, "data.documents": "line"}
    for kind, changes in (("transformer", {}), ("backpack", {"model.senses": 3})):
        out = folder / kind
        satchel.train(verses, model=kind, tokenizer="bpe:280", steps=10, settings={**settings, **changes}, out=out)
    satchel.train(verses, model="ngram", out=folder / "ngram")
    lines = [line for line in VERSE.splitlines() if line] * 4
    rows = "".join(f"{line} {number}\t{' '.join('x' * len(line.split()))} n\n" for number, line in enumerate(lines))
    (folder / "tags.tsv").write_text(f"text\ttags\n{rows}", encoding="utf-8")
    return folder
