"""Ablations of Transformer components: train small models without a component and report the loss or accuracy.

    python bench/ablations.py [--only residuals] [--data DIR] [--quick]

Tables: positions (on @ab and @counting), scaling of attention scores, residual connections, normalisation, and recall
by distance (with recurrent models for comparison). Cells are means over three seeds with minimum and maximum. One
training runs per core, with one thread each. The text is tiny-shakespeare if DIR has it, otherwise @python-docs.
"""

import itertools
import math
import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import satchel
from measure import parser
from satchel.datasets.corpora import open_corpus
from satchel.evaluation.recall import Distance
from satchel.text.reading import DataSettings
from satchel.training.loop import DivergedError

SEEDS = (0, 1, 2)
POSITIONS = ("none", "learned", "sinusoidal", "rotary")
DEPTHS = (2, 8, 16)
# Number of characters for training, and of the held-out characters after them.
TRAIN_CHARACTERS, TEST_CHARACTERS = 500_000, 20_000
QUICK_STEPS, QUICK_EXAMPLES = 3, 200

Settings = Mapping[str, Any]
Table = list[list[str]]  # header, then rows
Metric = Callable[[Any, str], Any]  # of a model and held-out data


# --- training ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Training:
    """One training and the metric to compute afterwards."""

    data: str
    settings: tuple[tuple[str, Any], ...]
    steps: int
    seed: int
    metric: Metric
    test_data: str


class Ablations:
    """Runs trainings in parallel and caches their metrics, because tables share some of the models."""

    def __init__(self, workers: ProcessPoolExecutor, folder: Path, data: Path, quick: bool) -> None:
        self.workers, self.folder, self.quick = workers, folder, quick
        self.seeds = SEEDS[:1] if quick else SEEDS
        self.text_name, self.train_text, self.test_text = _split_text(data, folder, quick)
        self._cache: dict[Training, Any] = {}

    def measure(
        self,
        data: str,
        rows: Sequence[Settings],
        metric: Metric,
        *,
        steps: int,
        test_data: str = "",
        seeds: Sequence[int] = (),
    ) -> list[list[Any]]:
        """Return the metric of the models with each row's settings, one per seed; None if the training diverged.

        Without `test_data`, the metric is computed on the test split of `data`.
        """
        size = {"data.size": QUICK_EXAMPLES} if self.quick else {}
        steps = QUICK_STEPS if self.quick else steps
        trainings = [
            [
                Training(data, tuple(sorted({**size, **row}.items())), steps, seed, metric, test_data or data)
                for seed in seeds or self.seeds
            ]
            for row in rows
        ]
        new = [training for row in trainings for training in row if training not in self._cache]
        # Start with the deepest models, which take longest, so that all cores finish at about the same time.
        new.sort(key=lambda training: -dict(training.settings).get("model.layers", 1))
        futures = {training: self.workers.submit(_train, training, self.folder) for training in new}
        self._cache |= {training: future.result() for training, future in futures.items()}
        return [[self._cache[training] for training in row] for row in trainings]


def _train(training: Training, folder: Path) -> Any:
    """Train one model in a temporary run folder and return its metric; None if the training diverged."""
    settings = dict(training.settings)
    with tempfile.TemporaryDirectory(dir=folder) as run_folder:
        try:
            model = satchel.train(
                training.data,
                model=settings.pop("model.kind", "transformer"),
                steps=training.steps,
                seed=training.seed,
                threads=1,
                valid=0.0,  # no validation: the metric uses separate data
                settings=settings,
                out=Path(run_folder) / "run",
                force=True,
            )
        except DivergedError:
            return None
        return training.metric(model, training.test_data)


def _use_one_thread() -> None:
    """Limit torch to one thread: each core runs one worker."""
    import torch

    torch.set_num_threads(1)


def _split_text(data: Path, folder: Path, quick: bool) -> tuple[str, str, str]:
    """Return the name of the text and the paths of its training part and its held-out part."""
    path = data / "tiny-shakespeare" / "input.txt"
    if path.exists():
        name, text = "tiny-shakespeare", path.read_text(encoding="utf-8")
    else:
        name = "@python-docs"
        text = "".join(piece.text for piece in open_corpus(name, DataSettings()).pieces())
    divisor = 20 if quick else 1
    end = TRAIN_CHARACTERS // divisor
    train, test = folder / "train.txt", folder / "test.txt"
    train.write_text(text[:end], encoding="utf-8")
    test.write_text(text[end : end + TEST_CHARACTERS // divisor], encoding="utf-8")
    return name, str(train), str(test)


# --- metrics -----------------------------------------------------------------------------------------


def last_letters(model: Any, test_data: str) -> tuple[float, float]:
    """Return the number of the 16 strings of @ab whose next letter has the top probability, and its mean loss."""
    del test_data
    correct, nats = 0, list[float]()
    for letters in itertools.product("AB", repeat=4):
        answer = "B" if "B" in letters else "A"
        following = model.next("".join(letters), top=model.predictor.vocabulary)
        correct += following.tokens[0] == answer
        nats.append(-math.log(following.probabilities[following.tokens.index(answer)]))
    return float(correct), statistics.mean(nats)


def accuracy(model: Any, test_data: str) -> float:
    """Return the accuracy of a tagger."""
    value: float = model.evaluate(test_data).accuracy
    return value


def loss(model: Any, test_data: str) -> float:
    """Return the loss of a language model in nats per token."""
    value: float = model.evaluate(test_data).nats_per_token
    return value


def recall_by_distance(model: Any, test_data: str) -> list[Distance]:
    """Return accuracy and loss of the last word of a document, by the distance to its first occurrence."""
    distances: list[Distance] = model.recall(test_data)
    return distances


# --- tables ------------------------------------------------------------------------------------------


def positions_ab(ablations: Ablations) -> Table:
    """Return accuracy and loss of the last letter of the strings of @ab, by kind of position encoding."""
    model = {"model.width": 32, "model.layers": 1, "model.heads": 2, "model.context": 8}
    rows = [{**model, "model.positions": positions} for positions in POSITIONS]
    table = [["positions", "correct of 16", "nats of the last letter"]]
    for positions, values in zip(POSITIONS, ablations.measure("@ab", rows, last_letters, steps=300), strict=True):
        correct, nats = ([None if value is None else value[column] for value in values] for column in (0, 1))
        table.append([positions, _summary(correct, "{:.1f}"), _summary(nats, "{:.3f}")])
    return table


def positions_counting(ablations: Ablations) -> Table:
    """Return the tag accuracy on @counting, by kind of position encoding."""
    model = {"model.width": 64, "model.layers": 2, "model.heads": 2, "model.context": 20, "training.batch_tokens": 2048}
    rows = [{**model, "model.positions": positions} for positions in POSITIONS]
    accuracies = ablations.measure("@counting", rows, accuracy, steps=500)
    cells = [[positions, _summary(values, "{:.1%}")] for positions, values in zip(POSITIONS, accuracies, strict=True)]
    return [["positions", "tag accuracy"], *cells]


# Settings shared by the character models.
CHARACTER_MODEL = {"tokenizer.kind": "char", "model.context": 64, "training.batch_tokens": 1024}


def scaling(ablations: Ablations) -> Table:
    """Return the loss with and without scaled attention scores, for plain and for normalised queries and keys."""
    kinds = {"not normalised": False, "normalised": True}
    scales = {"scaled": "head", "not scaled": "none"}
    rows = [
        {**CHARACTER_MODEL, "model.layers": 2, "model.heads": 2, "model.normalise": normalise, "model.scale": scale}
        for normalise in kinds.values()
        for scale in scales.values()
    ]
    losses = ablations.measure(ablations.train_text, rows, loss, steps=400, test_data=ablations.test_text)
    return _grid("queries and keys", list(kinds), list(scales), losses)


def residuals(ablations: Ablations) -> Table:
    """Return the loss with and without residual connections, by depth."""
    variants = {"with": {"model.residual": True}, "without": {"model.residual": False}}
    return _by_depth(ablations, "residual connections", variants)


def norms(ablations: Ablations) -> Table:
    """Return the loss by position of the normalisation and by depth."""
    names = {"pre-norm": "pre", "post-norm": "post", "none": "none"}
    return _by_depth(ablations, "norm", {name: {"model.norm": norm} for name, norm in names.items()})


def _by_depth(ablations: Ablations, corner: str, variants: Mapping[str, Settings]) -> Table:
    model = {**CHARACTER_MODEL, "model.width": 64, "model.heads": 2, "model.residual": True, "model.norm": "pre"}
    rows = [{**model, **variant, "model.layers": depth} for variant in variants.values() for depth in DEPTHS]
    losses = ablations.measure(ablations.train_text, rows, loss, steps=250, test_data=ablations.test_text)
    return _grid(corner, list(variants), [f"{depth} layers" for depth in DEPTHS], losses)


def recall(ablations: Ablations) -> Table:
    """Return accuracy and loss of the last word of documents of @recall, by distance and kind of model."""
    kinds: dict[str, Settings] = {
        "rnn": {"model.width": 128},
        "lstm": {"model.width": 128},
        "transformer": {"model.layers": 2, "model.heads": 4, "model.context": 256},
    }
    # Training windows cover the longest document: a word outside the window cannot be recalled.
    rows = [{"model.kind": kind, "training.length": 256, **settings} for kind, settings in kinds.items()]
    measured = ablations.measure("@recall", rows, recall_by_distance, steps=1500, seeds=SEEDS[:1])
    by_kind = [values[0] for values in measured]
    bins = next(distances for distances in by_kind if distances is not None)
    table = [["distance in words", "documents", *kinds]]
    for number, bin_ in enumerate(bins):
        label = f"{bin_.nearest}" if bin_.nearest == bin_.farthest else f"{bin_.nearest}-{bin_.farthest}"
        cells = [
            "diverged" if distances is None else f"{distances[number].accuracy:.0%}, {distances[number].nats:.2f} nats"
            for distances in by_kind
        ]
        table.append([label, f"{bin_.documents:,}", *cells])
    return table


def _grid(corner: str, names: Sequence[str], columns: Sequence[str], losses: Sequence[list[Any]]) -> Table:
    """Return a table of losses; `losses` has one list of values per cell, in row-major order."""
    cells = iter([_summary(values, "{:.3f}") for values in losses])
    return [[corner, *columns], *([name, *(next(cells) for _ in columns)] for name in names)]


def _summary(values: Sequence[float | None], form: str) -> str:
    """Return mean, minimum and maximum as text, and the number of diverged trainings (None) if there are any."""
    finite = [value for value in values if value is not None]
    diverged = f"{len(values) - len(finite)} of {len(values)} diverged" if len(finite) < len(values) else ""
    if not finite:
        return diverged
    text = form.format(statistics.mean(finite))
    if len(finite) > 1:
        text += f" ({form.format(min(finite))} to {form.format(max(finite))})"
    return f"{text}; {diverged}" if diverged else text


# Caption and function of each table; {text} is replaced by the name of the text.
TABLES: dict[str, tuple[str, Callable[[Ablations], Table]]] = {
    "positions-ab": (
        "Causal Transformer with one layer on `@ab`: number of the 16 strings with the correct next letter (constant "
        "answer B: 15) and loss of the last letter.",
        positions_ab,
    ),
    "positions-counting": (
        "Bidirectional Transformer on `@counting`: without positions it cannot distinguish earlier from later letters.",
        positions_counting,
    ),
    "scaling": (
        "Attention scores with and without division by the square root of the head width: nats per character of "
        "{text}.",
        scaling,
    ),
    "residuals": ("Residual connections by depth: nats per character of {text}.", residuals),
    "norms": ("Position of the normalisation by depth: nats per character of {text}.", norms),
    "recall": (
        "Accuracy and loss of the name at the end of a document of `@recall`, by distance to its first occurrence "
        "(random guess: 1 of 30, 3.40 nats).",
        recall,
    ),
}


def main() -> None:
    arguments = parser(__doc__, "--data", "--quick")
    arguments.add_argument("--only", choices=TABLES, action="append", help="table to compute; can be repeated")
    options = arguments.parse_args()
    cores = len(os.sched_getaffinity(0))
    # Spawn instead of fork: torch does not work in forked workers.
    context = multiprocessing.get_context("spawn")
    with (
        tempfile.TemporaryDirectory() as folder,
        ProcessPoolExecutor(cores, mp_context=context, initializer=_use_one_thread) as workers,
    ):
        ablations = Ablations(workers, Path(folder), options.data, options.quick)
        for name in options.only or TABLES:
            caption, compute = TABLES[name]
            began = time.perf_counter()
            header, *rows = compute(ablations)
            print(f"\n**{name}** ({time.perf_counter() - began:,.0f} s). {caption.format(text=ablations.text_name)}\n")
            for row in (header, ["---"] * len(header), *rows):
                print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
