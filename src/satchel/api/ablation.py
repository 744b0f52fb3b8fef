"""Models without some of their heads, and what each of these is worth."""

import copy
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, TypeVar

from satchel.api.classification import Classifier
from satchel.api.language import LanguageModel
from satchel.api.model import Model
from satchel.api.tagging import Tagger
from satchel.data.tokens import TokenFile, decode_documents, tokenize_corpus
from satchel.errors import DataError, RunError
from satchel.inspection.ablation import Head, heads_of, zeroing
from satchel.inspection.patched import view
from satchel.progress import Progress, silent

# As much of a text is enough to tell heads apart.
TOKENS_SEEN = 20_000
Measure = Literal["bits_per_byte", "bits_per_token", "accuracy"]
M = TypeVar("M", bound=Model)


@dataclass(frozen=True)
class HeadCost:
    """What a model reaches without a head, and how much worse that is: bits more, or right answers fewer."""

    layer: int
    head: int
    value: float
    cost: float


@dataclass(frozen=True)
class HeadCosts:
    """What each head is worth, by layer and head: measured how, and what the whole model reaches."""

    measure: Measure
    whole: float
    rows: tuple[HeadCost, ...]


def edited(model: M, zero: Iterable[Head] = ()) -> M:
    """Return the same model, but some heads find nothing. They share their weights, and the model stays as it is."""
    heads = list(zero)
    changed = copy.copy(model)
    # What answers questions about senses and vectors asks the network that it was made with.
    for name in [name for name in vars(changed) if isinstance(getattr(type(model), name, None), cached_property)]:
        del vars(changed)[name]
    if not heads:
        return changed
    _heads(model)
    changed.network = view(model.network, zeroing(model.network, heads))
    changed.predictor = copy.copy(model.predictor)
    changed.predictor.network = changed.network
    return changed


def head_costs(model: Model, data: str | Path | None = None, *, progress: Progress = silent) -> HeadCosts:
    """Return what each head is worth on a text or a table; without one, on what the run held out.

    Language models are measured in bits per byte, on the first 20,000 tokens or so; where the tokenizer does not keep
    all of the text, in bits per token. Classifiers and taggers are measured by their accuracy.
    """
    heads = _heads(model)
    measured: Callable[[Model], float]
    if isinstance(model, LanguageModel):
        measure, measured = _bits(_beginning(model, data), model)
    elif isinstance(model, (Classifier, Tagger)):
        measure, measured = "accuracy", lambda each: each.evaluate(data).accuracy  # type: ignore[union-attr]
    else:
        raise RunError("is a translator; this is for language models, classifiers and taggers", where=str(model.folder))
    whole, sign = measured(model), -1 if measure == "accuracy" else 1
    rows = []
    for number, (layer, head) in enumerate(heads):
        progress("leaving out heads", number / len(heads))
        value = measured(edited(model, [(layer, head)]))
        rows.append(HeadCost(layer, head, value, sign * (value - whole)))
    return HeadCosts(measure, whole, tuple(rows))


def _heads(model: Model) -> list[Head]:
    found = [] if model.network is None else heads_of(model.network)
    if not found:
        raise RunError(
            "has no heads: it looks at nothing", "train a transformer or a backpack", where=str(model.folder)
        )
    return found


def _beginning(model: LanguageModel, data: str | Path | None) -> TokenFile:
    """Return the tokens of a text up to where it is long enough, at the end of a document if there is one."""
    if data is None:
        tokens = model.valid_tokens()
    else:
        tokens = tokenize_corpus(model.corpus(data), model.tokenizer, model.settings.data.documents)
    if not tokens.counts.tokens:
        raise DataError("found no text, expected at least one token", where=str(data))
    ids = tokens.ids[: TOKENS_SEEN + 1]
    (ends,) = (ids[1:] == model.tokenizer.boundary).nonzero()
    if len(ids) < len(tokens.ids) and len(ends):
        ids = ids[: ends[-1] + 2]
    return TokenFile(ids, tokens.counts, tokens.tokenizer_sha256, tokens.corpus_sha256)


def _bits(tokens: TokenFile, model: LanguageModel) -> tuple[Measure, Callable[[Model], float]]:
    """Return how a text is measured, and what measures it."""
    texts = list(decode_documents(tokens.ids, model.tokenizer))
    ends = int((tokens.ids[1:] == model.tokenizer.boundary).sum()) if model.settings.data.documents == "line" else 0
    size = sum(len(text.encode()) for text in texts) + ends
    is_kept = tokens.counts.lossless and size > 0
    per = size if is_kept else len(tokens.ids) - 1

    def measured(each: Model) -> float:
        assert isinstance(each, LanguageModel)
        return -float(each.predictor.score(tokens.ids).logprobs.sum()) / math.log(2) / per

    return "bits_per_byte" if is_kept else "bits_per_token", measured
