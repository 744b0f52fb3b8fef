"""Do heads look where one would expect them to? Two models whose texts say where that is, and what each head is worth.

    python bench/patterns.py [--minutes 2] [--seed 0] [--quick]

A language model of @roles: from the verb to its subject, from the second verb to its object, from pronouns to whom
they stand for. A tagger of @counting: from a letter to the same letter elsewhere, or before; from one that is new to
itself. For each pattern the head that fits best: how much of its weight is where it is expected, what chance would
give, how often most of it is there; and what it costs to lose this head, beside the mean of the others. `--minutes`
is the most that either training takes; `--quick` trains too little to find much.
"""

import argparse
import statistics
import tempfile
from collections.abc import Sequence
from typing import Any

import numpy as np

import satchel
from satchel.datasets.registry import DATASETS
from satchel.datasets.roles import GENDERS, OBJECT_PRONOUNS, entropy_per_word
from satchel.inspection.patterns import PATTERNS, Pattern, Places
from satchel.text.reading import DataSettings

TEXTS = 200


def of_words(name: str, words: Sequence[str]) -> Pattern:
    """Return a pattern of which only some words are asked."""

    def pattern(tokens: Sequence[str]) -> Places:
        return np.asarray(PATTERNS[name](tokens) & np.isin(tokens, words)[:, None])

    return pattern


ROLES = {
    "subject": PATTERNS["subject"],
    "object": PATTERNS["object"],
    "referent": PATTERNS["referent"],
    "referent of him, her, them": of_words("referent", list(OBJECT_PRONOUNS)),
    "referent of he, she, they": of_words("referent", list(GENDERS)),
    "previous": PATTERNS["previous"],
}
LETTERS = {name: PATTERNS[name] for name in ("same", "earlier", "new", "self", "previous")}


def texts_of(name: str, seed: int) -> list[str]:
    """Return texts that no model is trained on."""
    made = list(DATASETS[name].generator(DataSettings(size=10 * TEXTS), seed, "test"))
    return made[0][1].splitlines() if DATASETS[name].task == "lm" else [text for _, text in made]


def told(model: Any, name: str, patterns: dict[str, Pattern], seed: int) -> None:
    """Print the head that fits each pattern best, and what it is worth."""
    found = model.patterns(texts_of(name, seed), patterns)
    costs = model.head_costs()
    by_head = {(row.layer, row.head): row.cost for row in costs.rows}
    print(f"{'':<28} {'head':>5} {'weight':>7} {'chance':>7} {'hits':>6} {'cost':>8} {'others':>8}")
    for pattern in patterns:
        best = found.best(pattern)
        head = (best.layer, best.head)
        others = statistics.mean(cost for each, cost in by_head.items() if each != head)
        values = f"{best.weight:7.3f} {best.chance:7.3f} {best.hits:6.1%} {by_head[head]:8.4f} {others:8.4f}"
        print(f"{pattern:<28} {best.layer:>3}.{best.head} {values}")
    print(f"cost: {costs.measure.replace('_', ' ')}, {costs.whole:.4f} with all heads\n", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, help="the most that either training takes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="a few steps")
    arguments = parser.parse_args()
    options: dict[str, Any] = {"minutes": arguments.minutes, "seed": arguments.seed}
    with tempfile.TemporaryDirectory() as folder:
        length: dict[str, Any] = {"steps": 30} if arguments.quick else {}
        size: dict[str, Any] = {"data.size": 1000} if arguments.quick else {}
        model = satchel.train("@roles", recipe="roles", settings=size, out=f"{folder}/roles", **length, **options)
        bits = model.report.valid.nats_per_token / np.log(2)
        print(f"@roles: {bits:.3f} bits per word, {entropy_per_word():.3f} at least; {model.report.seconds:.0f} s")
        told(model, "@roles", ROLES, arguments.seed)
        length = {"steps": 30 if arguments.quick else 500}
        size = {"data.size": 1000 if arguments.quick else 20_000, "data.valid": 0.1 if arguments.quick else 0.05}
        model = satchel.train(
            "@counting", recipe="counting", settings=size, out=f"{folder}/counting", **length, **options
        )
        print(f"@counting: {model.report.valid.accuracy:.2%} right; {model.report.seconds:.0f} s")
        told(model, "@counting", LETTERS, arguments.seed)


if __name__ == "__main__":
    main()
