"""Themes: the colours and the type of a picture, apart from what it shows.

Colours are told apart by people of any colour vision (Okabe and Ito). A chart names a colour by its part (`ramp`,
`diverging`, `category`, the style `other`), and a theme says which colour that is.
"""

from dataclasses import dataclass
from typing import Any

from satchel.errors import SettingsError

# The first of these that is there; DejaVu knows the sign for a space, and most scripts.
FONT = "DejaVu Sans, Segoe UI, Helvetica Neue, Arial, sans-serif"
FIXED_FONT = "DejaVu Sans Mono, Menlo, Consolas, monospace"


@dataclass(frozen=True)
class Theme:
    """The colours and sizes of a picture. Sizes are in pixels."""

    background: str
    text: str
    # Second to what is shown: axes, notes.
    quiet: str
    # Lines between cells, and the grid.
    faint: str
    # Of a cell whose number is zero.
    zero: str
    adds: str
    takes: str
    category: tuple[str, ...]
    # Of the type beside axes; everything else follows from it.
    size: float = 11
    line: float = 2
    # How much larger cells and plots are than a chart asks for.
    cells: float = 1
    plots: float = 1

    def config(self, width: float | None = None) -> dict[str, Any]:
        """Return the `config` of a Vega-Lite chart, whose names are cut where they would fill this many pixels."""
        room = 60 * self.size if width is None else width
        words = {"labelColor": self.text, "titleColor": self.quiet, "titleFontWeight": "normal"}
        sizes = {"labelFontSize": self.size, "titleFontSize": self.size}
        return {
            "background": self.background,
            "padding": 8,
            "font": FONT,
            "view": {"stroke": None, "continuousWidth": 420, "continuousHeight": 260},
            "title": {
                "anchor": "start",
                "color": self.text,
                "fontSize": self.size + 3,
                "fontWeight": 600,
                "subtitleColor": self.quiet,
                "subtitleFontSize": self.size,
                "subtitlePadding": 4,
                "offset": 10,
            },
            "axis": {
                **words,
                **sizes,
                "domainColor": self.quiet,
                "tickColor": self.quiet,
                "gridColor": self.faint,
                "titlePadding": 8,
                "labelLimit": min(26 * self.size, 0.36 * room),
                "titleLimit": 60 * self.size,
            },
            "legend": {
                **words,
                **sizes,
                "gradientLength": 10 * self.size,
                "symbolSize": 0.8 * self.size**2,
                "symbolStrokeWidth": self.line,
                "labelLimit": min(28 * self.size, 0.7 * room),
                "titleLimit": min(28 * self.size, 0.36 * room),
            },
            "header": {**words, **sizes},
            "mark": {"color": self.adds},
            "line": {"strokeWidth": self.line},
            "rule": {"strokeWidth": self.line, "color": self.adds},
            "point": {"size": 14 * self.line**2, "filled": True, "opacity": 1},
            "text": {"color": self.text, "fontSize": self.size},
            "style": {
                "other": {"color": self.takes},
                "quiet": {"color": self.quiet},
                "border": {"stroke": self.faint},
                "ground": {"color": self.zero, "fill": self.zero, "stroke": self.faint},
            },
            # Colours are mixed as light is: other ways pass through hues of their own.
            "range": {
                "ramp": [self.zero, self.adds],
                "diverging": [self.takes, self.zero, self.adds],
                "category": list(self.category),
            },
        }


INK, OTHER = "#0072B2", "#D55E00"
LIGHT = Theme(
    background="#ffffff",
    text="#1f2933",
    quiet="#5f6b7a",
    faint="#e1e5ea",
    zero="#ffffff",
    adds=INK,
    takes=OTHER,
    category=(INK, OTHER, "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#a3abb5"),
)
THEMES = {
    "light": LIGHT,
    "dark": Theme(
        background="#14181d",
        text="#dfe4ea",
        quiet="#9aa5b1",
        faint="#2d343d",
        zero="#1b2026",
        adds="#6cc3f5",
        takes="#ff9447",
        category=("#6cc3f5", "#ff9447", "#2bc494", "#e39cc4", "#f0c445", "#4a90c2", "#f1f4f7", "#6f7a86"),
    ),
    "slides": Theme(
        background="#ffffff",
        text="#111820",
        quiet="#3f4a57",
        faint="#d5dae0",
        zero="#ffffff",
        adds=INK,
        takes=OTHER,
        category=LIGHT.category,
        size=19,
        line=4,
        cells=1.7,
        plots=1.4,
    ),
}


def theme_named(name: str) -> Theme:
    """Return a theme."""
    if name not in THEMES:
        raise SettingsError(f"found no theme named {name}", f"there is {', '.join(THEMES)}")
    return THEMES[name]
