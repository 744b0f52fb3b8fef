"""Lenses: what each layer would have said, and what each word did according to several methods."""

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from satchel.charts.figures import Figure
from satchel.charts.grids import Colours, Table, colour_grid, side
from satchel.charts.labels import LONGEST_LABEL, Words, cut, label, whole, words
from satchel.charts.numbers import largest_of, matrix
from satchel.text.display import visible

# Words in cells are left out, but for the pointer, where there are more columns than these.
MOST_WRITTEN = 40


def logit_lens(
    tokens: Sequence[str],
    layers: Sequence[str],
    said: Sequence[Sequence[str]],
    nats: npt.ArrayLike,
    ranks: npt.ArrayLike,
    *,
    targets: Sequence[str] = (),
    measure: Literal["probability", "rank"] = "probability",
    title: str = "What each layer would have said",
) -> Figure:
    """Return, for each layer (row, the last on top) and token (column), the word it would have put next.

    Colours tell the probability, or the rank from 1, of the word that did come: its `nats` and `ranks` have a row for
    each layer, the first layer first; where they are not finite, or 0, nothing came. `targets` are those words.
    """
    costs, places = matrix(nats, len(layers), len(tokens)), matrix(ranks, len(layers), len(tokens))
    came = np.isfinite(costs) & (places >= 1)
    chances = np.exp(-np.where(came, costs, np.inf))
    values = np.where(came, places if measure == "rank" else chances, np.nan)
    next_words = [*targets, *[""] * len(tokens)][: len(tokens)]
    told = {
        "would say": [[whole(text) for text in row] for row in said],
        "came": [[whole(text) for text in next_words] for _ in layers],
        "its probability": [[f"{chance:.4g}" for chance in row] for row in chances],
        "its rank": [[f"{place:.0f}" if np.isfinite(place) else "" for place in row] for row in places],
    }
    told = told if targets else {name: cells for name, cells in told.items() if name != "came"}
    names = [visible(layer) for layer in reversed(layers)]
    table = Table(
        values[::-1],
        [[label(text) for text in row] for row in reversed(said)],
        {name: cells[::-1] for name, cells in told.items()},
    )
    largest = largest_of(values) if measure == "rank" else 1.0
    return colour_grid(
        Words([cut(name, LONGEST_LABEL) for name in names], names),
        words(tokens),
        [table.record(len(layers), len(tokens))],
        Colours(measure, largest, is_rank=measure == "rank"),
        title,
        notes=[f"after each word, what would come next; colour: the {measure} of what came"],
        said=("layer", "after"),
        cell=(62, 24) if len(tokens) <= MOST_WRITTEN else (side(len(tokens)), 20),
    )


def attribution(
    tokens: Sequence[str], methods: Mapping[str, npt.ArrayLike], title: str = "What each word adds"
) -> Figure:
    """Return what each word (column) adds according to each method (row): blue adds, orange takes away.

    Methods do not measure in the same unit, so the colours of a row go up to the largest number of that row.
    """
    found = matrix([list(np.asarray(values)) for values in methods.values()], len(methods), len(tokens))
    own = np.array([largest_of(row) or 1.0 for row in found]).reshape(-1, 1)
    names = [visible(name) for name in methods]
    rows, columns = Words([cut(name, 32) for name in names], [whole(name) for name in names]), words(tokens)
    told = [[f"{value:+.4g}" for value in row] for row in found]
    return colour_grid(
        rows,
        columns,
        [Table(found / own, told={"adds": told}).record(len(rows), len(columns))],
        Colours("relative", 1.0, signed=True),
        title,
        said=("method", "word"),
    )
