"""Probing of the meaning of ambiguous words by layer, for a Transformer and a Backpack trained on @polysemy.

    python bench/representations.py [--steps 500] [--seeds 1] [--quick]

A linear probe is fitted to the vectors of ambiguous words in three quarters of the held-out sentences and predicts the
meaning in the others. Columns: accuracy of the probe and of the control task (random labels per word), mean cosine
similarity of occurrences of a word with the same and with different meanings. Baselines: most frequent meaning, and
most frequent meaning per word (the best possible accuracy without context).
"""

import math
import tempfile
from collections import defaultdict
from itertools import combinations
from pathlib import Path
from statistics import mean
from typing import Any

import satchel
from measure import parser, polysemy_recipe, write_recipe
from satchel.datasets.polysemy import AMBIGUOUS
from satchel.datasets.registry import DATASETS
from satchel.inspection.probing import ProbeResult
from satchel.text.reading import DataSettings

# Maximum number of occurrences of each word whose vectors are compared.
COMPARED = 12

Contexts = dict[str, list[tuple[str, str]]]  # of each word: sentences, and the meaning of the word in each


def recipe(kind: str, folder: str, size: int) -> Path:
    """Write the recipe `polysemy` without its number of epochs, and return the path."""
    tree = polysemy_recipe(kind)
    training = {key: value for key, value in tree["training"].items() if key != "epochs"}
    changes = {"data": {**tree["data"], "size": size}, "training": {**training, "threads": 1}}
    return write_recipe({**tree, **changes}, Path(folder) / f"{kind}.toml")


def held_out_contexts(seed: int) -> Contexts:
    """Return held-out sentences of each ambiguous word."""
    contexts: Contexts = defaultdict(list)
    for tags, text in DATASETS["@polysemy-senses"].generator(DataSettings(), seed, "test"):
        for word, tag in zip(text.split(), tags.split(), strict=True):
            if tag != "-" and len(contexts[word]) < COMPARED:
                contexts[word].append((text, tag))
    return contexts


def self_similarity(model: Any, contexts: Contexts) -> list[tuple[float, float]]:
    """Return, for each layer, the mean cosine of occurrences of a word with the same and with different meanings."""
    same: dict[int, list[float]] = defaultdict(list)
    different: dict[int, list[float]] = defaultdict(list)
    for word in AMBIGUOUS:
        result = model.vectors.in_context(word, [text for text, _ in contexts[word]])
        meanings = [meaning for _, meaning in contexts[word]]
        for a, b in combinations(range(len(meanings)), 2):
            for layer in range(len(result.sites)):
                group = same if meanings[a] == meanings[b] else different
                group[layer].append(float(result.similarity[layer, a, b]))
    return [(mean(same[layer]), mean(different[layer])) for layer in sorted(same)]


def print_results(
    kind: str, probes: list[ProbeResult], cosines: list[list[tuple[float, float]]], bits: list[float]
) -> None:
    """Print means over the seeds, one row per layer."""
    print(f"\n{kind}: {mean(bits):.3f} bits per word")
    print(f"  {'layer':<34} {'accuracy':>8} {'control':>8} {'same meaning':>13} {'different':>10}")
    for number, layer in enumerate(probes[0].layers):
        accuracy, control = (
            mean(getattr(probe.layers[number], part) for probe in probes) for part in ("accuracy", "control")
        )
        same, different = (mean(by_layer[number][part] for by_layer in cosines) for part in (0, 1))
        print(f"  {number} {layer.site:<32} {accuracy:8.1%} {control:8.1%} {same:13.3f} {different:10.3f}")
    for name, part in (("most frequent meaning", "majority"), ("most frequent meaning per word", "by_word")):
        print(f"  {name:<34} {mean(getattr(probe.baselines, part) for probe in probes):8.1%}")


def main() -> None:
    arguments = parser(__doc__, "--quick")
    arguments.add_argument("--steps", type=int, default=500, help="training steps of each model")
    arguments.add_argument("--seeds", type=int, default=1, help="number of seeds")
    options = arguments.parse_args()
    steps, size, seeds = (5, 2_000, 1) if options.quick else (options.steps, 20_000, options.seeds)
    for kind in ("transformer", "backpack"):
        probes, cosines, bits = list[ProbeResult](), list[list[tuple[float, float]]](), list[float]()
        for seed in range(seeds):
            with tempfile.TemporaryDirectory() as folder:
                path = recipe(kind, folder, size)
                model = satchel.train(
                    "@polysemy", recipe=path, seed=seed, out=Path(folder) / kind, steps=steps, task="lm"
                )
                bits.append(model.evaluate("@polysemy").nats_per_token / math.log(2))
                probes.append(model.probe("@polysemy", leave_out=["-"], seed=seed))
                cosines.append(self_similarity(model, held_out_contexts(seed)))
        print_results(kind, probes, cosines, bits)


if __name__ == "__main__":
    main()
