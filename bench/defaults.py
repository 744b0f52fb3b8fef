"""Quality of the default settings: `satchel train DATA --minutes M` on texts and tables of several sizes.

    python bench/defaults.py [--only NAME...] [--minutes 2 10] [--threads 1] [--sweep [KEY...]] [--quick]

Prints the held-out metric of an n-gram model and of the default network. With `--sweep`, also of networks that differ
from the default in one setting (all variations, or those of the given settings): a much better one shows that the
default is wrong. All models are evaluated on the same held-out data, which also guided the choice of the default rules.
Run without other load: the complete table takes hours.
"""

import gzip
import random
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import satchel
from measure import DATA, parser
from satchel import api
from satchel.config import flatten
from satchel.training.defaults import SHAPES, Shape, ngram_order


@dataclass(frozen=True)
class Dataset:
    """Name, training file and held-out file of a data set."""

    name: str
    train: Path
    held_out: Path


def texts(folder: Path) -> Iterator[Dataset]:
    """Yield WikiText-2 in three sizes, and tiny-shakespeare."""
    wiki = gzip.decompress((DATA / "wikitext-2/wiki.train.tokens.gz").read_bytes())
    held_out = _write(
        folder / "wiki.valid.txt", gzip.decompress((DATA / "wikitext-2/wiki.valid.tokens.gz").read_bytes())
    )
    for name, size in (("100 kB", 100_000), ("1 MB", 1_000_000), ("10 MB", len(wiki))):
        yield Dataset(f"WikiText-2, {name}", _write(folder / f"wiki.{size}.txt", wiki[:size]), held_out)
    plays = (DATA / "tiny-shakespeare/input.txt").read_bytes()
    cut = len(plays) * 9 // 10
    train = _write(folder / "plays.txt", plays[:cut])
    yield Dataset("tiny-shakespeare, 1 MB", train, _write(folder / "plays.valid.txt", plays[cut:]))


def tables(folder: Path) -> Iterator[Dataset]:
    """Yield SST-2 phrases and IMDB reviews, each with 3,000 rows and with at least 20,000."""
    phrases = _rows(DATA / "sst2-glue/train.tsv.gz", text=0, label=1)[1:]
    random.Random(0).shuffle(phrases)
    held_out = _table(folder / "phrases.valid.tsv", phrases[30_000:35_000])
    for count in (3_000, 30_000):
        yield Dataset(
            f"SST-2 phrases, {count:,} rows", _table(folder / f"phrases.{count}.tsv", phrases[:count]), held_out
        )
    reviews = _rows(DATA / "imdb/train.tsv.gz", text=3, label=0)
    random.Random(0).shuffle(reviews)
    held_out = _table(folder / "reviews.valid.tsv", reviews[20_000:])
    for count in (3_000, 20_000):
        yield Dataset(f"IMDB, {count:,} rows", _table(folder / f"reviews.{count}.tsv", reviews[:count]), held_out)


def _rows(path: Path, text: int, label: int) -> list[str]:
    lines = gzip.decompress(path.read_bytes()).decode().removesuffix("\n").split("\n")
    return [f"{row[label]}\t{row[text]}" for row in (line.split("\t") for line in lines)]


def _table(path: Path, rows: list[str]) -> Path:
    return _write(path, "\n".join(["label\ttext", *rows, ""]).encode())


def _write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def train_and_evaluate(data: Dataset, run: Path, **options: Any) -> str:
    """Return the held-out metric and the training time as text."""
    model = satchel.train(data.train, out=run, force=True, **options)
    result = model.evaluate(data.held_out)
    is_text = model.settings.task == "lm"
    metric = f"{result.bits_per_byte:8.4f} bits/byte" if is_text else f"accuracy {result.accuracy:8.2%}"
    return f"{metric} {model.report.seconds:6.0f} s"


def variations(settings: Any) -> Iterator[dict[str, Any]]:
    """Yield changes of one setting (or of a group that belongs together) relative to the given settings."""
    model, training = settings.model, settings.training
    if model.kind == "transformer":
        index = SHAPES.index(Shape(model.width, model.layers, model.heads))
        for neighbour in {max(0, index - 1), min(len(SHAPES) - 1, index + 1)} - {index}:
            yield {f"model.{name}": value for name, value in SHAPES[neighbour]._asdict().items()}
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
        if size // 2 > 256:  # the vocabulary contains the 256 bytes
            yield {"tokenizer.size": size // 2}
        yield {"tokenizer.size": size * 2}
        yield {"tokenizer.kind": "char", "tokenizer.size": None, "model.ngram": ngram_order("char")}


def main() -> None:
    arguments = parser(__doc__, "--threads", "--quick")
    arguments.add_argument("--only", nargs="*", default=[""], help="substrings of the names of the data sets")
    arguments.add_argument("--minutes", type=float, nargs="*", default=[2.0, 10.0], help="training times")
    arguments.add_argument("--sweep", nargs="*", metavar="KEY", help="settings to vary (default: all)")
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run = folder / "run"
        for data in (*texts(folder), *tables(folder)):
            if not any(part in data.name for part in options.only):
                continue
            print(f"\n{data.name}\n  {'n-gram model':<60}{train_and_evaluate(data, run, model='ngram')}", flush=True)
            for minutes in options.minutes[:1] if options.quick else options.minutes:
                budget = {"steps": 3} if options.quick else {"minutes": minutes}
                budget["threads"] = options.threads
                planned = api.plan(data.train, **budget)
                default = dict(flatten(planned.settings.model_dump()))
                print(f"  {minutes:g} minutes: {'; '.join(planned.reasons)}")
                print(f"  {'default':<60}{train_and_evaluate(data, run, **budget)}", flush=True)
                for change in variations(planned.settings) if options.sweep is not None else ():
                    if options.sweep and not set(options.sweep) & set(change):
                        continue
                    # Pass every default explicitly, so that no other setting is derived from the changed one.
                    settings = {key: value for key, value in {**default, **change}.items() if value is not None}
                    label = ", ".join(f"{key}={value}" for key, value in change.items())
                    print(f"  {label:<60}{train_and_evaluate(data, run, settings=settings)}", flush=True)


if __name__ == "__main__":
    main()
