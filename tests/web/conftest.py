"""Runs and a server for the tests of the web package."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import sync_playwright

import satchel
from tests.cli.conftest import SMALL
from tests.conftest import VERSE
from tests.web import client
from tests.web.workbench import Workbench, tab


@pytest.fixture(scope="session")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of small runs: language models of several kinds, a classifier, a tagger and a translator."""
    folder = tmp_path_factory.mktemp("served")
    runs, data = folder / "runs", folder / "data"
    data.mkdir()
    text = data / "verse.txt"
    text.write_text(VERSE * 20, encoding="utf-8")
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
    table = data / "films.tsv"
    table.write_text("label\ttext\n" + "good\ta joy\nbad\ta waste\n" * 12, encoding="utf-8")
    satchel.train(table, model="ngram", tokenizer="word", valid=0.25, out=runs / "films")
    (data / "ratings.tsv").write_text("cat\tdog\t8\nmat\tlog\t3\nsat\tflat\t1\n", encoding="utf-8")
    generated: dict[str, Any] = {**settings, "data.size": 60}
    satchel.train("@counting", steps=2, settings=generated, out=runs / "tagger")
    satchel.train("@reverse", steps=2, settings=generated, out=runs / "translator")
    labels: dict[str, Any] = {"task": "classify", "model": "backpack", "steps": 2}
    satchel.train("@polysemy", settings={**generated, "model.senses": 3}, out=runs / "polysemy", **labels)
    return folder


@pytest.fixture(scope="session")
def server(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[client.Server]:
    """A server of these runs, which tests do not change."""
    running = client.start(root, "--root", root / "runs", "--data", root / "data")
    yield running
    assert running.stop() == 0


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A browser; tests that use it are skipped where there is none."""
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("chromium is not installed")
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture
def workbench(browser: Any, server: client.Server) -> Iterator[Workbench]:
    """The workbench in a new tab. At the end there were no errors and no requests to other hosts."""
    with tab(browser, server) as (page, log):
        yield Workbench(page, server)
        assert log.problems == []
