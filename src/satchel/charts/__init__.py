"""Charts: each function takes tokens and numbers and returns a `Figure`. No module here imports a model."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from satchel.charts.bars import comparison as comparison
    from satchel.charts.bars import sense_bars as sense_bars
    from satchel.charts.curves import bottleneck_curve as bottleneck_curve
    from satchel.charts.curves import cost_by_length as cost_by_length
    from satchel.charts.curves import cost_by_order as cost_by_order
    from satchel.charts.curves import dot_products_by_distance as dot_products_by_distance
    from satchel.charts.curves import forgetting_curve as forgetting_curve
    from satchel.charts.curves import training_curves as training_curves
    from satchel.charts.heads import head_ablation as head_ablation
    from satchel.charts.heads import heads_by_pattern as heads_by_pattern
    from satchel.charts.heads import heads_grid as heads_grid
    from satchel.charts.lenses import attribution as attribution
    from satchel.charts.lenses import logit_lens as logit_lens
    from satchel.charts.lines import head_lines as head_lines
    from satchel.charts.maps import alignment as alignment
    from satchel.charts.maps import attention_map as attention_map
    from satchel.charts.maps import attention_maps as attention_maps
    from satchel.charts.maps import by_word_and_sense as by_word_and_sense
    from satchel.charts.maps import mask as mask
    from satchel.charts.maps import position_encodings as position_encodings
    from satchel.charts.points import embedding_map as embedding_map
    from satchel.charts.strips import order_strip as order_strip
    from satchel.charts.strips import surprise_strip as surprise_strip

# Module of each chart function. Loaded on first use: `charts.html` must not import altair (0.4 s).
_MODULES = {
    "alignment": "maps",
    "attention_map": "maps",
    "attention_maps": "maps",
    "attribution": "lenses",
    "bottleneck_curve": "curves",
    "by_word_and_sense": "maps",
    "comparison": "bars",
    "cost_by_length": "curves",
    "cost_by_order": "curves",
    "dot_products_by_distance": "curves",
    "embedding_map": "points",
    "forgetting_curve": "curves",
    "head_ablation": "heads",
    "head_lines": "lines",
    "heads_by_pattern": "heads",
    "heads_grid": "heads",
    "logit_lens": "lenses",
    "mask": "maps",
    "order_strip": "strips",
    "position_encodings": "maps",
    "sense_bars": "bars",
    "surprise_strip": "strips",
    "training_curves": "curves",
}

__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'satchel.charts' has no attribute {name!r}")
    return getattr(import_module(f"satchel.charts.{_MODULES[name]}"), name)
