"""Figures: one chart, shown in a notebook or saved as SVG, PNG, PDF, HTML or JSON, without network access."""

import contextlib
import gzip
import json
import re
import textwrap
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import altair as alt

from satchel import durable
from satchel.charts import html
from satchel.charts.renderer import RENDERER, RenderError
from satchel.charts.themes import THEMES, Theme, theme_named
from satchel.errors import SettingsError
from satchel.text.display import visible

PIXELS = {"px": 1.0, "in": 96.0, "cm": 96 / 2.54, "mm": 96 / 25.4, "pt": 96 / 72}
# Accepted widths of a figure, in pixels.
MIN_WIDTH, MAX_WIDTH = 40.0, 20_000.0
# Maximum size of an SVG in a notebook, in characters; larger figures are stored as PNG.
LARGEST_SVG = 2_000_000
# Size of a specification, in characters, above which a page draws on a canvas: large SVGs scroll slowly.
LARGEST_SVG_PAGE = 400_000
# Mean width of a character of a title, relative to its font size.
TITLE_CHARACTER = 0.72
# Minimum width at which titles are wrapped if no width of the figure is given, in pixels.
TITLE_WIDTH = 640

# Remedy if an image cannot be drawn.
NO_RENDERER = "write .html or .json instead, without a width: the browser draws these; or raise the memory limit"

# Script of a page that draws its charts, which are JSON arrays of the arguments of vegaEmbed.
DRAW_CHARTS = """
addEventListener('DOMContentLoaded', () => {
  for (const chart of document.querySelectorAll('script.chart'))
    vegaEmbed(...JSON.parse(chart.textContent)).catch(console.error);
  for (const form of document.forms) form.addEventListener('submit', event => event.preventDefault());
});
"""

# Returns the chart in a theme, with its plot stretched horizontally by a factor.
Draw = Callable[[Theme, float], alt.TopLevelMixin]


class Figure:
    """A chart with a title, and notes below the title.

    `draw` builds the chart for a theme and a stretch factor. `selection` is a Vega expression for a second line of the
    title, which states the selected part of a chart with selectors.
    """

    def __init__(self, draw: Draw, title: str, notes: Sequence[str] = (), selection: str | None = None) -> None:
        self.title = visible(title)
        self._draw = draw
        self._notes = [visible(note) for note in notes if note]
        self._selection = selection

    def with_notes(self, notes: Iterable[str]) -> "Figure":
        """Return the figure with further notes."""
        return Figure(self._draw, self.title, [*self._notes, *notes], self._selection)

    @property
    def chart(self) -> alt.TopLevelMixin:
        """The Altair chart, without title and theme."""
        return self._draw(THEMES["light"], 1.0)

    def save(self, path: Path | str, theme: str = "light", width: str | float | None = None) -> None:
        """Write a .svg, .png, .pdf, .html or .json file."""
        path = Path(path)
        writers: dict[str, Callable[[str, str | float | None], str | bytes]] = {
            ".svg": self.svg,
            ".png": self.png,
            ".pdf": self.pdf,
            ".html": self.html,
            ".json": lambda theme, width: _json(self.spec(theme, width)),
        }
        write = writers.get(path.suffix.lower())
        if write is None:
            remedy = f"expected {', '.join(writers)}"
            raise SettingsError(f"unsupported file extension {path.suffix!r}", remedy, where=str(path))
        try:
            content = write(theme, width)
        except RenderError as error:
            raise RenderError(error.cause, error.remedy, where=str(path)) from None
        durable.write_file(path, content.encode() if isinstance(content, str) else content)

    def svg(self, theme: str = "light", width: str | float | None = None) -> str:
        """Return the figure as SVG."""
        return _svg(self.spec(theme, width))

    def png(self, theme: str = "light", width: str | float | None = None) -> bytes:
        """Return the figure as PNG, with two dots per pixel."""
        # vl_convert assumes 72 ppi: a scale of 0.75 at 192 ppi gives two dots per pixel of 1/96 inch.
        return _rendered("PNG", "vegalite_to_png", _json(self.spec(theme, width)), scale=0.75, ppi=192)

    def pdf(self, theme: str = "light", width: str | float | None = None) -> bytes:
        """Return the figure as PDF."""

        def points(size: re.Match[str]) -> str:
            return f'{size[1]}="{float(size[2]) * PIXELS["px"] / PIXELS["pt"]}"'

        head, rest = _svg(self.spec(theme, width), "PDF").split(">", 1)
        svg = re.sub(r'(?<= )(width|height)="([0-9.]+)"', points, head) + ">" + rest
        return _rendered("PDF", "svg_to_pdf", svg)

    def html(self, theme: str = "light", width: str | float | None = None) -> str:
        """Return the figure as a self-contained page, with tooltips and selectors."""
        is_dark = theme == "dark"
        body = embedded(self.spec(theme, width), "figure", is_dark=is_dark)
        return chart_page(self.title, body, is_dark=is_dark)

    def spec(self, theme: str = "light", width: str | float | None = None) -> dict[str, Any]:
        """Return the Vega-Lite specification, including data and theme."""
        if width is None:
            return self._themed(theme_named(theme), 1.0)
        return self._fitted(theme_named(theme), pixels(width))

    def _fitted(self, theme: Theme, target: float) -> dict[str, Any]:
        """Return the specification of a figure about `target` pixels wide.

        Labels keep their size, so the total width is nearly linear in the stretch factor: secant method.
        """
        tried, factor = [(0.0, 0.0)], 1.0
        for _ in range(5):
            spec = self._themed(theme, factor, target)
            total = float(re.findall(r'<svg[^>]* width="([0-9.]+)"', _svg(spec, f"a figure {target:.0f} px wide"))[0])
            if abs(total - target) <= 1:
                return spec
            previous, previous_total = tried[-1]
            tried.append((factor, total))
            slope = (total - previous_total) / (factor - previous)
            # A slope of zero: the labels alone are wider than the target.
            factor += (target - total) / slope if slope else -factor
            if factor <= 0.02:
                break
        best, total = min(tried[1:], key=lambda each: abs(each[1] - target))
        if total > 1.05 * target:
            raise SettingsError(
                f"a width of {target:.0f} px is too narrow for the labels of this figure",
                f"expected at least {min(total for _, total in tried[1:]):.0f} px",
            )
        return self._themed(theme, best, target)

    def _themed(self, theme: Theme, factor: float, width: float | None = None) -> dict[str, Any]:
        """Return the specification with title and theme; `width` is the intended width of the figure."""
        spec: dict[str, Any] = self._draw(theme, factor).to_dict()
        plot = spec["width"] if isinstance(spec.get("width"), int | float) else 0
        room = (width or max(plot, TITLE_WIDTH * theme.plot_scale)) / TITLE_CHARACTER
        title: Any = textwrap.wrap(self.title, max(12, int(room / (theme.font_size + 3)))) or [""]
        if self._selection is not None:
            title = {"expr": f"split({json.dumps('|'.join(title))} + '|' + {self._selection}, '|')"}
        notes = [line for note in self._notes for line in textwrap.wrap(note, max(16, int(room / theme.font_size)))]
        return {
            **spec,
            "title": {"text": title, **({"subtitle": notes} if notes else {})},
            "description": self.title,
            "config": theme.config(width),
        }

    def __repr__(self) -> str:
        return f"<Figure: {self.title}>"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        """Return Vega-Lite for notebooks that render it, and an image for all others."""
        spec = self.spec()
        version = alt.SCHEMA_VERSION.split(".")[0]
        bundle: dict[str, Any] = {"text/plain": repr(self), f"application/vnd.vegalite.{version}+json": spec}
        # Without a renderer, notebooks that render Vega-Lite still show the chart.
        with contextlib.suppress(RenderError):
            svg = _svg(spec)
            bundle |= {"image/svg+xml": svg} if len(svg) <= LARGEST_SVG else {"image/png": self.png()}
        return bundle


def pixels(width: str | float) -> float:
    """Return a width such as 3.3in, 12cm, 600px or 600 in pixels."""
    match = re.fullmatch(r"([0-9]+\.?[0-9]*|\.[0-9]+)\s*([a-z]*)", str(width).strip().lower())
    unit = match[2] or "px" if match else ""
    value = float(match[1]) * PIXELS[unit] if match and unit in PIXELS else 0.0
    if not MIN_WIDTH <= value <= MAX_WIDTH:
        raise SettingsError(
            f"invalid figure width {width}", "expected a width such as 3.3in, 12cm or 600px, from 40 px to 20000 px"
        )
    return value


def embedded(spec: dict[str, Any], name: str, *, is_dark: bool = False) -> str:
    """Return the part of a page that shows a chart; `name` is unique on the page."""
    text = _json(spec)
    options = {
        "renderer": "canvas" if len(text) > LARGEST_SVG_PAGE else "svg",
        "actions": {"export": True, "source": False, "compiled": False, "editor": False},
        "tooltip": {"theme": "dark" if is_dark else "light"},
        "bind": f"#{name}-choices",
        "downloadFileName": name,
    }
    # A token may contain </script> or <!--: no < occurs inside the element.
    data = f'["#{name}",{text},{_json(options)}]'.replace("<", "\\u003c")
    return (
        f'<form class="choices" id="{name}-choices"></form>\n'
        f'<div id="{name}"></div>\n<script type="application/json" class="chart">{data}</script>\n'
    )


def chart_page(title: str, body: str, *, is_dark: bool = False) -> str:
    """Return a page for `embedded` charts, including the Vega library."""
    folder = Path(__file__).parent
    style = (folder / "chart.css").read_text(encoding="utf-8")
    # The bundle of vl_convert, which would need the renderer to build it.
    bundle = gzip.decompress((folder / "vega.js.gz").read_bytes()).decode()
    scripts = [bundle.replace("</script", "<\\/script"), DRAW_CHARTS]
    notice = "<noscript>The charts of this page need JavaScript, which is part of the file.</noscript>\n"
    return html.page(title, notice + body, theme="dark" if is_dark else "light", style=style, scripts=scripts)


def _svg(spec: dict[str, Any], name: str = "SVG") -> str:
    return _rendered(name, "vegalite_to_svg", _json(spec)).decode()


def _rendered(name: str, function: str, text: str, **options: float) -> bytes:
    """Return an image of a format; raise RenderError that names the format and formats without a renderer."""
    try:
        return RENDERER.convert(function, text, **options)
    except RenderError as error:
        raise RenderError(f"cannot draw the figure as {name}: {error.cause}", NO_RENDERER) from None


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
