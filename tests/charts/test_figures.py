"""Figures: all file formats, any width, no network access."""

import json
import re
import shutil
import struct
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from satchel import charts
from satchel.charts import figures
from satchel.charts.figures import Figure, pixels
from satchel.charts.palette import DARK, LIGHT, rgb
from satchel.errors import SettingsError
from satchel.lessons import LESSONS
from satchel.lessons.page import page as lesson_page
from tests.charts.charts import EVERY, HOSTILE, OF_WORDS, WORDS, maps, texts, weights


def width_of(svg: str) -> float:
    match = re.search(r'<svg[^>]* width="([0-9.]+)"', svg)
    assert match
    return float(match[1])


def test_the_file_extension_selects_the_format(tmp_path: Path) -> None:
    figure = EVERY["attention_map"]()
    starts = {
        ".svg": b"<svg",
        ".png": b"\x89PNG",
        ".pdf": b"%PDF",
        ".html": b"<!DOCTYPE html>",
        ".json": b"{",
        ".SVG": b"<svg",
    }
    for ending, start in starts.items():
        path = tmp_path / f"map{ending}"
        figure.save(str(path))
        assert path.read_bytes().startswith(start)
    spec = json.loads((tmp_path / "map.json").read_text(encoding="utf-8"))
    assert "vega-lite" in spec["$schema"]
    assert figure.chart.to_dict()["layer"]


@pytest.mark.parametrize("name", ["map.bmp", "map", "map.svgz"])
def test_an_unsupported_file_extension_raises_an_error_and_writes_nothing(tmp_path: Path, name: str) -> None:
    with pytest.raises(SettingsError, match=re.escape("expected .svg, .png, .pdf, .html, .json")):
        EVERY["cost_by_order"]().save(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_an_unknown_theme_raises_an_error(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="expected light, dark, slides"):
        EVERY["cost_by_order"]().save(tmp_path / "a.svg", theme="neon")


# --- width ---------------------------------------------------------------------------------------------


def test_widths_have_a_unit() -> None:
    assert pixels("3.3in") == pytest.approx(316.8)
    assert pixels("2.54 cm") == pytest.approx(96)
    assert pixels("600px") == pixels(600) == pixels("600") == 600
    assert pixels("72pt") == pixels("25.4mm") == pytest.approx(96)


@pytest.mark.parametrize("width", ["wide", "3.3 feet", "-4cm", "", "in", "0", "1px", "nan", "1e9", 1e9, float("inf")])
def test_an_invalid_width_raises_an_error(width: str | float) -> None:
    with pytest.raises(SettingsError, match="expected a width such as"):
        pixels(width)


@pytest.mark.parametrize(
    "name",
    "attention_maps head_lines heads_grid order_strip embedding_map comparison line_chart head_ablation".split(),
)
def test_a_figure_fits_the_column_of_a_paper(name: str) -> None:
    assert width_of(EVERY[name]().svg(width="3.3in")) == pytest.approx(316.8, abs=4)


@pytest.mark.parametrize("name", ["attention_map", "training_curves", "surprise_strip"])
def test_a_slide_has_the_given_width(name: str) -> None:
    assert width_of(EVERY[name]().svg(theme="slides", width="25cm")) == pytest.approx(25 / 2.54 * 96, abs=4)


def test_pdf_and_png_have_the_given_physical_width() -> None:
    figure = EVERY["cost_by_order"]()
    box = re.search(rb"MediaBox ?\[([^\]]*)\]", figure.pdf(width="3.3in"))
    assert box
    assert float(box[1].split()[2]) == pytest.approx(3.3 * 72, abs=3)
    png = figure.png(width="3.3in")
    across, _ = struct.unpack(">II", png[16:24])
    assert across == pytest.approx(2 * 316.8, abs=4)
    per_metre, _ = struct.unpack(">II", png[png.index(b"pHYs") + 4 :][:8])
    assert across / per_metre == pytest.approx(3.3 * 0.0254, rel=0.02)


def test_the_font_size_does_not_depend_on_the_width() -> None:
    sizes = [
        re.findall(r'font-size="([0-9.]+)px"', EVERY["cost_by_order"]().svg(width=width)) for width in (None, "3.3in")
    ]
    assert sorted(set(sizes[0])) == sorted(set(sizes[1]))


def test_a_width_that_is_too_small_for_the_labels_raises_an_error() -> None:
    with pytest.raises(SettingsError, match="too narrow"):
        EVERY["attention_map"]().svg(width=60)


# --- themes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["attention_map", "training_curves", "surprise_strip"])
def test_themes_differ_in_colours_and_sizes(name: str) -> None:
    light, dark, slides = (EVERY[name]().svg(theme) for theme in ("light", "dark", "slides"))
    assert len({light, dark, slides}) == 3
    assert f'fill="{DARK.paper}"' in dark
    largest = [max(map(float, re.findall(r'font-size="([0-9.]+)px"', svg))) for svg in (light, slides)]
    assert largest[1] > 1.4 * largest[0]


def test_zero_has_the_colour_of_the_background() -> None:
    figure = charts.attention_map(["a"], ["x", "y"], [[0.0, 1.0]])
    for theme, palette in (("light", LIGHT), ("dark", DARK)):
        assert f'h26v26h-26Z" fill="rgb{rgb(palette.paper)}"' in figure.svg(theme)


# --- pages ---------------------------------------------------------------------------------------------


class Tags(HTMLParser):
    """Tags and scripts of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1][0] == "script":
            self.scripts.append(data)


def shown_by(page: Tags) -> dict[str, Any]:
    """Return the specification inside a page."""
    name, spec, _ = json.loads(next(script for script in page.scripts if script.startswith("[")))
    assert name == "#figure"
    assert isinstance(spec, dict)
    return spec


def test_a_page_has_no_external_resources() -> None:
    figure = OF_WORDS["attention_maps"](HOSTILE)
    page = figure.html()
    tags = Tags(page)
    assert [tag for tag, _ in tags.tags].count("script") == 3  # the chart as JSON, the library and the call
    assert not [attributes for _, attributes in tags.tags if "src" in attributes or "href" in attributes]
    assert "cdn" not in page.lower()
    assert "@import" not in page
    policy = next(attributes for tag, attributes in tags.tags if tag == "meta" and "http-equiv" in attributes)
    assert "default-src 'none'" in str(policy["content"])
    assert shown_by(tags) == figure.spec()


@pytest.mark.parametrize("name", OF_WORDS)
def test_hostile_tokens_are_escaped_in_figures_and_pages(name: str) -> None:
    figure = OF_WORDS[name](HOSTILE)
    spec = figure.spec()
    part = figures.embedded(spec, "figure")
    assert [tag for tag, _ in Tags(part).tags] == ["form", "div", "script"]
    assert "<!--" not in part
    assert shown_by(Tags(part)) == spec
    part.encode()
    svg = figure.svg()
    shown = "".join(texts(svg))  # it is XML
    assert "\\u{202e}" in shown
    assert "\\x00" in shown
    assert not set(shown) & set("\x00\x1b\n\u2028\u202e\u2066\ud800")
    assert "<script" not in svg


def test_hostile_titles_are_escaped() -> None:
    figure = charts.attention_map(["a"], ["b"], [[1.0]], "</title><script>alert(1)</script>\u202e")
    page = figures.chart_page(figure.title, "")
    assert [tag for tag, _ in Tags(page).tags].count("script") == 2  # the library and the script that draws
    assert "alert(1)" in "".join(texts(figure.svg()))


def test_pages_have_selectors_if_there_is_a_choice() -> None:
    def bound(figure: Figure) -> dict[str, Any]:
        return {each["name"]: each["bind"]["options"] for each in figure.spec()["params"] if "bind" in each}

    assert bound(charts.attention_maps(WORDS, WORDS, maps(5))) == {
        "layer": ["mean over layers", "layer 0", "layer 1"],
        "head": ["mean over heads", "head 0", "head 1", "head 2"],
    }
    assert bound(charts.head_lines(WORDS, WORDS, maps(5))) == {
        "layer": ["layer 0", "layer 1"],
        "head": ["head 0", "head 1", "head 2"],
    }
    assert bound(charts.attention_maps(WORDS, WORDS, {(0, 0): weights(5, 5)})) == {}


# --- notebooks -----------------------------------------------------------------------------------------


def test_the_output_in_a_notebook_has_no_external_resources(monkeypatch: pytest.MonkeyPatch) -> None:
    figure = EVERY["attention_maps"]()
    bundle = figure._repr_mimebundle_()
    (live,) = [kind for kind in bundle if kind.startswith("application/vnd.vegalite.v")]
    assert bundle[live] == figure.spec()
    assert set(bundle) == {live, "image/svg+xml", "text/plain"}
    assert bundle["image/svg+xml"].startswith("<svg")
    assert bundle["text/plain"] == "<Figure: Attention weights>"
    assert "text/html" not in bundle
    addresses = set(re.findall(r"https?://[^\s\"']+", json.dumps(bundle)))
    assert {address.split("/")[2] for address in addresses} <= {
        "www.w3.org",
        "vega.github.io",
    }  # namespaces, not requests
    monkeypatch.setattr(figures, "LARGEST_SVG", 10)
    assert figure._repr_mimebundle_()["image/png"].startswith(b"\x89PNG")


# --- a real browser ------------------------------------------------------------------------------------

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
# Script that selects a layer and a head, then moves the pointer over the last cell.
DRIVER = """<script>
setTimeout(() => {
  [['layer 1', 0], ['head 2', 1]].forEach(([name, place]) => {
    const list = document.querySelectorAll('select')[place];
    list.selectedIndex = [...list.options].findIndex(option => option.text === name);
    list.dispatchEvent(new Event('change'));
  });
}, 1500);
setTimeout(() => {
  const cell = [...document.querySelectorAll('.layer_0_marks path')].pop();
  const {x, y} = cell.getBoundingClientRect();
  cell.dispatchEvent(new PointerEvent('pointermove', {bubbles: true, clientX: x + 2, clientY: y + 2}));
}, 2500);
</script>"""


def browse(page: str, folder: Path) -> tuple[str, list[str]]:
    """Return the page after its scripts have run, and the addresses that it requested."""
    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    (folder / "page.html").write_text(page, encoding="utf-8")
    quiet = "--disable-background-networking --disable-component-update --disable-sync --no-first-run --disable-gpu"
    done = subprocess.run(
        [
            CHROMIUM,
            "--headless",
            "--no-sandbox",
            *quiet.split(),
            "--proxy-server=127.0.0.1:9",  # no proxy answers here
            f"--user-data-dir={folder / 'profile'}",
            f"--log-net-log={folder / 'log.json'}",
            "--virtual-time-budget=6000",
            "--dump-dom",
            (folder / "page.html").as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    events = json.loads((folder / "log.json").read_text(encoding="utf-8"))["events"]
    # Requests of the browser itself have no initiator.
    requested = [
        event["params"]["url"]
        for event in events
        if event.get("params", {}).get("initiator", "not an origin") != "not an origin"
    ]
    return done.stdout, [address for address in requested if not address.startswith("file:")]


def test_a_page_works_in_a_browser_without_requests(tmp_path: Path) -> None:
    page = charts.attention_maps(HOSTILE, HOSTILE, maps(len(HOSTILE))).html()
    # Without the security policy, which would block requests.
    free = re.sub(r"<meta http-equiv[^>]*>", "", page, count=1)
    head, tail = free.rsplit("</body>", 1)
    shown, requested = browse(f"{head}{DRIVER}</body>{tail}", tmp_path)
    assert requested == []
    body = shown[shown.rindex("<body") :]
    assert "<svg" in body
    assert "layer 1, head 2" in body
    assert "&lt;/script&gt;" in body
    assert re.search(r'id="vg-tooltip-element"[^>]*visible.*>weight<', body)


INJECTED = """<script>document.body.append('script ran')</script>
<img src=x onerror="document.body.append('handler ran')">
<a id="link" href="javascript:document.body.append('link ran')">link</a>
<iframe srcdoc="<script>parent.document.body.append('frame ran')</script>"></iframe>"""


@pytest.mark.parametrize("kind", ["chart", "lesson"])
def test_the_security_policy_allows_only_the_scripts_of_the_page(kind: str, tmp_path: Path) -> None:
    if kind == "chart":
        page = charts.attention_map(["a", "b"], ["a", "b"], [[1.0, 0.0], [0.5, 0.5]]).html()
    else:
        page = lesson_page(LESSONS["attention"].run())
    policy = re.findall(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', page)
    assert len(policy) == 1
    assert all(part in policy[0] for part in ("default-src 'none'", "base-uri 'none'", "form-action 'none'"))
    assert "script-src 'unsafe-inline'" not in policy[0]
    head, tail = page.rsplit("<body>", 1)  # the library contains the text <body>, too
    shown, requested = browse(f"{head}<body>{INJECTED}{tail}", tmp_path)
    body = shown[shown.rindex("<body") :]
    assert requested == []
    # The code itself is in quotation marks; the text that it would add is not.
    assert not re.search(r"(?<!')(?:script|handler|link|frame) ran", body)
    assert "<svg" in body


def test_injected_code_runs_in_a_page_without_a_policy(tmp_path: Path) -> None:
    shown, _ = browse(f"<html><body>{INJECTED}</body></html>", tmp_path)
    assert re.search(r"(?<!')script ran", shown)
    assert re.search(r"(?<!')handler ran", shown)


def test_a_request_of_a_page_is_detected(tmp_path: Path) -> None:
    _, requested = browse('<img src="http://example.invalid/a.png">', tmp_path)
    assert requested == ["http://example.invalid/a.png"]
