"""Traces of models: what is read of a text, and what a model is asked about it."""

from collections.abc import Sequence

import numpy as np

from satchel.api.classification import Classifier
from satchel.api.language import LanguageModel
from satchel.api.model import Model
from satchel.api.tagging import Tagger
from satchel.api.translation import Translator
from satchel.data.tagged import tokenize_tagged
from satchel.errors import DataError, SettingsError
from satchel.inspection import lens, trace
from satchel.inspection.trace import Told, Trace
from satchel.predictor import Ids
from satchel.text.tokenizer import Tokenizer

# What stands before the first word.
START = "<start>"


def trace_model(model: Model, text: str, target: str | None = None, start: int = 0) -> Trace:
    """Return the trace of a text; of a translator, with this target, or with what it writes itself.

    A text that is longer than the context is read from its token `start` on, for as long as the context is.
    """
    if start < 0:
        raise SettingsError(f"start: found {start}, expected a token's number, 0 or more")
    if target is not None and not isinstance(model, Translator):
        raise SettingsError("a target is for translators: this model reads one text", "leave it out")
    if isinstance(model, Translator):
        return _of_translator(model, text, target)
    if isinstance(model, LanguageModel):
        return _of_language_model(model, text, start)
    assert isinstance(model, (Tagger, Classifier))
    return _of_labels(model, text, start)


def _of_language_model(model: LanguageModel, text: str, start: int) -> Trace:
    tokenizer = model.tokenizer
    ids_T = np.concatenate([[tokenizer.boundary], _ids(tokenizer, text)]).astype(np.int64)
    ends = model.settings.data.documents != "stream"
    asked_T = np.append(ids_T, tokenizer.boundary) if ends else ids_T
    scores = model.predictor.score(asked_T)
    window, notes = _window(model, ids_T, start)
    asked = slice(window.start, window.stop if ends else min(window.stop, len(ids_T) - 1))
    told = Told(
        _texts(tokenizer, asked_T[1:][asked]),
        tuple(asked_T[1:][asked].tolist()),
        -scores.logprobs[asked],
        {name: values[asked] for name, values in scores.notes.items()},
    )
    texts = _texts(tokenizer, ids_T[window])
    tokens = (START, *texts[1:]) if window.start == 0 else texts
    if model.network is None:
        return Trace(tokens, told=told, notes=notes)
    return trace.of_text(model.network, ids_T[window], tokens, told=told, notes=notes)


def _of_labels(model: Tagger | Classifier, text: str, start: int) -> Trace:
    tokenizer = model.tokenizer
    ids_T: Ids
    if isinstance(model, Tagger):
        tokens, places = tokenize_tagged([text], tokenizer, model.unit)
        # Without the boundaries around it.
        ids_T, places_N = np.asarray(tokens.ids[1:-1], np.int64), np.asarray(places, np.int64) - 1
        tagged = model.tag(text)
        names, chances = tagged.tags, np.array(tagged.probabilities)
    else:
        ids_T = _ids(tokenizer, text)
        found = model.classify(text)
        names, chances, places_N = (found.label,), np.array([max(found.probabilities.values())]), np.zeros(1, np.int64)
    if not len(ids_T):
        raise DataError("found no text, expected at least one token")
    window, notes = _window(model, ids_T, start)
    inside = (places_N >= window.start) & (places_N < window.stop) if isinstance(model, Tagger) else np.ones(1, bool)
    given = tuple(name for name, is_inside in zip(names, inside, strict=True) if is_inside)
    told = Told(given, tuple(map(model.labels.index, given)), -np.log(chances[inside]))
    texts = _texts(tokenizer, ids_T[window])
    if model.network is None:
        return Trace(texts, told=told, notes=notes)
    return trace.of_text(model.network, ids_T[window], texts, told=told, notes=notes)


def _of_translator(model: Translator, text: str, target: str | None) -> Trace:
    written = model.translate(text).target if target is None else target
    longest = model.settings.model.context - 1
    source, own = (
        _ids(tokenizer, each) for tokenizer, each in ((model.source_tokenizer, text), (model.tokenizer, written))
    )
    notes = (
        [f"a text is longer than the context: its first {longest:,} tokens are read"]
        if (max(len(source), len(own)) > longest)
        else []
    )
    source, own = source[:longest], own[:longest]
    boundary = model.tokenizer.boundary
    scored = model.score(text, written)
    asked = np.append(own, boundary)
    told = Told(_texts(model.tokenizer, asked), tuple(asked.tolist()), -scored.logprobs[: len(asked)])
    return trace.of_pair(
        model.network,
        (source, own),
        model.boundaries,
        source=(*_texts(model.source_tokenizer, source), model.source_tokenizer.text_of(model.boundaries[0])),
        tokens=(START, *_texts(model.tokenizer, own)),
        told=told,
        notes=notes,
    )


def _ids(tokenizer: Tokenizer, text: str) -> Ids:
    return np.asarray(tokenizer.encode(text).ids, np.int64)


def _texts(tokenizer: Tokenizer, ids: Ids) -> tuple[str, ...]:
    return tuple(tokenizer.text_of(int(id_)) for id_ in ids)


def _window(model: Model, ids_T: Ids, start: int) -> tuple[slice, list[str]]:
    """Return the part of a text that is read, and what is to be said of it."""
    context = getattr(getattr(model.network, "encoder", None), "context", None) or len(ids_T)
    if start >= len(ids_T):
        raise SettingsError(f"start: found {start:,}, expected less than {len(ids_T):,}, the tokens of the text")
    stop = min(len(ids_T), start + context)
    if stop - start == len(ids_T):
        return slice(0, len(ids_T)), []
    return slice(start, stop), [
        f"tokens {start:,} to {stop - 1:,} of {len(ids_T):,} are read: the context is {context:,}"
    ]


def lens_of(model: Model, traced: Trace) -> "lens.Lens":
    """Return what each layer would have said of a traced text."""
    names: Sequence[str] = ()
    if isinstance(model, LanguageModel):
        names = [model.tokenizer.text_of(id_) for id_ in range(model.tokenizer.size + 1)]
    elif isinstance(model, Tagger):
        names = model.labels
    else:
        raise SettingsError("a lens is for language models and taggers", "look at attributions or an alignment")
    return lens.of_trace(model.network, traced, names)
