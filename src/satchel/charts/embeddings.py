"""Vectors: words on a plane, and position encodings."""

import math
from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np
import numpy.typing as npt

from satchel.charts.arrays import Numbers, block_size, largest_magnitude, matrix, rounded
from satchel.charts.figures import Figure
from satchel.charts.heatmap import Cells, ColourScale, heatmap
from satchel.charts.labels import cut, full_text, label, legend_columns, number_labels, text_width
from satchel.charts.positions import with_positions
from satchel.charts.themes import THEMES, Theme
from satchel.text.display import visible

# Width and height of a plot of at most FEW words, in pixels; more words get a larger one.
WIDTH, HEIGHT, FEW = 620, 460, 80
# Maximum number of labelled words.
MAX_LABELS = 150
# Maximum number of nearest words in a tooltip.
MAX_NEAREST = 8
# Margin around the words, as a fraction of their range.
MARGIN = 0.06
# Distances of a label from its point, at a font size of 11; labels beyond the first have a line to their point.
DISTANCES = (6.0, 16.0, 28.0)
# Directions of a label (x, y), in order of preference; y points down.
DIRECTIONS = ((1, 0), (-1, 0), (0, -1), (0, 1), (0.8, -0.8), (-0.8, -0.8), (0.8, 0.8), (-0.8, 0.8))


def embedding_map(
    tokens: Sequence[str],
    positions: npt.ArrayLike,
    *,
    groups: Sequence[str] | None = None,
    nearest: Sequence[Sequence[str]] | None = None,
    contexts: Sequence[str] | None = None,
    axes: tuple[str, str] = ("first dimension", "second dimension"),
    title: str = "2-D PCA of embeddings",
) -> Figure:
    """Return words at their (T, 2) positions, coloured by group.

    Labels do not overlap: those of the first MAX_LABELS words are placed in order, and words without a free place have
    a tooltip only. The notes state the number of labelled words.
    """
    points = matrix(positions, len(tokens), 2)
    kept = np.flatnonzero(np.isfinite(points).all(axis=1)).tolist()
    points = points[kept]
    labels = with_positions([label(tokens[index]) for index in kept])
    records: list[dict[str, Any]] = [
        {"x": x, "y": y, "name": name, "word": full_text(tokens[index])}
        for index, name, (x, y) in zip(kept, labels, rounded(points), strict=True)
    ]
    for record, index in zip(records, kept, strict=True):
        if groups is not None:
            record["group"] = visible(groups[index])
        if nearest is not None:
            record["nearest"] = cut(", ".join(label(each) for each in nearest[index][:MAX_NEAREST]), 200)
        if contexts is not None:
            record["context"] = cut(visible(contexts[index]), 200)
    fields = [field for field in ("word", "context", "group", "nearest") if records and field in records[0]]
    group_names = list(dict.fromkeys(record["group"] for record in records)) if "group" in fields else []
    factor = 1.0 if len(labels) <= FEW else 1.5
    x_scale, y_scale = (alt.Scale(domain=list(_extent(axis)), nice=False, zero=False) for axis in points.T)

    def draw(theme: Theme, stretch: float) -> alt.TopLevelMixin:
        size, scale = theme.font_size, theme.plot_scale * stretch * factor
        width, height = WIDTH * scale, HEIGHT * scale
        places = _label_places(labels, points, width, height, size)
        placed = [record | place for record, place in zip(records, places, strict=True)]
        ticks = alt.Axis(tickCount=4, grid=False, labels=False, ticks=False, domain=False)
        base = alt.Chart({"values": placed}).encode(
            x=alt.X("x:Q", title=visible(axes[0]), axis=ticks, scale=x_scale),
            y=alt.Y("y:Q", title=visible(axes[1]), axis=ticks, scale=y_scale),
            tooltip=[f"{field}:N" for field in fields],
        )
        labelled = base.transform_filter("isValid(datum.align)")
        style: dict[str, Any] = {name: {"expr": f"datum.{name}"} for name in ("align", "dx", "dy")} | {
            "baseline": "middle"
        }
        # The halo separates a label from the points and lines that it covers.
        paper = theme.palette.paper
        halo = labelled.mark_text(**style, stroke=paper, strokeWidth=3, fill=paper).encode(text="name:N")
        lines = [
            {"x": record["x"], "y": record["y"], "x2": record["x"] + record["dx"] / width * _length(points[:, 0]),
             "y2": record["y"] - record["dy"] / height * _length(points[:, 1])}
            for record in placed
            if math.hypot(record.get("dx", 0), record.get("dy", 0)) > 1.2 * DISTANCES[0] * size / 11
        ]  # fmt: skip
        leaders = (
            alt.Chart({"values": lines})
            .mark_rule(color=theme.palette.rule2, strokeWidth=1)
            .encode(
                x=alt.X("x:Q", scale=x_scale),
                y=alt.Y("y:Q", scale=y_scale),
                x2=alt.X2(field="x2"),
                y2=alt.Y2(field="y2"),
            )
        )
        if group_names:
            legend = alt.Legend(orient="bottom", columns=legend_columns(group_names, width, theme))
            colours = alt.Scale(domain=group_names, range="category")
            base = base.encode(color=alt.Color("group:N", title=None, scale=colours, legend=legend))
            labelled = base.transform_filter("isValid(datum.align)")
        opacity = alt.condition("isValid(datum.align)", alt.value(1.0), alt.value(0.45))
        dots = base.mark_point(size=2.5 * size).encode(opacity=opacity)
        layers = [leaders, dots, halo, labelled.mark_text(**style).encode(text="name:N")]
        return alt.layer(*layers).properties(
            width=width, height=height, view=alt.ViewBackground(stroke=theme.palette.rule2)
        )

    size = THEMES["light"].font_size
    hidden = sum(not place for place in _label_places(labels, points, WIDTH * factor, HEIGHT * factor, size))
    note = f"{len(labels) - hidden:,} of {len(labels):,} words are labelled, the first ones that do not overlap"
    return Figure(draw, title, [note] if hidden else [])


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


def _label_places(
    labels: Sequence[str], points: Numbers, width: float, height: float, size: float
) -> list[dict[str, Any]]:
    """Return alignment and offset of each label such that no labels overlap; empty if there is no free place.

    Places that cover no points are preferred; near points are covered before far places are used.
    """
    x, y = _pixels(points[:, 0], width), height - _pixels(points[:, 1], height)
    dot = 0.35 * size
    dots = np.stack([x - dot, y - dot, x + dot, y + dot], axis=1) if len(labels) else np.zeros((0, 4))
    placed = np.zeros((0, 4))
    places: list[dict[str, Any]] = []
    for index, name in enumerate(labels[:MAX_LABELS]):
        length, half = text_width(name, size), 0.55 * size
        best: tuple[float, dict[str, Any], Numbers] | None = None
        for distance in DISTANCES if len(labels) <= FEW else DISTANCES[:2]:
            for horizontal, vertical in DIRECTIONS:
                align = "left" if horizontal > 0 else "right" if horizontal < 0 else "center"
                dx, dy = (distance * size / 11 * each for each in (horizontal, vertical))
                dy *= 1.7 if horizontal == 0 else 1
                left = x[index] + dx - {"left": 0.0, "center": length / 2, "right": length}[align]
                box = np.array([left, y[index] + dy - half, left + length, y[index] + dy + half])
                is_inside = left >= 0 and box[2] <= width and box[1] >= 0 and box[3] <= height
                if not is_inside or _overlaps(placed, box).any():
                    continue
                cost = int(_overlaps(np.delete(dots, index, axis=0), box).sum()) + distance / 20
                if best is None or cost < best[0]:
                    best = cost, {"align": align, "dx": round(dx, 1), "dy": round(dy, 1)}, box
            if best is not None and best[0] < 1:
                break
        places.append({} if best is None else best[1])
        if best is not None:
            placed = np.concatenate([placed, best[2][None]])
    return places + [{} for _ in labels[MAX_LABELS:]]


def _overlaps(boxes: Numbers, box: Numbers) -> npt.NDArray[np.bool_]:
    """Return which boxes (left, top, right, bottom) overlap a box."""
    return np.asarray((boxes[:, :2] < box[2:]).all(axis=1) & (boxes[:, 2:] > box[:2]).all(axis=1))


def _length(values: Numbers) -> float:
    """Return the length of the range of an axis."""
    low, high = _extent(values)
    return high - low


def _extent(values: Numbers) -> tuple[float, float]:
    """Return the range of an axis, with a margin around the values."""
    low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 1.0)
    margin = MARGIN * (high - low) or 1.0
    return low - margin, high + margin


def _pixels(values: Numbers, length: float) -> Numbers:
    low, high = _extent(values)
    return (values - low) / (high - low) * length
