"""Positions that distinguish repeated words in the labels of charts."""

from collections import Counter
from collections.abc import Sequence

SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


def with_positions(labels: Sequence[str], start: int = 0) -> list[str]:
    """Return the labels; those that occur more than once are followed by their position, as in the₂ and the₅."""
    counts = Counter(labels)
    return [
        f"{label}{str(place).translate(SUBSCRIPTS)}" if counts[label] > 1 else label
        for place, label in enumerate(labels, start)
    ]
