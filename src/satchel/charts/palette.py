"""Palette: every colour of charts, pages, notebooks and the terminal, by role, for light and dark backgrounds.

Sequential and negative colours are the steps s0..s8 and n1..n8 of a diverging scale n8..n1, s0, s1..s8, with monotonic
lightness on both arms. `pos` and `neg` are distinguishable with any colour vision (Okabe and Ito, 2008).
"""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path


@dataclass(frozen=True)
class Palette:
    """Colours of one background, as #RRGGBB."""

    # Page; strips and code blocks; inputs and popovers.
    paper: str
    ground: str
    raised: str
    # Text; secondary text; captions.
    ink: str
    ink2: str
    ink3: str
    # Hairlines and grid lines; table heads, and cells without a value; borders of inputs.
    rule: str
    rule2: str
    edge: str
    # Focus, selection and links; selected rows; text on the accent.
    accent: str
    accent_soft: str
    on_accent: str
    # Values above and below zero, as bars and as text.
    pos: str
    pos_text: str
    neg: str
    neg_text: str
    # Warnings and errors.
    warn: str
    warn_soft: str
    bad: str
    bad_soft: str
    # Steps of the scales: s0..s8 and n1..n8.
    sequential: list[str]
    negative: list[str]
    # Colours of unordered categories, in order of use.
    category: list[str]
    # Text on coloured cells, and the last step on which it keeps a contrast of 4.5:1.
    cell_ink: str
    cell_steps: int
    # Last step on which `ink` keeps a contrast of 6:1: backgrounds of running text.
    tint_steps: int

    def scale(self, steps: int, *, signed: bool = False) -> list[str]:
        """Return the colours s0..s`steps`; with `signed`, n`steps`..n1, s0, s1..s`steps`."""
        negative = [*reversed(self.negative[:steps])] if signed else []
        return [*negative, *self.sequential[: steps + 1]]

    def css(self) -> str:
        """Return the roles as CSS custom properties, such as `--accent-soft`."""
        roles = ((field.name, getattr(self, field.name)) for field in fields(self) if field.type is str)
        return " ".join(f"--{name.replace('_', '-')}: {colour};" for name, colour in roles)


_COLOURS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
LIGHT, DARK = Palette(**_COLOURS["light"]), Palette(**_COLOURS["dark"])


def rgb(colour: str) -> tuple[int, int, int]:
    """Return red, green and blue of a #RRGGBB colour, from 0 to 255."""
    red, green, blue = bytes.fromhex(colour.removeprefix("#"))
    return red, green, blue


def interpolated(colours: Sequence[str], position: float) -> str:
    """Return the colour at a position from 0 (the first) to 1 (the last), linear between neighbours."""
    place = min(max(position, 0.0), 1.0) * (len(colours) - 1)
    lower = min(int(place), len(colours) - 2)
    share = place - lower
    pairs = zip(rgb(colours[lower]), rgb(colours[lower + 1]), strict=True)
    return "#" + bytes(round(first + (second - first) * share) for first, second in pairs).hex().upper()
