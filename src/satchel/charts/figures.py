"""A picture: one object that shows itself in a notebook and saves itself to any kind of file, without a network."""

import json
import re
import textwrap
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Any

import altair as alt

from satchel import durable
from satchel.charts.themes import Theme, theme_named
from satchel.errors import SettingsError

ENDINGS = (".svg", ".png", ".pdf", ".html", ".json")
PIXELS = {"px": 1.0, "in": 96.0, "cm": 96 / 2.54, "mm": 96 / 25.4, "pt": 96 / 72}
# Widths outside of these are a slip of the pen.
NARROWEST, WIDEST = 40.0, 20_000.0
# A notebook keeps what it shows: a larger SVG is shown as dots.
LARGEST_SVG = 2_000_000
# A browser moves through more than these characters more easily as dots than as shapes.
LARGEST_SHAPES = 400_000
# A letter of a title is about this wide, in its height.
LETTER = 0.72
# Of a title where no width is asked for, in pixels.
LONGEST_LINE = 640
# A map of no more rows is a table, whose words need their height however narrow it is.
FEW_ROWS = 12

Redraw = Callable[[float, float], alt.TopLevelMixin]


class Figure:
    """A chart, its looks, and the ways out of here.

    `redraw` makes the chart anew for other proportions: it takes how many times wider than usual it shall be, and
    the size of its type. Charts without it are stretched.
    """

    def __init__(self, chart: alt.TopLevelMixin, redraw: Redraw | None = None) -> None:
        self.chart = chart
        self._redraw = redraw

    def save(self, path: Path | str, theme: str = "light", width: str | float | None = None) -> None:
        """Write a .svg, .png, .pdf, .html or .json that needs no network to be seen."""
        path = Path(path)
        writers: dict[str, Callable[[], bytes]] = {
            ".svg": lambda: self.svg(theme, width).encode(),
            ".png": lambda: self.png(theme, width),
            ".pdf": lambda: self.pdf(theme, width),
            ".html": lambda: self.html(theme, width).encode(),
            ".json": lambda: _json(self.spec(theme, width)).encode(),
        }
        if path.suffix.lower() not in writers:
            raise SettingsError(f"found the ending {path.suffix!r}", f"expected {', '.join(ENDINGS)}", where=str(path))
        durable.write_file(path, writers[path.suffix.lower()]())

    def svg(self, theme: str = "light", width: str | float | None = None) -> str:
        """Return an SVG."""
        return _svg(_still(self.spec(theme, width)))

    def png(self, theme: str = "light", width: str | float | None = None) -> bytes:
        """Return a PNG, twice as fine as most screens."""
        import vl_convert

        # 0.75 of 192 dots in an inch of 72 points: 2 dots for a pixel, of which 96 make an inch.
        png: bytes = vl_convert.vegalite_to_png(_json(_still(self.spec(theme, width))), scale=0.75, ppi=192)
        return png

    def pdf(self, theme: str = "light", width: str | float | None = None) -> bytes:
        """Return a PDF."""
        import vl_convert

        # Paper is measured in points, and 72 of them are 96 pixels.
        def points(found: re.Match[str]) -> str:
            return f'{found[1]}="{float(found[2]) * 0.75}"'

        head, rest = self.svg(theme, width).split(">", 1)
        pdf: bytes = vl_convert.svg_to_pdf(re.sub(r'(?<= )(width|height)="([0-9.]+)"', points, head) + ">" + rest)
        return pdf

    def html(self, theme: str = "light", width: str | float | None = None) -> str:
        """Return a page that holds all it needs. It tells what is under the pointer, and may have selectors."""
        chosen = theme_named(theme)
        return page(self.title, embedded(self.spec(theme, width), "picture", is_dark=theme == "dark"), chosen)

    @property
    def title(self) -> str:
        """What the picture shows, in words."""
        return str(self.chart.to_dict().get("description", "a chart"))

    def spec(self, theme: str = "light", width: str | float | None = None) -> dict[str, Any]:
        """Return the Vega-Lite specification, with its data and its looks."""
        chosen = theme_named(theme)
        if width is None:
            return self._drawn(chosen, 1.0)
        return self._fitted(chosen, pixels(width))

    def _fitted(self, theme: Theme, target: float) -> dict[str, Any]:
        """Return the specification whose picture is about this many pixels wide.

        What stands beside a plot keeps its size, so the width of all of it is nearly a line over the plot's.
        """
        tried: list[tuple[float, float]] = []
        factor = 1.0
        for _ in range(5):
            spec = self._drawn(theme, factor, target)
            found = _width(_svg(_still(spec)))
            if abs(found - target) <= 1:
                return spec
            tried.append((factor, found))
            if len(tried) == 1:
                factor *= target / found
            else:
                (first, narrow), (second, wide) = tried[-2:]
                if wide == narrow:  # what is beside the plot is too wide by itself
                    break
                factor = second + (target - wide) * (second - first) / (wide - narrow)
            if factor <= 0.02:
                break
        best, found = min(tried, key=lambda each: abs(each[1] - target))
        if found > 1.05 * target:
            raise SettingsError(
                f"found a width of {target:.0f} px, too narrow for what stands beside this picture",
                f"expected at least {min(width for _, width in tried):.0f} px",
            )
        return self._drawn(theme, best, target)

    def _drawn(self, theme: Theme, factor: float, target: float | None = None) -> dict[str, Any]:
        """Return the specification of the picture `factor` times as wide, so that what is beside it leaves it room."""
        if self._redraw is not None:
            spec = self._redraw(factor * theme.plots, theme.size).to_dict()
        else:
            spec = self.chart.to_dict()
            rows = [parameter["value"] for parameter in spec.get("params", []) if parameter["name"] == "rows"]
            is_list = bool(rows) and len(rows[0]) <= FEW_ROWS
            _stretch(spec, factor, theme, 1.0 if is_list else factor)
        spec["config"] = theme.config(target)
        for parameter in spec.get("params", []):
            if parameter["name"] == "size":
                parameter["value"] = theme.size
        _wrap_title(spec, max(12, int((target or LONGEST_LINE * theme.plots) / (LETTER * (theme.size + 3)))))
        return spec

    def __repr__(self) -> str:
        return f"<Figure: {self.title}>"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        """Return the picture for a notebook: live where its page knows Vega-Lite, else still. Nothing is fetched."""
        del include, exclude
        spec = self.spec()
        version = alt.SCHEMA_VERSION.split(".")[0]
        bundle: dict[str, Any] = {"text/plain": repr(self), f"application/vnd.vegalite.{version}+json": spec}
        svg = _svg(_still(spec))
        if len(svg) <= LARGEST_SVG:
            bundle["image/svg+xml"] = svg
        else:
            bundle["image/png"] = self.png()
        return bundle


def pixels(width: str | float) -> float:
    """Return a width such as 3.3in, 12cm, 600px or 600 in pixels."""
    found = re.fullmatch(r"([0-9]+\.?[0-9]*|\.[0-9]+)\s*([a-z]*)", str(width).strip().lower())
    unit = found[2] or "px" if found else ""
    value = float(found[1]) * PIXELS[unit] if found and unit in PIXELS else 0.0
    if not NARROWEST <= value <= WIDEST:
        raise SettingsError(f"found the width {width}", "expected one such as 3.3in, 12cm or 600px (40 px to 20000 px)")
    return value


def embedded(spec: dict[str, Any], name: str, *, is_dark: bool = False) -> str:
    """Return the part of a page that shows a chart; `name` is its own on the page. `script` goes before it."""
    text = _json(spec)
    options = {
        "renderer": "canvas" if len(text) > LARGEST_SHAPES else "svg",
        "actions": {"export": True, "source": False, "compiled": False, "editor": False},
        "tooltip": {"theme": "dark" if is_dark else "light"},
        "bind": f"#{name}-choices",
        "downloadFileName": name,
    }
    # A token may be </script>, or begin a comment: no page sees a < in what it holds.
    call = f"vegaEmbed('#{name}', {text}, {_json(options)}).catch(console.error);".replace("<", "\\u003c")
    return (
        f'<form class="choices" id="{name}-choices" onsubmit="return false"></form>\n'
        f'<div id="{name}"></div>\n<script>{call}</script>\n'
    )


def script() -> str:
    """Return the program that draws charts on a page, as a part of that page."""
    import vl_convert

    bundle: str = vl_convert.javascript_bundle()  # type: ignore[call-arg]  # its types forget the default
    inert = bundle.replace("</script", "<\\/script")
    return f"<script>{inert}</script>\n"


def page(title: str, body: str, theme: Theme) -> str:
    """Return a page that asks nobody for anything."""
    # The browser, too, is told that nothing may be loaded.
    policy = (
        "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; img-src data: blob:"
    )
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>
:root {{ color-scheme: {"light" if theme.background == "#ffffff" else "dark"}; }}
body {{ margin: 1rem; background: {theme.background}; color: {theme.text}; font: {theme.size + 2}px sans-serif; }}
.choices {{ display: flex; flex-wrap: wrap; gap: 0.5rem 1.5rem; margin: 0 8px; }}
.choices label {{ display: flex; align-items: center; gap: 0.5rem; }}
.choices select, .choices input {{ font: inherit; }}
.vega-embed {{ max-width: 100%; overflow: auto; }}
#vg-tooltip-element {{ max-width: 28rem; overflow-wrap: anywhere; }}
</style>
{script()}</head>
<body>
<noscript>This chart is drawn by the program inside this file: allow scripts to see it.</noscript>
{body}</body>
</html>
"""


def _svg(spec: dict[str, Any]) -> str:
    import vl_convert

    svg: str = vl_convert.vegalite_to_svg(_json(spec))
    return svg


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _width(svg: str) -> float:
    found = re.search(r'<svg[^>]* width="([0-9.]+)"', svg)
    assert found is not None
    return float(found[1])


def _still(spec: dict[str, Any]) -> dict[str, Any]:
    """Return a specification without what only a pointer would bring up."""
    parts: dict[str, Any] = {key: value for key, value in spec.items() if key != "datasets"}
    still = _without_tooltips(parts)
    assert isinstance(still, dict)
    return {**still, "datasets": spec["datasets"]} if "datasets" in spec else still


def _without_tooltips(part: Any) -> Any:
    if isinstance(part, dict):
        return {key: _without_tooltips(value) for key, value in part.items() if key != "tooltip"}
    return [_without_tooltips(each) for each in part] if isinstance(part, list) else part


def _stretch(view: dict[str, Any], factor: float, theme: Theme, down: float) -> None:
    """Make a view `factor` times as wide. Plots keep their shape, lists their height; rows of maps grow by `down`."""
    is_map = isinstance(view.get("width"), dict)
    for side, by in (("width", factor), ("height", down if is_map else 1.0)):
        extent = view.get(side)
        if isinstance(extent, dict):
            view[side] = {"step": extent["step"] * theme.cells * by}
        elif isinstance(extent, int | float):
            view[side] = extent * theme.plots * factor


def _wrap_title(spec: dict[str, Any], letters: int) -> None:
    """Break the lines of a title that would be wider than the picture."""
    for parameter in spec.get("params", []):
        if parameter["name"] == "title":
            parameter["value"] = [line for text in parameter["value"] for line in textwrap.wrap(text, letters)]
    title = spec.get("title")
    if not isinstance(title, dict):
        return
    if isinstance(title.get("text"), str):
        title["text"] = textwrap.wrap(title["text"], letters) or [""]
    if isinstance(title.get("subtitle"), list):
        title["subtitle"] = [line for text in title["subtitle"] for line in textwrap.wrap(text, int(1.4 * letters))]
