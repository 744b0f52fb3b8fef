"""Interval plots: the value of each run with its confidence interval."""

from collections.abc import Sequence

import altair as alt

from satchel.charts.arrays import rounded
from satchel.charts.figures import Figure
from satchel.charts.labels import name_labels
from satchel.charts.themes import Theme
from satchel.text.display import visible


def comparison(
    metric: str,
    rows: Sequence[tuple[str, float, float, float]],
    *,
    larger_is_better: bool = False,
    title: str = "Comparison of runs",
) -> Figure:
    """Return the value of each run as a point and its 95 % confidence interval (low, high) as a line."""
    runs = name_labels([run for run, *_ in rows], 48)
    numbers = rounded([interval for _, *interval in rows]) if rows else []
    records = [
        {"row": place, "run": runs.full[place], "value": value, "low": low, "high": high}
        for place, (value, low, high) in enumerate(numbers)
    ]
    scale = alt.Scale(zero=False, padding=16)
    axis = alt.Axis(tickCount=6, labelOverlap="parity")
    tooltip = [alt.Tooltip("run:N"), *(alt.Tooltip(f"{field}:Q", format=".5~g") for field in ("value", "low", "high"))]

    def draw(theme: Theme, stretch: float) -> alt.TopLevelMixin:
        step = 32 * theme.cell_scale
        base = alt.Chart({"values": records}).encode(y=runs.y(theme, step), tooltip=tooltip)
        intervals = base.mark_rule().encode(
            x=alt.X("low:Q", title=visible(metric.replace("_", " ")), scale=scale, axis=axis),
            x2=alt.X2(field="high"),
        )
        points = base.mark_point(size=0.7 * theme.font_size**2).encode(x=alt.X("value:Q", scale=scale))
        chart = alt.layer(intervals, points).properties(width=420 * theme.plot_scale * stretch, height=alt.Step(step))
        return chart.add_params(*runs.parameters("rows"))

    return Figure(draw, title, [f"{'higher' if larger_is_better else 'lower'} is better; lines: 95 % CI"])
