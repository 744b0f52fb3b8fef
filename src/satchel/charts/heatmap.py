"""Heat maps: matrices as colours, with a label for each row and column.

Values are stored as one list in row-major order and indexed by the chart: a tenth of the size of one record per cell.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import altair as alt
import numpy as np
import numpy.typing as npt

from satchel.charts.arrays import matrix, rounded
from satchel.charts.figures import Figure
from satchel.charts.labels import Labels
from satchel.charts.palette import Palette
from satchel.charts.themes import Theme
from satchel.text.display import visible

AnyChart = TypeVar("AnyChart", bound=alt.TopLevelMixin)

# Last step of the palette's scales in a matrix without numbers.
STEPS = 7
# Signed values are shown by (magnitude / largest) ** exponent, so that small ones stay visible.
SIGNED_EXPONENT = 0.75
# Label of a legend whose colours are not linear in the value.
EXPONENTS = {0.5: "(square-root scale)", SIGNED_EXPONENT: "(scale: power 0.75)"}
# Number of cells from which zeros are omitted: they have the colour of the background.
MANY_CELLS = 2500
# Maximum total width of columns that are as wide as their labels, in pixels.
MAX_UPRIGHT = 560
# Maximum number of rows of a heat map that keeps its height when it is stretched.
FEW_ROWS = 12


@dataclass(frozen=True)
class ColourScale:
    """Mapping of values in [0, largest], or [-largest, largest] if signed, to colours; values outside are clamped.

    `largest` may be a Vega expression, such as one that depends on the selectors. The title of the legend states an
    exponent other than 1.
    """

    title: str
    largest: float | str
    signed: bool = False
    exponent: float = 1.0
    has_legend: bool = True

    def encoding(self, palette: Palette, steps: int = STEPS, legend: alt.Legend | None = None) -> Any:
        """Return the colour encoding of the field `value`; values that are not finite are grey."""
        exponent = SIGNED_EXPONENT if self.signed else self.exponent
        shares = np.linspace(0, 1, steps + 1) ** (1 / exponent)
        if self.signed:
            shares = np.concatenate([-shares[:0:-1], shares])
        # Default ticks can be outside of the range, such as 0.2 for a largest value of 0.16.
        ticks = np.linspace(shares[0], 1, 5 if self.signed else 3)
        domain, values = self._values(shares), self._values(ticks)
        if isinstance(self.largest, str):
            values = {"expr": f"[{', '.join(value['expr'] for value in values)}]"}
        colours = palette.scale(steps, signed=self.signed)
        scale = alt.Scale(domain=domain, range=colours, interpolate="rgb", clamp=True)
        legend = (legend or alt.Legend(values=values, format=".3~g")) if self.has_legend else None
        title = [self.title, EXPONENTS[exponent]] if exponent in EXPONENTS else self.title
        colour = alt.Color("value:Q", scale=scale, title=title, legend=legend)
        return alt.condition("datum.value === null", alt.value(palette.rule2), colour)

    def _values(self, shares: npt.NDArray[np.float64]) -> Any:
        """Return shares of the largest value, as numbers or as Vega expressions."""
        if isinstance(self.largest, str):
            return [{"expr": f"{share:.6g} * ({self.largest})"} for share in shares]
        return (shares * (self.largest or 1.0)).tolist()


@dataclass(frozen=True)
class Cells:
    """Values of a heat map; optionally texts in the cells, further texts of tooltips, and values of the selectors."""

    values: npt.ArrayLike
    texts: Sequence[Sequence[str]] | None = None
    tooltips: Mapping[str, Sequence[Sequence[str]]] = field(default_factory=dict)
    selected: Mapping[str, str] = field(default_factory=dict)

    def record(self, rows: int, columns: int) -> dict[str, Any]:
        """Return the cells as lists in row-major order."""
        texts = {f"tooltip {name}": cells for name, cells in self.tooltips.items()}
        if self.texts is not None:
            texts["text"] = self.texts
        return {
            **self.selected,
            "value": rounded(matrix(self.values, rows, columns).reshape(-1)),
            **{name: [visible(text) for row in cells for text in row] for name, cells in texts.items()},
        }


def heatmap(
    rows: Labels,
    columns: Labels,
    tables: Sequence[Cells],
    scale: ColourScale,
    title: str,
    *,
    axes: tuple[str | None, str | None] = (None, None),
    notes: Sequence[str] = (),
    selectors: Sequence[alt.Parameter] = (),
    parameters: Sequence[alt.Parameter] = (),
    cell: tuple[float, float] | None = None,
) -> Figure:
    """Return a heat map of the table whose `selected` values equal those of the selectors.

    `axes` are the titles of rows and columns; `cell` is the width and height of a cell; `parameters` are used by the
    expressions of the scale.
    """
    records = [table.record(len(rows), len(columns)) for table in tables] or [{"value": []}]
    lists: list[Any] = [name for name, part in records[0].items() if isinstance(part, list)]
    width = max(1, len(columns))
    upright_cell = max(26.0, columns.width(11) + 8)
    if cell is None and width * upright_cell <= MAX_UPRIGHT:
        cell = upright_cell, 26.0
    base_width, base_height = cell or (cell_side(len(columns)), cell_side(len(rows)))
    tooltips = name_tooltips(*axes)
    tooltips += [
        alt.Tooltip(f"{name}:N", title=name.removeprefix("tooltip ")) for name in lists if name.startswith("tooltip ")
    ] or [alt.Tooltip("value:Q", title=scale.title, format="+.4~g" if scale.signed else ".4~g")]

    def draw(theme: Theme, stretch: float) -> alt.TopLevelMixin:
        palette = theme.palette
        wide = base_width * theme.cell_scale * stretch
        high = base_height * theme.cell_scale * (stretch if len(rows) > FEW_ROWS else 1)
        has_texts = "text" in lists and wide >= 24
        base = alt.Chart().encode(x=columns.x(theme, wide, axes[1]), y=rows.y(theme, high, axes[0]))
        border = palette.rule if min(wide, high) >= 12 else alt.Undefined
        # Texts stay legible on the lighter part of the scale only.
        colour = scale.encoding(palette, palette.cell_steps if has_texts else STEPS)
        boxes = base.mark_rect(aria=False, invalid=None, stroke=border, strokeWidth=0.5)
        layers = [boxes.encode(color=colour, tooltip=tooltips)]
        if has_texts:
            size = max(6.0, min(theme.font_size - 1, 0.8 * high, 0.23 * wide))
            text = base.mark_text(aria=False, invalid=None, limit=wide - 1, fontSize=size, color=palette.cell_ink)
            layers.append(text.encode(text="text:N"))
        chart = alt.layer(*layers, data={"values": records})
        for selector in selectors:
            chart = chart.transform_filter(f"datum.{selector.name} === {selector.name}")
        chart = indexed(chart.transform_flatten(lists), width)
        if len(rows) * len(columns) > MANY_CELLS:
            chart = chart.transform_filter("datum.value !== 0")
        frame = alt.ViewBackground(stroke=palette.rule)
        chart = chart.properties(width=alt.Step(wide), height=alt.Step(high), view=frame)
        labels = *rows.parameters("rows"), *columns.parameters("columns")
        return chart.add_params(*labels, *parameters, *selectors)

    selection = " + ', ' + ".join(str(selector.name) for selector in selectors)
    return Figure(draw, title, notes, selection or None)


def indexed(chart: AnyChart, columns: int, group: Sequence[str] = ()) -> AnyChart:
    """Add the row, column and labels of each cell of a flattened list of values, for each group of fields."""
    return (
        chart.transform_window(cell="row_number()", groupby=list(group) or alt.Undefined)
        .transform_calculate(row=f"floor((datum.cell - 1) / {columns})", column=f"(datum.cell - 1) % {columns}")
        .transform_calculate(row_name="full_rows[datum.row]", column_name="full_columns[datum.column]")
    )


def name_tooltips(row: str | None, column: str | None) -> list[alt.Tooltip]:
    """Return the tooltips of the labels of row and column, with their titles."""
    return [alt.Tooltip("row_name:N", title=row or "row"), alt.Tooltip("column_name:N", title=column or "column")]


def cell_side(count: int) -> float:
    """Return the side of a cell for this number of rows or columns, in pixels."""
    return max(8.0, min(20.0, 1000 // max(1, count)))
