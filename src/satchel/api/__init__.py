"""What people hold in their hands: `satchel.train`, `satchel.load`, and the models they return."""

from satchel.api.comparing import MixReport, compare, mix
from satchel.api.loading import import_arpa, load
from satchel.api.models import LanguageModel
from satchel.api.training import Plan, carry_out, cost_by_order, plan, train

__all__ = [
    "LanguageModel",
    "MixReport",
    "Plan",
    "carry_out",
    "compare",
    "cost_by_order",
    "import_arpa",
    "load",
    "mix",
    "plan",
    "train",
]
