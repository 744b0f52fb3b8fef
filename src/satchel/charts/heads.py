"""Attention heads: small heat maps of all heads, ablation costs, and heads by pattern."""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np
import numpy.typing as npt

from satchel.charts.arrays import block_size, largest_magnitude, matrix, pooled, pooling_note, rounded
from satchel.charts.attention import QUERY_KEY, Maps, each_map
from satchel.charts.figures import Figure
from satchel.charts.heatmap import Cells, ColourScale, heatmap, indexed
from satchel.charts.labels import name_labels, signed_number, token_labels
from satchel.charts.themes import Theme
from satchel.text.display import visible

# Maximum number of rows and columns of one small heat map.
SMALL_MAP = 32


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
                    alt.Tooltip("row_name:N", title=QUERY_KEY[0]),
                    alt.Tooltip("column_name:N", title=QUERY_KEY[1]),
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
