"""Attention patterns of two models with known expected positions, and the ablation cost of each pattern's best head.

    python bench/patterns.py [--minutes 2] [--seed 0] [--quick]

A language model of @roles (verb to subject, second verb to object, pronoun to referent) and a tagger of @counting
(letter to equal letters, to earlier equal letters, new letter to itself). For each pattern, the head with the largest
weight on the expected positions: that weight, the weight expected by chance, the share of queries whose largest weight
is on an expected position (hits), the ablation cost of the head and the mean ablation cost of the other heads.
"""

import statistics
import tempfile
from collections.abc import Sequence
from typing import Any

import numpy as np

import satchel
from measure import parser
from satchel.datasets.registry import DATASETS
from satchel.datasets.roles import GENDERS, OBJECT_PRONOUNS, entropy_per_word
from satchel.inspection.patterns import PATTERNS, Expected, Pattern
from satchel.text.reading import DataSettings

# Number of held-out texts.
TEXTS = 200


def restricted(name: str, words: Sequence[str]) -> Pattern:
    """Return a pattern that applies only to the given query words."""

    def pattern(tokens: Sequence[str]) -> Expected:
        return np.asarray(PATTERNS[name](tokens) & np.isin(tokens, words)[:, None])

    return pattern


ROLES = {
    "subject": PATTERNS["subject"],
    "object": PATTERNS["object"],
    "referent": PATTERNS["referent"],
    "referent of him, her, them": restricted("referent", list(OBJECT_PRONOUNS)),
    "referent of he, she, they": restricted("referent", list(GENDERS)),
    "previous": PATTERNS["previous"],
}
LETTERS = {name: PATTERNS[name] for name in ("same", "earlier", "new", "self", "previous")}


def held_out_texts(name: str, seed: int) -> list[str]:
    """Return texts of the test split of a generated data set."""
    rows = list(DATASETS[name].generator(DataSettings(size=10 * TEXTS), seed, "test"))
    return rows[0][1].splitlines() if DATASETS[name].task == "lm" else [text for _, text in rows]


def print_patterns(model: Any, name: str, patterns: dict[str, Pattern], seed: int) -> None:
    """Print the best head of each pattern and its ablation cost."""
    result = model.patterns(held_out_texts(name, seed), patterns)
    costs = model.head_costs()
    by_head = {(row.layer, row.head): row.cost for row in costs.rows}
    print(f"{'':<28} {'head':>5} {'weight':>7} {'chance':>7} {'hits':>6} {'cost':>8} {'others':>8}")
    for pattern in patterns:
        best = result.best(pattern)
        head = (best.layer, best.head)
        others = statistics.mean(cost for other, cost in by_head.items() if other != head)
        values = f"{best.weight:7.3f} {best.chance:7.3f} {best.hits:6.1%} {by_head[head]:8.4f} {others:8.4f}"
        print(f"{pattern:<28} {best.layer:>3}.{best.head} {values}")
    print(f"cost: {costs.measure.replace('_', ' ')}, {costs.whole:.4f} with all heads\n", flush=True)


def main() -> None:
    arguments = parser(__doc__, "--quick")
    arguments.add_argument("--minutes", type=float, help="maximum training time of each model")
    arguments.add_argument("--seed", type=int, default=0, help="seed of the data and of the training")
    options = arguments.parse_args()
    shared: dict[str, Any] = {"minutes": options.minutes, "seed": options.seed}
    with tempfile.TemporaryDirectory() as folder:
        steps: dict[str, Any] = {"steps": 30} if options.quick else {}
        data: dict[str, Any] = {"data.size": 1000} if options.quick else {}
        model = satchel.train("@roles", recipe="roles", settings=data, out=f"{folder}/roles", **steps, **shared)
        bits = model.report.valid.nats_per_token / np.log(2)
        print(f"@roles: {bits:.3f} bits per word (entropy {entropy_per_word():.3f}); {model.report.seconds:.0f} s")
        print_patterns(model, "@roles", ROLES, options.seed)
        steps = {"steps": 30 if options.quick else 500}
        data = {"data.size": 1000 if options.quick else 20_000, "data.valid": 0.1 if options.quick else 0.05}
        model = satchel.train(
            "@counting", recipe="counting", settings=data, out=f"{folder}/counting", **steps, **shared
        )
        print(f"@counting: accuracy {model.report.valid.accuracy:.2%}; {model.report.seconds:.0f} s")
        print_patterns(model, "@counting", LETTERS, options.seed)


if __name__ == "__main__":
    main()
