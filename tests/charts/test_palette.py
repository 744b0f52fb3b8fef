"""Colours are legible, ordered by lightness, and defined in one place."""

import itertools
import re
from pathlib import Path

import pytest

import satchel
from satchel.charts import html
from satchel.charts.palette import DARK, LIGHT, Palette, interpolated, rgb

PALETTES = pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])


def luminance(colour: str) -> float:
    """Return the relative luminance of WCAG 2."""
    shares = [part / 255 for part in rgb(colour)]
    red, green, blue = (share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(first: str, second: str) -> float:
    darker, lighter = sorted((luminance(first), luminance(second)))
    return (lighter + 0.05) / (darker + 0.05)


@PALETTES
def test_text_is_legible_on_every_background(palette: Palette) -> None:
    for background in (palette.paper, palette.ground, palette.raised):
        assert contrast(palette.ink, background) >= 7
        assert contrast(palette.ink3, background) >= 4.5
    shares = [step / 100 for step in range(101)]
    for colours in (palette.scale(palette.cell_steps), palette.scale(palette.cell_steps, signed=True)):
        assert min(contrast(palette.cell_ink, interpolated(colours, share)) for share in shares) >= 4.4
    tints = palette.scale(palette.tint_steps)
    assert min(contrast(palette.ink, interpolated(tints, share)) for share in shares) >= 5.9


@PALETTES
@pytest.mark.parametrize("value", [1.0, -1.0, float("nan")])
def test_text_is_legible_on_the_translucent_tints_of_notebooks(palette: Palette, value: float) -> None:
    match = re.fullmatch(r"rgba\((\d+),(\d+),(\d+),([\d.]+)\)", html.tint(value, 1.0))
    assert match
    colour = "#" + bytes(int(part) for part in match.groups()[:3]).hex()
    assert contrast(palette.ink, interpolated([palette.paper, colour], float(match[4]))) >= 4.5


@PALETTES
def test_lightness_is_monotonic_on_both_arms_of_the_scale(palette: Palette) -> None:
    for arm in (palette.sequential, (palette.sequential[0], *palette.negative)):
        steps = [luminance(colour) for colour in arm]
        assert steps in (sorted(steps), sorted(steps, reverse=True))


def test_interpolation_is_linear_between_the_steps() -> None:
    assert interpolated(["#000000", "#FFFFFF"], 0.5) == "#808080"
    assert interpolated(LIGHT.sequential, 0) == LIGHT.sequential[0]
    assert interpolated(LIGHT.sequential, 7) == LIGHT.sequential[-1]
    assert interpolated(LIGHT.sequential, 3 / 8) == LIGHT.sequential[3]


def test_every_colour_of_the_package_is_in_the_palette_file() -> None:
    package = Path(satchel.__file__).parent
    literal = re.compile(r"""["'\s:(]#([0-9a-fA-F]{6}|[0-9a-fA-F]{3})\b|rgb\(\d""")
    files = itertools.chain(package.rglob("*.py"), package.rglob("*.css"), package.rglob("*.toml"))
    assert [path.name for path in files if literal.search(path.read_text(encoding="utf-8"))] == ["palette.toml"]
