"""Charts: each function takes tokens and numbers and returns a `Figure`. No module here imports a model."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from satchel.charts.attention import alignment as alignment
    from satchel.charts.attention import attention_map as attention_map
    from satchel.charts.attention import attention_maps as attention_maps
    from satchel.charts.attention import mask as mask
    from satchel.charts.contributions import attribution as attribution
    from satchel.charts.contributions import sense_bars as sense_bars
    from satchel.charts.contributions import sense_contributions as sense_contributions
    from satchel.charts.curves import cost_by_order as cost_by_order
    from satchel.charts.curves import line_chart as line_chart
    from satchel.charts.curves import training_curves as training_curves
    from satchel.charts.embeddings import embedding_map as embedding_map
    from satchel.charts.embeddings import position_encodings as position_encodings
    from satchel.charts.figures import Figure as Figure
    from satchel.charts.heads import head_ablation as head_ablation
    from satchel.charts.heads import heads_by_pattern as heads_by_pattern
    from satchel.charts.heads import heads_grid as heads_grid
    from satchel.charts.intervals import comparison as comparison
    from satchel.charts.lens import logit_lens as logit_lens
    from satchel.charts.lines import head_lines as head_lines
    from satchel.charts.strips import order_strip as order_strip
    from satchel.charts.strips import surprise_strip as surprise_strip

# Module of each function. Modules are loaded on first use: importing altair takes 0.4 s.
_MODULES = {
    "alignment": "attention",
    "attention_map": "attention",
    "attention_maps": "attention",
    "attribution": "contributions",
    "comparison": "intervals",
    "cost_by_order": "curves",
    "embedding_map": "embeddings",
    "head_ablation": "heads",
    "head_lines": "lines",
    "heads_by_pattern": "heads",
    "heads_grid": "heads",
    "line_chart": "curves",
    "logit_lens": "lens",
    "mask": "attention",
    "order_strip": "strips",
    "position_encodings": "embeddings",
    "sense_bars": "contributions",
    "sense_contributions": "contributions",
    "surprise_strip": "strips",
    "training_curves": "curves",
}

__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'satchel.charts' has no attribute {name!r}")
    return getattr(import_module(f"satchel.charts.{_MODULES[name]}"), name)
