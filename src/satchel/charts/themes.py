"""Themes: palette, type size and scale of a chart."""

from dataclasses import dataclass
from typing import Any

from satchel.charts import palette
from satchel.charts.palette import Palette
from satchel.errors import SettingsError

# DejaVu contains the space mark and most scripts.
FONT = "DejaVu Sans, Segoe UI, Helvetica Neue, Arial, sans-serif"
MONOSPACE = "DejaVu Sans Mono, Menlo, Consolas, monospace"


@dataclass(frozen=True)
class Theme:
    """Colours and sizes of a chart. Sizes are in pixels; the scales multiply the default cell and plot sizes."""

    palette: Palette
    font_size: float = 11
    line_width: float = 2
    cell_scale: float = 1
    plot_scale: float = 1

    def config(self, width: float | None = None) -> dict[str, Any]:
        """Return the `config` of a Vega-Lite chart of at most this width; longer labels are cut."""
        colours, size = self.palette, self.font_size
        room = 60 * size if width is None else width
        text = {
            "labelColor": colours.ink,
            "titleColor": colours.ink2,
            "titleFontWeight": "normal",
            "labelFontSize": size,
            "titleFontSize": size,
        }
        return {
            "background": colours.paper,
            "padding": 8,
            "font": FONT,
            "view": {"stroke": None},
            "title": {
                "anchor": "start",
                "color": colours.ink,
                "fontSize": size + 3,
                "fontWeight": 600,
                "subtitleColor": colours.ink2,
                "subtitleFontSize": size,
                "subtitlePadding": 4,
                "offset": 10,
            },
            "axis": {
                **text,
                "domainColor": colours.edge,
                "tickColor": colours.edge,
                "gridColor": colours.rule,
                "titlePadding": 8,
                "labelLimit": min(26 * size, 0.36 * room),
                "titleLimit": 60 * size,
            },
            "legend": {
                **text,
                "gradientLength": 10 * size,
                "symbolSize": 0.8 * size**2,
                "symbolStrokeWidth": self.line_width,
                "labelLimit": min(28 * size, 0.7 * room),
                "titleLimit": min(28 * size, 0.36 * room),
            },
            "header": text,
            "mark": {"color": colours.pos},
            "line": {"strokeWidth": self.line_width},
            "rule": {"strokeWidth": self.line_width, "color": colours.pos},
            "point": {"size": 14 * self.line_width**2, "filled": True, "opacity": 1},
            "text": {"color": colours.ink, "fontSize": size},
            "range": {"category": colours.category},
        }


THEMES = {
    "light": Theme(palette.LIGHT),
    "dark": Theme(palette.DARK),
    "slides": Theme(palette.LIGHT, font_size=19, line_width=4, cell_scale=1.7, plot_scale=1.4),
}


def theme_named(name: str) -> Theme:
    """Return the theme of this name."""
    if name not in THEMES:
        raise SettingsError(f"unknown theme {name}", f"expected {', '.join(THEMES)}")
    return THEMES[name]
