"""Curves: how a number changes with steps, lengths, distances and orders."""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np

from satchel.charts.figures import Figure
from satchel.charts.labels import cut, legend_columns, titled, type_size
from satchel.charts.numbers import DIGITS, rounded
from satchel.text.display import visible

# Of one curve: more are not told apart.
MOST_POINTS = 600
# With more than these, a curve shows no dots.
MOST_DOTS = 40
LONGEST_NAME = 48
DASHES = [[1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [4, 4], [10, 4], [2, 4], [1, 1]]

Curve = Sequence[tuple[float, float]]


def training_curves(
    curves: Mapping[str, Curve],
    baseline: float | None = None,
    *,
    measure: str = "bits per byte, held-out text",
    title: str = "Learning",
) -> Figure:
    """Return a measure of each run against the step, and what counting reaches as a line across."""
    return _curves(curves, "step", measure, title, across={} if baseline is None else {"counting": baseline})


def cost_by_length(
    curves: Mapping[str, Curve], measure: str = "seconds", title: str = "What a longer text costs"
) -> Figure:
    """Return seconds, or bytes, against the length of a text; a straight line is a power of the length."""
    return _curves(curves, "length in tokens", measure, title, is_logarithmic=True)


def bottleneck_curve(
    curves: Mapping[str, Curve], measure: str = "BLEU", title: str = "Long sentences through a bottleneck"
) -> Figure:
    """Return the quality of translations against the length of the source, with attention and without."""
    return _curves(curves, "length of the source in tokens", measure, title)


def forgetting_curve(
    curves: Mapping[str, Curve],
    measure: str = "gradient norm",
    title: str = "What is far away is forgotten",
    *,
    is_logarithmic: bool = False,
) -> Figure:
    """Return what reaches a word from another (a gradient's norm, or accuracy) against their distance."""
    return _curves(curves, "distance in tokens", measure, title, is_falling=is_logarithmic)


def dot_products_by_distance(curves: Mapping[str, Curve], title: str = "Positions that are near are alike") -> Figure:
    """Return the dot product of the vectors of two positions against their distance."""
    return _curves(curves, "distance in tokens", "dot product", title)


def cost_by_order(costs: Sequence[tuple[int, float]]) -> Figure:
    """Return bits per byte against the order of an n-gram, with the figure at each point."""
    title = "A longer context predicts better, until the text runs out"
    bits = rounded([bits for _, bits in costs])
    rows = [{"order": order, "bits": cost} for (order, _), cost in zip(costs, bits, strict=True)]
    base = alt.Chart({"values": rows}).encode(
        x=alt.X("order:O", title="order (tokens seen at once)", axis=alt.Axis(labelAngle=0)),
        y=alt.Y("bits:Q", title="bits per byte, held-out text", scale=alt.Scale(zero=False, padding=16)),
    )
    line = base.mark_line(point=True).encode(tooltip=["order:O", "bits:Q"])
    labels = base.mark_text(dx=6, dy=alt.ExprRef("-0.9 * size"), align="left").encode(
        text=alt.Text("bits:Q", format=".2f")
    )
    heading, _ = titled(title)
    chart = alt.layer(line, labels).properties(width=420, height=260, title=heading, description=title)
    return Figure(chart.add_params(type_size()))


def _curves(
    curves: Mapping[str, Curve],
    along: str,
    measure: str,
    title: str,
    *,
    across: Mapping[str, float] | None = None,
    is_logarithmic: bool = False,
    is_falling: bool = False,
) -> Figure:
    """Return curves told apart by colour and by dashes; logarithmic both ways, or (falling) upwards."""
    records: list[dict[str, Any]] = [
        {"series": place, **_points(curve, is_logarithmic, is_logarithmic or is_falling)}
        for place, curve in enumerate(curves.values())
    ]
    names = [cut(visible(name), LONGEST_NAME) for name in curves]
    has_dots = max((len(record["x"]) for record in records), default=0) <= MOST_DOTS
    base = (
        alt.Chart({"values": records})
        .transform_flatten(["x", "y"])
        .transform_calculate(name="names[datum.series]")
        .encode(
            x=alt.X(
                "x:Q", title=along, scale=_logarithmic(2) if is_logarithmic else alt.Scale(nice=False), axis=_few()
            ),
            y=alt.Y(
                "y:Q",
                title=visible(measure),
                scale=_logarithmic(10) if is_logarithmic or is_falling else alt.Scale(zero=False, padding=12),
                axis=_few(),
            ),
            tooltip=[
                alt.Tooltip("name:N", title="curve"),
                alt.Tooltip("x:Q", title=along),
                alt.Tooltip("y:Q", title=visible(measure), format=".4~g"),
            ],
        )
    )
    layers: list[alt.Chart] = []
    if len(names) > 1:
        places = list(range(len(names)))
        legend = alt.Legend(
            orient="bottom",
            labelExpr="names[datum.value]",
            columns=legend_columns(names),
            symbolType="stroke",
            symbolSize=alt.ExprRef("2.5 * size * size"),
        )
        base = base.encode(
            color=alt.Color("series:N", title=None, scale=alt.Scale(domain=places, range="category"), legend=legend)
        )
        dashes = alt.StrokeDash("series:N", title=None, scale=alt.Scale(domain=places, range=DASHES), legend=legend)
        layers.append(base.mark_line().encode(strokeDash=dashes))
    else:
        layers.append(base.mark_line())
    if has_dots:
        layers.append(base.mark_point())
    for name, value in (across or {}).items():
        if np.isfinite(value):
            layers += _line_across(name, value)
    heading, _ = titled(title)
    chart = alt.layer(*layers).properties(width=420, height=260, title=heading, description=visible(title))
    return Figure(chart.add_params(alt.param(name="names", value=names), type_size()))


def _line_across(name: str, value: float) -> list[alt.Chart]:
    base = alt.Chart({"values": [{"y": rounded(value), "name": visible(name)}]}).encode(y="y:Q")
    return [
        base.mark_rule(style="other", strokeDash=[6, 4]),
        base.mark_text(style="other", align="left", dx=4, dy=alt.ExprRef("-0.8 * size")).encode(
            x=alt.value(0), text="name:N"
        ),
    ]


def _points(curve: Curve, positive_x: bool, positive_y: bool) -> dict[str, list[Any]]:
    """Return the points of a curve as lists: those that can be drawn, and no more than are seen."""
    kept = [
        (x, y)
        for x, y in curve
        if np.isfinite(x) and not (positive_x and x <= 0) and not (positive_y and np.isfinite(y) and y <= 0)
    ]
    if len(kept) > MOST_POINTS:
        kept = [kept[place] for place in np.linspace(0, len(kept) - 1, MOST_POINTS).round().astype(int)]
    return {
        "x": [float(x) for x, _ in kept],
        # Each to its own digits: where an axis is logarithmic, the smallest counts, too.
        "y": [float(f"{y:.{DIGITS}g}") if np.isfinite(y) else None for _, y in kept],
    }


def _logarithmic(base: int) -> alt.Scale:
    return alt.Scale(type="log", base=base, nice=False, padding=12)


def _few() -> alt.Axis:
    """Return an axis of few numbers, so that they have room in print."""
    return alt.Axis(tickCount=6, labelOverlap="parity", grid=True)
