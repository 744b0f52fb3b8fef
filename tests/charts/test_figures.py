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
from tests.charts.charts import EVERY, HOSTILE, OF_WORDS, WORDS, maps, texts, weights


def width_of(svg: str) -> float:
    match = re.search(r'<svg[^>]* width="([0-9.]+)"', svg)
    assert match
    return float(match[1])


def test_a_picture_saves_itself_by_the_ending_of_the_name(tmp_path: Path) -> None:
    picture = EVERY["attention_map"]()
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
        picture.save(str(path))
        assert path.read_bytes().startswith(start)
    spec = json.loads((tmp_path / "map.json").read_text(encoding="utf-8"))
    assert "vega-lite" in spec["$schema"]
    assert picture.chart.to_dict()["layer"]


@pytest.mark.parametrize("name", ["map.bmp", "map", "map.svgz"])
def test_an_unknown_ending_is_refused_before_anything_is_drawn(tmp_path: Path, name: str) -> None:
    with pytest.raises(SettingsError, match=re.escape("expected .svg, .png, .pdf, .html, .json")):
        EVERY["cost_by_order"]().save(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_an_unknown_theme_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="expected light, dark, slides"):
        EVERY["cost_by_order"]().save(tmp_path / "a.svg", theme="neon")


# --- width ---------------------------------------------------------------------------------------------


def test_widths_are_read_in_any_unit() -> None:
    assert pixels("3.3in") == pytest.approx(316.8)
    assert pixels("2.54 cm") == pytest.approx(96)
    assert pixels("600px") == pixels(600) == pixels("600") == 600
    assert pixels("72pt") == pixels("25.4mm") == pytest.approx(96)


@pytest.mark.parametrize("width", ["wide", "3.3 feet", "-4cm", "", "in", "0", "1px", "nan", "1e9", 1e9, float("inf")])
def test_a_width_that_is_none_is_refused(width: str | float) -> None:
    with pytest.raises(SettingsError, match="expected a width such as"):
        pixels(width)


@pytest.mark.parametrize(
    "name",
    "attention_maps head_lines heads_grid order_strip embedding_map comparison line_chart head_ablation".split(),
)
def test_a_picture_is_as_wide_as_a_column_of_a_paper(name: str) -> None:
    assert width_of(EVERY[name]().svg(width="3.3in")) == pytest.approx(316.8, abs=4)


@pytest.mark.parametrize("name", ["attention_map", "training_curves", "surprise_strip"])
def test_a_slide_is_as_wide_as_is_asked(name: str) -> None:
    assert width_of(EVERY[name]().svg(theme="slides", width="25cm")) == pytest.approx(25 / 2.54 * 96, abs=4)


def test_an_inch_on_paper_is_an_inch() -> None:
    picture = EVERY["cost_by_order"]()
    box = re.search(rb"MediaBox ?\[([^\]]*)\]", picture.pdf(width="3.3in"))
    assert box
    assert float(box[1].split()[2]) == pytest.approx(3.3 * 72, abs=3)
    png = picture.png(width="3.3in")
    across, _ = struct.unpack(">II", png[16:24])
    assert across == pytest.approx(2 * 316.8, abs=4)
    per_metre, _ = struct.unpack(">II", png[png.index(b"pHYs") + 4 :][:8])
    assert across / per_metre == pytest.approx(3.3 * 0.0254, rel=0.02)


def test_type_keeps_its_size_in_a_narrow_picture() -> None:
    sizes = [
        re.findall(r'font-size="([0-9.]+)px"', EVERY["cost_by_order"]().svg(width=width)) for width in (None, "3.3in")
    ]
    assert sorted(set(sizes[0])) == sorted(set(sizes[1]))


def test_a_picture_that_cannot_be_so_narrow_says_so() -> None:
    with pytest.raises(SettingsError, match="too narrow"):
        EVERY["attention_map"]().svg(width=60)


# --- themes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["attention_map", "training_curves", "surprise_strip"])
def test_themes_are_told_apart(name: str) -> None:
    light, dark, slides = (EVERY[name]().svg(theme) for theme in ("light", "dark", "slides"))
    assert len({light, dark, slides}) == 3
    assert f'fill="{DARK.paper}"' in dark
    largest = [max(map(float, re.findall(r'font-size="([0-9.]+)px"', svg))) for svg in (light, slides)]
    assert largest[1] > 1.4 * largest[0]


def test_zero_has_the_colour_of_the_background() -> None:
    picture = charts.attention_map(["a"], ["x", "y"], [[0.0, 1.0]])
    for theme, palette in (("light", LIGHT), ("dark", DARK)):
        assert f'h26v26h-26Z" fill="rgb{rgb(palette.paper)}"' in picture.svg(theme)


# --- pages ---------------------------------------------------------------------------------------------


class Tags(HTMLParser):
    """The tags of a page, and what is inside its scripts."""

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
    call = next(script for script in page.scripts if script.startswith("vegaEmbed("))
    spec, _ = json.JSONDecoder().raw_decode(call[call.index("{") :])
    assert isinstance(spec, dict)
    return spec


def test_a_page_holds_all_it_needs() -> None:
    picture = OF_WORDS["attention_maps"](HOSTILE)
    page = picture.html()
    found = Tags(page)
    assert [tag for tag, _ in found.tags].count("script") == 2
    assert not [attributes for _, attributes in found.tags if "src" in attributes or "href" in attributes]
    assert "cdn" not in page.lower()
    assert "@import" not in page
    policy = next(attributes for tag, attributes in found.tags if tag == "meta" and "http-equiv" in attributes)
    assert "default-src 'none'" in str(policy["content"])
    assert shown_by(found) == picture.spec()


@pytest.mark.parametrize("name", OF_WORDS)
def test_no_word_breaks_a_picture_or_gets_out_of_a_page(name: str) -> None:
    picture = OF_WORDS[name](HOSTILE)
    spec = picture.spec()
    part = figures.embedded(spec, "picture")
    assert [tag for tag, _ in Tags(part).tags] == ["form", "div", "script"]
    assert "<!--" not in part
    assert shown_by(Tags(part)) == spec
    part.encode()
    svg = picture.svg()
    shown = "".join(texts(svg))  # it is XML
    assert "\\u{202e}" in shown
    assert "\\x00" in shown
    assert not set(shown) & set("\x00\x1b\n\u2028\u202e\u2066\ud800")
    assert "<script" not in svg


def test_a_title_does_not_get_out_of_a_page_either() -> None:
    picture = charts.attention_map(["a"], ["b"], [[1.0]], "</title><script>alert(1)</script>\u202e")
    page = figures.chart_page(picture.title, "")
    assert [tag for tag, _ in Tags(page).tags].count("script") == 1
    assert "alert(1)" in "".join(texts(picture.svg()))


def test_pages_have_selectors_where_there_is_a_choice() -> None:
    def bound(picture: Figure) -> dict[str, Any]:
        return {each["name"]: each["bind"]["options"] for each in picture.spec()["params"] if "bind" in each}

    assert bound(charts.attention_maps(WORDS, WORDS, maps(5))) == {
        "layer": ["mean over layers", "layer 0", "layer 1"],
        "head": ["mean over heads", "head 0", "head 1", "head 2"],
    }
    assert bound(charts.head_lines(WORDS, WORDS, maps(5))) == {
        "layer": ["layer 0", "layer 1"],
        "head": ["all heads", "head 0", "head 1", "head 2"],
    }
    assert bound(charts.attention_maps(WORDS, WORDS, {(0, 0): weights(5, 5)})) == {}


# --- notebooks -----------------------------------------------------------------------------------------


def test_a_notebook_gets_a_picture_that_fetches_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    picture = EVERY["attention_maps"]()
    bundle = picture._repr_mimebundle_()
    (live,) = [kind for kind in bundle if kind.startswith("application/vnd.vegalite.v")]
    assert bundle[live] == picture.spec()
    assert set(bundle) == {live, "image/svg+xml", "text/plain"}
    assert bundle["image/svg+xml"].startswith("<svg")
    assert bundle["text/plain"] == "<Figure: Attention weights>"
    assert "text/html" not in bundle
    addresses = set(re.findall(r"https?://[^\s\"']+", json.dumps(bundle)))
    assert {address.split("/")[2] for address in addresses} <= {"www.w3.org", "vega.github.io"}  # names, not places
    monkeypatch.setattr(figures, "LARGEST_SVG", 10)
    assert picture._repr_mimebundle_()["image/png"].startswith(b"\x89PNG")


# --- a real browser ------------------------------------------------------------------------------------

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
# Chooses a layer and a head, then points at the last cell.
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
    """Return a page after its scripts have run, and the addresses it asked for."""
    if CHROMIUM is None:
        pytest.skip("there is no chromium to open a page with")
    (folder / "page.html").write_text(page, encoding="utf-8")
    quiet = "--disable-background-networking --disable-component-update --disable-sync --no-first-run --disable-gpu"
    done = subprocess.run(
        [
            CHROMIUM,
            "--headless",
            "--no-sandbox",
            *quiet.split(),
            "--proxy-server=127.0.0.1:9",  # nobody answers there
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
    # What the browser asks for on its own behalf has no page that began it.
    asked = [
        event["params"]["url"]
        for event in events
        if event.get("params", {}).get("initiator", "not an origin") != "not an origin"
    ]
    return done.stdout, [address for address in asked if not address.startswith("file:")]


def test_a_page_works_in_a_browser_and_asks_nobody_for_anything(tmp_path: Path) -> None:
    page = charts.attention_maps(HOSTILE, HOSTILE, maps(len(HOSTILE))).html()
    # Without the policy that would stop it.
    free = re.sub(r"<meta http-equiv[^>]*>", "", page, count=1)
    head, tail = free.rsplit("</body>", 1)
    shown, asked = browse(f"{head}{DRIVER}</body>{tail}", tmp_path)
    assert asked == []
    body = shown[shown.rindex("<body") :]
    assert "<svg" in body
    assert "layer 1, head 2" in body
    assert "&lt;/script&gt;" in body
    assert re.search(r'id="vg-tooltip-element"[^>]*visible.*>weight<', body)


def test_a_page_that_asks_would_be_found_out(tmp_path: Path) -> None:
    _, asked = browse('<img src="http://example.invalid/a.png">', tmp_path)
    assert asked == ["http://example.invalid/a.png"]
