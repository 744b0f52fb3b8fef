"""A smoothed n-gram model as sorted tables: what is the probability of each token after this context?

Every order holds the n-grams it has seen with their full probability, and for each of them, read
as a context, the weight that shorter contexts get: p(w | context) is the probability of the longest
n-gram found, times the weights of the longer contexts that were found without it.
Letters: B batch, T tokens, V ids (the last one is the document boundary), N order.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from satchel.errors import RunError
from satchel.predictor import Floats, Ids, Scores

Ints = npt.NDArray[np.int64]

BLOCK = 1 << 20
FEW = 256
HIGHEST_ORDER = 10


@dataclass(frozen=True)
class Level:
    """The n-grams of one order: sorted keys (see counts.py), probabilities, and backoff weights as contexts."""

    keys: Ints
    probabilities: Floats
    weights: Floats  # empty at the highest order


@dataclass(frozen=True)
class Table:
    """A language model that looks its answers up. It is a Predictor."""

    size: int
    levels: tuple[Level, ...]

    @property
    def order(self) -> int:
        return len(self.levels)

    @property
    def vocabulary(self) -> int:
        return self.size

    @property
    def context(self) -> str:
        return f"up to {self.order - 1} tokens before each, within its document"

    @property
    def parameters(self) -> int:
        """The numbers that were estimated."""
        return sum(len(level.probabilities) + len(level.weights) for level in self.levels)

    @property
    def sizes(self) -> list[int]:
        """How many n-grams there are of each order."""
        return [len(level.keys) for level in self.levels]

    # --- the probability of each token of a text

    def score(self, ids_T: Ids) -> Scores:
        """Return the scores of a text's tokens after its first; the note `order` says which order answered."""
        logprobs = np.empty(max(len(ids_T) - 1, 0))
        orders = np.empty(len(logprobs), np.int8)
        for start in range(0, len(logprobs), BLOCK):
            stop = min(start + BLOCK, len(logprobs))
            # A block begins with the context of its first token.
            context = max(0, start + 2 - self.order)
            probabilities, found = self._look_up(np.asarray(ids_T[context : stop + 1], np.int64))
            with np.errstate(divide="ignore"):
                logprobs[start:stop] = np.log(probabilities[start + 1 - context :])
            orders[start:stop] = found[start + 1 - context :]
        return Scores(logprobs, {"order": orders})

    def _look_up(self, ids_T: Ints) -> tuple[Floats, npt.NDArray[np.int8]]:
        probabilities = self.levels[0].probabilities[ids_T]
        orders = np.ones(len(ids_T), np.int8)
        for n, where, contexts, places in self.walk(ids_T):
            probabilities[where] *= self.levels[n - 2].weights[contexts]
            is_found = places >= 0
            where, places = where[is_found], places[is_found]
            probabilities[where] = self.levels[n - 1].probabilities[places]
            orders[where] = n
        return probabilities, orders

    def walk(self, ids_T: Ints) -> Iterator[tuple[int, Ints, Ints, Ints]]:
        """Return, for each order from the second: where a token's context was found, the context's place, and
        the place of the n-gram that the token makes of it; -1 if there is none.
        """
        where = np.arange(1, len(ids_T))
        contexts = ids_T[:-1]
        for n in range(2, self.order + 1):
            places = self.find(n, contexts, ids_T[where])
            yield n, where, contexts, places
            # An n-gram that ends at t is the context of what follows it.
            goes_on = (places >= 0) & (where + 1 < len(ids_T))
            where, contexts = where[goes_on] + 1, places[goes_on]

    def find(self, n: int, contexts: Ints, tokens: Ints) -> Ints:
        """Return the places of the n-grams made of contexts (places one order below) and tokens; -1 if not there."""
        keys = self.levels[n - 1].keys
        if not len(keys):
            return np.full(len(contexts), -1)
        wanted = np.where(contexts >= 0, contexts * self.size + tokens, -1)
        if len(wanted) > FEW:
            # Texts repeat themselves, and neighbours in the table share cache lines.
            distinct, back = np.unique(wanted, return_inverse=True)
            return _search(keys, distinct)[back]
        return _search(keys, wanted)

    # --- every token's probability after a context

    def start(self, batch: int) -> Ints:
        """Return the state of `batch` empty contexts: the places of the n-grams that end here, by order."""
        return np.full((batch, max(self.order - 1, 0)), -1)

    def step(self, ids_BT: Ids, state: Ints) -> tuple[Floats, Ints]:
        """Return the (B, V) log-probabilities after more tokens, and the state there."""
        state = self.advance(ids_BT, state)
        with np.errstate(divide="ignore"):
            return np.log(self.distribution(state)), state

    def advance(self, ids_BT: Ids, state: Ints) -> Ints:
        """Return the state after more tokens."""
        # Only the last N-1 tokens can matter.
        for tokens in np.asarray(ids_BT, np.int64)[:, max(0, ids_BT.shape[1] - self.order + 1) :].T:
            following = np.full_like(state, -1)
            if self.order > 1:
                following[:, 0] = tokens
            for n in range(2, self.order):
                following[:, n - 1] = self.find(n, state[:, n - 2], tokens)
            state = following
        return state

    def distribution(self, state: Ints) -> Floats:
        """Return the (B, V) probabilities of the next token."""
        batch = len(state)
        # What each order's answers are multiplied by: the weights of the longer contexts that were found.
        factors = np.ones((batch, self.order))
        for n in range(self.order, 1, -1):
            rows = np.flatnonzero(state[:, n - 2] >= 0)
            factors[:, n - 2] = factors[:, n - 1]
            factors[rows, n - 2] *= self.levels[n - 2].weights[state[rows, n - 2]]
        answers = self.levels[0].probabilities * factors[:, :1]
        for n in range(2, self.order + 1):
            level, contexts = self.levels[n - 1], state[:, n - 2]
            rows = np.flatnonzero(contexts >= 0)
            lows = np.searchsorted(level.keys, contexts[rows] * self.size)
            lengths = np.searchsorted(level.keys, (contexts[rows] + 1) * self.size) - lows
            # The entries of all rows, one after another.
            places = np.arange(lengths.sum()) + np.repeat(lows - np.cumsum(lengths) + lengths, lengths)
            rows = np.repeat(rows, lengths)
            answers[rows, level.keys[places] % self.size] = level.probabilities[places] * factors[rows, n - 1]
        return answers

    # --- as arrays

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays to save."""
        named: dict[str, npt.NDArray[Any]] = {}
        for n, level in enumerate(self.levels, start=1):
            named[f"{n}.keys"] = level.keys
            named[f"{n}.probabilities"] = level.probabilities
            named[f"{n}.weights"] = level.weights
        return named

    def renumbered(self, ids: Sequence[int], size: int) -> "Table":
        """Return the same table where `ids[i]` stands for token i, among `size` ids."""
        names = np.array(ids, np.int64)
        first = np.zeros(size), np.ones(size if self.order > 1 else 0)
        first[0][names] = self.levels[0].probabilities
        if self.order > 1:
            first[1][names] = self.levels[0].weights
        levels = [Level(np.arange(size), *first)]
        places = names
        for level in self.levels[1:]:
            keys = places[level.keys // self.size] * size + names[level.keys % self.size]
            sorting = np.argsort(keys, kind="stable")
            weights = level.weights[sorting] if len(level.weights) else level.weights
            levels.append(Level(keys[sorting], level.probabilities[sorting], weights))
            places = np.empty(len(keys), np.int64)
            places[sorting] = np.arange(len(keys))
        return Table(size, tuple(levels))


def _search(keys: Ints, wanted: Ints) -> Ints:
    """Return the place of each wanted key, -1 where there is none."""
    places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[places] == wanted, places, -1)


def table_from_arrays(arrays: Mapping[str, npt.NDArray[Any]], size: int, order: int, where: str) -> Table:
    """Return the table that saved arrays hold, once they are known to be one."""
    expected = {f"{n}.{part}" for n in range(1, order + 1) for part in ("keys", "probabilities", "weights")}
    if set(arrays) != expected:
        odd = sorted(set(arrays) ^ expected)
        raise RunError(f"found other tensors than an order-{order} table has: {', '.join(odd[:6])}", where=where)
    levels: list[Level] = []
    below = 1
    for n in range(1, order + 1):
        keys, probabilities, weights = (arrays[f"{n}.{part}"] for part in ("keys", "probabilities", "weights"))
        if [part.dtype.str for part in (keys, probabilities, weights)] != ["<i8", "<f8", "<f8"]:
            raise RunError(f"order {n} holds other numbers than int64 keys and float64 values", where=where)
        level = Level(
            keys.astype(np.int64, copy=False),
            probabilities.astype(float, copy=False),
            weights.astype(float, copy=False),
        )
        if fault := _fault(level, n, order, size, below):
            raise RunError(f"order {n}: {fault}", where=where)
        levels.append(level)
        below = len(keys)
    return Table(size, tuple(levels))


def _fault(level: Level, n: int, order: int, size: int, below: int) -> str:
    keys, probabilities, weights = level.keys, level.probabilities, level.weights
    if keys.ndim != 1 or probabilities.shape != keys.shape:
        return "as many probabilities as keys are expected"
    if weights.shape != ((0,) if n == order else keys.shape):
        return "as many weights as keys are expected, and none at the highest order"
    if n == 1 and not np.array_equal(keys, np.arange(size)):
        return f"its keys are not the {size} ids of the tokenizer"
    if len(keys) and (keys[0] < 0 or keys[-1] >= below * size or (np.diff(keys) <= 0).any()):
        return "its keys are not sorted n-grams"
    if len(keys) and not (probabilities.min() >= 0 and probabilities.max() <= 1 + 1e-9):
        return "a probability is not between 0 and 1"
    if len(weights) and not weights.min() >= 0:
        return "a weight is negative"
    return ""
