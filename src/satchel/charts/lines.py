"""Attention as lines between two columns of tokens.

Shapes: T query tokens, S key tokens.
"""

from collections.abc import Sequence
from typing import Any, Literal

import altair as alt
import numpy as np

from satchel.charts.arrays import Numbers, block_size, largest_magnitude, matrix, pooled, pooling_note, rounded
from satchel.charts.attention import QUERY_KEY, Maps, each_map, selector
from satchel.charts.figures import Figure
from satchel.charts.labels import Labels, legend_columns, token_labels
from satchel.charts.themes import Theme

# Minimum weight of a line, as a fraction of the largest weight of its query, and maximum number of lines per query.
FAINTEST = 0.1
MAX_LINES = 6
ALL_HEADS = "all heads"


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
                alt.Tooltip("row_name:N", title=QUERY_KEY[0]),
                alt.Tooltip("column_name:N", title=QUERY_KEY[1]),
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
