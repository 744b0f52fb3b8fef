"""One chart of each kind for the tests, from random numbers."""

import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from satchel import charts
from satchel.charts.figures import Figure

WORDS = ["The", " cat", " saw", " the", " cat"]
# Tokens that can break pages, images or terminals.
HOSTILE = [
    "</script><script>alert(1)</script>",
    "<!--",
    "'\"`${1}\\",
    "\\u003c",
    "a\u202eb\u2066c",
    "\x00\x1b[31m",
    "line\nbreak\u2028",
    " ",
    "\u00a0",
    "שלום",
    "مرحبا",
    "\u0301",
    "\ud800",
    "__proto__",
    "unbelievably_long_identifier_that_does_not_end",
    "",
]


def weights(rows: int, columns: int, seed: int = 0) -> npt.NDArray[np.float64]:
    """Return rows that sum to 1."""
    return np.random.default_rng(seed).dirichlet(np.ones(columns), size=rows)


def numbers(*shape: int, seed: int = 0) -> npt.NDArray[np.float64]:
    """Return normally distributed numbers."""
    return np.random.default_rng(seed).normal(size=shape)


def maps(words: int) -> dict[tuple[int, int], npt.NDArray[np.float64]]:
    """Return attention weights of two layers of three heads."""
    return {(layer, head): weights(words, words, layer + head) for layer in range(2) for head in range(3)}


# Charts of words: each shows all its words.
OF_WORDS: dict[str, Callable[[Sequence[str]], Figure]] = {
    "attention_map": lambda words: charts.attention_map(words, words, weights(len(words), len(words))),
    "attention_maps": lambda words: charts.attention_maps(words, words, maps(len(words))),
    "head_lines": lambda words: charts.head_lines(words, words, maps(len(words))),
    "alignment": lambda words: charts.alignment(words, words, weights(len(words), len(words)), signed=False),
    "signed alignment": lambda words: charts.alignment(words, words, numbers(len(words), len(words)), signed=True),
    "surprise_strip": lambda words: charts.surprise_strip(words, abs(numbers(len(words)))),
    "order_strip": lambda words: charts.order_strip(words, [1 + place % 3 for place in range(len(words))]),
    "sense_weights": lambda words: charts.sense_weights(words, weights(len(words), 12)),
    "sense_contributions": lambda words: charts.sense_contributions(
        words, numbers(len(words), 4), "Contribution to the logit of cat"
    ),
    "logit_lens": lambda words: charts.logit_lens(
        words,
        ["first", "last"],
        [words, words],
        abs(numbers(2, len(words))),
        np.ones((2, len(words))),
        targets=words[1:],
    ),
    "mask": lambda words: charts.mask(words, words, np.tril(np.ones((len(words), len(words))))),
    "attribution": lambda words: charts.attribution(
        words, {"exact": numbers(len(words)), "occlusion": numbers(len(words))}
    ),
    "embedding_map": lambda words: charts.embedding_map(
        words, 100.0 * np.arange(2 * len(words)).reshape(-1, 2), groups=words, nearest=[words] * len(words)
    ),
    "comparison": lambda words: charts.comparison(
        "bits_per_byte", [(word, 2.0, 1.5, 2.5 + place) for place, word in enumerate(words)]
    ),
    "training_curves": lambda words: charts.training_curves(
        {word + str(place): [(1, 2.0), (2, 1.0 + place)] for place, word in enumerate(words)}, 3.0
    ),
}
# Other charts, and texts that each must contain.
OTHERS: dict[str, tuple[Callable[[], Figure], list[str]]] = {
    "heads_grid": (
        lambda: charts.heads_grid(WORDS, WORDS, maps(5)),
        ["head 0", "head 2", "layer 0", "layer 1", "cat₁", "saw"],
    ),
    "cost_by_order": (lambda: charts.cost_by_order([(1, 3.25), (2, 2.5)]), ["1", "2", "3.250", "2.500"]),
    "line_chart": (
        lambda: charts.line_chart(
            {"attention": [(64, 0.1), (128, 0.4)], "lstm": [(64, 0.1), (128, 0.2)]},
            "length (tokens)",
            "seconds",
            "Time per text",
            log_x=True,
            log_y=True,
        ),
        ["attention", "lstm", "seconds", "length (tokens)"],
    ),
    "line_chart with a logarithmic y axis": (
        lambda: charts.line_chart(
            {"rnn": [(0, 1.0), (40, 1e-12)]}, "distance (tokens)", "gradient norm", "Gradient by distance", log_y=True
        ),
        ["gradient norm", "1e-10"],
    ),
    "position_encodings": (lambda: charts.position_encodings(numbers(8, 4)), ["position", "dimension", "0", "3"]),
    "head_ablation": (
        lambda: charts.head_ablation([[0.0123, -0.5], [float("nan"), 0.25]]),
        ["layer 1", "head 1", "+0.012", "\u22120.500"],
    ),
    "heads_by_pattern": (
        lambda: charts.heads_by_pattern(
            {"previous": {(0, 1): 0.9, (1, 0): 0.25}, "first": {(1, 1): 0.5}}, chances={"previous": 0.2, "first": 0.1}
        ),
        [
            "previous: layer 0, head 1",
            "first: layer 1, head 1",
            "0.900",
            "vertical line: uniform attention",
            "all 2 heads",
        ],
    ),
}
EVERY: dict[str, Callable[[], Figure]] = {
    **{name: lambda make=make: make(WORDS) for name, make in OF_WORDS.items()},  # type: ignore[misc]
    **{name: make for name, (make, _) in OTHERS.items()},
}


def texts(svg: str) -> list[str]:
    """Return the texts of an SVG."""
    return [
        line for each in ElementTree.fromstring(svg).iter() if each.tag.endswith("}text") for line in each.itertext()
    ]
