"""`@copy`, `@reverse` and `@dates`: pairs of a source string and a target string that is a function of it."""

import calendar
import datetime
import random

from satchel.datasets.generated import Row

LETTERS = "abcdefghijklmnopqrstuvwxyz"
# Number of letters of a string.
SHORTEST, LONGEST = 5, 25
# A span of 100 years: each two-digit year is unambiguous.
FIRST_DATE, LAST_DATE = datetime.date(1950, 1, 1), datetime.date(2049, 12, 31)
ORDINALS = (
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth fifteenth "
    "sixteenth seventeenth eighteenth nineteenth twentieth twenty-first twenty-second twenty-third twenty-fourth "
    "twenty-fifth twenty-sixth twenty-seventh twenty-eighth twenty-ninth thirtieth thirty-first"
).split()


def draw_string(rng: random.Random) -> str:
    """Return a string of random lower-case letters."""
    return "".join(rng.choice(LETTERS) for _ in range(rng.randint(SHORTEST, LONGEST)))


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
