"""`@python-modules`: docstrings of the standard library, labelled with their module or package."""

from collections import Counter
from collections.abc import Iterator

from satchel.datasets.docstrings import standard_library
from satchel.datasets.generated import Row, SplitName
from satchel.text.reading import DataSettings

# Minimum number of characters of a docstring.
SHORTEST_TEXT = 20
# Number of labels: the modules with the most docstrings.
MODULES = 50


def labelled_docstrings(settings: DataSettings, seed: int, split: SplitName) -> Iterator[Row]:
    """Yield (module, docstring) of the 50 modules with the most docstrings; texts of several modules are excluded."""
    del settings, seed, split
    modules_of_text: dict[str, set[str]] = {}
    for name, text in standard_library():
        module = name.split(":")[0].split("/")[0].removesuffix(".py")
        if len(text) >= SHORTEST_TEXT and module != "topics":
            modules_of_text.setdefault(text, set()).add(module)
    rows = [(modules.pop(), text) for text, modules in modules_of_text.items() if len(modules) == 1]
    counts = Counter(module for module, _ in rows)
    largest = set(sorted(counts, key=lambda module: (-counts[module], module))[:MODULES])
    yield from (row for row in rows if row[0] in largest)
