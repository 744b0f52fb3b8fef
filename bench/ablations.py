"""What the parts of a Transformer are for: each is taken out, and what is lost is measured.

    python bench/ablations.py [--only residuals] [--data DIR] [--quick]

A table is made of trainings that differ in what its rows and columns name: as many at once as there are cores, one
thread each. What is shown is the mean over three seeds, and in brackets the lowest and the highest of them. The small
text is tiny-shakespeare where that is found below DIR, else Python's own documentation. `--quick` has few steps and
one seed: it shows that all of it runs, and nothing else.
"""

import argparse
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
from satchel.datasets.corpora import open_corpus
from satchel.evaluation.recall import Distance
from satchel.text.reading import DataSettings
from satchel.training.loop import DivergedError

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
SEEDS = (0, 1, 2)
POSITIONS = ("none", "learned", "sinusoidal", "rotary")
DEPTHS = (2, 8, 16)
# Characters of the small text that models are trained on, and of what follows it, which they are asked.
TRAINED, ASKED = 500_000, 20_000
QUICK_STEPS, QUICK_EXAMPLES = 3, 200

Settings = Mapping[str, Any]
Cells = list[list[str]]  # the rows of a table, its header first


# --- training ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Training:
    """One training, and what is asked of the model after it."""

    data: str
    settings: tuple[tuple[str, Any], ...]
    steps: int
    seed: int
    ask: Callable[[Any, str], Any]  # of a model and of data it was not trained on
    asked: str


class Bench:
    """Trains models, some at once, and remembers what each answered: tables may share them."""

    def __init__(self, workers: ProcessPoolExecutor, folder: Path, data: Path, quick: bool) -> None:
        self.workers, self.folder, self.quick = workers, folder, quick
        self.seeds = SEEDS[:1] if quick else SEEDS
        self.name, self.text, self.held = _small_text(data, folder, quick)
        self._answers: dict[Training, Any] = {}

    def answers(
        self,
        data: str,
        rows: Sequence[Settings],
        ask: Callable[[Any, str], Any],
        *,
        steps: int,
        asked: str = "",
        seeds: Sequence[int] = (),
    ) -> list[list[Any]]:
        """Return what the model with each row's settings answers, for every seed; None where training diverged.

        The models are asked about `asked`; without it about the data's own part for that.
        """
        usual = {"data.size": QUICK_EXAMPLES} if self.quick else {}
        steps = QUICK_STEPS if self.quick else steps
        wanted = [
            [
                Training(data, tuple(sorted({**usual, **row}.items())), steps, seed, ask, asked or data)
                for seed in seeds or self.seeds
            ]
            for row in rows
        ]
        new = [training for row in wanted for training in row if training not in self._answers]
        # The deepest take longest: if they come first, no core waits for another in the end.
        new.sort(key=lambda training: -dict(training.settings).get("model.layers", 1))
        futures = {training: self.workers.submit(_carry_out, training, self.folder) for training in new}
        self._answers |= {training: future.result() for training, future in futures.items()}
        return [[self._answers[training] for training in row] for row in wanted]


def _carry_out(training: Training, folder: Path) -> Any:
    """Train one model in a folder of its own, and return what it answers; None if it diverged."""
    settings = dict(training.settings)
    with tempfile.TemporaryDirectory(dir=folder) as own:
        try:
            model = satchel.train(
                training.data,
                model=settings.pop("model.kind", "transformer"),
                steps=training.steps,
                seed=training.seed,
                threads=1,
                valid=0.0,  # what is asked is other data: nothing is held out of this, or looked at on the way
                settings=settings,
                out=Path(own) / "run",
                force=True,
            )
        except DivergedError:
            return None
        return training.ask(model, training.asked)


def _one_thread() -> None:
    """Leave the other cores to the other workers."""
    import torch

    torch.set_num_threads(1)


def _small_text(data: Path, folder: Path, quick: bool) -> tuple[str, str, str]:
    """Return the name of a text, a file of it to train on, and one with what follows in it."""
    path = data / "tiny-shakespeare" / "input.txt"
    if path.exists():
        name, text = "tiny-shakespeare", path.read_text(encoding="utf-8")
    else:
        name = "@python-docs"
        text = "".join(piece.text for piece in open_corpus(name, DataSettings()).pieces())
    trained, asked = (TRAINED // 20, ASKED // 20) if quick else (TRAINED, ASKED)
    train, held = folder / "train.txt", folder / "held.txt"
    train.write_text(text[:trained], encoding="utf-8")
    held.write_text(text[trained : trained + asked], encoding="utf-8")
    return name, str(train), str(held)


# --- what is asked -----------------------------------------------------------------------------------


def last_letters(model: Any, asked: str) -> tuple[float, float]:
    """Return after how many of the 16 strings of @ab the right letter is likeliest, and its mean cost in nats."""
    del asked
    right, nats = 0, list[float]()
    for letters in itertools.product("AB", repeat=4):
        answer = "B" if "B" in letters else "A"
        following = model.next("".join(letters), top=model.predictor.vocabulary)
        right += following.tokens[0] == answer
        nats.append(-math.log(following.probabilities[following.tokens.index(answer)]))
    return float(right), statistics.mean(nats)


def accuracy(model: Any, asked: str) -> float:
    """Return the share of right tags."""
    found: float = model.evaluate(asked).accuracy
    return found


def loss(model: Any, asked: str) -> float:
    """Return the nats per token of a text."""
    found: float = model.evaluate(asked).nats_per_token
    return found


def distances(model: Any, asked: str) -> list[Distance]:
    """Return how well the last word of a document is recalled, by how far back it stood."""
    found: list[Distance] = model.recall(asked)
    return found


# --- tables ------------------------------------------------------------------------------------------


def positions_ab(bench: Bench) -> Cells:
    """Return a row for each kind of positions: strings of @ab that go on right, and what the last letters cost."""
    model = {"model.width": 32, "model.layers": 1, "model.heads": 2, "model.context": 8}
    rows = [{**model, "model.positions": positions} for positions in POSITIONS]
    found = bench.answers("@ab", rows, last_letters, steps=300)
    cells = [["positions", "right of 16", "nats of the last letter"]]
    for positions, answers in zip(POSITIONS, found, strict=True):
        sides = [_each(answers, side) for side in (0, 1)]
        cells.append([positions, _shown(sides[0], "{:.1f}"), _shown(sides[1], "{:.3f}")])
    return cells


def positions_counting(bench: Bench) -> Cells:
    """Return a row for each kind of positions: the share of right tags of @counting."""
    model = {"model.width": 64, "model.layers": 2, "model.heads": 2, "model.context": 20, "training.batch_tokens": 2048}
    rows = [{**model, "model.positions": positions} for positions in POSITIONS]
    found = bench.answers("@counting", rows, accuracy, steps=500)
    cells = [[positions, _shown(answers, "{:.1%}")] for positions, answers in zip(POSITIONS, found, strict=True)]
    return [["positions", "right tags"], *cells]


# What the models of the small text have in common.
SMALL = {"tokenizer.kind": "char", "model.context": 64, "training.batch_tokens": 1024}


def scaling(bench: Bench) -> Cells:
    """Return a row for plain and for normed queries and keys: the loss with scores that are scaled and that are not."""
    kinds = {"as they are": False, "normed": True}
    scales = {"divided by the root of the width": "head", "not divided": "none"}
    rows = [
        {**SMALL, "model.layers": 2, "model.heads": 2, "model.normalise": normalise, "model.scale": scale}
        for normalise in kinds.values()
        for scale in scales.values()
    ]
    found = bench.answers(bench.text, rows, loss, steps=400, asked=bench.held)
    return _grid("queries and keys", list(kinds), [f"scores {name}" for name in scales], found)


def residuals(bench: Bench) -> Cells:
    """Return a row with residuals and one without: the loss by depth."""
    sides = {"with residuals": True, "without": False}
    return _by_depth(bench, "", {name: {"model.residual": residual} for name, residual in sides.items()})


def norms(bench: Bench) -> Cells:
    """Return a row for each place of the norms: the loss by depth."""
    places = {"before each part": "pre", "after each sum": "post", "none": "none"}
    return _by_depth(bench, "norm", {name: {"model.norm": norm} for name, norm in places.items()})


def _by_depth(bench: Bench, corner: str, sides: Mapping[str, Settings]) -> Cells:
    usual = {**SMALL, "model.width": 64, "model.heads": 2, "model.residual": True, "model.norm": "pre"}
    rows = [{**usual, **side, "model.layers": depth} for side in sides.values() for depth in DEPTHS]
    found = bench.answers(bench.text, rows, loss, steps=250, asked=bench.held)
    return _grid(corner, list(sides), [f"{depth} layers" for depth in DEPTHS], found)


def recall(bench: Bench) -> Cells:
    """Return a row for each stretch of distances: how often each kind of model recalls, and what the word costs it."""
    kinds: dict[str, Settings] = {
        "rnn": {"model.width": 128},
        "lstm": {"model.width": 128},
        "transformer": {"model.layers": 2, "model.heads": 4, "model.context": 256},
    }
    # The longest document is to be read whole: what is cut off its beginning cannot be recalled.
    rows = [{"model.kind": kind, "training.length": 256, **own} for kind, own in kinds.items()]
    found = [answers[0] for answers in bench.answers("@recall", rows, distances, steps=1500, seeds=SEEDS[:1])]
    whole = next(answer for answer in found if answer is not None)
    cells = [["words back", "documents", *kinds]]
    for number, stretch in enumerate(whole):
        back = f"{stretch.nearest}" if stretch.nearest == stretch.farthest else f"{stretch.nearest}-{stretch.farthest}"
        sides = ["diverged" if side is None else _recalled(side[number]) for side in found]
        cells.append([back, f"{stretch.documents:,}", *sides])
    return cells


def _recalled(found: Distance) -> str:
    return f"{found.accuracy:.0%}, {found.nats:.2f} nats"


def _grid(corner: str, names: Sequence[str], columns: Sequence[str], found: Sequence[list[Any]]) -> Cells:
    """Return losses, given row by row, as a table."""
    shown = iter([_shown(answers, "{:.3f}") for answers in found])
    return [[corner, *columns], *([name, *(next(shown) for _ in columns)] for name in names)]


def _each(answers: Sequence[Any], side: int) -> list[Any]:
    """Return one of several numbers of each answer."""
    return [None if answer is None else answer[side] for answer in answers]


def _shown(values: Sequence[float | None], form: str) -> str:
    """Return a mean, and the lowest and the highest of several values; how many diverged, if any did."""
    there = [value for value in values if value is not None]
    diverged = f"{len(values) - len(there)} of {len(values)} diverged" if len(there) < len(values) else ""
    if not there:
        return diverged
    text = form.format(statistics.mean(there))
    if len(there) > 1:
        text += f" ({form.format(min(there))} to {form.format(max(there))})"
    return f"{text}; {diverged}" if diverged else text


# What each table shows, and what makes it; {text} is the name of the small text.
TABLES: dict[str, tuple[str, Callable[[Bench], Cells]]] = {
    "positions-ab": (
        "Whether a causal Transformer of one layer needs positions to know what follows each string of `@ab`; always "
        "saying B is right 15 times of 16.",
        positions_ab,
    ),
    "positions-counting": (
        "Whether a Transformer that sees the whole string can count what stood before each letter (`@counting`): "
        "without positions, before and after are the same to it.",
        positions_counting,
    ),
    "scaling": (
        "What it is worth to divide scores by the root of the head's width: nats per character of {text}.",
        scaling,
    ),
    "residuals": (
        "What it is worth, by depth, to add what comes into a part to what comes out: nats per character of {text}.",
        residuals,
    ),
    "norms": (
        "What it is worth, by depth, to have norms, and where: nats per character of {text}.",
        norms,
    ),
    "recall": (
        "How often the name that a document of `@recall` began with is said at its end, by how many words ago that "
        "was; by chance once in 30 times, at 3.40 nats.",
        recall,
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=TABLES, action="append", help="may be given several times")
    parser.add_argument("--data", type=Path, default=SHARED)
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    # Begun anew, not forked: torch does not survive that.
    fresh = multiprocessing.get_context("spawn")
    with (
        tempfile.TemporaryDirectory() as folder,
        ProcessPoolExecutor(cores, mp_context=fresh, initializer=_one_thread) as workers,
    ):
        bench = Bench(workers, Path(folder), arguments.data, arguments.quick)
        for name in arguments.only or TABLES:
            sentence, make = TABLES[name]
            began = time.perf_counter()
            header, *rows = make(bench)
            print(f"\n**{name}** ({time.perf_counter() - began:,.0f} s). {sentence.format(text=bench.name)}\n")
            for row in (header, ["---"] * len(header), *rows):
                print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
