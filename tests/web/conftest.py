"""Runs and a server for the tests of the web package."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import satchel
from tests.cli.conftest import SMALL
from tests.conftest import VERSE
from tests.web import client


@pytest.fixture(scope="session")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of small runs: language models of several kinds, a classifier, a tagger and a translator."""
    folder = tmp_path_factory.mktemp("served")
    text = folder / "verse.txt"
    text.write_text(VERSE * 20, encoding="utf-8")
    runs = folder / "runs"
    settings: dict[str, Any] = {**SMALL, "model.layers": 2, "model.context": 64}
    options = {"steps": 20, "valid": 0.1}
    satchel.train(text, model="ngram", tokenizer="bpe:300", valid=0.1, out=runs / "ngram")
    lm: dict[str, Any] = {**options, "tokenizer": runs / "ngram"}
    satchel.train(text, model="transformer", settings={**settings, "model.ngram": 0}, out=runs / "transformer", **lm)
    satchel.train(text, model="transformer", settings={**settings, "model.ngram": 3}, out=runs / "gated", **lm)
    satchel.train(
        text,
        model="lstm",
        settings={"model.width": 16, "training.threads": 1, "model.ngram": 0},
        out=runs / "lstm",
        **lm,
    )
    satchel.train(text, model="backpack", settings={**settings, "model.senses": 3}, out=runs / "backpack", **lm)
    table = folder / "films.tsv"
    table.write_text("label\ttext\n" + "good\ta joy\nbad\ta waste\n" * 12, encoding="utf-8")
    satchel.train(table, model="ngram", tokenizer="word", valid=0.25, out=runs / "films")
    satchel.train("@counting", steps=2, settings={**settings, "data.size": 60}, out=runs / "tagger")
    return folder


@pytest.fixture(scope="session")
def server(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[client.Server]:
    """A server of these runs, which tests do not change."""
    running = client.start(tmp_path_factory.mktemp("server"), "--root", root / "runs")
    yield running
    assert running.stop() == 0
