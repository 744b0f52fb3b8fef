"""What counting makes of the data a network was trained on: fitted in a second or two, and said beside it."""

from satchel.api.classification import Classifier
from satchel.api.language import LanguageModel
from satchel.api.tagging import Tagger
from satchel.api.translation import Translator
from satchel.data.examples import read_classes
from satchel.data.tokens import open_tokens
from satchel.evaluation.classification import ClassificationMetrics, classification
from satchel.evaluation.likelihood import Likelihood, likelihood
from satchel.ngram.classes import ClassNgramSettings, estimate_classes
from satchel.ngram.smoothing import NgramSettings, estimate
from satchel.ngram.tables import Table
from satchel.predictor import Ids
from satchel.progress import Progress
from satchel.runs import folder as runs
from satchel.training.defaults import ngram_order

# More tokens than this take longer to count than anybody wants to wait for a comparison.
MOST_TOKENS = 20_000_000


def counting_baseline(
    model: LanguageModel | Classifier | Tagger | Translator, progress: Progress
) -> Likelihood | ClassificationMetrics | None:
    """Return how n-grams do on what the run held out; None where they cannot."""
    tokens = open_tokens(model.folder / runs.TRAIN_TOKENS)
    if isinstance(model, (Tagger, Translator)) or tokens.counts.tokens > MOST_TOKENS:
        return None
    progress("counting, to compare", None)
    held = model.own_valid()
    size = model.tokenizer.size + 1
    single = model.tokenizer.kind in ("char", "byte")
    if isinstance(model, LanguageModel):
        return likelihood(_ngram_of(model, tokens.ids), held.ids, held.counts)
    names = (*model.labels, *model.run.facts["labels_only_held_out"])
    gold_E = read_classes(model.folder / runs.TRAIN_CLASSES, tokens.counts.documents, len(names))
    settings = ClassNgramSettings(order=6 if single else 2)
    counted = estimate_classes(tokens.ids, gold_E, size, len(model.labels), settings, lambda done: None)
    held_E = read_classes(model.folder / runs.VALID_CLASSES, held.counts.documents, len(names))
    return classification(counted.label(held.ids), held_E, names, model.majority)


def _ngram_of(model: LanguageModel, ids: Ids) -> Table:
    """Return the n-gram that a network stands on, or else one of the same tokens."""
    own = getattr(model.network, "ngram", None)
    if isinstance(own, Table):
        return own
    order = ngram_order(model.tokenizer.kind)
    ends = model.settings.data.documents != "stream"
    return estimate(ids, model.tokenizer.size + 1, NgramSettings(order=order), ends=ends).table
