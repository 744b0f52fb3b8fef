"""Generated strings: `@ab`, `@counting`, `@counting-both`, `@recall`, `@copy`, `@reverse` and `@dates`."""

import calendar
import datetime
import functools
import math
import random
import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from string import ascii_lowercase

from satchel.config import read_toml
from satchel.datasets.generated import Row, SplitName
from satchel.datasets.python_docs import documents
from satchel.text.reading import DataSettings

# @counting: number of characters of a string, and the largest tag.
LENGTH = 20
LARGEST_COUNT = 2
# @recall: limits of the distance in words between the two occurrences of the name.
SHORTEST_DISTANCE, LONGEST_DISTANCE = 5, 200
# @copy and @reverse: limits of the number of letters of a string.
SHORTEST, LONGEST = 5, 25
# @dates: a span of 100 years, so that each two-digit year is unambiguous.
FIRST_DATE, LAST_DATE = datetime.date(1950, 1, 1), datetime.date(2049, 12, 31)
_WORDS = read_toml(Path(__file__).with_suffix(".toml"))
NAMES: list[str] = _WORDS["names"]
FILLER: list[str] = _WORDS["filler"]
ORDINALS: list[str] = _WORDS["ordinals"]


def all_strings(settings: DataSettings, seed: int, split: SplitName) -> Iterator[Row]:
    """Yield one document: each string of `settings.length` letters, followed by B if it contains a B, else by A."""
    del seed, split
    strings = ("".join(letters) for letters in product("AB", repeat=settings.length))
    yield "ab", "".join(f"{string}{'B' if 'B' in string else 'A'}\n" for string in strings)


def draw_substring(rng: random.Random) -> str:
    """Return a substring of the lower-case words of `@python-docs`."""
    letters = _letters()
    start = rng.randrange(len(letters) - LENGTH)
    return letters[start : start + LENGTH]


def counts_before(string: str) -> str:
    """Return for each character the number of equal characters before it, at most 2, as a string of digits."""
    counts = (string[:position].count(character) for position, character in enumerate(string))
    return "".join(str(min(LARGEST_COUNT, count)) for count in counts)


def counts_elsewhere(string: str) -> str:
    """Return for each character the number of equal characters at other positions, at most 2, as a string of digits."""
    return "".join(str(min(LARGEST_COUNT, string.count(character) - 1)) for character in string)


@functools.cache
def _letters() -> str:
    texts = (text for _, text in documents(DataSettings(), 0, "train"))
    return " ".join(" ".join(re.findall("[a-z]+", text.lower())) for text in texts)


def draw_line(rng: random.Random) -> str:
    """Return a line; the logarithm of the distance between its names is uniformly distributed."""
    name = rng.choice(NAMES)
    distance = round(math.exp(rng.uniform(math.log(SHORTEST_DISTANCE), math.log(LONGEST_DISTANCE))))
    opening, ending = ["looked", "around", "."], ["someone", "said", "Hi"]
    filler: list[str] = []
    while len(filler) < distance - 1 - len(opening) - len(ending):
        filler += [*rng.choice(FILLER).split(), "."]
    # The last filler sentence is truncated to reach the exact distance.
    words = [*opening, *filler][: distance - 1 - len(ending)]
    return " ".join([name, *words, *ending, name])


def draw_letters(rng: random.Random) -> str:
    """Return a string of random lower-case letters."""
    return "".join(rng.choice(ascii_lowercase) for _ in range(rng.randint(SHORTEST, LONGEST)))


def draw_date(rng: random.Random) -> Row:
    """Return a date in ISO 8601 format (the target) and in one of nine written forms (the source)."""
    days = (LAST_DATE - FIRST_DATE).days
    date = FIRST_DATE + datetime.timedelta(days=rng.randint(0, days))
    month, short = calendar.month_name[date.month], calendar.month_abbr[date.month]
    weekday, ordinal = calendar.day_name[date.weekday()], ORDINALS[date.day - 1]
    forms = (
        f"{weekday}, {date.day} {month} {date.year}",
        f"{date.month}/{date.day}/{date:%y}",
        f"the {ordinal} of {month}, {date.year}",
        f"{month} {date.day}, {date.year}",
        f"{date.day} {short} {date.year}",
        f"{weekday} the {ordinal} of {month} {date.year}",
        f"{date.month}/{date.day}/{date.year}",
        f"{date.day}.{date.month}.{date.year}",
        f"{short} {date.day} '{date:%y}",
    )
    return date.isoformat(), rng.choice(forms)
