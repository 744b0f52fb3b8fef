"""Why they generalise: what each layer knows of a word that the word itself does not say (@polysemy).

    python bench/representations.py [--steps 500] [--seeds 1] [--quick]

Words of two senses in held-out sentences: a linear map is fitted to the vectors of three quarters of the sentences at
each layer, and says which sense is meant in the others. Beside it: the commonest sense of all, the commonest of each
word (whoever does not know the context cannot do better), and the control, whose tags belong to words by chance. And
how alike a word is to itself where its senses differ, and where they do not.
"""

import argparse
import math
import tempfile
from collections import defaultdict
from itertools import combinations
from pathlib import Path
from statistics import mean
from typing import Any

import satchel
from measure import write_recipe
from satchel.api.probing import Probed
from satchel.datasets.polysemy import AMBIGUOUS
from satchel.datasets.registry import DATASETS
from satchel.text.reading import DataSettings
from satchel.training.recipes import read_recipe

SHAPE = ("width", "layers", "heads", "context")
# Sentences of each word that are compared with each other.
COMPARED = 12


def recipe(kind: str, folder: str, size: int) -> Path:
    """Return the recipe, for a Backpack or for the Transformer inside it, without an end of its own."""
    tree = read_recipe("polysemy")
    model = {key: value for key, value in tree["model"].items() if kind == "backpack" or key in SHAPE}
    training = {key: value for key, value in tree["training"].items() if key != "epochs"}
    data = {**tree["data"], "size": size}
    changed = {**tree, "data": data, "model": {**model, "kind": kind}, "training": {**training, "threads": 1}}
    return write_recipe(changed, Path(folder) / f"{kind}.toml")


def contexts(seed: int) -> dict[str, list[tuple[str, str]]]:
    """Return held-out sentences of each ambiguous word, and which sense it has there."""
    found: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for tags, text in DATASETS["@polysemy-senses"].generator(DataSettings(), seed, "test"):
        for word, tag in zip(text.split(), tags.split(), strict=True):
            if tag != "-" and len(found[word]) < COMPARED:
                found[word].append((text, tag))
    return found


def likeness(model: Any, by_word: dict[str, list[tuple[str, str]]]) -> list[tuple[float, float]]:
    """Return how alike a word is to itself at each layer: in the same sense, and in another."""
    same: dict[int, list[float]] = defaultdict(list)
    other: dict[int, list[float]] = defaultdict(list)
    for word in AMBIGUOUS:
        found = model.vectors.in_context(word, [text for text, _ in by_word[word]])
        senses = [sense for _, sense in by_word[word]]
        for a, b in combinations(range(len(senses)), 2):
            for layer in range(len(found.sites)):
                (same if senses[a] == senses[b] else other)[layer].append(float(found.alike[layer, a, b]))
    return [(mean(same[layer]), mean(other[layer])) for layer in sorted(same)]


def tell(kind: str, found: list[Probed], alike: list[list[tuple[float, float]]], bits: list[float]) -> None:
    first = found[0]
    print(f"\n{kind}: {mean(bits):.3f} bits per word")
    print(f"  {'layer':<34} {'accuracy':>8} {'control':>8} {'same sense':>11} {'other sense':>12}")
    for number, each in enumerate(first.layers):
        right, control = (mean(getattr(one.layers[number], part) for one in found) for part in ("accuracy", "control"))
        same, other = (mean(one[number][part] for one in alike) for part in (0, 1))
        print(f"  {number} {each.site:<32} {right:8.1%} {control:8.1%} {same:11.3f} {other:12.3f}")
    for name, part in (("the commonest sense of all", "majority"), ("the commonest of each word", "by_word")):
        print(f"  {name:<34} {mean(getattr(one.baselines, part) for one in found):8.1%}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=500, help="of training, for each model")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="a few steps: it shows that all of it runs")
    options = parser.parse_args()
    steps = 5 if options.quick else options.steps
    for kind in ("transformer", "backpack"):
        found, alike, bits = list[Probed](), list[list[tuple[float, float]]](), list[float]()
        for seed in range(1 if options.quick else options.seeds):
            with tempfile.TemporaryDirectory() as folder:
                made = recipe(kind, folder, 2_000 if options.quick else 20_000)
                model = satchel.train("@polysemy", recipe=made, seed=seed, out=Path(folder) / kind, steps=steps)
                bits.append(model.evaluate("@polysemy").nats_per_token / math.log(2))
                found.append(model.probe("@polysemy", leave_out=["-"], seed=seed))
                alike.append(likeness(model, contexts(seed)))
        tell(kind, found, alike, bits)


if __name__ == "__main__":
    main()
