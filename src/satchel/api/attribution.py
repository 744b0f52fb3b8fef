"""Attribution in words: what each word of a text does to what a model says of it, whatever the model is."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from satchel.api.classification import Classifier
from satchel.api.language import LanguageModel
from satchel.api.model import Model
from satchel.api.tagging import Tagger
from satchel.charts import html
from satchel.data.tagged import split_units, tokenize_tagged
from satchel.errors import DataError, RunError, SettingsError
from satchel.evaluation.statistics import spearman
from satchel.inspection import attribution
from satchel.inspection.attribution import INSTEADS, METHODS, Asked, Attributions, Instead, Method
from satchel.inspection.targets import likeliest, next_token, read_prefix
from satchel.models.backpack import Backpack
from satchel.models.dan import Dan
from satchel.predictor import Floats, Ids
from satchel.text.display import visible
from satchel.text.words import Word, words_of

# A token after a text or its number, a label, or of a tagger the number of a word, with a tag or without.
Target = str | int | tuple[int, str]


@dataclass(frozen=True)
class WordAttributions:
    """What each word adds to a score by one method: `values`, a number for each of `words`. A notebook shows it.

    `token_values` are the same before the tokens of a word were added up. `score` is that of the text, `baseline`
    that with other vectors in its place: `gap` is how much more the values add up to than the difference of the two.
    """

    method: Method
    words: tuple[str, ...]
    values: Floats
    tokens: tuple[str, ...]
    token_values: Floats
    target: str
    versus: str | None
    score: float
    baseline: float
    gap: float
    steps: int | None
    notes: tuple[str, ...] = ()

    def check(self) -> str:
        """Return a line that says whether the values add up."""
        whole = self.score - self.baseline
        share = f" ({abs(self.gap / whole):.1%})" if whole else ""
        steps = f", {self.steps} steps" if self.steps else ""
        return f"{self.method}: adds up to {self.values.sum():+.4f} of {whole:+.4f}, gap {self.gap:+.4f}{share}{steps}"

    def _repr_html_(self) -> str:
        values = self.values.tolist()
        told = [f"{value:+.2f}" for value in values]
        return html.tinted(self.words, values, told) + html.lines([self.check(), *self.notes])


@dataclass(frozen=True)
class ComparedAttributions:
    """What several methods say of one text; and for a Backpack what is true.

    `exact` has what the senses of each word add, without what all words share of a sense (that and the head's own
    part are `bias`); it is None where the model is no Backpack. `correlations` are those of a method's ranks with it.
    """

    words: tuple[str, ...]
    target: str
    versus: str | None
    score: float
    baseline: float
    methods: tuple[WordAttributions, ...]
    exact: Floats | None
    bias: float
    correlations: dict[str, float]
    notes: tuple[str, ...]

    @property
    def columns(self) -> list[str]:
        """The names of the columns of `rows`."""
        return ["word", *(each.method for each in self.methods), *([] if self.exact is None else ["exact"])]

    def rows(self) -> list[list[str]]:
        """Return a row for each word, as it can be printed: the word, and what each method says it adds."""
        values = [each.values for each in self.methods] + ([] if self.exact is None else [self.exact])
        return [
            [visible(word, spaces=True), *(f"{float(each[number]):+.4f}" for each in values)]
            for number, word in enumerate(self.words)
        ]

    def checks(self) -> list[str]:
        """Return what is to be shared out, a line for each method on whether it is, and how near the truth they are."""
        name = visible(self.target, spaces=True)
        other = "" if self.versus is None else f" above {visible(self.versus, spaces=True)}"
        lines = [f"the score of {name}{other}: {self.score:+.4f}; with others in place of words: {self.baseline:+.4f}"]
        lines += [each.check() for each in self.methods]
        if self.exact is not None:
            lines.append(f"exact: adds up to {self.exact.sum():+.4f}, and to the score with {self.bias:+.4f}")
            near = ", ".join(f"{method} {found:.2f}" for method, found in self.correlations.items())
            lines.append(f"rank correlation with what is exact: {near}")
        return lines

    def document(self) -> dict[str, Any]:
        """Return all of it in plain values, for JSON."""
        return {
            "words": list(self.words),
            "target": self.target,
            "versus": self.versus,
            "score": self.score,
            "baseline": self.baseline,
            "methods": {
                each.method: {
                    "values": each.values.tolist(),
                    "tokens": list(each.tokens),
                    "token_values": each.token_values.tolist(),
                    "gap": each.gap,
                    "steps": each.steps,
                    "rank_correlation": self.correlations.get(each.method),
                }
                for each in self.methods
            },
            "exact": None if self.exact is None else self.exact.tolist(),
            "bias": None if self.exact is None else self.bias,
            "notes": list(self.notes),
        }

    def _repr_html_(self) -> str:
        return html.table(self.columns, self.rows()) + html.lines([*self.checks(), *self.notes])


def attributions(
    model: Model,
    text: str,
    target: Target | None = None,
    versus: str | int | None = None,
    method: Method = "integrated",
    *,
    instead: Instead = "mean",
    steps: int | None = None,
) -> WordAttributions:
    """Return what each word of a text adds to a score by one method; see `Model.attributions`."""
    question = _question(model, text, target, versus)
    attribution.check_vectors(question.asked)
    return question.told(_attributed(question, method, instead, steps))


def compared(
    model: Model,
    text: str,
    target: Target | None = None,
    versus: str | int | None = None,
    methods: Sequence[Method] = METHODS,
    *,
    instead: Instead = "mean",
    steps: int | None = None,
) -> ComparedAttributions:
    """Return what several methods say of a text; beside them, for a Backpack, what its senses add: that is exact."""
    question = _question(model, text, target, versus)
    attribution.check_vectors(question.asked)
    found = tuple(question.told(_attributed(question, method, instead, steps)) for method in methods)
    exact, bias = None, 0.0
    correlations: dict[str, float] = {}
    if isinstance(question.asked.encoder, Backpack):
        true = attribution.exact(question.asked)
        exact, bias = question.by_word(true.centred.sum(axis=1)), float(true.shared.sum()) + true.constant
        correlations = {each.method: spearman(each.values, exact) for each in found}
    notes = dict.fromkeys(note for each in found for note in each.notes)
    first = found[0]
    return ComparedAttributions(
        first.words,
        first.target,
        first.versus,
        first.score,
        first.baseline,
        found,
        exact,
        bias,
        correlations,
        tuple(notes),
    )


def _attributed(question: "_Question", method: Method, instead: Instead, steps: int | None) -> Attributions:
    # They come from people, whatever their types say.
    for name, found, known in (("method", method, METHODS), ("instead", instead, INSTEADS)):
        if found not in known:
            raise SettingsError(f"{name}: found {found}, expected {' or '.join(known)}")
    if steps is not None and steps < 1:
        raise SettingsError(f"steps: found {steps}, expected 1 or more")
    return attribution.attribute(question.asked, method, instead=instead, steps=steps)


# --- what is asked -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Question:
    """A score of a text, the names of what it is of, and the words of the text."""

    asked: Asked
    words: list[Word]
    tokens: tuple[str, ...]
    target: str
    versus: str | None
    notes: list[str]

    def by_word(self, values_T: Floats) -> Floats:
        """Return the sums over the tokens of each word."""
        return np.asarray(np.add.reduceat(values_T, [word.start for word in self.words]))

    def told(self, found: Attributions) -> WordAttributions:
        """Return what was found, by word."""
        notes = list(self.notes)
        if found.steps and not found.is_complete:
            notes.append(f"the values of {found.method} do not quite add up after {found.steps} steps: mind the gap")
        return WordAttributions(
            found.method,
            tuple(word.text for word in self.words),
            self.by_word(found.values),
            self.tokens,
            found.values,
            self.target,
            self.versus,
            found.score,
            found.baseline,
            found.gap,
            found.steps,
            tuple(notes),
        )


def _question(model: Model, text: str, target: Target | None, versus: str | int | None) -> _Question:
    """Return what is asked of a model."""
    if target is None and versus is not None:
        raise SettingsError("found what to compare with, but no target", "give a target too")
    if not isinstance(model, (LanguageModel, Classifier, Tagger)):
        raise RunError(
            "is a translator: attribution is for language models, classifiers and taggers",
            "`satchel look alignment` shows what it looked at",
            where=str(model.folder),
        )
    if model.network is None:
        raise RunError(
            f"is {model.settings.model.kind}: its words have no vectors, and there is nothing to change in them",
            "attribution is for networks",
            where=str(model.folder),
        )
    if isinstance(model, LanguageModel):
        return _of_next(model, text, target, versus)
    if isinstance(model, Classifier):
        return _of_label(model, text, target, versus)
    return _of_tag(model, text, target, versus)


def _of_next(model: LanguageModel, text: str, target: Target | None, versus: str | int | None) -> _Question:
    tokenizer, network = model.tokenizer, model.network
    if isinstance(target, tuple):
        raise SettingsError(f"target: found {target}, expected a word or a token's number")
    ids_T, notes = read_prefix(tokenizer, network.encoder.context, text)
    chosen = likeliest(model.predictor, ids_T) if target is None else next_token(tokenizer, target, text, notes)
    other = None if versus is None else next_token(tokenizer, versus, text, notes)
    if network.ngram is not None:
        notes.append("this explains the network's score; the n-grams it stands on have a say of their own")
    asked = attribution.next_token(network, ids_T, chosen, other)
    named = None if other is None else tokenizer.text_of(other)
    return _named(model, asked, ids_T, words_of(tokenizer, ids_T.tolist()), tokenizer.text_of(chosen), named, notes)


def _of_label(model: Classifier, text: str, target: Target | None, versus: str | int | None) -> _Question:
    ids_T = np.asarray(model.tokenizer.encode(text).ids, np.int64)
    _check_text(ids_T)
    chosen = _labelled(model, model.classify(text).label if target is None else target)
    other = None if versus is None else _labelled(model, versus)
    asked = attribution.label(model.network, ids_T, chosen, other)
    words = words_of(model.tokenizer, ids_T.tolist())
    return _named(model, asked, ids_T, words, model.labels[chosen], _name(model, other), _windows(asked))


def _of_tag(model: Tagger, text: str, target: Target | None, versus: str | int | None) -> _Question:
    tokens, places_N = tokenize_tagged([text], model.tokenizer, model.unit)
    # Without the boundaries around it.
    ids_T, places_N = np.asarray(tokens.ids[1:-1], np.int64), places_N - 1
    _check_text(ids_T)
    number, tag = _place(target, model.unit)
    if not 0 <= number < len(places_N):
        raise SettingsError(f"found {model.unit} {number}, expected 0 to {len(places_N) - 1}: the text has no more")
    chosen = _labelled(model, model.tag(text).tags[number] if tag is None else tag)
    other = None if versus is None else _labelled(model, versus)
    asked = attribution.tag(model.network, ids_T, int(places_N[number]), chosen, other)
    # A tag stands at the last token of what it belongs to.
    ends = [0, *(int(place) + 1 for place in places_N)]
    parts = zip(split_units(text, model.unit, model.tokenizer), pairwise(ends), strict=True)
    words = [Word(part, start, stop) for part, (start, stop) in parts]
    name = f"{model.labels[chosen]} at {words[number].text}"
    return _named(model, asked, ids_T, words, name, _name(model, other), _windows(asked))


def _named(
    model: Model, asked: Asked, ids_T: Ids, words: list[Word], target: str, versus: str | None, notes: list[str]
) -> _Question:
    if isinstance(asked.encoder, Dan) and asked.encoder.pairs is not None:
        notes.append("pairs of words have vectors too: what a pair adds is put down to its second word")
    tokens = tuple(model.tokenizer.text_of(int(id_)) for id_ in ids_T)
    return _Question(asked, words, tokens, target, versus, notes)


def _check_text(ids_T: Ids) -> None:
    if not len(ids_T):
        raise DataError("found no text, expected at least one token")


def _labelled(model: Classifier | Tagger, label: object) -> int:
    """Return the number of a label."""
    if label not in model.labels:
        raise SettingsError(f"found no label {label}", f"there is {', '.join(model.labels)}")
    return model.labels.index(str(label))


def _name(model: Classifier | Tagger, number: int | None) -> str | None:
    return None if number is None else model.labels[number]


def _place(target: Target | None, unit: str) -> tuple[int, str | None]:
    """Return the number of the word, and the tag if there is one, that a tagger is asked about: `3:NOUN` or `3`."""
    if isinstance(target, int):
        return target, None
    if isinstance(target, tuple):
        return target
    number, _, tag = (target or "").partition(":")
    if not number.strip().isdecimal():
        found = "no target" if target is None else repr(target)
        raise SettingsError(
            f"found {found}, expected which {unit} is meant, counted from 0, and its tag", "give 3:NOUN; or 3"
        )
    return int(number), tag or None


def _windows(asked: Asked) -> list[str]:
    context = asked.encoder.context
    if context is None or len(asked.ids_T) <= context:
        return []
    return [f"the text is longer than the context of {context:,}: it is read in windows of that"]
