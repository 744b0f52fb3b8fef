"""Maps: who looks at whom, which source word a target word came from, who may be seen, what adds to what.

Letters: T rows, the words that look; S columns, the words that are looked at.
"""

from collections.abc import Iterable, Mapping, Sequence

import altair as alt
import numpy as np
import numpy.typing as npt

from satchel.charts.figures import Figure
from satchel.charts.grids import Colours, Table, colour_grid
from satchel.charts.labels import numbers, words
from satchel.charts.numbers import MOST_CELLS, Numbers, block, largest_of, matrix, pooled, pooled_words

SHARED_BY_MANY = 40
LOOKS, AT = "this word looks", "at this word"
MEAN_LAYER, MEAN_HEAD = "mean of layers", "mean of heads"
# Maps by (layer, head), all at once or one after the other.
Maps = Mapping[tuple[int, int], npt.ArrayLike] | Iterable[tuple[tuple[int, int], npt.ArrayLike]]


def attention_map(
    rows: Sequence[str], columns: Sequence[str], weights: npt.ArrayLike, title: str = "Where words look"
) -> Figure:
    """Return how much each word (row) looks at each word (column) as a colour."""
    down, along, note = pooled_words(rows, columns)
    values, _, _ = pooled(matrix(weights, len(rows), len(columns)), MOST_CELLS)
    return colour_grid(
        down,
        along,
        [Table(values).record(len(down), len(along))],
        _weights(largest_of(values), len(columns)),
        title,
        notes=[note],
        row_title=LOOKS,
        column_title=AT,
        said=("looks", "at"),
    )


def attention_maps(rows: Sequence[str], columns: Sequence[str], maps: Maps, title: str = "Where words look") -> Figure:
    """Return maps with selectors of layer and head, of which the mean is shown first.

    Maps are taken one at a time, so that long texts need room for a few of them only.
    """
    shown, means = {}, _Means()
    for (layer, head), weights in each_map(maps):
        values = matrix(weights, len(rows), len(columns))
        shown[f"layer {layer}", f"head {head}"] = pooled(values, MOST_CELLS)[0].astype(np.float32)
        means.add(f"layer {layer}", f"head {head}", values)
    for name, mean in means.found():
        shown[name] = pooled(mean, MOST_CELLS)[0]
    down, along, note = pooled_words(rows, columns)
    tables = [
        {"layer": layer, "head": head, **Table(values).record(len(down), len(along))}
        for (layer, head), values in shown.items()
    ]
    choices = [selector(name, [key[place] for key in shown]) for place, name in enumerate(("layer", "head"))]
    return colour_grid(
        down,
        along,
        tables,
        _weights(max(map(largest_of, shown.values()), default=0.0), len(columns)),
        title,
        notes=[note],
        row_title=LOOKS,
        column_title=AT,
        said=("looks", "at"),
        choices=choices,
    )


def _weights(largest: float, columns: int) -> Colours:
    """Return the colours of weights. Those of a row add up to 1: where many share it, each is faint."""
    return Colours("weight", largest, is_root=columns > SHARED_BY_MANY)


class _Means:
    """The means of maps: of each layer, of each head, of all. Only where there are several of either."""

    def __init__(self) -> None:
        self._sums: dict[tuple[str, str], tuple[int, Numbers]] = {}
        self._layers: set[str] = set()
        self._heads: set[str] = set()

    def add(self, layer: str, head: str, values: Numbers) -> None:
        self._layers.add(layer)
        self._heads.add(head)
        for name in ((layer, MEAN_HEAD), (MEAN_LAYER, head), (MEAN_LAYER, MEAN_HEAD)):
            count, total = self._sums.get(name, (0, np.zeros(values.shape, np.float32)))
            total += values
            self._sums[name] = count + 1, total

    def found(self) -> Iterable[tuple[tuple[str, str], Numbers]]:
        """Return the means there are to choose from."""
        for (layer, head), (count, total) in self._sums.items():
            needs_layers, needs_heads = layer == MEAN_LAYER, head == MEAN_HEAD
            if (not needs_layers or len(self._layers) > 1) and (not needs_heads or len(self._heads) > 1):
                yield (layer, head), total / count


def each_map(maps: Maps) -> Iterable[tuple[tuple[int, int], npt.ArrayLike]]:
    """Return the maps one after the other."""
    return maps.items() if isinstance(maps, Mapping) else maps


def selector(name: str, found: Sequence[str]) -> alt.Parameter:
    """Return a list to choose from on a page; the mean, where there is one, comes first. One is no choice."""
    options = sorted(dict.fromkeys(found), key=lambda each: not each.startswith(("mean", "all")))
    if len(options) < 2:
        return alt.param(name=name, value=options[0] if options else "")
    return alt.param(name=name, value=options[0], bind=alt.binding_select(options=options, name=f"{name} "))


def alignment(
    source: Sequence[str], target: Sequence[str], values: npt.ArrayLike, *, signed: bool, title: str | None = None
) -> Figure:
    """Return how much each target word looked at each source word as a colour; or, signed, what each added to it."""
    default = "What source words add to target words" if signed else "Where target words looked"
    found, _, _ = pooled(matrix(values, len(target), len(source)), MOST_CELLS, signed=signed)
    # Words stand by themselves here: the spaces before them say nothing.
    rows, columns = ([word.strip() or word for word in words] for words in (target, source))
    down, along, note = pooled_words(rows, columns)
    return colour_grid(
        down,
        along,
        [Table(found).record(len(down), len(along))],
        Colours("adds" if signed else "weight", largest_of(found), signed),
        title or default,
        notes=[note],
        row_title="target",
        column_title="source",
        said=("target", "source"),
    )


def by_word_and_sense(tokens: Sequence[str], values: npt.ArrayLike, title: str, *, signed: bool = True) -> Figure:
    """Return a number for each sense of each word as a colour: blue adds, orange takes away."""
    found = np.asarray(values, dtype=np.float64)
    senses = found.shape[1] if found.ndim == 2 else 0
    rows, columns = words(tokens), numbers(senses)
    return colour_grid(
        rows,
        columns,
        [Table(found).record(len(rows), senses)],
        Colours("adds" if signed else "counts", largest_of(found), signed),
        title,
        column_title="sense",
        said=("word", "sense"),
    )


def mask(
    rows: Sequence[str], columns: Sequence[str], allowed: npt.ArrayLike, title: str = "Which words may be seen"
) -> Figure:
    """Return which words (columns) a word (row) may look at: those that are blue."""
    down, along, note = pooled_words(rows, columns)
    values, _, _ = pooled((matrix(allowed, len(rows), len(columns)) != 0).astype(np.float32), MOST_CELLS)
    return colour_grid(
        down,
        along,
        [Table(values).record(len(down), len(along))],
        Colours("seen", 1.0, has_legend=False),
        title,
        notes=["blue: may be seen", note],
        row_title=LOOKS,
        column_title=AT,
        said=("looks", "at"),
    )


def position_encodings(values: npt.ArrayLike, title: str = "Positions as vectors") -> Figure:
    """Return the number at each dimension (column) of each position (row) as a colour."""
    full = matrix(values)
    # An odd step: sines and cosines stand in turn, and are to stay so.
    down, along = block(full.shape[0], MOST_CELLS), block(full.shape[1], MOST_CELLS) | 1
    found = full[::down, ::along]
    rows, columns = numbers(full.shape[0], down), numbers(full.shape[1], along)
    note = f"one in {down} of {full.shape[0]:,} positions, one in {along} of {full.shape[1]:,} dimensions"
    return colour_grid(
        rows,
        columns,
        [Table(found).record(len(rows), len(columns))],
        Colours("value", largest_of(found), signed=True),
        title,
        notes=[note] if max(down, along) > 1 else [],
        row_title="position",
        column_title="dimension",
        said=("position", "dimension"),
        cell=(_side(len(columns)), _side(len(rows))),
    )


def _side(count: int) -> float:
    """Return the side of a cell of a map whose rows and columns are numbers."""
    return max(3.0, min(14.0, 480 // max(1, count)))
