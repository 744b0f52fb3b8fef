"""Smoothed n-gram models as sorted tables with back-off lookup.

Each order stores its n-grams with their interpolated probability and, for n-grams used as contexts, a back-off weight.
p(w | context) is the probability of the longest matching n-gram, multiplied by the back-off weights of the longer
contexts that occur in the table. Shapes: B batch, T tokens, V vocabulary (the last id is the document boundary).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from satchel.errors import RunError
from satchel.predictor import Floats, Ids, Scores

Ints = npt.NDArray[np.int64]

# Number of tokens scored at once, to bound memory.
BLOCK = 1 << 20
# Lookups of more keys than this are deduplicated first.
DEDUPLICATE_ABOVE = 256
# Maximum number of rows or tokens that are looked up one by one.
FEW = 16
HIGHEST_ORDER = 10


@dataclass(frozen=True)
class Level:
    """The n-grams of one order: sorted keys (see counts.py), probabilities and back-off weights."""

    keys: Ints
    probabilities: Floats
    weights: Floats  # empty at the highest order


@dataclass(frozen=True)
class Table:
    """An n-gram language model. Implements Predictor."""

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
        return f"up to {self.order - 1} preceding tokens of the same document"

    @property
    def parameters(self) -> int:
        """Number of estimated values (probabilities and weights)."""
        return sum(len(level.probabilities) + len(level.weights) for level in self.levels)

    @property
    def sizes(self) -> list[int]:
        """Number of n-grams of each order."""
        return [len(level.keys) for level in self.levels]

    # --- scoring a text

    def score(self, ids_T: Ids, *, ends: bool = True) -> Scores:
        """Return the log-probability of each token after the first; without `ends`, 0 for the ends of documents.

        The note `order` is the matched n-gram order.
        """
        logprobs = np.empty(max(len(ids_T) - 1, 0))
        orders = np.empty(len(logprobs), np.int8)
        for start in range(0, len(logprobs), BLOCK):
            stop = min(start + BLOCK, len(logprobs))
            # A block includes the context of its first token.
            context = max(0, start + 2 - self.order)
            probabilities, matched = self._look_up(np.asarray(ids_T[context : stop + 1], np.int64))
            with np.errstate(divide="ignore"):
                logprobs[start:stop] = np.log(probabilities[start + 1 - context :])
            orders[start:stop] = matched[start + 1 - context :]
        if not ends:
            logprobs[np.asarray(ids_T[1:]) == self.size - 1] = 0
        return Scores(logprobs, {"order": orders})

    def _look_up(self, ids_T: Ints) -> tuple[Floats, npt.NDArray[np.int8]]:
        probabilities = self.levels[0].probabilities[ids_T]
        orders = np.ones(len(ids_T), np.int8)
        for n, positions, contexts, rows in self.walk(ids_T):
            probabilities[positions] *= self.levels[n - 2].weights[contexts]
            is_match = rows >= 0
            positions, rows = positions[is_match], rows[is_match]
            probabilities[positions] = self.levels[n - 1].probabilities[rows]
            orders[positions] = n
        return probabilities, orders

    def walk(self, ids_T: Ints) -> Iterator[tuple[int, Ints, Ints, Ints]]:
        """Yield, for each order from 2: the positions whose context is in the table, the row of the context, and
        the row of the n-gram of context and token (-1 if it is not in the table).
        """
        positions = np.arange(1, len(ids_T))
        contexts = ids_T[:-1]
        for n in range(2, self.order + 1):
            rows = self.find(n, contexts, ids_T[positions])
            yield n, positions, contexts, rows
            # The n-gram that ends at position t is the context of position t + 1.
            is_context = (rows >= 0) & (positions + 1 < len(ids_T))
            positions, contexts = positions[is_context] + 1, rows[is_context]

    def find(self, n: int, contexts: Ints, tokens: Ints) -> Ints:
        """Return the rows of the n-grams of contexts (rows of order n - 1) and tokens; -1 if not in the table."""
        keys = self.levels[n - 1].keys
        if not len(keys):
            return np.full(len(contexts), -1)
        wanted = np.where(contexts >= 0, contexts * self.size + tokens, -1)
        if len(wanted) > DEDUPLICATE_ABOVE:
            # Texts repeat n-grams, and sorted lookups share cache lines.
            distinct, back = np.unique(wanted, return_inverse=True)
            return _search(keys, distinct)[back]
        return _search(keys, wanted)

    # --- next-token distributions

    def start(self, batch: int) -> Ints:
        """Return the initial state: per order, the row of the n-gram that ends at the current position (-1: none)."""
        return np.full((batch, max(self.order - 1, 0)), -1)

    def decoder(self) -> "TableDecoder":
        """Return a decoder without rows."""
        return TableDecoder(self)

    def advance(self, ids_BT: Ids, state: Ints) -> Ints:
        """Return the state after these tokens."""
        if ids_BT.size <= FEW:
            return self._advance_few(np.asarray(ids_BT), state)
        # Only the last order - 1 tokens are used.
        for tokens in np.asarray(ids_BT, np.int64)[:, max(0, ids_BT.shape[1] - self.order + 1) :].T:
            following = np.full_like(state, -1)
            if self.order > 1:
                following[:, 0] = tokens
            for n in range(2, self.order):
                following[:, n - 1] = self.find(n, state[:, n - 2], tokens)
            state = following
        return state

    def _advance_few(self, ids_BT: Ids, state: Ints) -> Ints:
        """Return the state after these tokens, by lookups of single n-grams: arrays of few rows are slower."""
        after = np.full_like(state, -1)
        for number, (ids, rows) in enumerate(zip(ids_BT.tolist(), state.tolist(), strict=True)):
            current = tuple(rows)
            for id_ in ids:
                current = self.advance_one(current, id_)
            after[number] = current
        return after

    def advance_one(self, state: tuple[int, ...], id_: int) -> tuple[int, ...]:
        """Return the state of one row after a token."""
        if not state:
            return state
        rows = [id_]
        for level, row in zip(self.levels[1:], state[:-1], strict=False):
            rows.append(-1 if row < 0 else _find_key(level.keys, row * self.size + id_))
        return tuple(rows)

    def _distribution_one(self, state: Ints) -> Floats:
        """Return the (V) next-token probabilities of one row."""
        rows = state.tolist()
        # Per order, the product of the back-off weights of the longer contexts in the table.
        factors = [1.0] * self.order
        for n in range(self.order, 1, -1):
            row = rows[n - 2]
            factors[n - 2] = factors[n - 1] * float(self.levels[n - 2].weights[row]) if row >= 0 else factors[n - 1]
        probabilities_V: Floats = self.levels[0].probabilities * factors[0]
        for n in range(2, self.order + 1):
            if rows[n - 2] >= 0:
                level, part = self.levels[n - 1], self._continuations(n, rows[n - 2])
                probabilities_V[level.keys[part] % self.size] = level.probabilities[part] * factors[n - 1]
        return probabilities_V

    def _continuations(self, n: int, row: int) -> slice:
        """Return the n-grams whose context is a row of order n - 1."""
        keys = self.levels[n - 1].keys
        return slice(int(keys.searchsorted(row * self.size)), int(keys.searchsorted((row + 1) * self.size)))

    def distribution(self, state: Ints) -> Floats:
        """Return the (B, V) next-token probabilities."""
        batch = len(state)
        if batch <= FEW:
            distributions = [self._distribution_one(row) for row in state]
            return np.stack(distributions) if distributions else np.empty((0, self.size))
        # Per order, the product of the back-off weights of the longer contexts in the table.
        factors = np.ones((batch, self.order))
        for n in range(self.order, 1, -1):
            rows = np.flatnonzero(state[:, n - 2] >= 0)
            factors[:, n - 2] = factors[:, n - 1]
            factors[rows, n - 2] *= self.levels[n - 2].weights[state[rows, n - 2]]
        probabilities_BV = self.levels[0].probabilities * factors[:, :1]
        for n in range(2, self.order + 1):
            level, contexts = self.levels[n - 1], state[:, n - 2]
            rows = np.flatnonzero(contexts >= 0)
            lows = np.searchsorted(level.keys, contexts[rows] * self.size)
            lengths = np.searchsorted(level.keys, (contexts[rows] + 1) * self.size) - lows
            # Concatenated ranges lows[i] .. lows[i] + lengths[i].
            entries = np.arange(lengths.sum()) + np.repeat(lows - np.cumsum(lengths) + lengths, lengths)
            rows = np.repeat(rows, lengths)
            next_tokens = level.keys[entries] % self.size
            probabilities_BV[rows, next_tokens] = level.probabilities[entries] * factors[rows, n - 1]
        return probabilities_BV

    def most_probable(self, state: tuple[int, ...]) -> int:
        """Return the most probable token among those that follow the longest n-gram of a state in the table."""
        for n in range(self.order, 1, -1):
            if state[n - 2] < 0:
                continue
            level, part = self.levels[n - 1], self._continuations(n, state[n - 2])
            if part.stop > part.start:
                return int(level.keys[part.start + int(level.probabilities[part].argmax())] % self.size)
        return int(self.levels[0].probabilities.argmax())

    # --- serialisation

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays to save."""
        return {f"{n}.{part}": array for n, level in enumerate(self.levels, 1) for part, array in vars(level).items()}

    def renumbered(self, ids: Sequence[int], size: int) -> "Table":
        """Return the table with token i renumbered to `ids[i]`, in a vocabulary of `size` ids."""
        new_ids = np.array(ids, np.int64)
        first = np.zeros(size), np.ones(size if self.order > 1 else 0)
        first[0][new_ids] = self.levels[0].probabilities
        if self.order > 1:
            first[1][new_ids] = self.levels[0].weights
        levels = [Level(np.arange(size), *first)]
        rows = new_ids
        for level in self.levels[1:]:
            keys = rows[level.keys // self.size] * size + new_ids[level.keys % self.size]
            sorting = np.argsort(keys, kind="stable")
            weights = level.weights[sorting] if len(level.weights) else level.weights
            levels.append(Level(keys[sorting], level.probabilities[sorting], weights))
            rows = np.empty(len(keys), np.int64)
            rows[sorting] = np.arange(len(keys))
        return Table(size, tuple(levels))


class TableDecoder:
    """Implements Decoder for an n-gram model."""

    room: int | None = None
    gives_probabilities = True

    def __init__(self, table: Table) -> None:
        self.table = table
        # States (B, order - 1) before and after each token of the last `extend`.
        self._states = [table.start(0)]

    @property
    def rows(self) -> int:
        return len(self._states[-1])

    def join(self, prompts: Sequence[Ids]) -> Floats:
        start = self.table.start(1)
        new = [self.table.advance(np.asarray(prompt)[None], start) for prompt in prompts]
        joined = np.concatenate([start[:0], *new])
        self._states = [np.concatenate([self._states[-1], joined])]
        return self.table.distribution(joined)

    def step(self, ids_B: Ids) -> Floats:
        self._states = [self.table.advance(np.asarray(ids_B)[:, None], self._states[-1])]
        return self.table.distribution(self._states[0])

    def extend(self, ids_BT: Ids) -> Floats:
        states = [self._states[-1]]
        for ids_B in np.asarray(ids_BT).T:
            states.append(self.table.advance(ids_B[:, None], states[-1]))
        self._states = states
        rows, positions = ids_BT.shape
        distributions = self.table.distribution(np.concatenate(states[1:]))
        return distributions.reshape(positions, rows, -1).swapaxes(0, 1)

    def rewind(self, counts_B: Ids) -> None:
        numbers_B = len(self._states) - 1 - np.asarray(counts_B)
        self._states = [np.stack(self._states)[numbers_B, np.arange(self.rows)]]

    def keep(self, rows: Ids) -> None:
        self._states = [self._states[-1][np.asarray(rows, np.int64)]]


def _find_key(keys: Ints, wanted: int) -> int:
    """Return the row of a key, -1 if it is not in the table."""
    row = int(keys.searchsorted(wanted))
    return row if row < len(keys) and keys[row] == wanted else -1


def _search(keys: Ints, wanted: Ints) -> Ints:
    """Return the row of each wanted key, -1 if it is not in the table."""
    rows = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[rows] == wanted, rows, -1)


def table_from_arrays(arrays: Mapping[str, npt.NDArray[Any]], size: int, order: int, where: str) -> Table:
    """Return the table stored in arrays after validating them."""
    expected = {f"{n}.{part}" for n in range(1, order + 1) for part in ("keys", "probabilities", "weights")}
    if set(arrays) != expected:
        names = ", ".join(sorted(set(arrays) ^ expected)[:6])
        raise RunError(f"tensors missing or unexpected in an n-gram table of order {order}: {names}", where=where)
    levels: list[Level] = []
    below = 1
    for n in range(1, order + 1):
        keys, probabilities, weights = (arrays[f"{n}.{part}"] for part in ("keys", "probabilities", "weights"))
        if [part.dtype.str for part in (keys, probabilities, weights)] != ["<i8", "<f8", "<f8"]:
            raise RunError(f"order {n}: expected int64 keys and float64 probabilities and weights", where=where)
        level = Level(keys, probabilities, weights)
        if fault := _fault(level, n, order, size, below):
            raise RunError(f"order {n}: {fault}", where=where)
        levels.append(level)
        below = len(keys)
    return Table(size, tuple(levels))


def _fault(level: Level, n: int, order: int, size: int, below: int) -> str:
    keys, probabilities, weights = level.keys, level.probabilities, level.weights
    if keys.ndim != 1 or probabilities.shape != keys.shape:
        return "expected as many probabilities as keys"
    if weights.shape != ((0,) if n == order else keys.shape):
        return "expected as many weights as keys, and none at the highest order"
    if n == 1 and not np.array_equal(keys, np.arange(size)):
        return f"the keys are not the {size} ids of the tokenizer"
    if len(keys) and (keys[0] < 0 or keys[-1] >= below * size or (np.diff(keys) <= 0).any()):
        return "the keys are not sorted n-grams"
    return value_fault(probabilities, weights)


def value_fault(probabilities: Floats, weights: Floats) -> str:
    """Return an error message if a probability or a weight is out of range, else an empty string."""
    if len(probabilities) and not (probabilities.min() >= 0 and probabilities.max() <= 1 + 1e-9):
        return "a probability is not between 0 and 1"
    return "a weight is negative" if len(weights) and weights.min() < 0 else ""
