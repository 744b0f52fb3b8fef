"""Checks of lesson settings: every error names the setting, its value and the valid range."""

import math

from satchel.errors import SettingsError


def split_words(name: str, text: str, lowest: int, highest: int, example: str) -> tuple[str, ...]:
    """Return the words of a text setting; raise if their number is out of range."""
    words = tuple(text.split())
    if not lowest <= len(words) <= highest:
        raise _error(name, f"{len(words)} word{'s' * (len(words) != 1)}", f"{lowest} to {highest}", f"'{example}'")
    return words


def check_range(name: str, value: int, lowest: int, highest: int, example: int) -> None:
    """Raise unless lowest <= value <= highest."""
    if not lowest <= value <= highest:
        raise _error(name, str(value), f"{lowest} to {highest}", str(example))


def check_above(name: str, value: float, bound: float, example: float, highest: float = math.inf) -> None:
    """Raise unless the value is finite, greater than the bound, and at most `highest`."""
    if not bound < value <= highest or math.isinf(value):
        limit = "" if math.isinf(highest) else f" and at most {highest:g}"
        raise _error(name, f"{value:g}", f"a number above {bound:g}{limit}", f"{example:g}")


def check_heads(heads: int, width: int) -> None:
    """Raise unless the number of heads divides the width."""
    if heads < 1 or width % heads:
        raise _error("heads", str(heads), f"a divisor of the width {width}", "1")


def _error(name: str, value: str, expected: str, example: str) -> SettingsError:
    return SettingsError(f"{name}: found {value}, expected {expected}", f"for example --set {name}={example}")
