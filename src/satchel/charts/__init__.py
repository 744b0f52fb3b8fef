"""Charts: each function takes tokens and numbers and returns a `Figure`. No module here imports a model."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from satchel.charts.attention import alignment, attention_map, attention_maps, mask
    from satchel.charts.curves import (
        comparison,
        cost_by_order,
        dot_products_by_distance,
        gradient_norms,
        line_chart,
        training_curves,
    )
    from satchel.charts.embeddings import embedding_map, position_encodings
    from satchel.charts.figures import Figure as Figure
    from satchel.charts.heads import head_ablation, head_lines, heads_by_pattern, heads_grid
    from satchel.charts.predictions import attribution, logit_lens, sense_contributions, sense_weights
    from satchel.charts.strips import order_strip, surprise_strip

__all__ = [
    "alignment", "attention_map", "attention_maps", "attribution", "comparison", "cost_by_order",
    "dot_products_by_distance", "embedding_map", "gradient_norms", "head_ablation", "head_lines", "heads_by_pattern",
    "heads_grid", "line_chart", "logit_lens", "mask", "order_strip", "position_encodings", "sense_contributions",
    "sense_weights", "surprise_strip", "training_curves",
]  # fmt: skip
# Modules with these functions. They are loaded on first use: importing altair takes 0.4 s.
_MODULES = ("attention", "curves", "embeddings", "heads", "predictions", "strips")


def __getattr__(name: str) -> Any:
    if name in __all__:
        for module in _MODULES:
            functions = vars(import_module(f"satchel.charts.{module}"))
            if name in functions:
                return functions[name]
    raise AttributeError(f"module 'satchel.charts' has no attribute {name!r}")
