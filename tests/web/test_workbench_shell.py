"""Address, connection, keyboard and files of the workbench."""

import hashlib
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from satchel.web.static_files import FILES, FOLDER
from tests.web import client
from tests.web.client import Server
from tests.web.workbench import Workbench, tab

VENDOR = FOLDER / "vendor"
CONFIG = Path(__file__).parents[2] / "jsconfig.json"


# --- files ----------------------------------------------------------------------------------------------


def test_files_are_served_without_a_token_under_the_content_policy(server: Server) -> None:
    for path in FILES:
        reply = server.get(path, token=None)
        assert reply.status == 200, path
        assert "script-src 'self'" in reply.headers["content-security-policy"]
        assert reply.headers["content-type"] != "text/plain"
    assert server.get("/static/../app.py", token=None).status in (401, 404)


def test_vendored_files_are_those_of_the_packages() -> None:
    lines = (line.split("  ") for line in (VENDOR / "SHA256SUMS").read_text().splitlines())
    sums = {name: digest for digest, name in lines}
    scripts = {path.name for path in VENDOR.glob("*.js")}
    assert scripts <= set(sums)
    for name, expected in sums.items():
        assert hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() == expected
    for line in (VENDOR / "VERSIONS").read_text().splitlines():
        package = line.split()[0].removeprefix("@preact/")
        assert (VENDOR / f"{package}.LICENSE").is_file()


def test_no_script_writes_html_or_loads_from_another_host() -> None:
    for path in FOLDER.rglob("*.js"):
        if path.parent == VENDOR:
            continue
        source = path.read_text(encoding="utf-8")
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", source), (
            path
        )
        assert not re.search(r"https?://(?!www\.w3\.org/)", source), path


def test_types_of_the_scripts() -> None:
    tsc = shutil.which("tsc")
    if tsc is None:
        pytest.skip("the TypeScript compiler is not installed (npm install -g typescript)")
    result = subprocess.run([tsc, "--project", str(CONFIG)], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout


# --- address --------------------------------------------------------------------------------------------


def test_the_token_leaves_the_address_and_the_address_holds_the_view(workbench: Workbench) -> None:
    page = workbench.open("attention", run="transformer", text="The cat sat")
    expect(page.get_by_role("heading", name="Attention weights")).to_be_visible()
    assert workbench.server.token not in page.url
    page.get_by_role("link", name="Tokens").click()
    expect(page.get_by_role("heading", name="Tokens", exact=True)).to_be_visible()
    assert "#/tokens?run=transformer&text=The%20cat%20sat" in page.url
    page.go_back()
    expect(page.get_by_role("heading", name="Attention weights")).to_be_visible()
    page.go_forward()
    expect(page.get_by_role("heading", name="Tokens", exact=True)).to_be_visible()
    page.reload()
    expect(page.get_by_role("heading", name="Tokens", exact=True)).to_be_visible()


def test_damaged_fields_of_an_address_are_named(workbench: Workbench) -> None:
    page = workbench.open("tokens", run="transformer", text="The cat", layer="x", nonsense=1)
    workbench.text("Ignored in the address: layer, nonsense.")
    expect(page.get_by_role("heading", name="Tokens", exact=True)).to_be_visible()


def test_an_unknown_page_and_an_unknown_run(workbench: Workbench) -> None:
    workbench.open("nothing")
    workbench.text("There is no such page")
    workbench.open("write", run="nothing")
    workbench.text("There is no run nothing")


def test_a_long_text_is_kept_out_of_the_address(workbench: Workbench) -> None:
    page = workbench.open("tokens", run="ngram", text="The cat")
    page.get_by_role("button", name="Edit text").click()
    page.get_by_role("textbox", name="Text").fill("The cat sat. " * 400)
    page.keyboard.press("Control+Enter")
    expect(page).to_have_url(re.compile(r"text\.doc=[0-9a-f]{16}$"))
    page.wait_for_timeout(500)  # until the text is stored
    page.reload()
    expect(page.locator(".strip-text")).to_contain_text("The cat sat. The cat sat.")


# --- connection -----------------------------------------------------------------------------------------


def test_the_page_reconnects_and_asks_for_a_new_token(browser: Any, root: Path, tmp_path: Path) -> None:
    first = client.start(tmp_path / "a", "--root", root / "runs")
    with tab(browser, first) as (page, _):
        bench = Workbench(page, first)
        bench.open("models")
        first.stop()
        page.get_by_role("link", name="Lessons").click()
        bench.text("No answer from")
        again = client.start(tmp_path / "b", "--root", root / "runs", port=first.port)
        expect(page.get_by_text("No answer from")).to_have_count(0)
        bench.text("16 worked examples")
        again.stop()

        other = client.start(tmp_path / "c", "--root", root / "runs", port=first.port, token="another-token-0123456789")
        page.get_by_role("link", name="Models").click()
        bench.text("The server does not accept the token of this page.")
        page.get_by_label("Address").fill(f"{other.url}/#token=another-token-0123456789")
        page.get_by_role("button", name="Connect").click()
        expect(page.get_by_text("The server does not accept")).to_have_count(0)
        other.stop()


# --- keyboard -------------------------------------------------------------------------------------------


def test_the_keyboard_selects_a_token_and_changes_the_view(workbench: Workbench) -> None:
    page = workbench.open("write", run="backpack", text="The cat sat")
    expect(page.get_by_role("option").first).to_be_visible()
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("g")
    page.keyboard.press("a")
    expect(page.get_by_role("list", name="Largest weights")).to_be_visible()
    page.keyboard.press("g")
    page.keyboard.press("s")
    expect(page.get_by_role("heading", name=re.compile("^Senses of"))).to_be_visible()


def test_go_to_finds_runs_views_and_lessons(workbench: Workbench) -> None:
    page = workbench.open("tokens", run="transformer", text="The cat sat")
    expect(page.get_by_role("heading", name="Tokens", exact=True)).to_be_visible()
    page.keyboard.press("/")
    page.get_by_role("combobox", name="Go to").fill("causal mask")
    expect(page.get_by_role("option", name="Causal masking")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Causal masking")).to_be_visible()


def test_single_keys_can_be_switched_off(workbench: Workbench) -> None:
    page = workbench.open("models")
    page.keyboard.press("?")
    page.get_by_label("Use single-letter keys").uncheck()
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("l")
    expect(page.get_by_role("heading", name="Models")).to_be_visible()


def test_the_theme_is_kept(workbench: Workbench) -> None:
    page = workbench.open("models")
    page.get_by_role("button", name="Theme").click()
    assert page.evaluate("document.documentElement.style.colorScheme") == "dark"
    page.reload()
    expect(page.get_by_role("heading", name="Models")).to_be_visible()
    assert page.evaluate("document.documentElement.style.colorScheme") == "dark"


def test_the_command_of_a_view_is_shown(workbench: Workbench) -> None:
    page = workbench.open("tokens", run="transformer", text="The cat sat")
    workbench.text("satchel tokenize --json runs/transformer 'The cat sat'")
    page.get_by_role("radio", name="Python").click()
    workbench.text("model = satchel.load('runs/transformer')")
