"""Charts: each function takes words and numbers and returns a picture. Nothing here knows a model."""

from satchel.charts.bars import comparison, sense_bars
from satchel.charts.curves import (
    bottleneck_curve,
    cost_by_length,
    cost_by_order,
    dot_products_by_distance,
    forgetting_curve,
    training_curves,
)
from satchel.charts.heads import head_ablation, heads_by_pattern, heads_grid
from satchel.charts.lenses import attribution, logit_lens
from satchel.charts.lines import head_lines
from satchel.charts.maps import alignment, attention_map, attention_maps, by_word_and_sense, mask, position_encodings
from satchel.charts.points import embedding_map
from satchel.charts.strips import order_strip, surprise_strip
from satchel.charts.themes import INK, OTHER

__all__ = [
    "INK",
    "OTHER",
    "alignment",
    "attention_map",
    "attention_maps",
    "attribution",
    "bottleneck_curve",
    "by_word_and_sense",
    "comparison",
    "cost_by_length",
    "cost_by_order",
    "dot_products_by_distance",
    "embedding_map",
    "forgetting_curve",
    "head_ablation",
    "head_lines",
    "heads_by_pattern",
    "heads_grid",
    "logit_lens",
    "mask",
    "order_strip",
    "position_encodings",
    "sense_bars",
    "surprise_strip",
    "training_curves",
]
