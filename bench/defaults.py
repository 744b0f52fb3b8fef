"""What `satchel train DATA --minutes M` makes of texts and tables of several sizes, without a setting.

python bench/defaults.py [--only NAME...] [--minutes 2 10] [--threads 1] [--sweep [KEY...]]

Beside it stands what counting makes of the same data; and with --sweep, networks that differ from the chosen one in
one thing each (all of those below, or the settings that are named): if one of them is much better, the choice was
wrong. All are scored on the same held-out data, which
no training saw; the rules themselves were mended by what it said. Each training should have its cores for itself: the
whole table takes hours.
"""

import argparse
import gzip
import random
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import satchel
from satchel import api
from satchel.config import flatten
from satchel.training.defaults import SHAPES, Shape, ngram_order

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"


@dataclass(frozen=True)
class Data:
    """Data to train on, and to be scored on."""

    name: str
    train: Path
    held_out: Path


def texts(folder: Path) -> Iterator[Data]:
    """Return WikiText-2 in three sizes, and tiny-shakespeare."""
    wiki = gzip.decompress((SHARED / "wikitext-2/wiki.train.tokens.gz").read_bytes())
    held = _written(
        folder / "wiki.valid.txt", gzip.decompress((SHARED / "wikitext-2/wiki.valid.tokens.gz").read_bytes())
    )
    for name, size in (("100 kB", 100_000), ("1 MB", 1_000_000), ("10 MB", len(wiki))):
        yield Data(f"WikiText-2, {name}", _written(folder / f"wiki.{size}.txt", wiki[:size]), held)
    plays = (SHARED / "tiny-shakespeare/input.txt").read_bytes()
    cut = len(plays) * 9 // 10
    own = _written(folder / "plays.txt", plays[:cut])
    yield Data("tiny-shakespeare, 1 MB", own, _written(folder / "plays.valid.txt", plays[cut:]))


def tables(folder: Path) -> Iterator[Data]:
    """Return film sentences and film reviews: some thousands of rows, and some ten thousands."""
    phrases = _rows(SHARED / "sst2-glue/train.tsv.gz", text=0, label=1)[1:]
    random.Random(0).shuffle(phrases)
    held = _table(folder / "phrases.valid.tsv", phrases[30_000:35_000])
    for count in (3_000, 30_000):
        yield Data(f"SST-2 phrases, {count:,} rows", _table(folder / f"phrases.{count}.tsv", phrases[:count]), held)
    reviews = _rows(SHARED / "imdb/train.tsv.gz", text=3, label=0)
    random.Random(0).shuffle(reviews)
    held = _table(folder / "reviews.valid.tsv", reviews[20_000:])
    for count in (3_000, 20_000):
        yield Data(f"IMDB, {count:,} rows", _table(folder / f"reviews.{count}.tsv", reviews[:count]), held)


def _rows(path: Path, text: int, label: int) -> list[str]:
    lines = gzip.decompress(path.read_bytes()).decode().removesuffix("\n").split("\n")
    return [f"{row[label]}\t{row[text]}" for row in (line.split("\t") for line in lines)]


def _table(path: Path, rows: list[str]) -> Path:
    return _written(path, "\n".join(["label\ttext", *rows, ""]).encode())


def _written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def measured(data: Data, run: Path, **options: Any) -> str:
    """Train, and return what became of it on the held-out data."""
    model = satchel.train(data.train, out=run, force=True, **options)
    found = model.evaluate(data.held_out)
    figure = f"{found.bits_per_byte:8.4f} bits/byte" if model.settings.task == "lm" else f"{found.accuracy:8.2%} right"
    return f"{figure} {model.report.seconds:6.0f} s"


def variations(settings: Any) -> Iterator[dict[str, Any]]:
    """Return what a user might try instead of the settings that were chosen, one thing at a time."""
    model, training = settings.model, settings.training
    if model.kind == "transformer":
        place = SHAPES.index(Shape(model.width, model.layers, model.heads))
        for number in {max(0, place - 1), min(len(SHAPES) - 1, place + 1)} - {place}:
            yield {f"model.{name}": value for name, value in SHAPES[number]._asdict().items()}
        yield {"model.context": model.context // 2}
        yield {"model.context": model.context * 2}
        yield {"model.kind": "backpack", "model.senses": 8}
    elif model.kind == "dan":
        yield {"model.width": model.width // 2}
        yield {"model.width": model.width * 2}
        yield {"model.bigrams": 0 if model.bigrams else 1 << 18}
    yield {"model.dropout": 0.0 if model.dropout else 0.1}
    yield {"model.dropout": (model.dropout or 0.1) + 0.1}
    yield {"training.noise": 0.0 if training.noise else 0.1}
    yield {"training.learning_rate": training.learning_rate / 2}
    yield {"training.learning_rate": training.learning_rate * 2}
    if model.ngram:
        yield {"model.ngram": 0}
    if size := settings.tokenizer.size:
        if size // 2 > 256:  # a token for each byte
            yield {"tokenizer.size": size // 2}
        yield {"tokenizer.size": size * 2}
        yield {"tokenizer.kind": "char", "tokenizer.size": None, "model.ngram": ngram_order("char")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[""], help="parts of the names of the data to take")
    parser.add_argument("--minutes", type=float, nargs="*", default=[2.0, 10.0])
    parser.add_argument("--threads", type=int, default=0, help="of each training; 0 is as many as there are")
    parser.add_argument("--sweep", nargs="*", metavar="KEY", help="what is varied; without a key, all of it")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for data in (*texts(folder), *tables(folder)):
            if not any(part in data.name for part in options.only):
                continue
            print(f"\n{data.name}\n  {'counted':<60}{measured(data, folder / 'run', model='ngram')}", flush=True)
            for minutes in options.minutes:
                budget = {"minutes": minutes, "threads": options.threads}
                planned = api.plan(data.train, **budget)
                chosen = dict(flatten(planned.settings.model_dump()))
                print(f"  {minutes:g} minutes: {'; '.join(planned.reasons)}")
                print(f"  {'as chosen':<60}{measured(data, folder / 'run', **budget)}", flush=True)
                for change in variations(planned.settings) if options.sweep is not None else ():
                    if options.sweep and not set(options.sweep) & set(change):
                        continue
                    said = ", ".join(f"{key}={value}" for key, value in change.items())
                    # All that was chosen is given, so that nothing else differs.
                    given = {key: value for key, value in {**chosen, **change}.items() if value is not None}
                    found = measured(data, folder / "run", settings=given)
                    print(f"  {said:<60}{found}", flush=True)


if __name__ == "__main__":
    main()
