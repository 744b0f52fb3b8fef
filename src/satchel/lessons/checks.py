"""Checks of lesson settings: every error names the setting, its value, the valid values and an example."""

import math

from satchel.errors import SettingsError


def check(valid: bool, name: str, value: object, expected: str, example: object) -> None:
    """Raise unless the setting is valid."""
    if not valid:
        raise SettingsError(f"{name}: found {value}, expected {expected}", f"for example --set {name}={example}")


def check_range(name: str, value: int, lowest: int, highest: int, example: int) -> None:
    """Raise unless lowest <= value <= highest."""
    check(lowest <= value <= highest, name, value, f"{lowest} to {highest}", example)


def check_above(name: str, value: float, bound: float, example: float, highest: float = math.inf) -> None:
    """Raise unless the value is finite, greater than the bound, and at most `highest`."""
    limit = "" if math.isinf(highest) else f" and at most {highest:g}"
    check(
        bound < value <= highest and value < math.inf, name, f"{value:g}", f"a number above {bound:g}{limit}", example
    )


def check_heads(heads: int, width: int) -> None:
    """Raise unless the number of heads divides the width."""
    check(heads > 0 and width % heads == 0, "heads", heads, f"a divisor of the width {width}", 1)


def split_words(name: str, text: str, lowest: int, highest: int, example: str) -> tuple[str, ...]:
    """Return the words of a text setting; raise if their number is out of range."""
    words = tuple(text.split())
    count = f"{len(words)} word{'s' * (len(words) != 1)}"
    check(lowest <= len(words) <= highest, name, count, f"{lowest} to {highest}", f"'{example}'")
    return words
