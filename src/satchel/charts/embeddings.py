"""Vectors: words on a plane, and position encodings."""

from collections.abc import Sequence
from typing import Any, Literal

import altair as alt
import numpy as np
import numpy.typing as npt

from satchel.charts.arrays import Numbers, block_size, largest_magnitude, matrix, rounded
from satchel.charts.figures import Figure
from satchel.charts.heatmap import Cells, ColourScale, heatmap
from satchel.charts.labels import cut, full_text, label, legend_columns, number_labels, text_width
from satchel.charts.themes import Theme
from satchel.text.display import visible

# Width and height of a plot of at most FEW words, in pixels; more words get a larger one.
WIDTH, HEIGHT, FEW = 620, 460, 80
# Maximum number of nearest words in a tooltip.
MAX_NEAREST = 8
# Margin around the words, as a fraction of their range.
MARGIN = 0.06
# Positions of a label relative to its point: alignment, and offset at a font size of 11.
SIDES: tuple[tuple[Literal["left", "right", "center"], int, int], ...] = (
    ("left", 6, 0),
    ("right", -6, 0),
    ("center", 0, -10),
    ("center", 0, 10),
)


def embedding_map(
    tokens: Sequence[str],
    positions: npt.ArrayLike,
    *,
    groups: Sequence[str] | None = None,
    nearest: Sequence[Sequence[str]] | None = None,
    title: str = "2-D PCA of embeddings",
) -> Figure:
    """Return words at their (T, 2) positions, coloured by group; labels that would overlap are in tooltips only."""
    points = matrix(positions, len(tokens), 2)
    kept = np.flatnonzero(np.isfinite(points).all(axis=1)).tolist()
    points = points[kept]
    labels = [label(tokens[index]) for index in kept]
    records: list[dict[str, Any]] = [
        {"x": x, "y": y, "name": name, "word": full_text(tokens[index])}
        for index, name, (x, y) in zip(kept, labels, rounded(points), strict=True)
    ]
    for record, index in zip(records, kept, strict=True):
        if groups is not None:
            record["group"] = visible(groups[index])
        if nearest is not None:
            record["nearest"] = cut(", ".join(label(each) for each in nearest[index][:MAX_NEAREST]), 200)
    fields = [field for field in ("word", "group", "nearest") if records and field in records[0]]
    group_names = list(dict.fromkeys(record["group"] for record in records)) if "group" in fields else []

    x_scale, y_scale = (alt.Scale(domain=list(_extent(axis)), nice=False, zero=False) for axis in points.T)

    def draw(theme: Theme, stretch: float) -> alt.TopLevelMixin:
        size, factor = theme.font_size, theme.plot_scale * stretch * (1.0 if len(labels) <= FEW else 1.5)
        width, height = WIDTH * factor, HEIGHT * factor
        sides = _label_sides(labels, points, width, height, size)
        placed = [record | {"side": side} for record, side in zip(records, sides, strict=True)]
        base = alt.Chart({"values": placed}).encode(
            x=alt.X("x:Q", axis=None, scale=x_scale),
            y=alt.Y("y:Q", axis=None, scale=y_scale),
            tooltip=[f"{field}:N" for field in fields],
        )
        if group_names:
            legend = alt.Legend(orient="bottom", columns=legend_columns(group_names, width, theme))
            scale = alt.Scale(domain=group_names, range="category")
            base = base.encode(color=alt.Color("group:N", title=None, scale=scale, legend=legend))
        texts = [
            base.transform_filter(f"datum.side === {side}")
            .mark_text(align=align, baseline="middle", dx=dx * size / 11, dy=dy * size / 11)
            .encode(text="name:N")
            for side, (align, dx, dy) in enumerate(SIDES)
        ]
        return alt.layer(base.mark_point(size=2.5 * size), *texts).properties(
            width=width, height=height, view=alt.ViewBackground(stroke=theme.palette.rule2)
        )

    return Figure(draw, title)


def position_encodings(values: npt.ArrayLike, title: str = "Position encodings") -> Figure:
    """Return the vector of each position (row) as a heat map."""
    array = matrix(values)
    positions, dimensions = array.shape
    # An odd stride keeps the alternation of sines and cosines.
    row_stride, column_stride = block_size(positions), block_size(dimensions) | 1
    sampled = array[::row_stride, ::column_stride]
    note = f"every {row_stride}. of {positions:,} positions, every {column_stride}. of {dimensions:,} dimensions"
    width, height = (max(3.0, min(14.0, 480 // max(1, count))) for count in reversed(sampled.shape))
    return heatmap(
        number_labels(positions, row_stride),
        number_labels(dimensions, column_stride),
        [Cells(sampled)],
        ColourScale("value", largest_magnitude(sampled), signed=True),
        title,
        axes=("position", "dimension"),
        notes=[note] if max(row_stride, column_stride) > 1 else [],
        cell=(width, height),
    )


def _label_sides(labels: Sequence[str], points: Numbers, width: float, height: float, size: float) -> list[int]:
    """Return the index into SIDES for each label such that no labels or points overlap; -1 if there is none."""
    x, y = _pixels(points[:, 0], width), height - _pixels(points[:, 1], height)
    dot = 0.35 * size
    # Occupied boxes (left, top, right, bottom): all points, then the labels placed so far.
    occupied = np.stack([x - dot, y - dot, x + dot, y + dot], axis=1) if len(labels) else np.zeros((0, 4))
    sides = []
    for index, name in enumerate(labels):
        length, half = text_width(name, size), 0.55 * size
        for side, (align, dx, dy) in enumerate(SIDES):
            left = x[index] + dx * size / 11 - {"left": 0.0, "center": length / 2, "right": length}[align]
            top = y[index] + dy * size / 11 - half
            box = np.array([left, top, left + length, top + 2 * half])
            overlaps = (occupied[:, :2] < box[2:]).all(axis=1) & (occupied[:, 2:] > box[:2]).all(axis=1)
            if not overlaps.any() and left >= 0 and box[2] <= width:
                occupied = np.concatenate([occupied, box[None]])
                sides.append(side)
                break
        else:
            sides.append(-1)
    return sides


def _extent(values: Numbers) -> tuple[float, float]:
    """Return the range of an axis, with a margin around the values."""
    low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 1.0)
    margin = MARGIN * (high - low) or 1.0
    return low - margin, high + margin


def _pixels(values: Numbers, length: float) -> Numbers:
    low, high = _extent(values)
    return (values - low) / (high - low) * length
