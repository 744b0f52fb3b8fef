"""Bars and intervals: runs beside one another, and the senses of words."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np
import numpy.typing as npt

from satchel.charts.figures import Figure
from satchel.charts.labels import Words, cut, row_axis, titled, type_size, words
from satchel.charts.numbers import matrix, rounded
from satchel.text.display import visible

# As many senses as there are colours have one of their own.
OWN_COLOUR = 7
OTHERS = "others"


def comparison(
    metric: str,
    rows: Sequence[tuple[str, float, float, float]],
    *,
    larger_is_better: bool = False,
    title: str = "How well each run does",
) -> Figure:
    """Return the value of each run as a point, and its interval as a line."""
    better = "larger" if larger_is_better else "smaller"
    names = [visible(run) for run, *_ in rows]
    numbers = rounded([found for _, *found in rows]) if rows else []
    records = [
        {"row": place, "run": cut(names[place], 200), "value": value, "low": low, "high": high}
        for place, (value, low, high) in enumerate(numbers)
    ]
    runs = Words([cut(name, 48) for name in names], names)
    measure = metric.replace("_", " ")
    heading, _ = titled(title, [f"{better} is better; the lines are 95 % intervals"])
    scale = alt.Scale(zero=False, padding=16)
    base = alt.Chart({"values": records}).encode(
        y=alt.Y("row:O", title=None, axis=row_axis(runs)),
        tooltip=["run:N", *(alt.Tooltip(f"{field}:Q", format=".5~g") for field in ("value", "low", "high"))],
    )
    intervals = base.mark_rule().encode(
        x=alt.X("low:Q", title=visible(measure), scale=scale, axis=alt.Axis(tickCount=6, labelOverlap="parity")),
        x2=alt.X2(field="high"),
    )
    points = base.mark_point(size=alt.ExprRef("0.7 * size * size")).encode(x=alt.X("value:Q", scale=scale))
    chart = alt.layer(intervals, points).properties(
        width=420, height=alt.Step(32), title=heading, description=visible(title)
    )
    return Figure(chart.add_params(*runs.parameters("rows"), type_size()))


def sense_bars(
    tokens: Sequence[str], weights: npt.ArrayLike, title: str = "How much each sense of each word counts"
) -> Figure:
    """Return a bar for each word, made of how much each of its senses counts; those that count most have colours."""
    found = matrix(weights, len(tokens))
    senses = found.shape[1]
    totals = np.nansum(np.where(np.isfinite(found), np.abs(found), 0.0), axis=0)
    own = sorted(np.argsort(-totals, kind="stable")[: OWN_COLOUR if senses > OWN_COLOUR + 1 else senses].tolist())
    names = [f"sense {sense}" for sense in own] + [OTHERS] * (len(own) < senses)
    records: list[dict[str, Any]] = []
    for row, counts in enumerate(rounded(found)):
        for sense, count in enumerate(counts):
            if count:
                group = own.index(sense) if sense in own else len(own)
                records.append({"row": row, "group": group, "sense": sense, "counts": count})
    rows = words(tokens)
    heading, _ = titled(title)
    chart = (
        alt.Chart({"values": records})
        .transform_calculate(of="whole_rows[datum.row]")
        .mark_bar(aria=False, height=alt.RelativeBandSize(0.8))
        .encode(
            x=alt.X("counts:Q", title="counts", stack="zero", axis=alt.Axis(tickCount=5)),
            y=alt.Y("row:O", title=None, axis=row_axis(rows), scale=alt.Scale(domain=list(range(len(rows))))),
            order=[alt.Order("group:Q"), alt.Order("sense:Q")],
            color=alt.Color(
                "group:N",
                title="sense",
                scale=alt.Scale(domain=list(range(len(names))), range="category"),
                legend=alt.Legend(labelExpr="names[datum.value]", orient="right"),
            ),
            tooltip=[
                alt.Tooltip("of:N", title="word"),
                alt.Tooltip("sense:O"),
                alt.Tooltip("counts:Q", format=".4~g"),
            ],
        )
        .properties(
            width=420,
            height=alt.Step(max(10, min(20, 1400 // max(1, len(rows))))),
            title=heading,
            description=visible(title),
        )
    )
    return Figure(
        chart.add_params(
            *rows.parameters("rows"),
            alt.param(name="names", value=[name.removeprefix("sense ") for name in names]),
            type_size(),
        )
    )
