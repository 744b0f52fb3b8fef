"""Points: words as places on a plane."""

from collections.abc import Sequence
from typing import Any, Literal

import altair as alt
import numpy as np
import numpy.typing as npt

from satchel.charts.figures import Figure
from satchel.charts.grids import ground
from satchel.charts.labels import cut, label, legend_columns, titled, type_size, whole
from satchel.charts.numbers import Numbers, matrix, rounded
from satchel.text.display import visible

WIDTH, HEIGHT = 620, 460
# More points than these get more room.
FEW = 80
LONGEST_NEAR = 8
# A letter is about this wide, in its height.
LETTER = 0.62
# A share of the plane is left free at each edge.
MARGIN = 0.06
# Where a name may stand beside its point: how it is aligned, and how far off it is.
SIDES: tuple[tuple[Literal["left", "right", "center"], int, int], ...] = (
    ("left", 6, 0),
    ("right", -6, 0),
    ("center", 0, -10),
    ("center", 0, 10),
)


def embedding_map(
    tokens: Sequence[str],
    places: npt.ArrayLike,
    *,
    groups: Sequence[str] | None = None,
    nearest: Sequence[Sequence[str]] | None = None,
    title: str = "Words near one another are used alike",
) -> Figure:
    """Return words at their (T, 2) places. Names that would cover those before them are left to the pointer."""
    everywhere = matrix(places, len(tokens), 2)
    kept = np.flatnonzero(np.isfinite(everywhere).all(axis=1)).tolist()
    found = everywhere[kept]
    named = [label(tokens[place]) for place in kept]
    told: list[dict[str, Any]] = [{"whole": whole(tokens[place])} for place in kept]
    for record, place in zip(told, kept, strict=True):
        if nearest is not None:
            record["near"] = cut(", ".join(label(each) for each in nearest[place][:LONGEST_NEAR]), 200)
        if groups is not None:
            record["group"] = visible(groups[place])
    heading, _ = titled(title)

    larger = 1.0 if len(named) <= FEW else 1.5

    def draw(factor: float, size: float) -> alt.TopLevelMixin:
        width, height = WIDTH * larger * factor, HEIGHT * larger * factor
        sides = _sides(named, found, width, height, size)
        records = [
            record | {"x": x, "y": y, "name": name, "side": side}
            for record, (x, y), name, side in zip(told, rounded(found), named, sides, strict=True)
        ]
        chart = alt.layer(ground(), *_layers(records, found, size)).properties(
            width=width, height=height, title=heading, description=visible(title)
        )
        return chart.add_params(type_size())

    return Figure(draw(1.0, 11), draw)


def _layers(records: list[dict[str, Any]], found: Numbers, size: float) -> list[alt.Chart]:
    """Return the points, and the names on each side of them."""
    fields = [field for field in ("whole", "group", "near") if records and field in records[0]]
    titles = {"whole": "word", "group": "group", "near": "nearest"}
    base = alt.Chart({"values": records}).encode(
        x=alt.X("x:Q", axis=None, scale=_around(found[:, 0])),
        y=alt.Y("y:Q", axis=None, scale=_around(found[:, 1])),
        tooltip=[alt.Tooltip(f"{field}:N", title=titles[field]) for field in fields],
    )
    if "group" in fields:
        names = list(dict.fromkeys(record["group"] for record in records))
        legend = alt.Legend(orient="bottom", columns=legend_columns(names))
        scale = alt.Scale(domain=names, range="category")
        base = base.encode(color=alt.Color("group:N", title=None, scale=scale, legend=legend))
    texts = [
        base.transform_filter(f"datum.side === {side}")
        .mark_text(align=align, baseline="middle", fontSize=size, dx=dx * size / 11, dy=dy * size / 11)
        .encode(text="name:N")
        for side, (align, dx, dy) in enumerate(SIDES)
    ]
    return [base.mark_point(size=2.5 * size), *texts]


def _sides(named: Sequence[str], found: Numbers, width: float, height: float, size: float) -> list[int]:
    """Return on which side of its point each name stands so that it covers no other; -1 where there is no such side."""
    x, y = _pixels(found[:, 0], width), height - _pixels(found[:, 1], height)
    dot = 0.35 * size
    # Left, top, right, bottom of what is there already: the points, then the names.
    taken = np.stack([x - dot, y - dot, x + dot, y + dot], axis=1) if len(named) else np.zeros((0, 4))
    sides = []
    for place, name in enumerate(named):
        long, high = len(name) * LETTER * size, 0.55 * size
        for side, (align, dx, dy) in enumerate(SIDES):
            left = x[place] + dx * size / 11 - {"left": 0.0, "center": long / 2, "right": long}[align]
            top = y[place] + dy * size / 11 - high
            box = np.array([left, top, left + long, top + 2 * high])
            others = (taken[:, 0] < box[2]) & (taken[:, 2] > box[0]) & (taken[:, 1] < box[3]) & (taken[:, 3] > box[1])
            if not others.any() and left >= 0 and box[2] <= width:
                taken = np.concatenate([taken, box[None]])
                sides.append(side)
                break
        else:
            sides.append(-1)
    return sides


def _extent(values: Numbers) -> tuple[float, float]:
    """Return where an axis begins and ends, with a margin around the values."""
    low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 1.0)
    margin = MARGIN * (high - low) or 1.0
    return low - margin, high + margin


def _around(values: Numbers) -> alt.Scale:
    return alt.Scale(domain=list(_extent(values)), nice=False, zero=False)


def _pixels(values: Numbers, extent: float) -> Numbers:
    low, high = _extent(values)
    return (values - low) / (high - low) * extent
