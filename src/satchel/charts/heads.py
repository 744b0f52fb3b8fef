"""Heads: what each of them looks at, all beside one another; what each is worth; which do what.

Letters: T rows, the words that look; S columns, the words that are looked at.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np
import numpy.typing as npt

from satchel.charts.figures import Figure
from satchel.charts.grids import NO_NUMBER, Colours, Table, colour_grid
from satchel.charts.labels import Words, legend_columns, row_axis, titled, type_size, words
from satchel.charts.maps import Maps, each_map
from satchel.charts.numbers import block, largest_of, matrix, pooled, pooling_note, rounded
from satchel.text.display import visible

# Of one of the small maps.
SMALL_MAP = 32


def heads_grid(rows: Sequence[str], columns: Sequence[str], maps: Maps, title: str = "Where each head looks") -> Figure:
    """Return a small map for each head (across) of each layer (down).

    Maps are taken one at a time and made small at once, so that long texts need room for one of them only.
    """
    records: list[dict[str, Any]] = []
    largest = 0.0
    for (layer, head), weights in each_map(maps):
        values, _, _ = pooled(matrix(weights, len(rows), len(columns)), SMALL_MAP)
        largest = max(largest, largest_of(values))
        records.append({"layer": layer, "head": head, "value": rounded(values.reshape(-1))})
    layers = sorted({record["layer"] for record in records})
    heads = sorted({record["head"] for record in records})
    for record in records:
        record |= {"down": layers.index(record["layer"]), "along": heads.index(record["head"])}
    down, along = words(rows, block(len(rows), SMALL_MAP)), words(columns, block(len(columns), SMALL_MAP))
    side = max(56, min(150, 960 / max(1, len(heads))))
    heading, _ = titled(
        title,
        [
            "in each map, a row looks at columns",
            pooling_note(len(rows), len(columns), block(len(rows), SMALL_MAP), block(len(columns), SMALL_MAP)),
        ],
    )
    frames = alt.Chart(
        {"values": [{"down": each["down"], "along": each["along"]} for each in records]}
    ).transform_calculate(
        left="datum.along + 0.03", right="datum.along + 0.97", top="datum.down + 0.03", bottom="datum.down + 0.97"
    )
    cells = (
        alt.Chart({"values": records})
        .transform_flatten(["value"])
        .transform_window(cell="row_number()", groupby=["layer", "head"])
        .transform_filter("datum.value !== 0")
        .transform_calculate(row=f"floor((datum.cell - 1) / {len(along)})", column=f"(datum.cell - 1) % {len(along)}")
        .transform_calculate(
            left=f"datum.along + 0.03 + 0.94 * datum.column / {len(along)}",
            right=f"datum.along + 0.03 + 0.94 * (datum.column + 1) / {len(along)}",
            top=f"datum.down + 0.03 + 0.94 * datum.row / {len(down)}",
            bottom=f"datum.down + 0.03 + 0.94 * (datum.row + 1) / {len(down)}",
            of="whole_rows[datum.row]",
            at="whole_columns[datum.column]",
        )
    )
    places = {
        "x": alt.X("left:Q", title="head", scale=_exactly(len(heads)), axis=_centred(len(heads), "heads", "top")),
        "y": alt.Y(
            "top:Q",
            title="layer",
            scale=_exactly(len(layers), reverse=True),
            axis=_centred(len(layers), "layers", "left"),
        ),
        "x2": alt.X2(field="right"),
        "y2": alt.Y2(field="bottom"),
    }
    colours = Colours("weight", largest, is_root=True)
    chart = alt.layer(
        frames.mark_rect(style="ground", strokeWidth=1, aria=False).encode(**places),
        cells.mark_rect(aria=False, invalid=None).encode(
            **places,
            color=alt.condition("datum.value === null", alt.value(NO_NUMBER), colours.encoding()),
            tooltip=[
                "layer:O",
                "head:O",
                alt.Tooltip("of:N", title="row"),
                alt.Tooltip("at:N", title="column"),
                alt.Tooltip("value:Q", title="weight", format=".4~g"),
            ],
        ),
    ).properties(
        width=side * max(1, len(heads)), height=side * max(1, len(layers)), title=heading, description=visible(title)
    )
    return Figure(
        chart.add_params(
            *down.parameters("rows"),
            *along.parameters("columns"),
            type_size(),
            alt.param(name="layers", value=layers),
            alt.param(name="heads", value=heads),
        )
    )


def _exactly(count: int, *, reverse: bool = False) -> alt.Scale:
    """Return a scale on which each of `count` things takes 1, and nothing is beyond them."""
    return alt.Scale(domain=[0, max(1, count)], nice=False, zero=False, reverse=reverse)


def _centred(count: int, list_name: str, orient: Any) -> alt.Axis:
    """Return an axis that names things in their middle."""
    return alt.Axis(
        values=[place + 0.5 for place in range(count)],
        labelExpr=f"{list_name}[floor(datum.value)]",
        orient=orient,
        ticks=False,
        domain=False,
        grid=False,
    )


def head_ablation(costs: npt.ArrayLike, title: str = "What each head is worth", unit: str = "bits per byte") -> Figure:
    """Return what leaving out each head (column) of each layer (row) costs, as numbers and colours."""
    found = matrix(costs)
    layers, heads = found.shape
    rows = Words([f"layer {layer}" for layer in range(layers)], [f"layer {layer}" for layer in range(layers)])
    columns = Words([f"head {head}" for head in range(heads)], [f"head {head}" for head in range(heads)])
    texts = [[f"{cost:+.3f}" if np.isfinite(cost) else "" for cost in row] for row in found]
    return colour_grid(
        rows,
        columns,
        [Table(found, texts).record(layers, heads)],
        Colours(f"costs, {unit}", largest_of(found), signed=True),
        title,
        notes=["blue: the model gets worse without it; orange: it gets better"],
        cell=(54, 28),
    )


def heads_by_pattern(
    scores: Mapping[str, Mapping[tuple[int, int], float]], title: str = "Which heads do what", top: int = 10
) -> Figure:
    """Return, for each pattern, the heads that follow it most, as bars."""
    records: list[dict[str, Any]] = []
    names: list[str] = []
    for pattern, found in scores.items():
        finite = {head: score for head, score in found.items() if np.isfinite(score)}
        for layer, head in sorted(finite, key=lambda each: -finite[each])[:top]:
            records.append({"row": len(names), "pattern": visible(pattern), "score": rounded(finite[layer, head])})
            names.append(f"layer {layer}, head {head}")
    rows = Words(names, names)
    heading, _ = titled(title)
    patterns = [visible(pattern) for pattern in scores]
    base = alt.Chart({"values": records}).encode(
        y=alt.Y("row:O", title=None, axis=row_axis(rows)),
        x=alt.X("score:Q", title="follows the pattern", axis=alt.Axis(tickCount=5)),
    )
    bars = base.mark_bar(height=alt.RelativeBandSize(0.72)).encode(
        color=alt.Color(
            "pattern:N",
            title=None,
            scale=alt.Scale(domain=patterns, range="category"),
            legend=alt.Legend(orient="bottom", columns=legend_columns(patterns)) if len(patterns) > 1 else None,
        ),
        tooltip=["pattern:N", alt.Tooltip("score:Q", format=".4~g")],
    )
    labels = base.mark_text(align="left", dx=4, fontSize=alt.ExprRef("size - 1")).encode(
        text=alt.Text("score:Q", format=".2f")
    )
    chart = alt.layer(bars, labels).properties(
        width=320, height=alt.Step(18), title=heading, description=visible(title)
    )
    return Figure(chart.add_params(*rows.parameters("rows"), type_size()))
