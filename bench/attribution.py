"""How far off are approximations? Attribution methods on Backpacks, whose contributions are known exactly.

    python bench/attribution.py [--minutes 2] [--texts 100] [--only language] [--run RUN] [--data DIR] [--quick]

A Backpack language model (tiny-shakespeare, pieces of words) and a Backpack classifier (SST-2, whole sentences) learn
for some minutes each, or come from a run. Then held-out texts are explained: the score of the likeliest next token
above the second likeliest one's, and that of the likeliest label above another's. By method: the mean over texts of the
rank correlation (Spearman's) of what it says each word adds with what its senses add, how often both put the same word
first, the gap (what the values add up to, less what there is to share out) as a share of the latter (its median; it may
be next to nothing), the steps of integrated gradients, and the time for a text. What stands in the place of a word is
the mean of all vectors, or words drawn from the vocabulary.
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
from satchel.api.attribution import compared
from satchel.inspection.attribution import INSTEADS, METHODS, Instead

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
# How long the beginnings are that a language model goes on from, in tokens.
SHORTEST, LONGEST = 8, 40


@dataclass(frozen=True)
class Asked:
    """A text, and what is explained."""

    text: str
    target: Any
    versus: Any


def trained(kind: str, data: Path, folder: Path, options: argparse.Namespace) -> Any:
    """Return a Backpack for one task."""
    budget: dict[str, Any] = {"steps": 5} if options.quick else {"minutes": options.minutes}
    if kind == "language":
        return satchel.train(
            data / "tiny-shakespeare" / "input.txt", model="backpack", tokenizer="bpe", out=folder / kind, **budget
        )
    lines = (data / "sst2" / "stsa.binary.train").read_text(encoding="utf-8").rstrip("\n").split("\n")
    table = folder / "sst2.csv"
    with open(table, "w", encoding="utf-8", newline="") as handle:
        csv.writer(handle).writerows([("label", "text"), *((line[0], line[2:]) for line in lines)])
    return satchel.train(table, model="backpack", out=folder / kind, **budget)


def prefixes(model: Any, count: int) -> Iterator[Asked]:
    """Return beginnings from all over the held-out text, with the two likeliest tokens after each."""
    ids = model.valid_tokens().ids[1:-1]
    chance = np.random.default_rng(0)
    for start in np.linspace(0, len(ids) - LONGEST - 1, count).astype(int):
        text = model.tokenizer.decode(ids[start : start + chance.integers(SHORTEST, LONGEST + 1)])
        first, second = model.next(text, top=2).ids
        yield Asked(text, first, second)


def rows(model: Any, data: Path, count: int) -> Iterator[Asked]:
    """Return test sentences, each with the label that the classifier gives it and the other one."""
    lines = (data / "sst2" / "stsa.binary.test").read_text(encoding="utf-8").rstrip("\n").split("\n")
    texts = [line[2:] for line in lines[:: len(lines) // count]][:count]
    for found in model.predict(texts):
        first, second = list(found.probabilities)[:2]
        yield Asked(found.text, first, second)


def measure(model: Any, asked: list[Asked], instead: Instead) -> None:
    """Print how each method fares."""
    correlations, firsts, gaps, steps, seconds = (defaultdict[str, list[float]](list) for _ in range(5))
    for each in asked:
        for method in METHODS:
            began = time.perf_counter()
            found = compared(model, each.text, each.target, each.versus, (method,), instead=instead)
            seconds[method].append(time.perf_counter() - began)
            (own,), exact = found.methods, found.exact
            assert exact is not None, "only of a Backpack is the truth known"
            correlations[method].append(found.correlations[method])
            firsts[method].append(float(own.values.argmax() == exact.argmax()))
            gaps[method].append(abs(own.gap) / abs(own.score - own.baseline))
            steps[method].append(own.steps or 0)
    print(f"instead: {instead:<8}{'rank correlation':>12}{'same first':>12}{'gap':>9}{'steps':>7}{'ms':>8}")
    for method in METHODS:
        ranks = correlations[method]
        error = statistics.stdev(ranks) / len(ranks) ** 0.5
        taken = f"{statistics.mean(steps[method]):.0f}" if any(steps[method]) else "-"
        print(
            f"  {method:<14}{statistics.mean(ranks):>9.3f} ± {error:.3f}{statistics.mean(firsts[method]):>12.0%}"
            f"{statistics.median(gaps[method]):>9.2%}{taken:>7}{1000 * statistics.mean(seconds[method]):>8.1f}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=2.0, help="of training, for each model")
    parser.add_argument("--texts", type=int, default=100)
    parser.add_argument("--only", choices=("language", "classifier"))
    parser.add_argument("--run", type=Path, help="a run of the task of --only, instead of training")
    parser.add_argument("--data", type=Path, default=SHARED)
    parser.add_argument("--quick", action="store_true", help="a few steps and texts: it shows that all of it runs")
    options = parser.parse_args()
    if options.run is not None and options.only is None:
        parser.error("--run is for one task: give --only too")
    count = 5 if options.quick else options.texts
    for kind in ("language", "classifier"):
        if options.only not in (None, kind):
            continue
        with tempfile.TemporaryDirectory() as folder:
            model = satchel.load(options.run) if options.run else trained(kind, options.data, Path(folder), options)
            if model.report is not None and model.report.valid is not None:
                valid = model.report.valid
                quality = f"{valid.bits_per_byte:.3f} bits per byte" if kind == "language" else f"{valid.accuracy:.1%}"
                print(f"{kind}: {quality} on what was held out, {model.report.seconds:.0f} s of training")
            asked = list(prefixes(model, count) if kind == "language" else rows(model, options.data, count))
            words = statistics.mean(len(each.text.split()) for each in asked)
            print(f"{len(asked)} texts of {words:.0f} words in the mean")
            for instead in INSTEADS:
                measure(model, asked, instead)


if __name__ == "__main__":
    main()
