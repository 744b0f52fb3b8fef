"""Charts: each function takes words and numbers and returns a picture. Nothing here knows a model."""

from satchel.looking.charts.bars import comparison, sense_bars
from satchel.looking.charts.curves import (
    bottleneck_curve,
    cost_by_length,
    cost_by_order,
    dot_products_by_distance,
    forgetting_curve,
    training_curves,
)
from satchel.looking.charts.heads import head_ablation, heads_by_pattern, heads_grid
from satchel.looking.charts.lenses import attribution, logit_lens
from satchel.looking.charts.lines import head_lines
from satchel.looking.charts.maps import (
    alignment,
    attention_map,
    attention_maps,
    by_word_and_sense,
    mask,
    position_encodings,
)
from satchel.looking.charts.points import embedding_map
from satchel.looking.charts.strips import order_strip, surprise_strip
from satchel.looking.themes import INK, OTHER

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
