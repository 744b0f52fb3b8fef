"""A table of numbers as colours, with words beside it: what maps, lenses and attributions are made of.

The numbers travel as one list, row after row, and are laid out where they are drawn: a tenth of the size, and of
several tables only the one that is looked at is laid out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import altair as alt
import numpy.typing as npt

from satchel.charts.figures import Figure
from satchel.charts.labels import Words, across, column_axis, row_axis, titled, type_size
from satchel.charts.numbers import format_of, matrix, rounded
from satchel.text.display import visible

# Of a number that is none.
NO_NUMBER = "#9a9a9a"
# Beyond these many cells, those that are zero are left to the ground they stand on.
MANY_CELLS = 2500
# A name is written along its row if all of them are within this many pixels.
WIDEST_UPRIGHT = 560


@dataclass(frozen=True)
class Colours:
    """How numbers become colours, and what they are called."""

    name: str
    # How far from zero; what is farther has the same colour.
    largest: float
    signed: bool = False
    # Told by its logarithm from 1 up to the largest, and the smaller the stronger.
    is_rank: bool = False
    has_legend: bool = True
    # Faint numbers stand out more: told by their root.
    is_root: bool = False

    def encoding(self, legend: alt.Legend | None = None) -> alt.Color:
        """Return the colours of the field `value`."""
        largest = self.largest or 1.0
        legend = (legend or alt.Legend()) if self.has_legend else None
        if self.is_rank:
            scale = alt.Scale(type="log", domain=[max(10.0, largest), 1], range="ramp", interpolate="rgb", clamp=True)
        elif self.signed:
            scale = alt.Scale(domain=[-largest, 0, largest], range="diverging", interpolate="rgb", clamp=True)
        elif self.is_root:
            scale = alt.Scale(
                type="pow", exponent=0.5, domain=[0, largest], range="ramp", interpolate="rgb", clamp=True
            )
        else:
            scale = alt.Scale(domain=[0, largest], range="ramp", interpolate="rgb", clamp=True)
        return alt.Color("value:Q", scale=scale, title=self.name, legend=legend)


@dataclass(frozen=True)
class Table:
    """Numbers in rows; where given, what is written in the cells, and what is told, by name, instead of the number."""

    values: npt.ArrayLike
    texts: Sequence[Sequence[str]] | None = None
    told: Mapping[str, Sequence[Sequence[str]]] = field(default_factory=dict)

    def record(self, rows: int, columns: int) -> dict[str, Any]:
        """Return the table as lists, row after row."""
        record: dict[str, Any] = {"value": rounded(matrix(self.values, rows, columns).reshape(-1))}
        if self.texts is not None:
            record["text"] = [visible(text) for row in self.texts for text in row]
        for name, told in self.told.items():
            record[f"told {name}"] = [visible(text) for row in told for text in row]
        return record


def colour_grid(
    rows: Words,
    columns: Words,
    tables: Sequence[dict[str, Any]],
    colours: Colours,
    title: str,
    *,
    notes: Sequence[str] = (),
    row_title: str | None = None,
    column_title: str | None = None,
    choices: Sequence[alt.Parameter] = (),
    said: tuple[str, str] = ("row", "column"),
    cell: tuple[float, float] | None = None,
) -> Figure:
    """Return a picture of a table, or of that whose fields are as the `choices` of the same names are.

    `said` is what rows and columns are called under the pointer; `cell` how wide and high a cell is.
    """
    tables = tables or [{"value": []}]
    along = max(26.0, across(columns) + 8)
    fits = len(columns) * along <= WIDEST_UPRIGHT
    wide, high = cell or ((along, 26.0) if fits else (side(len(columns)), side(len(rows))))
    is_upright = columns.are_numbers or along <= wide
    lists: list[str | alt.FieldName] = [name for name, part in tables[0].items() if isinstance(part, list)]
    told = [alt.Tooltip(f"{name}:N", title=str(name)[5:]) for name in lists if str(name).startswith("told ")]
    told = told or [alt.Tooltip("value:Q", title=colours.name, format=format_of(colours.signed))]
    base = alt.Chart().encode(
        x=alt.X(
            "column:O",
            title=column_title,
            axis=column_axis(columns, is_upright=is_upright),
            scale=alt.Scale(domain=list(range(len(columns)))),
        ),
        y=alt.Y("row:O", title=row_title, axis=row_axis(rows), scale=alt.Scale(domain=list(range(len(rows))))),
    )
    bordered = base.mark_rect(aria=False, invalid=None, style="border", strokeWidth=0.5)
    cells = bordered if min(wide, high) >= 12 else base.mark_rect(aria=False, invalid=None)
    layers: list[alt.Chart] = [
        ground(),
        cells.encode(
            color=alt.condition("datum.value === null", alt.value(NO_NUMBER), colours.encoding()),
            tooltip=[alt.Tooltip("of:N", title=said[0]), alt.Tooltip("at:N", title=said[1]), *told],
        ),
    ]
    if "text" in lists and wide >= 24:
        layers.append(_written(base, len(rows), len(columns)))
    chart = alt.layer(*layers, data={"values": list(tables)})
    for choice in choices:
        chart = chart.transform_filter(f"datum.{choice.name} === {choice.name}")
    width = max(1, len(columns))
    chart = (
        chart.transform_flatten(lists)
        .transform_window(cell="row_number()")
        .transform_calculate(row=f"floor((datum.cell - 1) / {width})", column=f"(datum.cell - 1) % {width}")
    )
    if len(rows) * len(columns) > MANY_CELLS:
        chart = chart.transform_filter("datum.value !== 0")
    chart = chart.transform_calculate(of="whole_rows[datum.row]", at="whole_columns[datum.column]")
    chosen = " + ', ' + ".join(choice.name for choice in choices) if choices else None
    heading, needed = titled(title, notes, chosen)
    chart = chart.properties(
        width=alt.Step(wide),
        height=alt.Step(high),
        title=heading,
        description=visible(title),
    )
    return Figure(
        chart.add_params(*rows.parameters("rows"), *columns.parameters("columns"), type_size(), *needed, *choices)
    )


def ground() -> alt.Chart:
    """Return what lies below everything: the colour of zero, in a frame."""
    chart: alt.Chart = (
        alt.Chart({"values": [{}]})
        .mark_rect(style="ground", strokeWidth=1, aria=False)
        .encode(x=alt.value(0), x2=alt.value("width"), y=alt.value(0), y2=alt.value("height"))
    )
    return chart


def _written(base: alt.Chart, rows: int, columns: int) -> alt.Chart:
    """Return what is written in the cells, light on dark and dark on light."""
    written: alt.Chart = base.mark_text(
        aria=False,
        invalid=None,
        limit=alt.ExprRef(f"width / {max(1, columns)} - 1"),
        # Six letters of any size have room: that is a number.
        fontSize=alt.ExprRef(f"max(4, min(size - 1, 0.8 * height / {max(1, rows)}, 0.23 * width / {max(1, columns)}))"),
    ).encode(
        text="text:N",
        color=alt.condition(
            "datum.value !== null && luminance(scale('color', datum.value)) < 0.35",
            alt.value("#ffffff"),
            alt.value("#111820"),
        ),
    )
    return written


def side(count: int) -> float:
    """Return the side of a cell where there are so many: small ones stay readable, many stay on a page."""
    return max(8.0, min(20.0, 1000 // max(1, count)))
