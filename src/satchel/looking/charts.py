"""Charts: one object for a notebook, SVG, PNG and self-contained HTML."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import altair as alt

from satchel import durable
from satchel.errors import SettingsError
from satchel.text.display import visible

# A blue that is told apart from the others by people of any colour vision (Okabe and Ito).
INK = "#0072B2"
OTHER = "#D55E00"


def cost_by_order(costs: Sequence[tuple[int, float]]) -> alt.TopLevelMixin:
    """Return bits per byte against the order of an n-gram, with the figure at each point."""
    rows = [{"order": order, "bits": bits, "label": f"{bits:.2f}"} for order, bits in costs]
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=alt.X("order:O", title="order (tokens seen at once)", axis=alt.Axis(labelAngle=0)),
        y=alt.Y("bits:Q", title="bits per byte, held-out text", scale=alt.Scale(zero=False, padding=16)),
    )
    line = base.mark_line(color=INK, point=alt.OverlayMarkDef(color=INK, size=50))
    labels = base.mark_text(dx=6, dy=-10, align="left", color="#333333").encode(text="label:N")
    return alt.layer(line, labels).properties(
        width=420, height=260, title="A longer context predicts better, until the text runs out"
    )


def comparison(
    metric: str, rows: Sequence[tuple[str, float, float, float]], *, larger_is_better: bool = False
) -> alt.TopLevelMixin:
    """Return the value of each run as a point, and its interval as a line."""
    better = "larger" if larger_is_better else "smaller"
    values = [{"run": run, "value": value, "low": low, "high": high} for run, value, low, high in rows]
    base = alt.Chart(alt.InlineData(values=values)).encode(y=alt.Y("run:N", title=None, sort=None))
    scale = alt.Scale(zero=False, padding=16)
    intervals = base.mark_rule(color=INK, strokeWidth=2).encode(
        x=alt.X("low:Q", title=f"{metric.replace('_', ' ')}, 95 % interval ({better} is better)", scale=scale),
        x2="high:Q",
    )
    points = base.mark_point(color=INK, filled=True, size=70, opacity=1).encode(x=alt.X("value:Q", scale=scale))
    return alt.layer(intervals, points).properties(width=420, height=alt.Step(32))


def training_curve(curve: Sequence[tuple[int, float]], baseline: float | None) -> alt.TopLevelMixin:
    """Return bits per byte of held-out text against the step, and what counting reaches as a line across."""
    rows = [{"step": step, "bits": bits} for step, bits in curve]
    scale = alt.Scale(zero=False, padding=16)
    layers: list[alt.Chart] = [
        alt.Chart(alt.InlineData(values=rows))
        .mark_line(color=INK, point=alt.OverlayMarkDef(color=INK, size=40))
        .encode(
            x=alt.X("step:Q", title="step"),
            y=alt.Y("bits:Q", title="bits per byte, held-out text", scale=scale),
        )
    ]
    if baseline is not None:
        line = alt.Chart(alt.InlineData(values=[{"bits": baseline, "label": "counting"}]))
        layers.append(line.mark_rule(color=OTHER, strokeDash=[6, 4]).encode(y="bits:Q"))
        layers.append(
            line.mark_text(color=OTHER, align="left", dx=4, dy=-7).encode(y="bits:Q", x=alt.value(0), text="label:N")
        )
    return alt.layer(*layers).properties(width=420, height=260)


def by_word_and_sense(
    words: Sequence[str], values: Sequence[Sequence[float]], title: str, *, signed: bool = True
) -> alt.TopLevelMixin:
    """Return a number for each sense of each word as a colour: blue adds, orange takes away."""
    senses = [str(sense) for sense in range(len(values[0]) if values else 0)]
    return _grid(words, senses, values, title, columns_title="sense", signed=signed)


def alignment(
    source: Sequence[str], target: Sequence[str], values: Sequence[Sequence[float]], *, signed: bool
) -> alt.TopLevelMixin:
    """Return how much each target word looked at each source word as a colour; or, signed, what each added to it."""
    title = "What source words add to target words" if signed else "Where target words looked"
    return _grid(target, source, values, title, columns_title=None, signed=signed)


def _grid(
    rows: Sequence[str],
    columns: Sequence[str],
    values: Sequence[Sequence[float]],
    title: str,
    *,
    columns_title: str | None,
    signed: bool,
) -> alt.TopLevelMixin:
    """Return a table of numbers as colours: blue adds, orange takes away."""
    largest = max((abs(value) for row in values for value in row), default=0.0) or 1.0
    cells = [
        {"row": place, "column": column, "value": value, "of": visible(rows[place]), "at": visible(columns[column])}
        for place, row in enumerate(values)
        for column, value in enumerate(row)
    ]
    # Colours are mixed as light is: other ways pass through hues of their own.
    scale = (
        alt.Scale(domain=[-largest, 0, largest], range=[OTHER, "#ffffff", INK], interpolate="rgb")
        if signed
        else alt.Scale(domain=[0, largest], range=["#ffffff", INK], interpolate="rgb")
    )
    chart: alt.TopLevelMixin = (
        alt.Chart(alt.InlineData(values=cells))
        .mark_rect(stroke="#dddddd", strokeWidth=0.5)
        .encode(
            x=alt.X("column:O", title=columns_title, axis=_named(columns, angle=-90 if columns_title is None else 0)),
            y=alt.Y("row:O", title=None, axis=_named(rows)),
            color=alt.Color("value:Q", title="adds" if signed else "counts", scale=scale),
            tooltip=["of:N", "at:N", alt.Tooltip("value:Q", format="+.4f" if signed else ".4f")],
        )
        .properties(width=alt.Step(26), height=alt.Step(20), title=title)
    )
    return chart


def _named(names: Sequence[str], angle: int | None = None) -> alt.Axis:
    """Return an axis of words: placed by number, since they may stand there twice, and named by what stands there."""
    shown = {str(place): visible(name, spaces=True) for place, name in enumerate(names)}
    options: dict[str, Any] = {} if angle is None else {"labelAngle": angle, "orient": "top"}
    return alt.Axis(labelExpr=f"({json.dumps(shown)})[datum.value]", labelLimit=200, **options)


def save(chart: alt.TopLevelMixin, path: Path) -> None:
    """Write a chart as .svg, .png, .html or .json; the file needs no network to be seen."""
    import vl_convert

    spec: dict[str, Any] = chart.to_dict()
    writers = {
        ".svg": lambda: vl_convert.vegalite_to_svg(spec).encode(),
        ".png": lambda: vl_convert.vegalite_to_png(spec, scale=2),
        ".html": lambda: vl_convert.vegalite_to_html(spec, bundle=True).encode(),
        ".json": lambda: durable.to_json(spec),
    }
    if path.suffix not in writers:
        raise SettingsError(f"found the ending {path.suffix!r}", f"expected {', '.join(writers)}", where=str(path))
    durable.write_file(path, writers[path.suffix]())
