"""N-gram classifier: one n-gram model per class; the prediction is the class with the largest posterior.

N-grams are looked up once, in the table of the whole training text (the background model). Each row of that table
lists the classes in which the n-gram occurs, so the cost depends on these classes only, not on their total number.
Shapes: T tokens, E examples, C classes.
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
from satchel.ngram.tables import Ints, Table, table_from_arrays, value_fault
from satchel.predictor import Floats, Ids
from satchel.text.windows import Reading

BLOCK = 1 << 20
# Lower bound of probabilities, to avoid log(0).
TINY = 1e-300
# Limits of the cross-validation that fits the temperature: tokens counted again, folds, and examples per fold.
CROSS_VALIDATION_TOKENS = 4_000_000
MAX_FOLDS = 5
MAX_EXAMPLES = 5000
# Candidate exponents of the length normalisation.
POWERS = (0.0, 0.25, 0.5, 0.75, 1.0)


class ClassNgramSettings(NgramSettings):
    """Settings of an n-gram classifier."""

    order: int = Field(3, ge=1, le=10, description="length of the longest n-grams; the context is order - 1")
    background: float = Field(0.2, ge=0, lt=1, description="weight of the n-gram model of all classes in each class")


@dataclass(frozen=True)
class ClassLevel:
    """Class-specific values of the n-grams of one order; row r has the entries starts[r] to starts[r + 1]."""

    starts: Ints
    classes: npt.NDArray[np.int32]
    probabilities: Floats
    weights: Floats  # back-off weights; empty at the highest order

    def entries(self, positions: Ints, rows: Ints) -> tuple[Ints, Ints]:
        """Return the entries of the given rows, and for each entry the position of its token."""
        lengths = self.starts[rows + 1] - self.starts[rows]
        first = np.repeat(self.starts[rows] - np.cumsum(lengths) + lengths, lengths)
        return np.repeat(positions, lengths), np.arange(len(first)) + first


@dataclass(frozen=True)
class Temperature:
    """Calibration: scores are multiplied by scale / length ** power before the softmax.

    Tokens are not independent, so the sum of their log-likelihoods overstates the evidence, more so in long texts.
    """

    scale: float = 1.0
    power: float = 0.5

    def apply(self, evidence_EC: Floats, lengths_E: Floats) -> Floats:
        """Return the (E, C) calibrated log-probabilities."""
        scaled_EC: Floats = evidence_EC * (self.scale / lengths_E**self.power)[:, None]
        scaled_EC -= scaled_EC.max(axis=1, keepdims=True)
        scaled_EC -= np.log(np.exp(scaled_EC).sum(axis=1, keepdims=True))
        return scaled_EC


@dataclass(frozen=True)
class ClassTables:
    """A classifier with one n-gram model per class. Implements Labeller."""

    background: Table
    share: float  # interpolation weight of the background model in every class
    levels: tuple[ClassLevel, ...]
    prior_C: Floats
    floors_C: Floats  # probability of a token that does not occur in the class
    temperature: Temperature = Temperature()

    @property
    def parameters(self) -> int:
        """Number of estimated values."""
        class_values = sum(len(level.probabilities) + len(level.weights) for level in self.levels)
        return class_values + self.background.parameters + 2 * len(self.prior_C)

    def label(self, ids_T: Ids) -> Floats:
        """Return the (E, C) class log-probabilities of E texts, each followed by the boundary id."""
        return self.temperature.apply(*self.evidence(ids_T))

    def reading(self, length: int) -> Reading:
        """Return how a text of `length` tokens is read: at once."""
        return Reading(length)

    def evidence(self, ids_T: Ids) -> tuple[Floats, Floats]:
        """Return log prior + log-likelihood of each text under each class (E, C), and the lengths (E,)."""
        tokens = len(ids_T) - 1
        ends_T = np.asarray(ids_T[1:]) == self.background.size - 1
        examples_T = np.cumsum(ends_T) - ends_T
        lengths_E = np.bincount(examples_T, minlength=int(ends_T.sum())).astype(float)
        sums_EC = np.zeros((len(lengths_E), len(self.prior_C)))
        step = max(1, BLOCK // len(self.prior_C))
        for start in range(0, tokens, step):
            stop = min(start + step, tokens)
            # A block includes the context of its first token.
            context = max(0, start + 2 - self.background.order)
            block = np.asarray(ids_T[context : stop + 1], np.int64)
            logprobs_TC = self._logprobs(block)[start + 1 - context :]
            examples = examples_T[start:stop]
            firsts = np.flatnonzero(np.diff(examples, prepend=-1))
            sums_EC[examples[firsts]] += np.add.reduceat(logprobs_TC, firsts, axis=0)
        return sums_EC + np.log(self.prior_C), lengths_E

    def _logprobs(self, ids_T: Ints) -> Floats:
        """Return the (T, C) log-probabilities of the tokens under each class."""
        probabilities_TC = np.tile(self.floors_C, (len(ids_T), 1))
        background_T = self.background.levels[0].probabilities[ids_T]
        tokens, entries = self.levels[0].entries(np.arange(len(ids_T)), ids_T)
        probabilities_TC[tokens, self.levels[0].classes[entries]] = self.levels[0].probabilities[entries]
        for n, positions, contexts, rows in self.background.walk(ids_T):
            shorter, level = self.levels[n - 2], self.levels[n - 1]
            background_T[positions] *= self.background.levels[n - 2].weights[contexts]
            tokens, entries = shorter.entries(positions, contexts)
            probabilities_TC[tokens, shorter.classes[entries]] *= shorter.weights[entries]
            positions, rows = positions[rows >= 0], rows[rows >= 0]
            background_T[positions] = self.background.levels[n - 1].probabilities[rows]
            tokens, entries = level.entries(positions, rows)
            probabilities_TC[tokens, level.classes[entries]] = level.probabilities[entries]
        if self.share:
            probabilities_TC *= 1 - self.share
            probabilities_TC += self.share * background_T[:, None]
        return np.asarray(np.log(np.maximum(probabilities_TC, TINY, out=probabilities_TC), out=probabilities_TC))

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays to save."""
        named = {f"background.{name}": array for name, array in self.background.arrays().items()}
        for n, level in enumerate(self.levels, start=1):
            named |= {f"classes.{n}.{part}": array for part, array in vars(level).items()}
        named["prior"], named["floors"] = self.prior_C, self.floors_C
        return named | {"temper": np.array([self.temperature.scale, self.temperature.power])}


def class_tables_from_arrays(
    arrays: Mapping[str, npt.NDArray[Any]], size: int, settings: ClassNgramSettings, classes: int, where: str
) -> ClassTables:
    """Return the classifier stored in arrays after validating them."""
    parts = ("starts", "classes", "probabilities", "weights")
    expected = {f"classes.{n}.{part}" for n in range(1, settings.order + 1) for part in parts}
    class_names = {name for name in arrays if not name.startswith("background.")}
    if class_names != expected | {"prior", "floors", "temper"}:
        raise RunError(f"tensors missing or unexpected in an n-gram classifier of order {settings.order}", where=where)
    background_arrays = {
        name.removeprefix("background."): array for name, array in arrays.items() if name not in class_names
    }
    background = table_from_arrays(background_arrays, size, settings.order, where)
    prior, floors, temperature = (arrays[name] for name in ("prior", "floors", "temper"))
    is_float = all(array.dtype == np.float64 for array in (prior, floors, temperature))
    if not is_float or prior.shape != (classes,) or floors.shape != (classes,) or temperature.shape != (2,):
        raise RunError(f"prior, floors or temper have the wrong shape or dtype for {classes} classes", where=where)
    if not (prior > 0).all() or abs(float(prior.sum()) - 1) > 1e-9 or not ((floors >= 0) & (floors <= 1)).all():
        raise RunError("prior or floors are not probabilities", where=where)
    if not (temperature >= 0).all():
        raise RunError("temper contains a negative value", where=where)
    levels = []
    for n, table in enumerate(background.levels, start=1):
        level = ClassLevel(*(arrays[f"classes.{n}.{part}"] for part in parts))
        if fault := _fault(level, len(table.keys), classes, is_last=n == settings.order):
            raise RunError(f"classes.{n}: {fault}", where=where)
        levels.append(level)
    calibration = Temperature(*temperature.tolist())
    return ClassTables(background, settings.background, tuple(levels), prior, floors, calibration)


def _fault(level: ClassLevel, rows: int, classes: int, *, is_last: bool) -> str:
    dtypes = [part.dtype.str for part in (level.starts, level.classes, level.probabilities, level.weights)]
    if dtypes != ["<i8", "<i4", "<f8", "<f8"]:
        return "expected int64 starts, int32 classes, float64 probabilities and weights"
    count = len(level.classes)
    if level.starts.shape != (rows + 1,) or level.classes.ndim != 1 or level.probabilities.shape != (count,):
        return "the lengths of starts, classes and probabilities do not match the number of n-grams"
    if level.weights.shape != ((0,) if is_last else (count,)):
        return "expected as many weights as classes, and none at the highest order"
    if level.starts[0] != 0 or level.starts[-1] != count or (np.diff(level.starts) < 0).any():
        return "starts are not in ascending order"
    if count and not (level.classes.min() >= 0 and level.classes.max() < classes):
        return f"a class number is not between 0 and {classes - 1}"
    return value_fault(level.probabilities, level.weights)


# --- estimation ------------------------------------------------------------------------------------


def estimate_classes(
    ids_T: Ids,
    classes_E: Ints,
    size: int,
    count: int,
    settings: ClassNgramSettings,
    progress: Callable[[float], None] = lambda done: None,
) -> ClassTables:
    """Estimate the models of `count` classes, each with at least one example; `size - 1` is the boundary id."""
    background = estimate(ids_T, size, settings, ends=True).table
    prior_C = np.bincount(classes_E, minlength=count) / len(classes_E)
    floors_C = np.empty(count)
    # Per order and class: rows of its n-grams in the background table, classes, probabilities and weights.
    parts: list[list[tuple[npt.NDArray[Any], ...]]] = [[] for _ in range(settings.order)]
    for label, class_ids in enumerate(_by_class(ids_T, classes_E, size, count)):
        progress(label / count)
        table = estimate(class_ids, size, settings, ends=True).table
        seen = np.bincount(class_ids, minlength=size) > 0
        unseen = table.levels[0].probabilities[~seen]
        floors_C[label] = unseen[0] if len(unseen) else 0.0
        # Rows of the class's n-grams in the background table, order by order.
        rows = np.arange(size)
        for n, level in enumerate(table.levels, start=1):
            if n == 1:
                kept = np.flatnonzero(seen)
            else:
                rows = background.find(n, rows[level.keys // size], level.keys % size)
                kept = np.arange(len(rows))
            weights = level.weights[kept] if n < settings.order else level.weights
            classes = np.full(len(kept), label, np.int32)
            parts[n - 1].append((rows[kept], classes, level.probabilities[kept], weights))
    levels = tuple(_level(order, len(table.keys)) for order, table in zip(parts, background.levels, strict=True))
    return ClassTables(background, settings.background, levels, prior_C, floors_C)


def _level(parts: list[tuple[npt.NDArray[Any], ...]], rows: int) -> ClassLevel:
    all_rows, classes, probabilities, weights = map(np.concatenate, zip(*parts, strict=True))
    # The parts are ordered by class, so a stable sort by row keeps the classes of each row in order.
    sorting = np.argsort(all_rows, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(all_rows, minlength=rows))])
    return ClassLevel(starts, classes[sorting], probabilities[sorting], weights[sorting] if len(weights) else weights)


def _by_class(ids_T: Ids, classes_E: Ints, size: int, count: int) -> list[Ints]:
    """Return the concatenated texts of each class as one sequence of ids per class."""
    tokens = np.asarray(ids_T[1:], np.int64)
    classes_T = classes_E[np.cumsum(tokens == size - 1) - (tokens == size - 1)]
    tokens = tokens[np.argsort(classes_T, kind="stable")]
    cuts = np.concatenate([[0], np.cumsum(np.bincount(classes_T, minlength=count))])
    return [np.concatenate([[size - 1], tokens[first:last]]) for first, last in pairwise(cuts)]


# --- calibration -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class CrossValidation:
    """Cross-validation result on the training rows."""

    examples: int
    accuracy: float
    nats_per_example: float


def calibrate(
    classifier: ClassTables, ids_T: Ids, classes_E: Ints, folds_E: Ints, settings: ClassNgramSettings
) -> tuple[ClassTables, CrossValidation | None]:
    """Return the classifier with a temperature fitted by cross-validation, and the cross-validation result.

    The rows of each fold are classified by a model of all other folds. Large data sets use fewer folds.
    """
    count, size = len(classifier.prior_C), classifier.background.size
    ends = np.flatnonzero(np.asarray(ids_T[1:]) == size - 1) + 2
    results: list[tuple[npt.NDArray[Any], ...]] = []
    for fold in range(max(1, min(MAX_FOLDS, CROSS_VALIDATION_TOKENS // len(ids_T)))):
        held_out = np.flatnonzero(folds_E == fold)[:MAX_EXAMPLES]
        if not len(held_out):
            continue
        rest = np.flatnonzero(folds_E != fold)
        part = estimate_classes(_select(ids_T, ends, rest), classes_E[rest], size, count, settings)
        results.append((*part.evidence(_select(ids_T, ends, held_out)), classes_E[held_out]))
    if not results:
        return classifier, None
    evidence_EC, lengths_E, gold_E = map(np.concatenate, zip(*results, strict=True))
    temperature, loss = _fit_temperature(evidence_EC, lengths_E, gold_E)
    accuracy = float((evidence_EC.argmax(axis=1) == gold_E).mean())
    return replace(classifier, temperature=temperature), CrossValidation(len(gold_E), accuracy, loss)


def _select(ids_T: Ids, ends_E: Ints, kept: Ints) -> Ids:
    """Return the ids of the kept examples; `ends_E` are the end positions of all examples."""
    starts_E = np.concatenate([[1], ends_E[:-1]])
    return np.concatenate([ids_T[:1], *(ids_T[starts_E[e] : ends_E[e]] for e in kept)])


def _fit_temperature(evidence_EC: Floats, lengths_E: Floats, gold_E: Ints) -> tuple[Temperature, float]:
    """Return the temperature with the lowest log-loss, and that log-loss in nats per example.

    Label smoothing keeps the scale finite if all examples are classified correctly.
    """
    rows = np.arange(len(gold_E))
    smoothing = 1 / (len(gold_E) + 2)

    def loss(scale: float, power: float) -> float:
        logprobs_EC = Temperature(scale, power).apply(evidence_EC, lengths_E)
        return -float((1 - smoothing) * logprobs_EC[rows, gold_E].mean() + smoothing * logprobs_EC.mean())

    candidates = []
    for power in POWERS:
        # The loss is unimodal in log(scale): ternary search.
        low, high = -12.0, 6.0
        for _ in range(40):
            third = (high - low) / 3
            if loss(np.exp(low + third), power) < loss(np.exp(high - third), power):
                high -= third
            else:
                low += third
        scale = float(np.exp((low + high) / 2))
        candidates.append((loss(scale, power), Temperature(scale, power)))
    best = min(candidates, key=lambda pair: pair[0])[1]
    return best, -float(best.apply(evidence_EC, lengths_E)[rows, gold_E].mean())
