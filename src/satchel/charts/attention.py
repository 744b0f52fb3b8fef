"""Attention: weights of one or all heads, alignments and masks as heat maps.

Shapes: T query tokens (rows), S key tokens (columns).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import altair as alt
import numpy as np
import numpy.typing as npt

from satchel.charts.arrays import Numbers, block_size, largest_magnitude, matrix, pooled, pooling_note
from satchel.charts.figures import Figure
from satchel.charts.heatmap import Cells, ColourScale, heatmap
from satchel.charts.labels import token_labels

QUERY_KEY = ("query token", "key token")
# Number of keys above which colours follow the square root of the weights, which are small.
MANY_KEYS = 40
MEAN_LAYER, MEAN_HEAD = "mean over layers", "mean over heads"
# Attention weights by (layer, head), as a mapping or one after the other.
Maps = Mapping[tuple[int, int], npt.ArrayLike] | Iterable[tuple[tuple[int, int], npt.ArrayLike]]


def attention_map(
    rows: Sequence[str], columns: Sequence[str], weights: npt.ArrayLike, title: str = "Attention weights"
) -> Figure:
    """Return the attention weights of one head as a heat map."""
    scale = _weight_scale(largest_magnitude(weights), len(columns))
    return _token_heatmap(rows, columns, weights, scale, title, QUERY_KEY)


def attention_maps(rows: Sequence[str], columns: Sequence[str], maps: Maps, title: str = "Attention weights") -> Figure:
    """Return the attention weights of all heads as a heat map with selectors of layer and head; the mean is first.

    An iterable of maps is consumed one map at a time: memory holds the pooled maps and the sums only.
    """
    tables: dict[tuple[str, str], Numbers] = {}
    sums: dict[tuple[str, str], Numbers] = {}
    counts: Counter[tuple[str, str]] = Counter()
    for (number, index), weights in each_map(maps):
        layer, head = f"layer {number}", f"head {index}"
        values = matrix(weights, len(rows), len(columns))
        tables[layer, head] = pooled(values).astype(np.float32)
        for mean in ((layer, MEAN_HEAD), (MEAN_LAYER, head), (MEAN_LAYER, MEAN_HEAD)):
            sums[mean] = sums.get(mean, np.zeros(values.shape, np.float32)) + values
            counts[mean] += 1
    has_layers, has_heads = (len(set(names)) > 1 for names in zip(*tables, strict=True)) if tables else (False, False)
    for (layer, head), total in sums.items():
        # The mean of a single layer or head is not a choice of its own.
        if (layer != MEAN_LAYER or has_layers) and (head != MEAN_HEAD or has_heads):
            tables[layer, head] = pooled(total / counts[layer, head])
    return heatmap(
        token_labels(rows, block_size(len(rows))),
        token_labels(columns, block_size(len(columns))),
        [Cells(values, selected={"layer": layer, "head": head}) for (layer, head), values in tables.items()],
        _weight_scale(max(map(largest_magnitude, tables.values()), default=0.0), len(columns)),
        title,
        axes=QUERY_KEY,
        notes=[pooling_note(rows, columns)],
        selectors=[selector("layer", [layer for layer, _ in tables]), selector("head", [head for _, head in tables])],
    )


def alignment(source: Sequence[str], target: Sequence[str], values: npt.ArrayLike, *, signed: bool) -> Figure:
    """Return the attention of target to source tokens; with `signed`, the contributions of source tokens."""
    rows, columns = ([word.strip() or word for word in words] for words in (target, source))
    largest = largest_magnitude(values)
    title, scale = "Attention weights, target to source", _weight_scale(largest, len(source))
    if signed:
        title = "Contributions of source tokens to target logits"
        scale = ColourScale("contribution (logits)", largest, signed=True)
    return _token_heatmap(rows, columns, values, scale, title, ("target token", "source token"))


def mask(rows: Sequence[str], columns: Sequence[str], allowed: npt.ArrayLike, title: str = "Attention mask") -> Figure:
    """Return an attention mask: blue where a query may attend to a key."""
    values = (matrix(allowed, len(rows), len(columns)) != 0).astype(np.float32)
    scale = ColourScale("allowed", 1.0, has_legend=False)
    note = "blue: the query may attend to the key"
    return _token_heatmap(rows, columns, values, scale, title, QUERY_KEY, note)


def _token_heatmap(
    rows: Sequence[str],
    columns: Sequence[str],
    values: npt.ArrayLike,
    scale: ColourScale,
    title: str,
    axes: tuple[str, str],
    note: str = "",
) -> Figure:
    """Return a heat map of tokens by tokens, pooled if it is large."""
    return heatmap(
        token_labels(rows, block_size(len(rows))),
        token_labels(columns, block_size(len(columns))),
        [Cells(pooled(matrix(values, len(rows), len(columns)), signed=scale.signed))],
        scale,
        title,
        axes=axes,
        notes=[note, pooling_note(rows, columns)],
    )


def _weight_scale(largest: float, columns: int) -> ColourScale:
    return ColourScale("weight", largest, exponent=0.5 if columns > MANY_KEYS else 1.0)


def each_map(maps: Maps) -> Iterable[tuple[tuple[int, int], npt.ArrayLike]]:
    """Return the maps one after the other."""
    return maps.items() if isinstance(maps, Mapping) else maps


def selector(name: str, values: Sequence[str]) -> alt.Parameter:
    """Return a chart parameter with a drop-down list, means first; a single value has no list."""
    options = sorted(dict.fromkeys(values), key=lambda each: not each.startswith(("mean", "all")))
    if len(options) < 2:
        return alt.param(name=name, value=options[0] if options else "")
    return alt.param(name=name, value=options[0], bind=alt.binding_select(options=options, name=f"{name} "))
