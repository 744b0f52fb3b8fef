"""Text strips: running text, each token on a background coloured by a value."""

import unicodedata
from collections.abc import Sequence
from itertools import takewhile

import altair as alt
import numpy as np
import numpy.typing as npt
from rich.cells import cell_len

from satchel.charts.arrays import rounded, to_array
from satchel.charts.figures import Figure
from satchel.charts.heatmap import ColourScale
from satchel.charts.labels import cut, full_text, label
from satchel.charts.themes import MONOSPACE, THEMES, Theme
from satchel.text.display import separator, visible

# Width of the text, in pixels.
WIDTH = 720
# Width of a character of a monospaced font, relative to its font size.
CHARACTER = 0.602
LONGEST_TOKEN = 40
MAX_TOKENS, MAX_LINES = 3000, 80
# Surprisal of the strongest colour, in bits: the same in all strips.
MAX_BITS = 10.0


def surprise_strip(tokens: Sequence[str], bits: npt.ArrayLike, title: str = "Surprisal per token (bits)") -> Figure:
    """Return the text, each token coloured by its surprisal; tokens of probability zero are grey."""
    values = to_array(bits).astype(np.float64)
    notes = [f"{cost:.3f} bits" if np.isfinite(cost) else "probability 0" for cost in values]
    legend = alt.Legend(orient="bottom", direction="horizontal", values=[0, 2, 4, 6, 8, 10])
    return _strip(tokens, values, notes, title, ColourScale("surprisal (bits)", MAX_BITS), legend)


def order_strip(
    tokens: Sequence[str], orders: npt.ArrayLike, title: str = "N-gram order used for each token"
) -> Figure:
    """Return the text, each token coloured by the order of the n-gram that predicted it."""
    values = to_array(orders).astype(np.float64)
    present = sorted({int(order) for order in values})
    legend = alt.Legend(
        type="symbol", symbolType="square", orient="bottom", direction="horizontal", values=present, format="d"
    )
    notes = [f"order {order:.0f}" for order in values]
    return _strip(tokens, values, notes, title, ColourScale("order", max([1, *present])), legend)


def _strip(
    tokens: Sequence[str],
    values: npt.NDArray[np.float64],
    notes: Sequence[str],
    title: str,
    scale: ColourScale,
    legend: alt.Legend,
) -> Figure:
    if len(tokens) != len(values):
        raise ValueError(f"{len(values)} values for {len(tokens)} tokens, expected one per token")
    lines = (
        line for line, _, _ in _layout(tokens[:MAX_TOKENS], int(WIDTH / (CHARACTER * _font_size(THEMES["light"]))))
    )
    shown = sum(1 for _ in takewhile(lambda line: line < MAX_LINES, lines))
    note = f"first {shown:,} of {len(tokens):,} tokens" if shown < len(tokens) else ""
    tokens, numbers = tokens[:shown], rounded(values[:shown])

    def draw(theme: Theme, stretch: float) -> alt.TopLevelMixin:
        palette, size, width = theme.palette, _font_size(theme), WIDTH * theme.plot_scale * stretch
        character = CHARACTER * size
        records = [
            {
                "line": line,
                "left": round(start * character, 1),
                "right": round((start + cell_len(text)) * character, 1),
                "text_left": round((start + len(text) - len(text.lstrip(" "))) * character, 1),
                "text": text.lstrip(" "),
                "token": full_text(token),
                "value": value,
                "note": note,
            }
            for (line, start, text), token, value, note in zip(
                _layout(tokens, max(8, int(width / character))), tokens, numbers, notes, strict=False
            )
        ]
        lines = 1 + max((record["line"] for record in records), default=0)
        x_scale = alt.Scale(domain=[0, width], nice=False, zero=True)
        base = alt.Chart({"values": records}).encode(
            y=alt.Y("line:O", axis=None, scale=alt.Scale(domain=list(range(lines)), paddingInner=0.12)),
            tooltip=["token:N", alt.Tooltip("note:N", title=scale.title)],
        )
        backgrounds = base.mark_rect(aria=False, invalid=None, stroke=palette.rule, strokeWidth=0.5).encode(
            x=alt.X("left:Q", axis=None, scale=x_scale),
            x2=alt.X2(field="right"),
            color=scale.encoding(palette, palette.tint_steps, legend),
        )
        texts = base.mark_text(
            aria=False, invalid=None, align="left", baseline="middle", font=MONOSPACE, fontSize=size
        ).encode(x=alt.X("text_left:Q", axis=None, scale=x_scale), text="text:N")
        return alt.layer(backgrounds, texts).properties(width=width, height=alt.Step(1.9 * size))

    return Figure(draw, title, [note])


def _font_size(theme: Theme) -> float:
    return theme.font_size + 2


def _layout(tokens: Sequence[str], line_length: int) -> list[tuple[int, int, str]]:
    """Return line, start column and text of each token; a token that ends with a line break ends its line."""
    placed, line, start = [], 0, 0
    gap = len(separator(tokens))
    for token in tokens:
        # Spaces are shown as spaces, except in tokens that would be invisible: white space or a combining character.
        is_visible = token.strip() and not unicodedata.combining(token[0])
        text = cut(visible(token) if is_visible else label(token), min(LONGEST_TOKEN, line_length)) or " "
        if start and start + cell_len(text) > line_length:
            line, start = line + 1, 0
        placed.append((line, start, text))
        start += cell_len(text) + gap
        if token.endswith("\n"):
            line, start = line + 1, 0
    return placed
