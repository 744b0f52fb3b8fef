"""`@ab`: every string of As and Bs, followed by a letter that depends on the whole string."""

from collections.abc import Iterator
from itertools import product

from satchel.datasets.generated import Row, SplitName
from satchel.text.reading import DataSettings


def all_strings(settings: DataSettings, seed: int, split: SplitName) -> Iterator[Row]:
    """Yield one document: each string of `settings.length` letters, followed by B if it contains a B, else by A."""
    del seed, split
    strings = ("".join(letters) for letters in product("AB", repeat=settings.length))
    yield "ab", "".join(f"{string}{'B' if 'B' in string else 'A'}\n" for string in strings)
