"""What people hold in their hands: `satchel.train`, `satchel.load`, and the models they return."""

from satchel.api.classification import Classifier, Prediction
from satchel.api.comparing import MixReport, compare, mix
from satchel.api.language import LanguageModel, bits_by_step, cost_by_order
from satchel.api.loading import (
    import_arpa,
    load,
    load_classifier,
    load_language_model,
    load_model,
    load_tagger,
    load_translator,
)
from satchel.api.planning import Plan, plan
from satchel.api.recipes import RECIPES
from satchel.api.tagging import Tagger, Tagging
from satchel.api.training import resume, run_plan, train
from satchel.api.translation import Alignment, Translation, Translator

__all__ = [
    "RECIPES",
    "Alignment",
    "Classifier",
    "LanguageModel",
    "MixReport",
    "Plan",
    "Prediction",
    "Tagger",
    "Tagging",
    "Translation",
    "Translator",
    "bits_by_step",
    "compare",
    "cost_by_order",
    "import_arpa",
    "load",
    "load_classifier",
    "load_language_model",
    "load_model",
    "load_tagger",
    "load_translator",
    "mix",
    "plan",
    "resume",
    "run_plan",
    "train",
]
