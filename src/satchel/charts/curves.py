"""Charts of measures: curves by step, length, distance or n-gram order, and confidence intervals of runs."""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np
import numpy.typing as npt

from satchel.charts.arrays import DIGITS, Numbers, matrix, rounded, to_array
from satchel.charts.figures import Figure
from satchel.charts.labels import cut, legend_columns, name_labels, text_width
from satchel.charts.themes import Theme
from satchel.text.display import visible

# Width and height of a plot, in pixels.
WIDTH, HEIGHT = 420, 260
# Maximum number of points of a curve; longer curves are sampled.
MAX_POINTS = 600
# Maximum number of points of a curve with a dot at each.
MAX_DOTS = 40
# Maximum number of points of a single curve with the value printed at each.
MAX_VALUES = 12
LONGEST_NAME = 48
# Height of a label, as a fraction of the height of a plot.
LABEL_HEIGHT = 0.05
DASHES = [[1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [4, 4], [10, 4], [2, 4], [1, 1]]

# Pairs of x and y, also as an (N, 2) array or tensor; or the values (N,) at x = 0, 1, 2 ...
Curve = Sequence[tuple[float, float]] | npt.ArrayLike


def training_curves(
    curves: Mapping[str, Curve],
    baseline: float | None = None,
    *,
    measure: str = "bits per byte",
) -> Figure:
    """Return a validation measure of each run by training step, and the n-gram baseline as a dashed line."""
    title = "Training curve" if len(curves) == 1 else "Training curves"
    return line_chart(curves, "step", measure, title, baselines={} if baseline is None else {"n-gram": baseline})


def dot_products_by_distance(
    vectors: npt.ArrayLike | Mapping[str, npt.ArrayLike], title: str = "Dot products of position vectors by distance"
) -> Figure:
    """Return the mean dot product of position vectors (T, D) at each distance, for one table of vectors or several.

    An array (T,) is taken as the dot products at the distances 0, 1, 2 ...
    """
    tables = vectors if isinstance(vectors, Mapping) else {"dot product": vectors}
    return line_chart(
        {name: _by_distance(to_array(table)) for name, table in tables.items()},
        "distance (positions)",
        "mean dot product",
        title,
    )


def _by_distance(vectors: Numbers) -> Numbers:
    if vectors.ndim == 1:
        return vectors
    products_TT = matrix(vectors) @ matrix(vectors).T
    return np.array([products_TT.diagonal(distance).mean() for distance in range(len(products_TT))])


def cost_by_order(costs: Sequence[tuple[int, float]]) -> Figure:
    """Return the bits per byte of an n-gram model by its order."""
    return line_chart({"n-gram": costs}, "n-gram order", "bits per byte", "Validation bits per byte by n-gram order")


def gradient_norms(
    curves: Mapping[str, Curve],
    unit: str,
    untrained: Mapping[str, str] | None = None,
    notes: Sequence[str] = (),
) -> Figure:
    """Return the norm of the gradient of a token's loss with respect to earlier input embeddings, by distance.

    `untrained` maps the name of an untrained network, drawn as a dashed line, to that of the trained one.
    """
    return line_chart(
        curves,
        f"distance from the predicted token ({unit})",
        "gradient norm (logarithmic)",
        "Gradient of the loss with respect to earlier input embeddings",
        log_y=True,
        dashed=untrained or {},
        notes=notes,
    )


def line_chart(
    curves: Mapping[str, Curve],
    x_title: str,
    y_title: str,
    title: str,
    *,
    log_x: bool = False,
    log_y: bool = False,
    baselines: Mapping[str, float] | None = None,
    dashed: Mapping[str, str] | None = None,
    notes: Sequence[str] = (),
) -> Figure:
    """Return curves of (x, y) points, distinguished by colour and dashes; baselines are horizontal lines.

    `dashed` maps the name of a dashed curve to that of a solid curve with the same colour. `notes` are lines below
    the title.
    """
    records: list[dict[str, Any]] = [
        {"series": place, **_points(curve, log_x, log_y)} for place, curve in enumerate(curves.values())
    ]
    names = [cut(visible(name), LONGEST_NAME) for name in curves]
    series = list(range(len(names)))
    has_dots = max((len(record["x"]) for record in records), default=0) <= MAX_DOTS
    y_title = visible(y_title)
    xs = [x for record in records for x in record["x"]]
    ys = [y for record in records for y in record["y"] if y is not None]
    x_range = max(1.0, max(xs) - min(xs)) if xs else 1.0
    # Mean of the curves at their first and last points: the name of a baseline is at the end that is farther from it.
    ends = [
        [y for y in (record["y"][place] for record in records if record["y"]) if y is not None] for place in (0, -1)
    ]
    first, last = (float(np.mean(values)) if values else 0.0 for values in ends)
    # A single value gives no range: the axis starts at zero.
    is_single = len(set(ys)) < 2
    y_scale = _log(10) if log_y else alt.Scale(zero=is_single, padding=12)
    base = (
        alt.Chart({"values": records})
        .transform_flatten(["x", "y"])
        .transform_calculate(name="names[datum.series]")
        .encode(
            x=alt.X("x:Q", title=x_title, scale=_log(2) if log_x else alt.Scale(nice=False), axis=_axis(x_range)),
            y=alt.Y("y:Q", title=y_title, scale=y_scale, axis=_axis()),
            tooltip=[
                alt.Tooltip("name:N", title="curve"),
                alt.Tooltip("x:Q", title=x_title),
                alt.Tooltip("y:Q", title=y_title, format=".4~g"),
            ],
        )
    )

    def draw(theme: Theme, stretch: float) -> alt.TopLevelMixin:
        coloured, factor = base, theme.plot_scale * stretch
        line = base.mark_line()
        if len(names) > 1:
            legend = alt.Legend(
                orient="bottom",
                labelExpr="names[datum.value]",
                columns=legend_columns(names, WIDTH * factor, theme),
                symbolType="stroke",
                symbolSize=2.5 * theme.font_size**2,
            )
            colours = alt.Scale(domain=series, range=_colours(list(curves), dashed or {}, theme))
            styles = DASHES if dashed is None else [DASHES[1] if name in dashed else DASHES[0] for name in curves]
            dashes = alt.Scale(domain=series, range=styles)
            coloured = base.encode(color=alt.Color("series:N", title=None, scale=colours, legend=legend))
            line = coloured.mark_line().encode(
                strokeDash=alt.StrokeDash("series:N", title=None, scale=dashes, legend=legend)
            )
        layers = [line, *([coloured.mark_point()] if has_dots else [])]
        if len(names) == 1 and len(records[0]["x"]) <= MAX_VALUES:
            layers.append(_values(records[0], log_x, base, WIDTH * factor, theme))
        for name, value in _merged(baselines or {}, ys).items():
            layers += _baseline(name, value, theme, is_left=abs(value - first) > abs(value - last))
        chart = alt.layer(*layers).properties(width=WIDTH * factor, height=HEIGHT * factor)
        return chart.add_params(alt.param(name="names", value=names))

    return Figure(draw, title, [visible(note) for note in notes])


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
        chart = alt.layer(intervals, points).properties(width=WIDTH * theme.plot_scale * stretch, height=alt.Step(step))
        return chart.add_params(*runs.parameters("rows"))

    return Figure(draw, title, [f"{'higher' if larger_is_better else 'lower'} is better; lines: 95 % CI"])


def _colours(names: Sequence[str], dashed: Mapping[str, str], theme: Theme) -> list[str]:
    """Return the colour of each curve; a dashed curve has that of its solid curve."""
    category = theme.palette.category
    solid = [name for name in names if name not in dashed]
    return [category[solid.index(dashed.get(name, name)) % len(category)] for name in names]


def _baseline(name: str, value: float, theme: Theme, *, is_left: bool) -> list[alt.Chart]:
    """Return a dashed horizontal line with its name and value above its left or right end."""
    base = alt.Chart({"values": [{"y": rounded(value), "name": f"{visible(name)} {value:.4g}"}]}).encode(y="y:Q")
    text = base.mark_text(align="left" if is_left else "right", baseline="bottom", dx=5 if is_left else -5, dy=-3)
    return [
        base.mark_rule(color=theme.palette.ink, strokeDash=[6, 4], strokeWidth=0.75 * theme.line_width),
        text.encode(x=alt.value(0) if is_left else alt.value("width"), text="name:N"),
    ]


def _merged(baselines: Mapping[str, float], ys: Sequence[float]) -> dict[str, float]:
    """Return the finite baselines; the names of those whose labels would overlap share the label of the first."""
    values = [value for value in baselines.values() if np.isfinite(value)]
    height = max([*ys, *values], default=0) - min([*ys, *values], default=0)
    groups: list[tuple[list[str], float]] = []
    for name, value in baselines.items():
        near = [names for names, other in groups if abs(other - value) < LABEL_HEIGHT * height]
        if near:
            near[0].append(name)
        elif np.isfinite(value):
            groups.append(([name], value))
    return {", ".join(names): value for names, value in groups}


def _values(record: Mapping[str, Any], log_x: bool, base: alt.Chart, width: float, theme: Theme) -> alt.Chart:
    """Return the values of a single curve beside its points; those that would overlap a later one are omitted."""
    xs = np.log(record["x"]) if log_x else np.asarray(record["x"])
    pixels = (xs - xs.min()) / (np.ptp(xs) or 1.0) * width if len(xs) else xs
    kept: list[int] = []
    for place in reversed(range(len(pixels))):
        text = f"{record['y'][place] or 0:.4g}"
        if not kept or pixels[kept[-1]] - pixels[place] > text_width(text, theme.font_size) + 4:
            kept.append(place)
    chart: alt.Chart = (
        base.transform_filter(f"indexof({[record['x'][place] for place in kept]}, datum.x) >= 0")
        .mark_text(align="left", dx=6, dy=-0.9 * theme.font_size)
        .encode(text=alt.Text("y:Q", format=".4g"))
    )
    return chart


def _points(curve: Curve, positive_x: bool, positive_y: bool) -> dict[str, list[Any]]:
    """Return the coordinates of a curve as lists, without points that the scales cannot show, sampled if long."""
    kept = [
        (x, y)
        for x, y in _pairs(curve)
        if np.isfinite(x) and not (positive_x and x <= 0) and not (positive_y and np.isfinite(y) and y <= 0)
    ]
    if len(kept) > MAX_POINTS:
        kept = [kept[place] for place in np.linspace(0, len(kept) - 1, MAX_POINTS).round().astype(int)]
    return {
        "x": [float(x) for x, _ in kept],
        # Significant digits of each value: logarithmic axes show the smallest values, too.
        "y": [float(f"{y:.{DIGITS}g}") if np.isfinite(y) else None for _, y in kept],
    }


def _pairs(curve: Curve) -> Numbers:
    """Return the points of a curve as (N, 2) array."""
    array = to_array(curve).astype(np.float64)
    if array.ndim == 1:
        array = np.stack([np.arange(len(array)), array], axis=1)
    return matrix(array, columns=2)


def _log(base: int) -> alt.Scale:
    return alt.Scale(type="log", base=base, nice=False, padding=12)


def _axis(ticks: float = 6) -> alt.Axis:
    """Return an axis with few ticks, which fit in print."""
    return alt.Axis(tickCount=int(min(6, ticks)), labelOverlap="parity", grid=True)
