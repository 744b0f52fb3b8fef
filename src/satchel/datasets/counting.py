"""`@counting` and `@counting-both`: strings of letters and spaces, tagged with the counts of equal characters."""

import functools
import random
import re

from satchel.datasets.python_docs import documents
from satchel.text.reading import DataSettings

# Number of characters of a string.
LENGTH = 20
LARGEST_COUNT = 2


def draw_string(rng: random.Random) -> str:
    """Return a substring of the lower-case words of `@python-docs`."""
    letters = _letters()
    start = rng.randrange(len(letters) - LENGTH)
    return letters[start : start + LENGTH]


def counts_before(string: str) -> str:
    """Return for each character the number of equal characters before it, at most 2, as a string of digits."""
    return "".join(
        str(min(LARGEST_COUNT, string[:position].count(character))) for position, character in enumerate(string)
    )


def counts_elsewhere(string: str) -> str:
    """Return for each character the number of equal characters at other positions, at most 2, as a string of digits."""
    return "".join(str(min(LARGEST_COUNT, string.count(character) - 1)) for character in string)


@functools.cache
def _letters() -> str:
    texts = (text for _, text in documents(DataSettings(), 0, "train"))
    return " ".join(" ".join(re.findall("[a-z]+", text.lower())) for text in texts)
