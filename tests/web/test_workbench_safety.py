"""Text of users and models never becomes markup, and the pages are accessible."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.web import client
from tests.web.client import Server
from tests.web.workbench import Workbench, tab

ATTACKS = (
    "<script>window.attacked = 1</script>",
    "<img src=x onerror='window.attacked = 1'>",
    "<svg/onload=window.attacked=1>",
    '"><iframe srcdoc="<script>parent.attacked=1</script>">',
    "</textarea><a href='javascript:window.attacked=1'>x</a>",
    "${window.attacked=1} {{constructor.constructor('window.attacked=1')()}}",
    "‮evil\u200b\u2066",
)
ATTACK = " ".join(ATTACKS)
# Pages by the run that they show.
PAGES = {
    "write": "transformer",
    "attention": "transformer",
    "senses": "backpack",
    "senses/context": "backpack",
    "classify": "polysemy",
    "tag": "tagger",
    "translate": "translator",
    "tokens": "transformer",
    "training": "transformer",
    "edit": "backpack",
}
OTHERS = ("models", "train", "lessons/attention", "lessons/sense-selection", "compare")


# The elements that reach beyond the right edge and do not scroll themselves.
WIDE = """() => [...document.querySelectorAll('main *')]
    .filter((each) => each.getBoundingClientRect().right > innerWidth + 1 && !each.closest('.scroll'))
    .slice(0, 4).map((each) => each.outerHTML.slice(0, 120))"""


def settle(page: Page, path: str) -> None:
    """Wait until a page shows its result."""
    expect(page.locator(f"main.page-{path.partition('/')[0]} h1").first).to_be_attached()
    expect(page.locator(".skeleton")).to_have_count(0)


def is_harmless(page: Page) -> bool:
    """Return whether no attack has had an effect."""
    has_elements = page.evaluate("document.querySelectorAll('iframe, [onerror], [onload], a[href^=javascript]').length")
    return page.evaluate("window.attacked") is None and has_elements == 0


@pytest.mark.parametrize("path", [*PAGES, "nothing"])
def test_text_in_the_address_is_shown_as_text(workbench: Workbench, path: str) -> None:
    page = workbench.open(path, run=PAGES.get(path, ATTACK), text=ATTACK, text2=ATTACK, target=ATTACKS[0])
    settle(page, path)
    assert is_harmless(page)


def test_names_labels_and_settings_of_a_run_are_shown_as_text(browser: Any, root: Path, tmp_path: Path) -> None:
    """The texts of a run folder, which may have been made by another person."""
    runs = tmp_path / "runs"
    shutil.copytree(root / "runs" / "transformer", runs / "<img src=x onerror=attacked=1>")
    shutil.copytree(root / "runs" / "transformer", runs / "plain")
    samples = [{"step": 1, "text": ATTACK}]
    (runs / "plain" / "samples.jsonl").write_text("".join(json.dumps(each) + "\n" for each in samples))
    server = client.start(tmp_path / "server", "--root", runs)
    with tab(browser, server) as (page, log):
        bench = Workbench(page, server)
        bench.open("models")
        expect(page.get_by_role("button", name="<img src=x onerror=attacked=1>", exact=True)).to_be_visible()
        assert is_harmless(page)
        bench.open("training", run="plain")
        bench.text("<script>window.attacked = 1</script>")
        assert is_harmless(page)
        assert log.problems == []
    server.stop()


def test_saved_pictures_contain_text_only(workbench: Workbench) -> None:
    page = workbench.open("attention", run="transformer", text=ATTACKS[0], layer=0, head=0)
    expect(page.get_by_role("heading", name="Attention weights")).to_be_visible()
    for kind in ("SVG", "HTML"):
        with page.expect_download() as download:
            page.get_by_role("button", name=kind, exact=True).click()
        assert b"<script" not in download.value.path().read_bytes()


def test_the_content_policy_refuses_html_from_scripts(browser: Any, server: Server) -> None:
    attempt = "() => { try { document.body.innerHTML = '<b>x</b>'; } catch (error) { return error.name; } }"
    with tab(browser, server) as (page, log):
        assert Workbench(page, server).open("models").evaluate(attempt) == "TypeError"
        assert "TrustedHTML" in log.problems[0]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_pages_have_no_accessibility_violations(browser: Any, server: Server, theme: str) -> None:
    with tab(browser, server, color_scheme=theme) as (page, _):
        bench = Workbench(page, server)
        found = []
        for path in (*PAGES, *OTHERS):
            fields = {"runs": "transformer,lstm"} if path == "compare" else {}
            if path in PAGES:
                fields = {"run": PAGES[path], "text": "The cat sat on the mat", "at": "1"}
            bench.open(path, **fields)
            settle(page, path)
            result = Axe().run(page)
            found += [
                f"{path}: {each['id']} {each['nodes'][0]['html'][:120]}" for each in result.response["violations"]
            ]
        assert found == []


def test_pages_do_not_scroll_sideways_on_a_phone(browser: Any, server: Server) -> None:
    with tab(browser, server) as (page, _):
        page.set_viewport_size({"width": 390, "height": 844})
        bench = Workbench(page, server)
        wide = []
        for path in (*PAGES, *OTHERS):
            bench.open(path, run=PAGES.get(path, "transformer"), text="The cat sat on the mat", runs="transformer,lstm")
            settle(page, path)
            for _ in range(20):  # the layout may change while parts of the page arrive
                if page.evaluate("document.documentElement.scrollWidth <= innerWidth"):
                    break
                page.wait_for_timeout(100)
            else:
                wide.append((path, page.evaluate(WIDE)))
        assert wide == []
