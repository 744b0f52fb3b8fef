"""A training started, watched and stopped in the workbench."""

import re
from pathlib import Path
from typing import Any

from playwright.sync_api import expect

from tests.web import client
from tests.web.workbench import Workbench, tab

SMALL_FIELDS = {"width": "16", "layers": "1", "heads": "2", "context": "16"}


def test_a_training_is_started_watched_stopped_and_can_be_resumed(browser: Any, tmp_path: Path) -> None:
    server = client.start(tmp_path, "--root", tmp_path / "runs")
    with tab(browser, server) as (page, log):
        bench = Workbench(page, server)
        bench.open("models")
        bench.text("No runs yet")
        page.get_by_role("button", name="Train a model").first.click()
        page.get_by_label("Data", exact=True).fill("@polysemy")
        page.get_by_label("Name of the run").fill("first")
        page.get_by_label("Model", exact=True).select_option("transformer")
        page.get_by_label("Minutes").fill("5")
        page.get_by_text("model", exact=True).click()
        for name, value in SMALL_FIELDS.items():
            page.get_by_label(re.compile(rf"^{name}\b")).fill(value)
        expect(page.get_by_role("row", name="parameters")).to_be_visible()
        expect(page.get_by_text(re.compile(r"satchel train .*--dry-run.* @polysemy"))).to_be_visible()
        page.get_by_role("button", name="Start training").click()

        expect(page.get_by_role("heading", name="Training: first")).to_be_visible()
        expect(page.get_by_role("img", name="Loss on held-out and training data")).to_be_visible()
        page.get_by_role("button", name="Stop and save").click()
        expect(page.get_by_role("heading", name="Stopped: first")).to_be_visible()
        row = page.get_by_role("row", name="Compare first")
        expect(row).to_contain_text("interrupted")
        page.get_by_role("button", name="Resume").click()
        expect(page.get_by_role("heading", name="Training: first")).to_be_visible()
        page.get_by_role("button", name="Stop and save").click()
        expect(page.get_by_role("heading", name="Stopped: first")).to_be_visible()

        row.get_by_role("button", name="Actions for first").click()
        page.get_by_role("menuitem", name="Delete").click()
        page.get_by_label("to confirm").fill("first")
        page.get_by_role("button", name="Delete", exact=True).click()
        expect(row).to_have_count(0)
        assert not (tmp_path / "runs" / "first").exists()
        assert log.problems == []
    server.stop()


def test_an_invalid_setting_is_reported_at_its_field(browser: Any, tmp_path: Path) -> None:
    server = client.start(tmp_path, "--root", tmp_path / "runs")
    with tab(browser, server) as (page, _):
        Workbench(page, server).open("train")
        page.get_by_label("Data", exact=True).fill("@nothing")
        expect(page.get_by_text("there is no data @nothing")).to_be_visible()
    server.stop()
