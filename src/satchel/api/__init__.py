"""The public functions `train`, `load`, `resume`, `compare` and `mix`, and the classes of models."""

from satchel.api.classification import Classifier as Classifier
from satchel.api.classification import Prediction as Prediction
from satchel.api.compare import MixReport as MixReport
from satchel.api.compare import compare as compare
from satchel.api.compare import mix as mix
from satchel.api.curves import validation_curves as validation_curves
from satchel.api.language import LanguageModel as LanguageModel
from satchel.api.language import bits_by_step as bits_by_step
from satchel.api.language import cost_by_order as cost_by_order
from satchel.api.load import import_arpa as import_arpa
from satchel.api.load import load as load
from satchel.api.tagging import Tagger as Tagger
from satchel.api.tagging import Tagging as Tagging
from satchel.api.train import plan as plan
from satchel.api.train import resume as resume
from satchel.api.train import run_plan as run_plan
from satchel.api.train import train as train
from satchel.api.translation import Translation as Translation
from satchel.api.translation import Translator as Translator
from satchel.training.plan import Plan as Plan
from satchel.training.recipes import RECIPES as RECIPES
