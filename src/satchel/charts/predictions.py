"""Explanations of predictions: contributions to a logit, attributions, sense weights, and the logit lens.

Shapes: L layers, T tokens.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np
import numpy.typing as npt

from satchel.charts.arrays import largest_magnitude, matrix, rounded, to_array
from satchel.charts.figures import Figure
from satchel.charts.heatmap import Cells, ColourScale, cell_side, heatmap
from satchel.charts.labels import full_text, label, name_labels, number_labels, token_labels
from satchel.charts.themes import Theme

# Maximum number of senses with a colour; the senses with the lowest total weights share one more colour.
MAX_COLOURS = 7
# Maximum number of tokens with predictions printed in the cells; tooltips always show them.
MAX_PRINTED = 40


def sense_contributions(tokens: Sequence[str], values: npt.ArrayLike, title: str) -> Figure:
    """Return the contribution of each sense (column) of each token (row) to a logit: blue raises, orange lowers it."""
    array = to_array(values).astype(np.float64)
    senses = array.shape[1] if array.ndim == 2 else 0
    return heatmap(
        token_labels(tokens),
        number_labels(senses),
        [Cells(array)],
        ColourScale("contribution (logits)", largest_magnitude(array), signed=True),
        title,
        axes=("token", "sense"),
    )


def attribution(
    tokens: Sequence[str], methods: Mapping[str, npt.ArrayLike], title: str = "Attribution per token"
) -> Figure:
    """Return the attribution of each token (column) by each method (row).

    Methods have different units: the colours of each row are relative to its largest magnitude.
    """
    values = matrix([list(to_array(row)) for row in methods.values()], len(methods), len(tokens))
    largest = np.array([largest_magnitude(row) or 1.0 for row in values]).reshape(-1, 1)
    return heatmap(
        name_labels(list(methods), 32),
        token_labels(tokens),
        [Cells(values / largest, tooltips={"attribution": [[f"{value:+.4g}" for value in row] for row in values]})],
        ColourScale("relative to row", 1.0, signed=True),
        title,
        axes=("method", "token"),
    )


def sense_bars(tokens: Sequence[str], weights: npt.ArrayLike, title: str = "Sense weights per token") -> Figure:
    """Return one bar per token, stacked by sense; the senses with the largest total weight have their own colour."""
    values = matrix(weights, len(tokens))
    senses = values.shape[1]
    totals = np.nansum(np.where(np.isfinite(values), np.abs(values), 0.0), axis=0)
    coloured = MAX_COLOURS if senses > MAX_COLOURS + 1 else senses
    largest = sorted(np.argsort(-totals, kind="stable")[:coloured].tolist())
    names = [*map(str, largest), *["others"] * (len(largest) < senses)]
    groups = {sense: group for group, sense in enumerate(largest)}
    records: list[dict[str, Any]] = [
        {"row": row, "group": groups.get(sense, len(largest)), "sense": sense, "weight": weight}
        for row, weights_N in enumerate(rounded(values))
        for sense, weight in enumerate(weights_N)
        if weight
    ]
    rows = token_labels(tokens)
    step = max(10, min(20, 1400 // max(1, len(rows))))

    def draw(theme: Theme, stretch: float) -> alt.Chart:
        colours = alt.Scale(domain=list(range(len(names))), range="category")
        chart: alt.Chart = (
            alt.Chart({"values": records})
            .transform_calculate(token="full_rows[datum.row]")
            .mark_bar(aria=False, height=alt.RelativeBandSize(0.8))
            .encode(
                x=alt.X(
                    "weight:Q",
                    title="sense weight",
                    stack="zero",
                    axis=alt.Axis(tickCount=5),
                    scale=alt.Scale(nice=False),
                ),
                y=rows.y(theme, step * theme.cell_scale),
                order=[alt.Order("group:Q"), alt.Order("sense:Q")],
                color=alt.Color(
                    "group:N", title="sense", scale=colours, legend=alt.Legend(labelExpr="senses[datum.value]")
                ),
                tooltip=["token:N", "sense:O", alt.Tooltip("weight:Q", format=".4~g")],
            )
            .properties(width=420 * theme.plot_scale * stretch, height=alt.Step(step * theme.cell_scale))
            .add_params(*rows.parameters("rows"), alt.param(name="senses", value=names))
        )
        return chart

    return Figure(draw, title)


def logit_lens(
    tokens: Sequence[str],
    layers: Sequence[str],
    predictions: Sequence[Sequence[str]],
    nats: npt.ArrayLike,
    ranks: npt.ArrayLike,
    *,
    targets: Sequence[str] = (),
    title: str = "Logit lens",
) -> Figure:
    """Return the most probable next token at each layer (row, last layer on top) and token (column).

    `nats` (L, T) are the surprisals and `ranks` (L, T) the ranks from 1 of the actual next tokens, `targets`; the
    colour shows their probability. Positions without a next token have nan and 0.
    """
    costs, places = matrix(nats, len(layers), len(tokens)), matrix(ranks, len(layers), len(tokens))
    has_target = np.isfinite(costs) & (places >= 1)
    probabilities = np.exp(-np.where(has_target, costs, np.inf))
    values = np.where(has_target, probabilities, np.nan)
    actual = [full_text(text) for text in [*targets, *[""] * len(tokens)][: len(tokens)]]
    tooltips = {
        "prediction": [[full_text(text) for text in row] for row in predictions],
        **({"next token": [actual for _ in layers]} if targets else {}),
        "probability of next token": [[f"{probability:.4g}" for probability in row] for row in probabilities],
        "rank of next token": [[f"{place:.0f}" if np.isfinite(place) else "" for place in row] for row in places],
    }
    cells = Cells(
        values[::-1],
        [[label(text) for text in row] for row in reversed(predictions)],
        {name: rows[::-1] for name, rows in tooltips.items()},
    )
    return heatmap(
        name_labels(list(reversed(layers))),
        token_labels(tokens),
        [cells],
        ColourScale("probability", 1.0),
        title,
        axes=("layer", "token"),
        notes=["cell: most probable next token; colour: probability of the actual next token"],
        cell=(62, 24) if len(tokens) <= MAX_PRINTED else (cell_side(len(tokens)), 20),
    )
