"""Lines from words to the words they look at.

Letters: T rows, the words that look; S columns, the words that are looked at.
"""

from collections.abc import Sequence
from typing import Any, Literal

import altair as alt
import numpy as np

from satchel.charts.figures import Figure
from satchel.charts.labels import Words, legend_columns, titled, type_size
from satchel.charts.maps import Maps, each_map, selector
from satchel.charts.numbers import MOST_CELLS, Numbers, largest_of, matrix, pooled, pooled_words, rounded
from satchel.text.display import visible

# Of a row, weights fainter than this share of the strongest are not drawn, nor more than these.
FAINTEST = 0.1
MOST_LINES = 6
ALL_HEADS = "all heads"


def head_lines(rows: Sequence[str], columns: Sequence[str], maps: Maps, title: str = "Where words look") -> Figure:
    """Return lines from each word (left) to those it looks at (right), the stronger the darker; colours tell heads.

    Of several layers the first is shown; a page has selectors. What is faint is left out.
    """
    records, largest = [], 0.0
    for (layer, head), weights in each_map(maps):
        values, _, _ = pooled(matrix(weights, len(rows), len(columns)), MOST_CELLS)
        largest = max(largest, largest_of(values))
        records.append({"layer": f"layer {layer}", "head": f"head {head}", **_strongest(values)})
    down, along, note = pooled_words(rows, columns)
    heads = list(dict.fromkeys(record["head"] for record in records))
    choices = [
        selector("layer", [record["layer"] for record in records]),
        selector("head", [ALL_HEADS, *heads] if len(heads) > 1 else heads),
    ]
    longest = max(1, len(down), len(along))
    under = alt.selection_point(name="under", on="pointerover", clear="pointerout", fields=["row"])
    lines = _lines(records, largest, longest).encode(
        strokeOpacity=alt.condition(under, _strength(largest), alt.value(0.01))
    )
    if len(heads) > 1:
        legend = alt.Legend(orient="bottom", columns=legend_columns(heads), symbolType="stroke")
        scale = alt.Scale(domain=heads, range="category")
        lines = lines.encode(color=alt.Color("head:N", title=None, scale=scale, legend=legend))
    chart = alt.layer(
        lines, _column(down, "row", "right", longest).add_params(under), _column(along, "column", "left", longest)
    )
    heading, needed = titled(title, [note], "layer + ', ' + head")
    chart = chart.properties(
        width=240,
        height=alt.Step(max(9, min(18, 1000 // longest))),
        title=heading,
        description=visible(title),
    )
    return Figure(
        chart.add_params(*down.parameters("rows"), *along.parameters("columns"), type_size(), *needed, *choices)
    )


def _lines(records: list[dict[str, Any]], largest: float, longest: int) -> alt.Chart:
    """Return a line for each weight of the maps that are chosen."""
    chart: alt.Chart = (
        alt.Chart({"values": records})
        .transform_filter("datum.layer === layer")
        .transform_filter(f"head === '{ALL_HEADS}' || datum.head === head")
        .transform_flatten(["row", "column", "weight"])
        .transform_calculate(of="whole_rows[datum.row]", at="whole_columns[datum.column]")
        .mark_rule(aria=False, strokeWidth=alt.ExprRef(f"size / {7 if longest <= 40 else 11}"))
        .encode(
            x=alt.value(0),
            x2=alt.value("width"),
            y=alt.Y("row:O", axis=None, scale=_places(longest)),
            y2=alt.Y2(field="column"),
            tooltip=[
                "head:N",
                alt.Tooltip("of:N", title="looks"),
                alt.Tooltip("at:N", title="at"),
                alt.Tooltip("weight:Q", format=".4~g"),
            ],
        )
    )
    return chart


def _strength(largest: float) -> alt.StrokeOpacity:
    scale = alt.Scale(domain=[0, largest or 1.0], range=[0.03, 0.95])
    return alt.StrokeOpacity("weight:Q", scale=scale, legend=None)


def _places(longest: int) -> alt.Scale:
    return alt.Scale(domain=list(range(longest)))


def _column(names: Words, field: str, align: Literal["left", "right"], longest: int) -> alt.Chart:
    """Return a column of words, each at its place: those that look on the left, aligned right."""
    records = [
        {field: place, "name": name, "whole": whole}
        for place, (name, whole) in enumerate(zip(names.shown, names.whole, strict=True))
    ]
    is_left = align == "right"
    size = alt.ExprRef(f"max(4, min(size, 0.95 * height / {longest}))")
    chart: alt.Chart = (
        alt.Chart({"values": records})
        .mark_text(align=align, baseline="middle", dx=-6 if is_left else 6, fontSize=size)
        .encode(
            x=alt.value(0) if is_left else alt.value("width"),
            y=alt.Y(f"{field}:O", axis=None, scale=_places(longest)),
            text="name:N",
            tooltip=alt.Tooltip("whole:N", title="word"),
        )
    )
    return chart


def _strongest(values: Numbers) -> dict[str, Any]:
    """Return the places and weights of those that are not faint, as lists."""
    finite = np.where(np.isfinite(values), values, 0.0)
    ordered = -np.sort(-finite, axis=1)
    last = ordered[:, min(MOST_LINES, ordered.shape[1]) - 1 :][:, :1]
    rows, columns = np.nonzero((finite > 0) & (finite >= np.maximum(FAINTEST * ordered[:, :1], last)))
    return {"row": rows.tolist(), "column": columns.tolist(), "weight": rounded(finite[rows, columns])}
