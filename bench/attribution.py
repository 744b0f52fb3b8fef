"""Accuracy of approximate attribution methods on Backpacks, whose contributions are known exactly.

    python bench/attribution.py [--minutes 2] [--texts 100] [--only language] [--run RUN] [--data DIR] [--quick]

Trains a Backpack language model (tiny-shakespeare, BPE) and a Backpack classifier (SST-2), or loads a run, and
attributes the margin of the most likely next token (or label) over the second on held-out texts. Columns, for each
method and baseline (mean embedding, or random words of the vocabulary):

- Spearman correlation with the exact contributions, mean over the texts with its standard error;
- share of texts with the same top word;
- gap (sum of the attributions minus the score difference), median in % of the score difference;
- mean number of steps of integrated gradients;
- mean time per text.
"""

import argparse
import csv
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import satchel
from measure import parser, read_sst2
from satchel.inspection.attribution import INSTEADS, METHODS, Instead

# Minimum and maximum number of tokens of a prompt of the language model.
SHORTEST, LONGEST = 8, 40


@dataclass(frozen=True)
class Example:
    """A text, its most likely token or label, and the second most likely one."""

    text: str
    target: Any
    versus: Any


def train(kind: str, folder: Path, options: argparse.Namespace) -> Any:
    """Return a Backpack language model or classifier."""
    budget: dict[str, Any] = {"steps": 5} if options.quick else {"minutes": options.minutes}
    if kind == "language":
        text = options.data / "tiny-shakespeare" / "input.txt"
        return satchel.train(text, model="backpack", tokenizer="bpe", out=folder / kind, **budget)
    table = folder / "sst2.csv"
    with open(table, "w", encoding="utf-8", newline="") as handle:
        csv.writer(handle).writerows([("label", "text"), *read_sst2(options.data, "train")])
    return satchel.train(table, model="backpack", out=folder / kind, **budget)


def prompts(model: Any, count: int) -> Iterator[Example]:
    """Yield prompts from equally spaced positions of the held-out text."""
    ids = model.valid_tokens().ids[1:-1]
    rng = np.random.default_rng(0)
    for start in np.linspace(0, len(ids) - LONGEST - 1, count).astype(int):
        text = model.tokenizer.decode(ids[start : start + rng.integers(SHORTEST, LONGEST + 1)])
        first, second = model.next(text, top=2).ids
        yield Example(text, first, second)


def sentences(model: Any, data: Path, count: int) -> Iterator[Example]:
    """Yield equally spaced sentences of the test set of SST-2."""
    rows = read_sst2(data, "test")
    texts = [text for _, text in rows[:: len(rows) // count]][:count]
    for prediction in model.predict(texts):
        first, second = list(prediction.probabilities)[:2]
        yield Example(prediction.text, first, second)


def compare_methods(model: Any, examples: list[Example], instead: Instead) -> None:
    """Print one row of metrics for each method."""
    correlations, same_top, gaps, steps, seconds = (defaultdict[str, list[float]](list) for _ in range(5))
    for example in examples:
        comparison = model.compare_attributions(example.text, example.target, example.versus, instead=instead)
        for attribution in comparison.methods:
            method = attribution.method
            correlations[method].append(comparison.correlations[method])
            same_top[method].append(float(attribution.values.argmax() == comparison.exact.argmax()))
            gaps[method].append(abs(attribution.gap) / abs(attribution.score - attribution.baseline))
            steps[method].append(attribution.steps or 0)
            began = time.perf_counter()
            model.attributions(example.text, example.target, example.versus, method, instead=instead)
            seconds[method].append(time.perf_counter() - began)
    print(f"baseline: {instead:<6}{'Spearman':>12}{'same top word':>17}{'gap':>9}{'steps':>7}{'ms':>8}")
    for method in METHODS:
        values = correlations[method]
        error = statistics.stdev(values) / len(values) ** 0.5
        mean_steps = f"{statistics.mean(steps[method]):.0f}" if any(steps[method]) else "-"
        print(
            f"  {method:<14}{statistics.mean(values):>9.3f} ± {error:.3f}{statistics.mean(same_top[method]):>12.0%}"
            f"{statistics.median(gaps[method]):>9.2%}{mean_steps:>7}{1000 * statistics.mean(seconds[method]):>8.1f}",
            flush=True,
        )


def main() -> None:
    arguments = parser(__doc__, "--data", "--quick")
    arguments.add_argument("--minutes", type=float, default=2.0, help="training time of each model")
    arguments.add_argument("--texts", type=int, default=100, help="number of held-out texts")
    arguments.add_argument("--only", choices=("language", "classifier"), help="one of the two models")
    arguments.add_argument("--run", type=Path, help="run folder of the model of --only, instead of training")
    options = arguments.parse_args()
    if options.run is not None and options.only is None:
        arguments.error("--run requires --only")
    count = 5 if options.quick else options.texts
    for kind in ("language", "classifier"):
        if options.only not in (None, kind):
            continue
        with tempfile.TemporaryDirectory() as folder:
            model: Any = satchel.load(options.run) if options.run else train(kind, Path(folder), options)
            if model.report is not None and model.report.valid is not None:
                valid = model.report.valid
                quality = (
                    f"{valid.bits_per_byte:.3f} bits per byte"
                    if kind == "language"
                    else f"accuracy {valid.accuracy:.1%}"
                )
                print(f"{kind}: {quality} on held-out data, {model.report.seconds:.0f} s of training")
            examples = list(prompts(model, count) if kind == "language" else sentences(model, options.data, count))
            words = statistics.mean(len(example.text.split()) for example in examples)
            print(f"{len(examples)} texts of {words:.0f} words on average")
            for instead in INSTEADS:
                compare_methods(model, examples, instead)


if __name__ == "__main__":
    main()
