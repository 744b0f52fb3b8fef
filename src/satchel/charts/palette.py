"""Palette: every colour of charts, pages, notebooks and the terminal, by role, for light and dark backgrounds.

Sequential and negative colours are the steps s0..s8 and n1..n8 of a diverging scale n8..n1, s0, s1..s8, with monotonic
lightness on both arms. `pos` and `neg` are distinguishable with any colour vision (Okabe and Ito, 2008).
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields


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
    sequential: tuple[str, ...]
    negative: tuple[str, ...]
    # Colours of unordered categories, in order of use.
    category: tuple[str, ...]
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
        """Return the roles as CSS custom properties, such as `--accent-soft: #E3EFE9;`."""
        roles = ((field.name, getattr(self, field.name)) for field in fields(self) if field.type is str)
        return " ".join(f"--{name.replace('_', '-')}: {colour};" for name, colour in roles)


# Colours by role: light, dark.
_ROLES = {
    "paper": ("#FDFDFB", "#13171A"),
    "ground": ("#F5F5F1", "#1A1F23"),
    "raised": ("#FFFFFF", "#20262B"),
    "ink": ("#1B1F22", "#E6E9EA"),
    "ink2": ("#4A5258", "#B3BBC0"),
    "ink3": ("#5F6870", "#8F999F"),
    "rule": ("#E4E5E0", "#293035"),
    "rule2": ("#CDD0CB", "#3A434A"),
    "edge": ("#878E94", "#6F7A82"),
    "accent": ("#17694C", "#5FC79C"),
    "accent_soft": ("#E3EFE9", "#1B352B"),
    "on_accent": ("#FFFFFF", "#0D1A14"),
    "pos": ("#0072B2", "#6CC3F5"),
    "pos_text": ("#00608F", "#8BCFF7"),
    "neg": ("#D55E00", "#FF9447"),
    "neg_text": ("#A84800", "#FFA766"),
    "warn": ("#8A5A00", "#E3B341"),
    "warn_soft": ("#FBF1DC", "#332A14"),
    "bad": ("#A3261B", "#FF8A7D"),
    "bad_soft": ("#FBE9E7", "#3A1D1A"),
    "cell_ink": ("#1B1F22", "#FFFFFF"),
}
LIGHT = Palette(
    **{role: colours[0] for role, colours in _ROLES.items()},
    sequential=("#FDFDFB", "#E3EEF5", "#C4DDEC", "#9CC7E0", "#6DADD2", "#3D90C1", "#0072B2", "#00568A", "#003A61"),
    negative=("#FBEADC", "#F8D2B3", "#F2B184", "#EA8C4C", "#E07626", "#D55E00", "#A84800", "#7A3300"),
    category=("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#1B1F22", "#878E94"),
    cell_steps=5,
    tint_steps=4,
)
DARK = Palette(
    **{role: colours[1] for role, colours in _ROLES.items()},
    sequential=("#13171A", "#182C37", "#1A4257", "#1D5B7A", "#27789F", "#439BC8", "#6CC3F5", "#A5DBF9", "#DDF1FD"),
    negative=("#2C1F15", "#4A2C14", "#6E3D12", "#A0581A", "#CF7530", "#FF9447", "#FFB680", "#FFD9BC"),
    category=("#6CC3F5", "#FF9447", "#2BC494", "#E39CC4", "#F0C445", "#4A90C2", "#F1F4F7", "#6F7A82"),
    cell_steps=4,
    tint_steps=3,
)


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
