"""ARPA files: the plain-text format of n-gram models used by KenLM, SRILM and others.

The document boundary is written as `<s>` at the start of an n-gram and as `</s>` at its end. Tokens spelled like a
reserved word or containing white space are escaped: `\\u{20}` is a space.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import BinaryIO

import numpy as np

from satchel.errors import DataError
from satchel.ngram.tables import HIGHEST_ORDER, Ints, Level, Table
from satchel.predictor import Floats

START, END, UNKNOWN = "<s>", "</s>", "<unk>"
# Conventional value of log10(0).
LOG_ZERO = -99.0
RESERVED_WORDS = re.compile(r"<(/?s|unk)>", re.IGNORECASE)
TO_ESCAPE = re.compile(r"[\s\x00\x1c-\x1f]|\\(?=u\{)")
ESCAPED = re.compile(r"\\u\{([0-9a-f]{1,6})\}")
LINES = 1 << 16


def escape(token: str) -> str:
    """Return a token as an ARPA word."""
    if RESERVED_WORDS.fullmatch(token):
        return f"\\u{{3c}}{token[1:]}"
    return TO_ESCAPE.sub(lambda match: f"\\u{{{ord(match.group()):x}}}", token)


def unescape(word: str) -> str:
    """Return the token of an ARPA word."""
    return ESCAPED.sub(lambda match: chr(min(int(match.group(1), 16), 0x10FFFF)), word)


def write_arpa(
    handle: BinaryIO, table: Table, tokens: Sequence[str], unknown: int | None, progress: Callable[[float], None]
) -> None:
    """Write a table; `tokens` are the spellings of its ids, without the boundary id."""
    words = [escape(token) for token in tokens]
    if unknown is not None:
        words[unknown] = UNKNOWN
    boundary = len(words)
    header = [f"ngram {n}={size + (n == 1)}" for n, size in enumerate(table.sizes, start=1)]
    handle.write("\n".join(["\\data\\", *header, ""]).encode())
    # Spelling of each context; the boundary id at its start is `<s>`.
    contexts: list[str] = [*words, START]
    done = 0
    for n, level in enumerate(table.levels, start=1):
        handle.write(f"\n\\{n}-grams:\n".encode())
        last = [*words, END]
        is_top = n == table.order
        following: list[str] = []
        for start in range(0, len(level.keys), LINES):
            part = slice(start, start + LINES)
            numbers = _log10(level.probabilities[part])
            weights = [""] * len(numbers) if is_top else [f"\t{weight}" for weight in _log10(level.weights[part])]
            if n == 1:
                names = last[part]
                if start <= boundary < start + LINES:
                    # As a context the boundary id is `<s>`, as a predicted token `</s>`.
                    handle.write(f"{LOG_ZERO:g}\t{START}{weights[boundary - start]}\n".encode())
                    weights[boundary - start] = "" if is_top else "\t0"
            else:
                prefixes = (level.keys[part] // table.size).tolist()
                ids = (level.keys[part] % table.size).tolist()
                names = [f"{contexts[prefix]} {last[id_]}" for prefix, id_ in zip(prefixes, ids, strict=True)]
                following += names if not is_top else []
            lines = map("\t".join, zip(numbers, names, strict=True))
            handle.write("".join(f"{line}{weight}\n" for line, weight in zip(lines, weights, strict=True)).encode())
            done += len(names)
            progress(done / sum(table.sizes))
        contexts = contexts if n == 1 else following
    handle.write(b"\n\\end\\\n")


def _log10(values: Floats) -> list[str]:
    with np.errstate(divide="ignore"):
        return [f"{number:.9g}" for number in np.maximum(np.log10(values), LOG_ZERO).tolist()]


def read_arpa(lines: Iterable[str], where: str, progress: Callable[[str], None]) -> tuple[Table, list[str], int | None]:
    """Return the table, the spellings of its ids without the boundary, and the id of `<unk>` (None if absent)."""
    reader = _Reader(lines, where)
    sizes = reader.header()
    words: dict[str, int] = {}
    levels: list[Level] = []
    for n, size in enumerate(sizes, start=1):
        progress(f"reading {size:,} {n}-grams")
        is_top = n == len(sizes)
        rows = reader.section(n, size, is_top)
        grams, numbers, weights = _unigrams(rows, words, reader) if n == 1 else _ngrams(rows, n, words, reader)
        keys = _keys(grams, levels, len(words), reader)
        sorting = np.argsort(keys, kind="stable")
        keys = keys[sorting]
        if (np.diff(keys) == 0).any():
            raise reader.error(f"an n-gram occurs twice in the section of {n}-grams")
        levels.append(Level(keys, 10.0 ** numbers[sorting], np.empty(0) if is_top else 10.0 ** weights[sorting]))
    del words[END]
    spellings = [unescape(word) for word in words]
    for level in levels:
        level.probabilities[level.probabilities <= 10.0**LOG_ZERO] = 0.0
        level.weights[level.weights <= 10.0**LOG_ZERO] = 0.0
    return Table(len(words) + 1, tuple(levels)), spellings, words.get(UNKNOWN)


def _unigrams(rows: Iterator[list[str]], words: dict[str, int], reader: "_Reader") -> tuple[Ints, Floats, Floats]:
    unigrams: dict[str, tuple[float, float]] = {}
    for row in rows:
        if row[1] in unigrams:
            raise reader.error(f"the word {row[1]} occurs twice")
        unigrams[row[1]] = reader.numbers(row)
    if START not in unigrams or END not in unigrams:
        raise reader.error(f"{START if START not in unigrams else END} is missing in the 1-grams")
    _, start_weight = unigrams.pop(START)
    end_number, _ = unigrams.pop(END)
    words.update({word: index for index, word in enumerate(unigrams)})
    words[END] = len(words)
    numbers = [number for number, _ in unigrams.values()] + [end_number]
    weights = [weight for _, weight in unigrams.values()] + [start_weight]
    return np.arange(len(words))[:, None], np.array(numbers), np.array(weights)


def _ngrams(rows: Iterator[list[str]], n: int, words: dict[str, int], reader: "_Reader") -> tuple[Ints, Floats, Floats]:
    ids: list[int] = []
    values: list[tuple[float, float]] = []
    boundary = words[END]
    for row in rows:
        try:
            ids.append(boundary if row[1] == START else words[row[1]])
            ids.extend(words[word] for word in row[2 : n + 1])
        except KeyError as error:
            raise reader.error(f"the word {error.args[0]} is missing in the 1-grams") from None
        values.append(reader.numbers(row, n))
    numbers, weights = np.array(values, float).reshape(-1, 2).T
    return np.array(ids, np.int64).reshape(-1, n), numbers, weights


def _keys(grams: Ints, levels: Sequence[Level], size: int, reader: "_Reader") -> Ints:
    """Return the key of each n-gram; its first n - 1 tokens must be in the tables."""
    if not levels:
        return grams[:, 0]
    lower_orders = Table(size, tuple(levels))
    rows = grams[:, 0]
    for n in range(2, grams.shape[1]):
        rows = lower_orders.find(n, rows, grams[:, n - 1])
    if (rows < 0).any():
        n = grams.shape[1]
        raise reader.error(f"the first {n - 1} words of a {n}-gram are missing in the {n - 1}-grams")
    return rows * size + grams[:, -1]


class _Reader:
    """Parses the lines of an ARPA file and keeps the line number for error messages."""

    def __init__(self, lines: Iterable[str], where: str) -> None:
        self.where = where
        self.line = 0
        self._lines = self._numbered(lines)

    def _numbered(self, lines: Iterable[str]) -> Iterator[str]:
        for self.line, line in enumerate(lines, start=1):
            yield line

    def error(self, cause: str) -> DataError:
        return DataError(cause, "expected an ARPA language model", where=f"{self.where}, line {self.line}")

    def header(self) -> list[int]:
        """Return the number of n-grams of each order."""
        for line in self._lines:
            if line.strip() == "\\data\\":
                break
            if line.strip() and not line.startswith("#"):
                raise self.error(f"unexpected line {line.strip()[:40]!r} before \\data\\")
        sizes: list[int] = []
        for line in self._lines:
            if not line.strip():
                if sizes:
                    break
                continue
            match = re.fullmatch(r"ngram +([0-9]+) *= *([0-9]{1,12})", line.strip())
            if match is None or int(match.group(1)) != len(sizes) + 1:
                raise self.error(f"found {line.strip()[:40]!r}, expected 'ngram {len(sizes) + 1}=...'")
            sizes.append(int(match.group(2)))
        if not 1 <= len(sizes) <= HIGHEST_ORDER:
            raise self.error(f"found {len(sizes)} orders, expected 1 to {HIGHEST_ORDER}")
        return sizes

    def section(self, n: int, size: int, is_top: bool) -> Iterator[list[str]]:
        """Yield the lines of a section of n-grams, split at spaces and tabs."""
        for line in self._lines:
            if line.strip() == f"\\{n}-grams:":
                break
            if line.strip():
                raise self.error(f"found {line.strip()[:40]!r}, expected \\{n}-grams:")
        count = 0
        for line in self._lines:
            row = line.replace("\t", " ").split(" ")
            if row == [""]:
                break
            if not n + 1 <= len(row) <= n + 2 - is_top:
                raise self.error(f"found {len(row)} columns, expected a log-probability, {n} words and a weight")
            count += 1
            yield row
        if count != size:
            raise self.error(f"found {count} {n}-grams, expected {size}")

    def numbers(self, row: list[str], n: int = 1) -> tuple[float, float]:
        """Return the log-probability and the log-weight of a line; a missing weight is 0."""
        try:
            number, weight = float(row[0]), float(row[n + 1]) if len(row) > n + 1 else 0.0
        except ValueError:
            raise self.error("the log-probability or the weight is not a number") from None
        if not (number <= 0 and abs(weight) < 1e6):
            raise self.error(f"found the log-probability {row[0]}, expected a number of at most 0")
        return number, weight
