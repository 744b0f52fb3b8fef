"""Are senses found? A Backpack and a Transformer read sentences whose words of two senses are known (@polysemy).

    python bench/senses.py [--seeds 3] [--threads 1] [--quick]

For every occurrence of an ambiguous word: the sense of it that adds most to what is said from there on, against the
sense that is meant. Adjusted mutual information (0 is chance, 1 is the same up to names) and purity, the mean over
words. Beside it: clusters (k-means, as many as there are senses) of what the Transformer makes of the same
occurrences, and labels drawn at random.
"""

import argparse
import statistics
import tempfile
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_mutual_info_score

import satchel
from measure import write_recipe
from satchel.datasets.polysemy import AMBIGUOUS, entropy_per_word
from satchel.datasets.registry import DATASETS
from satchel.inspection.contributions import of_text
from satchel.text.reading import DataSettings
from satchel.training.recipes import read_recipe

SHAPE = ("width", "layers", "heads", "context")


def sentences(seed: int, size: int) -> list[tuple[list[str], int, str]]:
    """Return held-out sentences with one ambiguous word: their words, where it stands, and the sense that is meant."""
    found = []
    for tags, text in DATASETS["@polysemy-senses"].generator(DataSettings(size=10 * size), seed, "test"):
        places = [place for place, tag in enumerate(tags.split()) if tag != "-"]
        if places:
            found.append((text.split(), places[0], tags.split()[places[0]]))
    return found


def recipe(kind: str, folder: str) -> Path:
    """Return the recipe, for a Backpack or for the Transformer inside it."""
    tree = read_recipe("polysemy")
    model = {key: value for key, value in tree["model"].items() if kind == "backpack" or key in SHAPE}
    return write_recipe({**tree, "model": {**model, "kind": kind}}, Path(folder) / "recipe.toml")


def ids_of(model: Any, words: list[str]) -> np.ndarray:
    tokenizer = model.tokenizer
    return np.array([tokenizer.boundary, *tokenizer.encode(" ".join(words)).ids, tokenizer.boundary])


def by_contribution(model: Any, words: list[str], place: int) -> int:
    """Return the sense of the word at a place that adds most to what follows."""
    values_TSN = of_text(model.network, ids_of(model, words))
    return int(values_TSN[:, place + 1].sum(axis=0).argmax())


def hidden(model: Any, words: list[str], place: int) -> Any:
    with torch.inference_mode():
        encoded = model.network.encoder.encode(torch.as_tensor(ids_of(model, words)[:-1])[None])
    return encoded[0, place + 1].numpy()


def purity(found: list[int], meant: list[str]) -> float:
    groups: dict[int, Counter[str]] = defaultdict(Counter)
    for own, true in zip(found, meant, strict=True):
        groups[own][true] += 1
    return sum(max(group.values()) for group in groups.values()) / len(meant)


def judged(found: dict[str, list[int]], meant: dict[str, list[str]]) -> tuple[float, float]:
    """Return the mean over words of adjusted mutual information and purity."""
    information = [adjusted_mutual_info_score(meant[word], found[word]) for word in meant]
    return statistics.mean(information), statistics.mean(purity(found[word], meant[word]) for word in meant)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=0, help="of each training; 0 is as many as there are")
    parser.add_argument("--quick", action="store_true", help="a few steps: it shows that all of it runs")
    options = parser.parse_args()
    rows: dict[str, list[tuple[float, float]]] = defaultdict(list)
    print(f"no model can need fewer than {entropy_per_word():.3f} bits per word")
    for seed in range(1 if options.quick else options.seeds):
        test = sentences(seed, 1000)
        budget: dict[str, Any] = {"threads": options.threads} | ({"steps": 20} if options.quick else {})
        with tempfile.TemporaryDirectory() as folder:
            backpack, transformer = (
                satchel.train("@polysemy", recipe=recipe(kind, folder), seed=seed, out=Path(folder) / kind, **budget)
                for kind in ("backpack", "transformer")
            )
            for model in (backpack, transformer):
                nats = model.evaluate("@polysemy").nats_per_token
                print(f"seed {seed}: {model.settings.model.kind} {nats / np.log(2):.3f} bits per word")
            meant = {word: [sense for words, place, sense in test if words[place] == word] for word in AMBIGUOUS}
            of_word = {word: [(words, place) for words, place, _ in test if words[place] == word] for word in AMBIGUOUS}
            chance = np.random.default_rng(seed)
            rows["Backpack: the sense that adds most"].append(
                judged({word: [by_contribution(backpack, *one) for one in of_word[word]] for word in AMBIGUOUS}, meant)
            )
            rows["Transformer: clusters of encodings"].append(
                judged(
                    {
                        word: KMeans(2, n_init=10, random_state=seed)
                        .fit_predict(np.stack([hidden(transformer, *one) for one in of_word[word]]))
                        .tolist()
                        for word in AMBIGUOUS
                    },
                    meant,
                )
            )
            rows["chance"].append(
                judged({word: chance.integers(0, 2, len(meant[word])).tolist() for word in AMBIGUOUS}, meant)
            )
    print(f"{'':<36} {'AMI':>6}  {'purity':>6}   by seed")
    for name, found in rows.items():
        information, pure = (statistics.mean(values) for values in zip(*found, strict=True))
        each = " ".join(f"{one:.3f}" for one, _ in found)
        print(f"{name:<36} {information:6.3f}  {pure:6.3f}   {each}")


if __name__ == "__main__":
    main()
