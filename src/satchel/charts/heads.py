"""Attention heads: small heat maps of all heads, lines between tokens, ablation costs, and heads by pattern.

Shapes: T query tokens, S key tokens.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import altair as alt
import numpy as np
import numpy.typing as npt

from satchel.charts.arrays import (
    Numbers,
    block_size,
    is_causal,
    largest_magnitude,
    largest_weight,
    matrix,
    pooled,
    pooling_note,
    rounded,
    scale_note,
)
from satchel.charts.attention import (
    QUERY_KEY,
    Head,
    Maps,
    each_map,
    head_names,
    head_selectors,
)
from satchel.charts.figures import Figure
from satchel.charts.heatmap import Cells, ColourScale, heatmap, indexed, name_tooltips
from satchel.charts.labels import Labels, name_labels, signed_number, token_labels
from satchel.charts.themes import Theme
from satchel.text.display import visible

# Maximum number of rows and columns of one small heat map.
SMALL_MAP = 32
# Minimum side of a small heat map and width of the grid, in pixels.
SMALL_SIDE, GRID_WIDTH = 70, 1000
# Minimum weight of a line, and maximum number of lines of a query.
MIN_WEIGHT = 0.1
MAX_LINES = 3
# Maximum number of bars of a chart.
MAX_BARS = 80


def heads_grid(
    rows: Sequence[str],
    columns: Sequence[str],
    maps: Maps,
    title: str = "Attention weights per head",
    notes: Sequence[str] = (),
) -> Figure:
    """Return a small heat map for each head (column) of each layer (row), all with the same colour scale.

    An iterable of maps is consumed one map at a time: memory holds the pooled maps only.
    """
    records: list[dict[str, Any]] = []
    largest, note = 0.0, ""
    # Names by number, in order of appearance.
    layers, heads = dict[str, int](), dict[str, int]()
    for name, weights in each_map(maps):
        layer, head = head_names(name)
        values = matrix(weights, len(rows), len(columns))
        largest, note = max(largest, largest_weight(values)), note or scale_note(values)
        records.append(
            {
                "layer": layers.setdefault(layer, len(layers)),
                "head": heads.setdefault(head, len(heads)),
                "value": rounded(pooled(values, SMALL_MAP).reshape(-1)),
            }
        )
    queries = token_labels(rows, block_size(len(rows), SMALL_MAP))
    keys = token_labels(columns, block_size(len(columns), SMALL_MAP))
    scale = ColourScale("weight", largest, exponent=0.5)

    def draw(theme: Theme, stretch: float) -> alt.TopLevelMixin:
        largest_side = max(SMALL_SIDE, min(GRID_WIDTH / max(1, len(heads)), 240))
        side = max(SMALL_SIDE, min(largest_side, 11 * max(len(keys), len(queries)))) * theme.plot_scale * stretch
        small = (
            alt.Chart()
            .mark_rect(aria=False, invalid=None)
            .encode(
                x=keys.x(theme, side / max(1, len(keys)), orient="bottom"),
                y=queries.y(theme, side / max(1, len(queries))),
                color=scale.encoding(theme.palette),
                tooltip=[
                    alt.Tooltip("layer_name:N", title="layer"),
                    alt.Tooltip("head_name:N", title="head"),
                    *name_tooltips(*QUERY_KEY),
                    alt.Tooltip("value:Q", title="weight", format=".4~g"),
                ],
            )
            .properties(width=side, height=side, view=alt.ViewBackground(stroke=theme.palette.rule2))
        )
        header: dict[str, Any] = {"title": None, "labelFontSize": theme.font_size, "labelPadding": 4}
        chart = small.facet(
            data={"values": records},
            row=alt.Row("layer:O", header=alt.Header(labelExpr="layers[datum.value]", labelOrient="right", **header)),
            column=alt.Column("head:O", header=alt.Header(labelExpr="heads[datum.value]", **header)),
            spacing=8,
        )
        chart = indexed(chart.transform_flatten(["value"]), len(keys), ["layer", "head"])
        chart = chart.transform_calculate(layer_name="layers[datum.layer]", head_name="heads[datum.head]")
        chart = chart.transform_filter("datum.value !== 0")
        names = [alt.param(name="layers", value=list(layers)), alt.param(name="heads", value=list(heads))]
        facets: alt.FacetChart = chart.add_params(*queries.parameters("rows"), *keys.parameters("columns"), *names)
        return facets

    rows_note = "each map: query tokens as rows, key tokens as columns"
    return Figure(draw, title, [*notes, rows_note, note, pooling_note(rows, columns, SMALL_MAP)])


def head_lines(
    rows: Sequence[str],
    columns: Sequence[str],
    maps: Maps,
    title: str = "Attention weights",
    *,
    shown: Head | None = None,
    notes: Sequence[str] = (),
) -> Figure:
    """Return lines from query tokens (left) to key tokens (right); width and opacity show the weight.

    Each query has its MAX_LINES largest weights, if they exceed a threshold. An image shows the head `shown`, by
    default the first one; a page has selectors of layer and head.
    """
    records = []
    # Three times the weight of uniform attention: the weights of a long text are small.
    threshold = min(MIN_WEIGHT, 3 / max(1, len(columns)))
    for name, weights in each_map(maps):
        layer, head = head_names(name)
        links = _strongest(matrix(weights, len(rows), len(columns)), threshold)
        records.append({"layer": layer, "head": head, **links})
    queries, keys = token_labels(rows, block_size(len(rows))), token_labels(columns, block_size(len(columns)))
    selectors = head_selectors([(record["layer"], record["head"]) for record in records], shown)
    count = max(1, len(queries), len(keys))
    hovered = alt.selection_point(name="hovered", on="pointerover", clear="pointerout", fields=["row"])
    opacity = alt.StrokeOpacity("share:Q", scale=alt.Scale(domain=[0, 1], range=[0.1, 1.0], clamp=True), legend=None)
    scale = alt.Scale(domain=list(range(count)))
    lines = (
        alt.Chart({"values": records})
        .transform_filter("datum.layer === layer")
        .transform_filter("datum.head === head")
        .transform_flatten(["row", "column", "weight"])
        .transform_calculate(share="datum.weight / datum.largest")
        .transform_calculate(row_name="full_rows[datum.row]", column_name="full_columns[datum.column]")
        .encode(
            x=alt.value(0),
            x2=alt.value("width"),
            y=alt.Y("row:O", axis=None, scale=scale),
            y2=alt.Y2(field="column"),
            strokeOpacity=alt.condition(hovered, opacity, alt.value(0.04)),
            tooltip=[
                "head:N",
                *name_tooltips(*QUERY_KEY),
                alt.Tooltip("weight:Q", format=".4~g"),
            ],
        )
    )

    def draw(theme: Theme, stretch: float) -> alt.TopLevelMixin:
        step = max(9, min(22, 1000 // count)) * theme.cell_scale
        width = 240 * theme.plot_scale * stretch
        widths = alt.Scale(domain=[0, 1], range=[0.5, 0.3 * step], clamp=True)
        drawn = lines.mark_rule(aria=False).encode(size=alt.Size("share:Q", scale=widths, legend=None))
        size = max(6.0, min(theme.font_size, 0.95 * step))
        chart = alt.layer(
            drawn,
            _token_column(queries, "row", "right", scale, size).add_params(hovered),
            _token_column(keys, "column", "left", scale, size),
        ).properties(width=width, height=alt.Step(step))
        return chart.add_params(*queries.parameters("rows"), *keys.parameters("columns"), *selectors)

    limits = (
        f"left: query token; right: key token; lines: the {MAX_LINES} largest weights of each query if at least "
        f"{threshold:.2g}; width and opacity show the weight"
    )
    return Figure(draw, title, [*notes, limits, pooling_note(rows, columns)], "layer + ', ' + head")


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
    scores: Mapping[str, Mapping[tuple[int, int], float]],
    title: str = "Attention heads by pattern",
    top: int = 10,
    chances: Mapping[str, float] | None = None,
) -> Figure:
    """Return, for each pattern, the heads with the largest mean attention weight on it, as bars.

    `chances` are the weights of uniform attention by pattern, drawn as vertical lines. With many patterns fewer than
    `top` heads are shown.
    """
    top = max(1, min(top, MAX_BARS // max(1, len(scores))))
    records: list[dict[str, Any]] = []
    names: list[str] = []
    for pattern, by_head in scores.items():
        finite = {head: score for head, score in by_head.items() if np.isfinite(score)}
        chance = (chances or {}).get(pattern)
        for layer, head in sorted(finite, key=lambda each: -finite[each])[:top]:
            record = {"row": len(names), "pattern": visible(pattern), "weight": rounded(finite[layer, head])}
            records.append(record if chance is None else {**record, "chance": rounded(chance)})
            names.append(f"{pattern}: layer {layer}, head {head}")
    rows = name_labels(names, 48)
    patterns = alt.Scale(domain=[visible(pattern) for pattern in scores], range="category")
    heads = max((len(by_head) for by_head in scores.values()), default=0)

    def draw(theme: Theme, stretch: float) -> alt.TopLevelMixin:
        width, step = 320 * theme.plot_scale * stretch, 18 * theme.cell_scale
        base = alt.Chart({"values": records}).encode(y=rows.y(theme, step))
        tooltip = ["pattern:N", alt.Tooltip("weight:Q", format=".4~g")]
        if chances:
            tooltip.append(alt.Tooltip("chance:Q", title="uniform attention", format=".4~g"))
        title = "mean attention weight on the pattern"
        x = alt.X("weight:Q", title=title, axis=alt.Axis(tickCount=5), scale=alt.Scale(domainMin=0))
        bars = base.mark_bar(height=alt.RelativeBandSize(0.72)).encode(
            x=x, color=alt.Color("pattern:N", scale=patterns, legend=None), tooltip=tooltip
        )
        labels = base.mark_text(align="left", fontSize=theme.font_size - 1).encode(
            # Right of the bar and of the line of uniform attention.
            x=alt.X("end:Q", title=title),
            xOffset=alt.value(5),
            text=alt.Text("weight:Q", format=".3f"),
        )
        layers: list[alt.Chart] = [bars, labels.transform_calculate(end="max(datum.weight, datum.chance || 0)")]
        if chances:
            tick = base.mark_tick(thickness=2, size=step, color=theme.palette.ink, opacity=1)
            layers.append(tick.encode(x=alt.X("chance:Q", title=title)))
        chart = alt.layer(*layers).properties(width=width, height=alt.Step(step))
        return chart.add_params(*rows.parameters("rows"))

    notes = [
        "vertical line: uniform attention" if chances else "",
        f"top {top} of {heads:,} heads of each pattern" if heads > top else f"all {heads} heads",
    ]
    return Figure(draw, title, notes)


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


def _strongest(weights: Numbers, threshold: float) -> dict[str, Any]:
    """Return rows, columns and weights of the lines to draw; the line of a query with a single key is left out."""
    finite = np.where(np.isfinite(weights), weights, 0.0)
    if is_causal(weights):
        finite[0] = 0.0
    values = pooled(finite)
    largest = np.argsort(-values, axis=1, kind="stable")[:, :MAX_LINES]
    rows = np.repeat(np.arange(len(values)), largest.shape[1])
    is_drawn = values[rows, largest.reshape(-1)] >= threshold
    rows, columns = rows[is_drawn], largest.reshape(-1)[is_drawn]
    return {
        "row": rows.tolist(),
        "column": columns.tolist(),
        "weight": rounded(values[rows, columns]),
        "largest": largest_weight(finite) or 1.0,
    }
