"""Pairs that are made on the spot: strings to copy or to turn round, and dates to write in one way."""

import calendar
import datetime
import random
from typing import NamedTuple

LETTERS = "abcdefghijklmnopqrstuvwxyz"
SHORTEST, LONGEST = 5, 25  # letters of a string
FIRST_DATE, LAST_DATE = datetime.date(1950, 1, 1), datetime.date(2049, 12, 31)
ORDINALS = (
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth fifteenth "
    "sixteenth seventeenth eighteenth nineteenth twentieth twenty-first twenty-second twenty-third twenty-fourth "
    "twenty-fifth twenty-sixth twenty-seventh twenty-eighth twenty-ninth thirtieth thirty-first"
).split()


class Transduced(NamedTuple):
    """A source, and what is to be made of it."""

    source: str
    target: str


def string(chance: random.Random) -> str:
    """Return random letters."""
    return "".join(chance.choice(LETTERS) for _ in range(chance.randint(SHORTEST, LONGEST)))


def copied(chance: random.Random) -> Transduced:
    """Return a string, to be written as it is."""
    made = string(chance)
    return Transduced(made, made)


def turned_round(chance: random.Random) -> Transduced:
    """Return a string, to be written from its end to its beginning."""
    made = string(chance)
    return Transduced(made, made[::-1])


def dated(chance: random.Random) -> Transduced:
    """Return a date as people write it, to be written as 2021-05-03. Years of two digits are 1950 to 2049."""
    days = (LAST_DATE - FIRST_DATE).days
    date = FIRST_DATE + datetime.timedelta(days=chance.randint(0, days))
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
    return Transduced(chance.choice(forms), date.isoformat())
