"""Agreement of a Backpack's senses with the meanings of ambiguous words (@polysemy), against clusters of a Transformer.

    python bench/senses.py [--seeds 3] [--threads 1] [--quick]

Every held-out occurrence of an ambiguous word gets a label: the sense with the largest contribution to the predictions
from there on (Backpack), a k-means cluster of its encoding with k = number of meanings (Transformer), or a random
label. Prints adjusted mutual information (AMI: 0 is chance, 1 is identity up to renaming) and purity of the labels with
respect to the meanings, as means over the words.
"""

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
from measure import parser, polysemy_recipe, write_recipe
from satchel.datasets.polysemy import AMBIGUOUS, entropy_per_word
from satchel.datasets.registry import DATASETS
from satchel.inspection.contributions import by_position
from satchel.text.reading import DataSettings

Occurrence = tuple[list[str], int]  # words of a sentence, and the index of the ambiguous word


def occurrences(seed: int, size: int) -> list[tuple[Occurrence, str]]:
    """Return held-out sentences with an ambiguous word, and the meaning of its first occurrence."""
    result = []
    for tags, text in DATASETS["@polysemy-senses"].generator(DataSettings(size=10 * size), seed, "test"):
        positions = [position for position, tag in enumerate(tags.split()) if tag != "-"]
        if positions:
            result.append(((text.split(), positions[0]), tags.split()[positions[0]]))
    return result


def encode(model: Any, words: list[str]) -> np.ndarray:
    """Return the token ids of a sentence between two boundary tokens."""
    tokenizer = model.tokenizer
    return np.array([tokenizer.boundary, *tokenizer.encode(" ".join(words)).ids, tokenizer.boundary])


def main_sense(model: Any, words: list[str], position: int) -> int:
    """Return the sense of a word with the largest sum of contributions to the following predictions."""
    values_TSN = by_position(model.network, encode(model, words))
    return int(values_TSN[:, position + 1].sum(axis=0).argmax())


def encoding(model: Any, words: list[str], position: int) -> Any:
    """Return the encoding of a word in its sentence."""
    with torch.inference_mode():
        encoded_BTD = model.network.encoder.encode(torch.as_tensor(encode(model, words)[:-1])[None])
    return encoded_BTD[0, position + 1].numpy()


def purity(labels: list[int], meanings: list[str]) -> float:
    """Return the share of occurrences with the most frequent meaning of their label."""
    groups: dict[int, Counter[str]] = defaultdict(Counter)
    for label, meaning in zip(labels, meanings, strict=True):
        groups[label][meaning] += 1
    return sum(max(group.values()) for group in groups.values()) / len(meanings)


def agreement(labels: dict[str, list[int]], meanings: dict[str, list[str]]) -> tuple[float, float]:
    """Return adjusted mutual information and purity, as means over the words."""
    information = [adjusted_mutual_info_score(meanings[word], labels[word]) for word in meanings]
    return statistics.mean(information), statistics.mean(purity(labels[word], meanings[word]) for word in meanings)


def main() -> None:
    arguments = parser(__doc__, "--threads", "--quick")
    arguments.add_argument("--seeds", type=int, default=3, help="number of seeds")
    options = arguments.parse_args()
    results: dict[str, list[tuple[float, float]]] = defaultdict(list)
    budget: dict[str, Any] = {"threads": options.threads} | ({"steps": 20} if options.quick else {})
    print(f"entropy of the data: {entropy_per_word():.3f} bits per word")
    for seed in range(1 if options.quick else options.seeds):
        by_word: dict[str, list[Occurrence]] = {word: [] for word in AMBIGUOUS}
        meanings: dict[str, list[str]] = {word: [] for word in AMBIGUOUS}
        for (words, position), meaning in occurrences(seed, 1000):
            by_word[words[position]].append((words, position))
            meanings[words[position]].append(meaning)
        models = {}
        with tempfile.TemporaryDirectory() as folder:
            for kind in ("backpack", "transformer"):
                path = write_recipe(polysemy_recipe(kind), Path(folder) / "recipe.toml")
                model = satchel.train("@polysemy", recipe=path, seed=seed, out=Path(folder) / kind, **budget)
                nats = model.evaluate("@polysemy").nats_per_token
                print(f"seed {seed}: {kind} {nats / np.log(2):.3f} bits per word")
                models[kind] = model
            rng = np.random.default_rng(seed)
            senses, clusters, random_labels = dict[str, list[int]](), dict[str, list[int]](), dict[str, list[int]]()
            for word, examples in by_word.items():
                senses[word] = [main_sense(models["backpack"], *example) for example in examples]
                encodings = np.stack([encoding(models["transformer"], *example) for example in examples])
                clusters[word] = KMeans(2, n_init=10, random_state=seed).fit_predict(encodings).tolist()
                random_labels[word] = rng.integers(0, 2, len(examples)).tolist()
        results["Backpack: sense, largest contribution"].append(agreement(senses, meanings))
        results["Transformer: clusters of encodings"].append(agreement(clusters, meanings))
        results["random labels"].append(agreement(random_labels, meanings))
    print(f"{'':<38} {'AMI':>6}  {'purity':>6}   AMI by seed")
    for name, values in results.items():
        information, mean_purity = (statistics.mean(column) for column in zip(*values, strict=True))
        by_seed = " ".join(f"{ami:.3f}" for ami, _ in values)
        print(f"{name:<38} {information:6.3f}  {mean_purity:6.3f}   {by_seed}")


if __name__ == "__main__":
    main()
