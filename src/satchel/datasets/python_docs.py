"""`@python-docs`: help topics and docstrings of the standard library, one document each."""

from collections.abc import Iterator

from satchel.datasets.docstrings import standard_library
from satchel.datasets.generated import Row, SplitName
from satchel.text.reading import DataSettings

# Minimum number of characters of a document.
SHORTEST_DOCUMENT = 60


def documents(settings: DataSettings, seed: int, split: SplitName) -> Iterator[Row]:
    """Yield (name, text) of each distinct document."""
    del settings, seed, split
    seen: set[str] = set()
    for name, text in standard_library():
        if len(text) >= SHORTEST_DOCUMENT and text not in seen:
            seen.add(text)
            yield name, f"{text}\n\n"
