"""Attention: weights of one or all heads, alignments and masks as heat maps.

Shapes: T query tokens (rows), S key tokens (columns).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import altair as alt
import numpy as np
import numpy.typing as npt

from satchel.charts.arrays import (
    MANY_KEYS,
    Numbers,
    block_size,
    largest_magnitude,
    largest_weight,
    matrix,
    pooled,
    pooling_note,
    scale_note,
)
from satchel.charts.figures import Figure
from satchel.charts.heatmap import Cells, ColourScale, heatmap
from satchel.charts.labels import token_labels

QUERY_KEY = ("query token", "key token")
MEAN_LAYER, MEAN_HEAD, MEAN_SENSE = "mean over layers", "mean over heads", "mean over senses"
# Layer and head by number or by name, such as ("contextualiser layer 0", "head 3").
Head = tuple[int | str, int | str]
# Attention weights by layer and head, as a mapping or one after the other.
Maps = Mapping[Head, npt.ArrayLike] | Mapping[tuple[int, int], npt.ArrayLike] | Iterable[tuple[Head, npt.ArrayLike]]


def attention_map(
    rows: Sequence[str],
    columns: Sequence[str],
    weights: npt.ArrayLike,
    title: str = "Attention weights",
    notes: Sequence[str] = (),
) -> Figure:
    """Return the attention weights of one head as a heat map."""
    values = matrix(weights, len(rows), len(columns))
    scale = _weight_scale(largest_weight(values), len(columns))
    return _token_heatmap(rows, columns, values, scale, title, QUERY_KEY, [*notes, scale_note(values)])


def attention_maps(
    rows: Sequence[str],
    columns: Sequence[str],
    maps: Maps,
    title: str = "Attention weights",
    *,
    shown: Head | None = None,
    notes: Sequence[str] = (),
) -> Figure:
    """Return the attention weights of all heads as a heat map with selectors of layer and head.

    `shown` is the layer and head that is selected first, by default the first one; the names of the means are "mean
    over layers" and "mean over heads". An iterable of maps is consumed one map at a time: memory holds the pooled maps
    and the sums only.
    """
    tables: dict[tuple[str, str], Numbers] = {}
    largest: dict[tuple[str, str], float] = {}
    sums: dict[tuple[str, str], Numbers] = {}
    counts: Counter[tuple[str, str]] = Counter()
    note = ""
    for name, weights in each_map(maps):
        layer, head = head_names(name)
        mean_head = MEAN_SENSE if head.startswith("sense") else MEAN_HEAD
        values = matrix(weights, len(rows), len(columns))
        tables[layer, head], largest[layer, head] = pooled(values).astype(np.float32), largest_weight(values)
        note = note or scale_note(values)
        for mean in ((layer, mean_head), (MEAN_LAYER, head), (MEAN_LAYER, mean_head)):
            sums[mean] = sums.get(mean, np.zeros(values.shape, np.float32)) + values
            counts[mean] += 1
    has_layers, has_heads = (len(set(names)) > 1 for names in zip(*tables, strict=True)) if tables else (False, False)
    for (layer, head), total in sums.items():
        # The mean of a single layer or head is not a choice of its own.
        if (layer != MEAN_LAYER or has_layers) and (head not in (MEAN_HEAD, MEAN_SENSE) or has_heads):
            mean_TS = total / counts[layer, head]
            tables[layer, head], largest[layer, head] = pooled(mean_TS), largest_weight(mean_TS)
    # Each head has its own colour scale: the weights of many heads are small.
    scales = alt.param(
        name="largest", value={f"{layer}, {head}": value or 1.0 for (layer, head), value in largest.items()}
    )
    return heatmap(
        token_labels(rows, block_size(len(rows))),
        token_labels(columns, block_size(len(columns))),
        [Cells(values, selected={"layer": layer, "head": head}) for (layer, head), values in tables.items()],
        _weight_scale("largest[layer + ', ' + head]" if tables else 1.0, len(columns)),
        title,
        axes=QUERY_KEY,
        notes=[*notes, note, pooling_note(rows, columns)],
        selectors=head_selectors(list(tables), shown),
        parameters=[scales],
    )


def head_names(head: Head) -> tuple[str, str]:
    """Return the names of a layer and a head."""
    layer, index = head
    return (
        layer if isinstance(layer, str) else f"layer {layer}",
        index if isinstance(index, str) else f"head {index}",
    )


def head_selectors(names: Sequence[tuple[str, str]], shown: Head | None) -> list[alt.Parameter]:
    """Return the selectors of layer and head; the head `shown` is selected first."""
    layer, head = (None, None) if shown is None else head_names(shown)
    return [
        selector("layer", [name for name, _ in names], layer),
        selector("head", [name for _, name in names], head),
    ]


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
    return _token_heatmap(rows, columns, values, scale, title, QUERY_KEY, ["blue: the query may attend to the key"])


def _token_heatmap(
    rows: Sequence[str],
    columns: Sequence[str],
    values: npt.ArrayLike,
    scale: ColourScale,
    title: str,
    axes: tuple[str, str],
    notes: Sequence[str] = (),
) -> Figure:
    """Return a heat map of tokens by tokens, pooled if it is large."""
    return heatmap(
        token_labels(rows, block_size(len(rows))),
        token_labels(columns, block_size(len(columns))),
        [Cells(pooled(matrix(values, len(rows), len(columns)), signed=scale.signed))],
        scale,
        title,
        axes=axes,
        notes=[*notes, pooling_note(rows, columns)],
    )


def _weight_scale(largest: float | str, columns: int) -> ColourScale:
    return ColourScale("weight", largest, exponent=0.5 if columns > MANY_KEYS else 1.0)


def each_map(maps: Maps) -> Iterable[tuple[Head, npt.ArrayLike]]:
    """Return the maps one after the other."""
    if isinstance(maps, Mapping):
        yield from maps.items()
    else:
        yield from maps


def selector(name: str, values: Sequence[str], first: str | None = None) -> alt.Parameter:
    """Return a chart parameter with a drop-down list, means first; a single value has no list.

    `first` is selected first; by default the first value that is no mean.
    """
    options = sorted(dict.fromkeys(values), key=lambda each: not each.startswith("mean"))
    selected = first if first in options else next((each for each in options if not each.startswith("mean")), "")
    if len(options) < 2:
        return alt.param(name=name, value=selected)
    return alt.param(name=name, value=selected, bind=alt.binding_select(options=options, name=f"{name} "))
