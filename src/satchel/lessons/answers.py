"""The check of an answer to a question of a lesson.

A number may be written in any form of `expressions`, with units and words around it. An integer must be exact. Any
other number may be rounded: the error is at most 0.011, or 2 % of the value. An answer in words must contain one of the
expected words or phrases as whole words, without a negation before it.
"""

import math
import re
from collections.abc import Iterator, Sequence

from satchel.lessons.arithmetic import Cell, Number
from satchel.lessons.expressions import Quantity, quantities

RELATIVE_TOLERANCE = 0.02
ABSOLUTE_TOLERANCE = 0.011
RULE = "numbers may be fractions, percentages or roots; round to two decimals or three digits; integers are exact"
LONGEST = 2000

NEGATION = re.compile(r"(?:\b(?:not|no|never|without|cannot)|n['’]t)\s+(?:(?:a|an|the|any|be|get)\s+)*$")


def is_correct(answer: str, expected: Sequence[Cell], accept: Sequence[str] = (), question: str = "") -> bool:
    """Return whether an answer is correct.

    `expected` are numbers in order, or alternative words; `accept` are regular expressions of further correct answers.
    The `question` states the total M of an answer `N of M`.
    """
    text = " ".join(answer[:LONGEST].casefold().split())
    words = [re.escape(" ".join(cell.casefold().split())) for cell in expected if isinstance(cell, str)]
    if any(_contains(text, pattern) for pattern in (*words, *accept)):
        return True
    numbers = [cell for cell in expected if not isinstance(cell, str)]
    totals = [quantity.value for quantity in quantities(question)]
    return bool(numbers) and any(_equal(reading, numbers, totals, text) for reading in _readings(text))


def _contains(text: str, pattern: str) -> bool:
    """Return whether a text contains a pattern as whole words that are not negated."""
    matches = re.finditer(rf"(?<!\w)(?:{pattern})(?!\w)", text)
    return any(not NEGATION.search(text[: match.start()]) for match in matches)


def _readings(text: str) -> Iterator[list[Quantity]]:
    """Yield the numbers of a text, with a comma as separator, of thousands, and as decimal point.

    In a text with digits, such as `6 different ones`, number words may be ordinary words.
    """
    if re.search(r"\b(?:not|isn['’]t)\s+[-.\d]", text):
        return
    yield quantities(text)
    if re.search(r"\d", text):
        yield quantities(text, words=False)
    thousands = re.sub(r"(?<=\d)[,' _](?=\d{3}(?!\d))", "", text)
    decimal = re.sub(r"(?<=\d),(?=\d)", ".", text)
    yield from (quantities(changed) for changed in (thousands, decimal) if changed != text)


def _equal(values: list[Quantity], expected: Sequence[Number], totals: Sequence[Number], text: str) -> bool:
    if len(values) == 1 and len(expected) > 1 and re.search(r"\b(?:each|both|all|every)\b", text):
        values = values * len(expected)
    return len(values) == len(expected) and all(
        any(_close(reading, number) for reading in _meanings(quantity, totals))
        for quantity, number in zip(values, expected, strict=True)
    )


def _meanings(quantity: Quantity, totals: Sequence[Number]) -> Iterator[Number]:
    """Yield the values of a number: `N of M` is the share N/M, and N if the question names the total M."""
    if quantity.total is None or quantity.total in totals:
        yield quantity.value
    if quantity.total:
        yield quantity.value / quantity.total


def _close(value: Number, expected: Number) -> bool:
    is_exact = math.isinf(expected) or float(expected).is_integer()
    return math.isclose(
        value,
        expected,
        rel_tol=1e-9 if is_exact else RELATIVE_TOLERANCE,
        abs_tol=1e-9 if is_exact else ABSOLUTE_TOLERANCE,
    )
