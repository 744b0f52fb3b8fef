"""Attention heads: small heat maps of all heads, lines between tokens, ablation costs, and heads by pattern.

Shapes: T query tokens, S key tokens.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import altair as alt
import numpy as np
import numpy.typing as npt

from satchel.charts.arrays import Numbers, block_size, largest_magnitude, matrix, pooled, pooling_note, rounded
from satchel.charts.attention import QUERY_KEY, Maps, each_map, selector
from satchel.charts.figures import Figure
from satchel.charts.heatmap import Cells, ColourScale, heatmap, indexed, name_tooltips
from satchel.charts.labels import Labels, legend_columns, name_labels, signed_number, token_labels
from satchel.charts.themes import Theme
from satchel.text.display import visible

# Maximum number of rows and columns of one small heat map.
SMALL_MAP = 32
# Minimum weight of a line, as a fraction of the largest weight of its query, and maximum number of lines per query.
FAINTEST = 0.1
MAX_LINES = 6
ALL_HEADS = "all heads"


def heads_grid(
    rows: Sequence[str], columns: Sequence[str], maps: Maps, title: str = "Attention weights per head"
) -> Figure:
    """Return a small heat map for each head (column) of each layer (row).

    An iterable of maps is consumed one map at a time: memory holds the pooled maps only.
    """
    records: list[dict[str, Any]] = []
    largest = 0.0
    for (layer, head), weights in each_map(maps):
        values = pooled(matrix(weights, len(rows), len(columns)), SMALL_MAP)
        largest = max(largest, largest_magnitude(values))
        records.append({"layer": layer, "head": head, "value": rounded(values.reshape(-1))})
    queries = token_labels(rows, block_size(len(rows), SMALL_MAP))
    keys = token_labels(columns, block_size(len(columns), SMALL_MAP))
    heads = len({record["head"] for record in records})
    scale = ColourScale("weight", largest, exponent=0.5)

    def draw(theme: Theme, stretch: float) -> alt.TopLevelMixin:
        side = max(56, min(150, 960 / max(1, heads))) * theme.plot_scale * stretch
        small = (
            alt.Chart()
            .mark_rect(aria=False, invalid=None)
            .encode(
                x=alt.X("column:O", axis=None, scale=alt.Scale(domain=list(range(len(keys))))),
                y=alt.Y("row:O", axis=None, scale=alt.Scale(domain=list(range(len(queries))))),
                color=scale.encoding(theme.palette),
                tooltip=[
                    alt.Tooltip("layer:O"),
                    alt.Tooltip("head:O"),
                    *name_tooltips(*QUERY_KEY),
                    alt.Tooltip("value:Q", title="weight", format=".4~g"),
                ],
            )
            .properties(width=side, height=side, view=alt.ViewBackground(stroke=theme.palette.rule2))
        )
        chart = small.facet(
            data={"values": records},
            row=alt.Row("layer:O", header=alt.Header(labelAngle=0)),
            column=alt.Column("head:O"),
            spacing=6,
        )
        chart = indexed(chart.transform_flatten(["value"]), len(keys), ["layer", "head"])
        chart = chart.transform_filter("datum.value !== 0")
        facets: alt.FacetChart = chart.add_params(*queries.parameters("rows"), *keys.parameters("columns"))
        return facets

    notes = ["each map: query tokens as rows, key tokens as columns", pooling_note(rows, columns, SMALL_MAP)]
    return Figure(draw, title, notes)


def head_lines(rows: Sequence[str], columns: Sequence[str], maps: Maps, title: str = "Attention weights") -> Figure:
    """Return lines from query tokens (left) to key tokens (right), with opacity by weight and colour by head.

    An image shows the first layer; a page has selectors of layer and head.
    """
    records, largest = [], 0.0
    for (layer, head), weights in each_map(maps):
        values = pooled(matrix(weights, len(rows), len(columns)))
        largest = max(largest, largest_magnitude(values))
        records.append({"layer": f"layer {layer}", "head": f"head {head}", **_strongest(values)})
    queries, keys = token_labels(rows, block_size(len(rows))), token_labels(columns, block_size(len(columns)))
    heads = list(dict.fromkeys(record["head"] for record in records))
    selectors = [
        selector("layer", [record["layer"] for record in records]),
        selector("head", [ALL_HEADS, *heads] if len(heads) > 1 else heads),
    ]
    count = max(1, len(queries), len(keys))
    hovered = alt.selection_point(name="hovered", on="pointerover", clear="pointerout", fields=["row"])
    opacity = alt.StrokeOpacity(
        "weight:Q", scale=alt.Scale(domain=[0, largest or 1.0], range=[0.03, 0.95]), legend=None
    )
    scale = alt.Scale(domain=list(range(count)))
    lines = (
        alt.Chart({"values": records})
        .transform_filter("datum.layer === layer")
        .transform_filter(f"head === '{ALL_HEADS}' || datum.head === head")
        .transform_flatten(["row", "column", "weight"])
        .transform_calculate(row_name="full_rows[datum.row]", column_name="full_columns[datum.column]")
        .encode(
            x=alt.value(0),
            x2=alt.value("width"),
            y=alt.Y("row:O", axis=None, scale=scale),
            y2=alt.Y2(field="column"),
            strokeOpacity=alt.condition(hovered, opacity, alt.value(0.01)),
            tooltip=[
                "head:N",
                *name_tooltips(*QUERY_KEY),
                alt.Tooltip("weight:Q", format=".4~g"),
            ],
        )
    )

    def draw(theme: Theme, stretch: float) -> alt.TopLevelMixin:
        step = max(9, min(18, 1000 // count)) * theme.cell_scale
        width = 240 * theme.plot_scale * stretch
        drawn = lines.mark_rule(aria=False, strokeWidth=theme.font_size / (7 if count <= 40 else 11))
        if len(heads) > 1:
            legend = alt.Legend(orient="bottom", columns=legend_columns(heads, width, theme), symbolType="stroke")
            colours = alt.Scale(domain=heads, range="category")
            drawn = drawn.encode(color=alt.Color("head:N", title=None, scale=colours, legend=legend))
        size = max(6.0, min(theme.font_size, 0.95 * step))
        chart = alt.layer(
            drawn,
            _token_column(queries, "row", "right", scale, size).add_params(hovered),
            _token_column(keys, "column", "left", scale, size),
        ).properties(width=width, height=alt.Step(step))
        return chart.add_params(*queries.parameters("rows"), *keys.parameters("columns"), *selectors)

    notes = ["left: query token; right: key token", pooling_note(rows, columns)]
    return Figure(draw, title, notes, "layer + ', ' + head")


def head_ablation(costs: npt.ArrayLike, title: str | None = None, unit: str = "bits per byte") -> Figure:
    """Return the ablation cost of each head (column) of each layer (row): the increase of the loss without it."""
    values = matrix(costs)
    layers, heads = values.shape
    texts = [[signed_number(cost) for cost in row] for row in values]
    return heatmap(
        name_labels([f"layer {layer}" for layer in range(layers)]),
        name_labels([f"head {head}" for head in range(heads)]),
        [Cells(values, texts)],
        ColourScale(unit, largest_magnitude(values), signed=True),
        title or f"Ablation cost per head ({unit})",
        notes=["blue: the loss increases without the head; orange: it decreases"],
        cell=(54, 28),
    )


def heads_by_pattern(
    scores: Mapping[str, Mapping[tuple[int, int], float]], title: str = "Attention heads by pattern", top: int = 10
) -> Figure:
    """Return, for each pattern, the heads with the largest mean attention weight on it, as bars."""
    records: list[dict[str, Any]] = []
    names: list[str] = []
    for pattern, by_head in scores.items():
        finite = {head: score for head, score in by_head.items() if np.isfinite(score)}
        for layer, head in sorted(finite, key=lambda each: -finite[each])[:top]:
            records.append({"row": len(names), "pattern": visible(pattern), "weight": rounded(finite[layer, head])})
            names.append(f"{pattern}: layer {layer}, head {head}")
    rows = name_labels(names, 48)
    patterns = alt.Scale(domain=[visible(pattern) for pattern in scores], range="category")

    def draw(theme: Theme, stretch: float) -> alt.TopLevelMixin:
        width, step = 320 * theme.plot_scale * stretch, 18 * theme.cell_scale
        base = alt.Chart({"values": records}).encode(
            y=rows.y(theme, step),
            x=alt.X("weight:Q", title="mean attention weight on the pattern", axis=alt.Axis(tickCount=5)),
        )
        bars = base.mark_bar(height=alt.RelativeBandSize(0.72)).encode(
            color=alt.Color("pattern:N", scale=patterns, legend=None),
            tooltip=["pattern:N", alt.Tooltip("weight:Q", format=".4~g")],
        )
        labels = base.mark_text(align="left", dx=4, fontSize=theme.font_size - 1).encode(
            text=alt.Text("weight:Q", format=".2f")
        )
        chart = alt.layer(bars, labels).properties(width=width, height=alt.Step(step))
        return chart.add_params(*rows.parameters("rows"))

    return Figure(draw, title)


def _token_column(
    labels: Labels, field: str, align: Literal["left", "right"], scale: alt.Scale, size: float
) -> alt.Chart:
    """Return a column of tokens at the left (aligned right) or right edge of the plot."""
    records = [
        {field: place, "name": name, "token": full}
        for place, (name, full) in enumerate(zip(labels.short, labels.full, strict=True))
    ]
    is_left = align == "right"
    chart: alt.Chart = (
        alt.Chart({"values": records})
        .mark_text(align=align, baseline="middle", dx=-6 if is_left else 6, fontSize=size)
        .encode(
            x=alt.value(0) if is_left else alt.value("width"),
            y=alt.Y(f"{field}:O", axis=None, scale=scale),
            text="name:N",
            tooltip="token:N",
        )
    )
    return chart


def _strongest(values: Numbers) -> dict[str, Any]:
    """Return rows, columns and weights of the lines to draw."""
    finite = np.where(np.isfinite(values), values, 0.0)
    descending = -np.sort(-finite, axis=1)
    last = descending[:, min(MAX_LINES, descending.shape[1]) - 1 :][:, :1]
    rows, columns = np.nonzero((finite > 0) & (finite >= np.maximum(FAINTEST * descending[:, :1], last)))
    return {"row": rows.tolist(), "column": columns.tolist(), "weight": rounded(finite[rows, columns])}
