"""Explanations of predictions: contributions to a logit, attributions, sense weights, and the logit lens.

Shapes: L layers, T tokens.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from satchel.charts.arrays import Numbers, largest_magnitude, matrix, to_array
from satchel.charts.figures import Figure
from satchel.charts.heatmap import Cells, ColourScale, cell_side, heatmap
from satchel.charts.labels import Labels, full_text, label, name_labels, number_labels, token_labels

# Maximum number of rows of words; of longer texts, the words with the largest values are shown.
MAX_ROWS = 60
# Maximum number of columns that are wide enough for numbers.
MAX_WIDE_COLUMNS = 20
# Maximum number of tokens of a logit lens.
MAX_LENS = 64


def sense_contributions(
    tokens: Sequence[str],
    values: npt.ArrayLike,
    title: str,
    *,
    bias: float | None = None,
    notes: Sequence[str] = (),
) -> Figure:
    """Return the contribution of each sense (column) of each token (row) to a logit: blue raises, orange lowers it.

    The first column has the sum over senses. `bias`, the rest of the logit, is the last row.
    """
    array = matrix(values, len(tokens))
    by_sense = np.concatenate([array.sum(axis=1, keepdims=True), array], axis=1)
    rows, shown, largest, note = _largest_rows(tokens, by_sense)
    scale = ColourScale("contribution (logits)", largest, signed=True)
    texts = [[f"{row[0]:+.2f}", *[""] * array.shape[1]] for row in shown]
    if bias is not None:
        # Without senses, and not part of the colour scale: the bias may be far larger than the contributions.
        shown = np.concatenate([shown, [[bias, *[np.nan] * array.shape[1]]]])
        rows, texts = rows.with_row("bias"), [*texts, [f"{bias:+.2f}", *[""] * array.shape[1]]]
    names = ["total", *map(str, range(array.shape[1]))]
    return heatmap(
        rows,
        Labels(names, ["all senses", *names[1:]]),
        [Cells(shown, texts)],
        scale,
        title,
        axes=("word", "sense"),
        notes=[note, *notes],
        cell=(44, 22) if len(names) <= MAX_WIDE_COLUMNS else (cell_side(len(names)), 20),
    )


def attribution(
    tokens: Sequence[str],
    methods: Mapping[str, npt.ArrayLike],
    title: str = "Attribution by word",
    *,
    notes: Sequence[str] = (),
) -> Figure:
    """Return the attribution of a logit to each token (row) by each method (column), on one colour scale."""
    values = matrix([list(to_array(each)) for each in methods.values()], len(methods), len(tokens)).T
    rows, shown, largest, note = _largest_rows(tokens, values)
    return heatmap(
        rows,
        name_labels(list(methods), 32),
        [Cells(shown, [[f"{value:+.2f}" for value in row] for row in shown])],
        ColourScale("attribution (logits)", largest, signed=True),
        title,
        axes=("word", "method"),
        notes=[note, *notes],
        cell=(92, 22),
    )


def sense_weights(tokens: Sequence[str], weights: npt.ArrayLike, title: str = "Sense weights by word") -> Figure:
    """Return the weight of each sense (column) of each token (row)."""
    values = matrix(weights, len(tokens))
    rows, shown, largest, note = _largest_rows(tokens, values)
    sums = values.sum(axis=0)
    total = f"{sums.mean():.3g}" if sums.size and np.allclose(sums, sums[0], rtol=1e-3) else ""
    return heatmap(
        rows,
        number_labels(values.shape[1]),
        [Cells(shown, [[f"{value:.2f}" for value in row] for row in shown])],
        ColourScale("sense weight", largest),
        title,
        axes=("word", "sense"),
        notes=[note, f"the weights of each sense sum to {total} over the words" if total else ""],
        cell=(34, 22) if values.shape[1] <= MAX_WIDE_COLUMNS else (cell_side(values.shape[1]), 20),
    )


def _largest_rows(tokens: Sequence[str], values: Numbers) -> tuple[Labels, Numbers, float, str]:
    """Return the labels and values of at most MAX_ROWS rows, their largest magnitude, and a note if there are more.

    Of a long text, the rows with the largest magnitudes are returned in their order, and the sum of all others.
    """
    labels, largest = token_labels(tokens), largest_magnitude(values)
    if len(values) <= MAX_ROWS:
        return labels, values, largest, ""
    order = np.argsort(-np.abs(np.nan_to_num(values)).max(axis=1), kind="stable")
    kept, others = np.sort(order[: MAX_ROWS - 1]), order[MAX_ROWS - 1 :]
    chosen = Labels([labels.short[row] for row in kept], [labels.full[row] for row in kept])
    note = f"the {len(kept)} of {len(values):,} words with the largest values, and the sum of the other words"
    rows = np.concatenate([values[kept], values[others].sum(axis=0, keepdims=True)])
    return chosen.with_row(f"{len(others):,} other words"), rows, largest, note


def logit_lens(
    tokens: Sequence[str],
    layers: Sequence[str],
    predictions: Sequence[Sequence[str]],
    nats: npt.ArrayLike,
    ranks: npt.ArrayLike,
    *,
    targets: Sequence[str] = (),
    target: str = "next token",
    title: str = "Logit lens",
) -> Figure:
    """Return the most probable next token at each token (row) and layer (column), for the first MAX_LENS tokens.

    `nats` (L, T) are the surprisals and `ranks` (L, T) the ranks from 1 of the actual next tokens, `targets`; the
    colour shows their probability. Positions without a next token have nan and 0. `target` is the name of a target,
    such as "tag" for a tagger.
    """
    shape = len(layers), len(tokens)
    costs_TL, places_TL = matrix(nats, *shape).T[:MAX_LENS], matrix(ranks, *shape).T[:MAX_LENS]
    has_target = np.isfinite(costs_TL) & (places_TL >= 1)
    probabilities_TL = np.exp(-np.where(has_target, costs_TL, np.inf))
    shown = tokens[:MAX_LENS]
    said_TL = [[row[place] for row in predictions] for place in range(len(shown))]
    # The last token of a text has no next token.
    following = [*targets, *[""] * len(tokens)][: len(shown)]
    rows = token_labels(shown)
    arrows = [f" → {label(text)}" if text else "" for text in following]
    names = [f"{name}{arrow}" for name, arrow in zip(rows.short, arrows, strict=True)]
    tooltips = {
        "prediction": [[full_text(text) for text in row] for row in said_TL],
        **({target: [[full_text(text)] * len(layers) for text in following]} if targets else {}),
        f"probability of {target}": [[f"{probability:.4g}" for probability in row] for row in probabilities_TL],
        f"rank of {target}": [[f"{place:.0f}" if np.isfinite(place) else "" for place in row] for row in places_TL],
    }
    limit = (
        f"tokens 0 to {len(shown) - 1} of {len(tokens):,}; --start selects others" if len(tokens) > len(shown) else ""
    )
    return heatmap(
        Labels(names, rows.full),
        name_labels(list(layers)),
        [
            Cells(
                np.where(has_target, probabilities_TL, np.nan),
                [[label(text) for text in row] for row in said_TL],
                tooltips,
            )
        ],
        ColourScale("probability", 1.0, exponent=0.5),
        title,
        axes=(f"token → {target}" if targets else "token", "layer"),
        notes=[f"cell: most probable {target}; colour: probability of the {target} in the row label", limit],
        cell=(90, 20),
    )
