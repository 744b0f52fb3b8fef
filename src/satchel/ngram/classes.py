"""Classifying by counting: one n-gram model per class, and which of them finds a text likeliest.

The n-grams of all classes are looked up once, in the table of the whole training text (the background).
What each class says of an n-gram stands beside it, for those classes that have seen it; so the work does
not grow with classes that have nothing to say. Letters: T tokens, E examples, C classes.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import Field

from satchel.errors import RunError
from satchel.ngram.smoothing import NgramSettings, estimate
from satchel.ngram.tables import Ints, Table, table_from_arrays
from satchel.predictor import Floats, Ids

BLOCK = 1 << 20
# What a token costs that a class finds impossible: more than any that it does not.
TINY = 1e-300
# Cross-checking counts at most about this many tokens again, in at most so many folds, and tempers on so many rows.
TOKENS_AGAIN = 4_000_000
MOST_FOLDS = 5
MOST_EXAMPLES = 5000
POWERS = (0.0, 0.25, 0.5, 0.75, 1.0)


class ClassNgramSettings(NgramSettings):
    """How the counted models of the classes are estimated."""

    order: int = Field(3, ge=1, le=10, description="the longest n-gram: a context of order - 1 tokens")
    background: float = Field(0.2, ge=0, lt=1, description="the share of the model of all classes in each class")


@dataclass(frozen=True)
class ClassLevel:
    """What the classes say of the n-grams of one order: of that at place p, in starts[p] to starts[p + 1]."""

    starts: Ints
    classes: npt.NDArray[np.int32]
    probabilities: Floats
    weights: Floats  # as contexts; empty at the highest order

    def entries(self, where: Ints, places: Ints) -> tuple[Ints, Ints]:
        """Return, for tokens and the places of their n-grams, each entry with its token."""
        lengths = self.starts[places + 1] - self.starts[places]
        first = np.repeat(self.starts[places] - np.cumsum(lengths) + lengths, lengths)
        return np.repeat(where, lengths), np.arange(len(first)) + first


@dataclass(frozen=True)
class Temper:
    """How much to believe: evidence is multiplied by scale / length ** power, so that 0.8 is right 8 times in 10.

    Tokens are not independent; the more of them there are, the more their sum overstates what they say.
    """

    scale: float = 1.0
    power: float = 0.5

    def apply(self, evidence_EC: Floats, lengths_E: Floats) -> Floats:
        """Return log-probabilities."""
        tempered_EC: Floats = evidence_EC * (self.scale / lengths_E**self.power)[:, None]
        tempered_EC -= tempered_EC.max(axis=1, keepdims=True)
        tempered_EC -= np.log(np.exp(tempered_EC).sum(axis=1, keepdims=True))
        return tempered_EC


@dataclass(frozen=True)
class ClassTables:
    """A classifier made of one n-gram model per class. It is a Labeller."""

    background: Table
    share: float  # of the background in every class
    levels: tuple[ClassLevel, ...]
    prior_C: Floats
    floors_C: Floats  # the probability of a token that a class has not seen
    temper: Temper = Temper()

    @property
    def parameters(self) -> int:
        """The numbers that were estimated."""
        own = sum(len(level.probabilities) + len(level.weights) for level in self.levels)
        return own + self.background.parameters + 2 * len(self.prior_C)

    def label(self, ids_T: Ids) -> Floats:
        """Return the (E, C) log-probabilities of the classes of E texts, each followed by a boundary."""
        return self.temper.apply(*self.evidence(ids_T))

    def evidence(self, ids_T: Ids) -> tuple[Floats, Floats]:
        """Return log prior + log-likelihood of every text under every class (E, C), and the texts' lengths."""
        tokens = len(ids_T) - 1
        ends_T = np.asarray(ids_T[1:]) == self.background.size - 1
        examples_T = np.cumsum(ends_T) - ends_T
        lengths_E = np.bincount(examples_T, minlength=int(ends_T.sum())).astype(float)
        sums_EC = np.zeros((len(lengths_E), len(self.prior_C)))
        step = max(1, BLOCK // len(self.prior_C))
        for start in range(0, tokens, step):
            stop = min(start + step, tokens)
            # A block begins with the context of its first token.
            context = max(0, start + 2 - self.background.order)
            block = np.asarray(ids_T[context : stop + 1], np.int64)
            logprobs_TC = self._logprobs(block)[start + 1 - context :]
            examples = examples_T[start:stop]
            firsts = np.flatnonzero(np.diff(examples, prepend=-1))
            sums_EC[examples[firsts]] += np.add.reduceat(logprobs_TC, firsts, axis=0)
        return sums_EC + np.log(self.prior_C), lengths_E

    def _logprobs(self, ids_T: Ints) -> Floats:
        """Return the (T, C) log-probabilities of the tokens under each class."""
        chances_TC = np.tile(self.floors_C, (len(ids_T), 1))
        common_T = self.background.levels[0].probabilities[ids_T]
        where, entries = self.levels[0].entries(np.arange(len(ids_T)), ids_T)
        chances_TC[where, self.levels[0].classes[entries]] = self.levels[0].probabilities[entries]
        for n, tokens, contexts, places in self.background.walk(ids_T):
            shorter, level = self.levels[n - 2], self.levels[n - 1]
            common_T[tokens] *= self.background.levels[n - 2].weights[contexts]
            where, entries = shorter.entries(tokens, contexts)
            chances_TC[where, shorter.classes[entries]] *= shorter.weights[entries]
            tokens, places = tokens[places >= 0], places[places >= 0]
            common_T[tokens] = self.background.levels[n - 1].probabilities[places]
            where, entries = level.entries(tokens, places)
            chances_TC[where, level.classes[entries]] = level.probabilities[entries]
        if self.share:
            chances_TC *= 1 - self.share
            chances_TC += self.share * common_T[:, None]
        return np.asarray(np.log(np.maximum(chances_TC, TINY, out=chances_TC), out=chances_TC))

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays to save."""
        named = {f"background.{name}": array for name, array in self.background.arrays().items()}
        for n, level in enumerate(self.levels, start=1):
            named[f"classes.{n}.starts"] = level.starts
            named[f"classes.{n}.classes"] = level.classes
            named[f"classes.{n}.probabilities"] = level.probabilities
            named[f"classes.{n}.weights"] = level.weights
        named["prior"], named["floors"] = self.prior_C, self.floors_C
        return named | {"temper": np.array([self.temper.scale, self.temper.power])}


def class_tables_from_arrays(
    arrays: Mapping[str, npt.NDArray[Any]], size: int, settings: ClassNgramSettings, classes: int, where: str
) -> ClassTables:
    """Return the classifier that saved arrays hold, once they are known to be one."""
    parts = ("starts", "classes", "probabilities", "weights")
    wanted = {f"classes.{n}.{part}" for n in range(1, settings.order + 1) for part in parts}
    own = {name for name in arrays if not name.startswith("background.")}
    if own != wanted | {"prior", "floors", "temper"}:
        raise RunError(f"found other tensors than a classifier of order {settings.order} has", where=where)
    shared = {name.removeprefix("background."): array for name, array in arrays.items() if name not in own}
    background = table_from_arrays(shared, size, settings.order, where)
    prior, floors, temper = (arrays[name] for name in ("prior", "floors", "temper"))
    whole = all(array.dtype == np.float64 for array in (prior, floors, temper))
    if not whole or prior.shape != (classes,) or floors.shape != (classes,) or temper.shape != (2,):
        raise RunError(f"found other numbers than those of {classes} classes", where=where)
    if not (prior > 0).all() or abs(float(prior.sum()) - 1) > 1e-9 or not ((floors >= 0) & (floors <= 1)).all():
        raise RunError("its prior and floors are not probabilities", where=where)
    if not (temper >= 0).all():
        raise RunError("its temper is negative", where=where)
    levels = []
    for n, table in enumerate(background.levels, start=1):
        level = ClassLevel(*(arrays[f"classes.{n}.{part}"] for part in parts))
        if fault := _fault(level, len(table.keys), classes, is_last=n == settings.order):
            raise RunError(f"the classes of order {n}: {fault}", where=where)
        levels.append(level)
    return ClassTables(background, settings.background, tuple(levels), prior, floors, Temper(*temper.tolist()))


def _fault(level: ClassLevel, places: int, classes: int, *, is_last: bool) -> str:
    dtypes = [part.dtype.str for part in (level.starts, level.classes, level.probabilities, level.weights)]
    if dtypes != ["<i8", "<i4", "<f8", "<f8"]:
        return "they are not int64, int32 and float64 numbers"
    count = len(level.classes)
    if level.starts.shape != (places + 1,) or level.classes.ndim != 1 or level.probabilities.shape != (count,):
        return "there are not as many of each as there are n-grams"
    if level.weights.shape != ((0,) if is_last else (count,)):
        return "as many weights as classes are expected, and none at the highest order"
    if level.starts[0] != 0 or level.starts[-1] != count or (np.diff(level.starts) < 0).any():
        return "their places are not in order"
    if count and not (level.classes.min() >= 0 and level.classes.max() < classes):
        return f"a class is not one of {classes}"
    if count and not (level.probabilities.min() >= 0 and level.probabilities.max() <= 1 + 1e-9):
        return "a probability is not between 0 and 1"
    return "a weight is negative" if len(level.weights) and level.weights.min() < 0 else ""


# --- from labelled texts ---------------------------------------------------------------------------


def estimate_classes(
    ids_T: Ids,
    classes_E: Ints,
    size: int,
    count: int,
    settings: ClassNgramSettings,
    progress: Callable[[float], None] = lambda done: None,
) -> ClassTables:
    """Return the models of `count` classes, each of which has an example. Texts are set apart by the id `size - 1`."""
    background = estimate(ids_T, size, settings, ends=True).table
    prior_C = np.bincount(classes_E, minlength=count) / len(classes_E)
    floors_C = np.empty(count)
    parts: list[list[_Part]] = [[] for _ in range(settings.order)]
    for label, own_T in enumerate(_by_class(ids_T, classes_E, size, count)):
        progress(label / count)
        table = estimate(own_T, size, settings, ends=True).table
        seen = np.bincount(own_T, minlength=size) > 0
        unseen = table.levels[0].probabilities[~seen]
        floors_C[label] = unseen[0] if len(unseen) else 0.0
        # The places of the class's n-grams in the background's table, order by order.
        places = np.arange(size)
        for n, level in enumerate(table.levels, start=1):
            if n == 1:
                kept = np.flatnonzero(seen)
            else:
                places = background.find(n, places[level.keys // size], level.keys % size)
                kept = np.arange(len(places))
            weights = level.weights[kept] if n < settings.order else level.weights
            parts[n - 1].append(_Part(label, places[kept], level.probabilities[kept], weights))
    levels = tuple(_level(found, len(table.keys)) for found, table in zip(parts, background.levels, strict=True))
    return ClassTables(background, settings.background, levels, prior_C, floors_C)


@dataclass(frozen=True)
class _Part:
    """The n-grams of one order that a class has seen, by their place in the background's table."""

    label: int
    places: Ints
    probabilities: Floats
    weights: Floats


def _level(parts: list[_Part], places: int) -> ClassLevel:
    all_places = np.concatenate([part.places for part in parts])
    classes = np.concatenate([np.full(len(part.places), part.label, np.int32) for part in parts])
    # The parts come class by class, so a stable sort by place leaves the classes of each in order.
    sorting = np.argsort(all_places, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(all_places, minlength=places))])
    weights = np.concatenate([part.weights for part in parts])
    probabilities = np.concatenate([part.probabilities for part in parts])
    return ClassLevel(starts, classes[sorting], probabilities[sorting], weights[sorting] if len(weights) else weights)


def _by_class(ids_T: Ids, classes_E: Ints, size: int, count: int) -> list[Ints]:
    """Return the texts of each class, one after another, as a text of ids of its own."""
    tokens = np.asarray(ids_T[1:], np.int64)
    classes_T = classes_E[np.cumsum(tokens == size - 1) - (tokens == size - 1)]
    tokens = tokens[np.argsort(classes_T, kind="stable")]
    cuts = np.concatenate([[0], np.cumsum(np.bincount(classes_T, minlength=count))])
    return [np.concatenate([[size - 1], tokens[first:last]]) for first, last in pairwise(cuts)]


# --- how much to believe it ------------------------------------------------------------------------


@dataclass(frozen=True)
class CrossCheck:
    """What models of part of the training rows said of the others."""

    examples: int
    accuracy: float
    nats_per_example: float


def tempered(
    classifier: ClassTables, ids_T: Ids, classes_E: Ints, folds_E: Ints, settings: ClassNgramSettings
) -> tuple[ClassTables, CrossCheck | None]:
    """Return the classifier with a temper learned on rows that it was not counted from, and how well that went.

    The rows of each fold are classified by a model of all others. Where there are many tokens, one fold will do.
    """
    count, size = len(classifier.prior_C), classifier.background.size
    ends = np.flatnonzero(np.asarray(ids_T[1:]) == size - 1) + 2
    evidence: list[Floats] = []
    lengths: list[Floats] = []
    gold: list[Ints] = []
    for fold in range(max(1, min(MOST_FOLDS, TOKENS_AGAIN // len(ids_T)))):
        held_out = np.flatnonzero(folds_E == fold)[:MOST_EXAMPLES]
        if not len(held_out):
            continue
        rest = np.flatnonzero(folds_E != fold)
        part = estimate_classes(_select(ids_T, ends, rest), classes_E[rest], size, count, settings)
        found = part.evidence(_select(ids_T, ends, held_out))
        evidence.append(found[0])
        lengths.append(found[1])
        gold.append(classes_E[held_out])
    if not gold:
        return classifier, None
    evidence_EC, lengths_E, gold_E = np.concatenate(evidence), np.concatenate(lengths), np.concatenate(gold)
    temper, cost = _learn_temper(evidence_EC, lengths_E, gold_E)
    accuracy = float((evidence_EC.argmax(axis=1) == gold_E).mean())
    return replace(classifier, temper=temper), CrossCheck(len(gold_E), accuracy, cost)


def _select(ids_T: Ids, ends_E: Ints, kept: Ints) -> Ids:
    """Return the text of ids of some of the examples; `ends_E` says where each one ends."""
    starts_E = np.concatenate([[1], ends_E[:-1]])
    return np.concatenate([ids_T[:1], *(ids_T[starts_E[e] : ends_E[e]] for e in kept)])


def _learn_temper(evidence_EC: Floats, lengths_E: Floats, gold_E: Ints) -> tuple[Temper, float]:
    """Return the temper under which the right classes are likeliest, and the nats per example then.

    That all of some examples were right does not make a model certain: one more, of any class, is reckoned with.
    """
    rows = np.arange(len(gold_E))
    doubt = 1 / (len(gold_E) + 2)

    def cost(scale: float, power: float) -> float:
        logprobs_EC = Temper(scale, power).apply(evidence_EC, lengths_E)
        return -float((1 - doubt) * logprobs_EC[rows, gold_E].mean() + doubt * logprobs_EC.mean())

    found = []
    for power in POWERS:
        # The cost has one lowest place in the scale, and so in its logarithm: close in on it.
        low, high = -12.0, 6.0
        for _ in range(40):
            third = (high - low) / 3
            if cost(np.exp(low + third), power) < cost(np.exp(high - third), power):
                high -= third
            else:
                low += third
        scale = float(np.exp((low + high) / 2))
        found.append((cost(scale, power), Temper(scale, power)))
    best = min(found, key=lambda pair: pair[0])[1]
    return best, -float(best.apply(evidence_EC, lengths_E)[rows, gold_E].mean())
