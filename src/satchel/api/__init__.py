"""The public functions `train`, `load`, `resume`, `compare` and `mix`, and the classes of models."""

from satchel.api.classification import Classifier, Prediction
from satchel.api.compare import MixReport, compare, mix
from satchel.api.language import LanguageModel, bits_by_step, cost_by_order
from satchel.api.load import (
    import_arpa,
    load,
    load_classifier,
    load_language_model,
    load_model,
    load_tagger,
    load_translator,
)
from satchel.api.tagging import Tagger, Tagging
from satchel.api.train import plan, resume, run_plan, train
from satchel.api.translation import Alignment, Translation, Translator
from satchel.training.plan import Plan
from satchel.training.recipes import RECIPES

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
