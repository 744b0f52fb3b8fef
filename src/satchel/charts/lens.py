"""Logit lens: predictions of each layer as a heat map.

Shapes: L layers, T tokens.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from satchel.charts.arrays import matrix
from satchel.charts.figures import Figure
from satchel.charts.heatmap import Cells, ColourScale, cell_side, heatmap
from satchel.charts.labels import full_text, label, name_labels, token_labels

# Maximum number of tokens with predictions printed in the cells; tooltips always show them.
MAX_PRINTED = 40


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
