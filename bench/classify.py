"""Classifiers that count against scikit-learn's TF-IDF with logistic regression and fastText: accuracy, time, memory.

    python bench/classify.py [--rounds 3] [--data DIR] [--only imdb]

IMDB, SST-2 and @python-modules, with 3,000 training rows and with all. Everybody gets the same rows and is
used as its own documentation does on a first try: nobody's settings were searched for on these test rows. All
sides run in turn in fresh processes; a time is from reading the training table to having every test row's label.
fastText is left out where it is not installed (`pip install fasttext`).
"""

import argparse
import csv
import gzip
import importlib
import importlib.util
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import satchel
from measure import peak_megabytes
from satchel.data.examples import class_indices, stratified_split
from satchel.datasets.corpora import open_corpus
from satchel.evaluation.classification import interval
from satchel.text.reading import DataSettings
from satchel.text.tables import read_examples

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
FEW = 3000
Rows = list[tuple[str, str]]  # label, text


# --- the data ----------------------------------------------------------------------------------------


def imdb(data: Path) -> tuple[Rows, Rows]:
    """Return the rows of the reviews."""
    parts = []
    for name in ("train", "test"):
        with gzip.open(data / "imdb" / f"{name}.tsv.gz", "rt", encoding="utf-8") as handle:
            rows = [line.rstrip("\n").split("\t") for line in handle]
        parts.append([(row[0], row[3]) for row in rows])
    return parts[0], parts[1]


def sst2(data: Path) -> tuple[Rows, Rows]:
    """Return the rows of the treebank's whole sentences."""
    parts = []
    for name in ("train", "test"):
        lines = (data / "sst2" / f"stsa.binary.{name}").read_text(encoding="utf-8").rstrip("\n").split("\n")
        parts.append([(line[0], line[2:]) for line in lines])
    return parts[0], parts[1]


def modules(data: Path) -> tuple[Rows, Rows]:
    """Return the docstrings of the standard library: a fifth of each module's is the test."""
    del data
    rows = [(row.label, row.text) for row in read_examples(open_corpus("@python-modules", DataSettings()))]
    classes, _ = class_indices([label for label, _ in rows], sorted({label for label, _ in rows}))
    is_test = stratified_split(classes, 0.2, 0)
    pairs = list(zip(rows, is_test, strict=True))
    return [row for row, test in pairs if not test], [row for row, test in pairs if test]


SETS: dict[str, Callable[[Path], tuple[Rows, Rows]]] = {"imdb": imdb, "sst2": sst2, "python-modules": modules}


# --- the sides ---------------------------------------------------------------------------------------


def read(path: Path) -> Rows:
    with open(path, encoding="utf-8", newline="") as handle:
        return [(row["label"], row["text"]) for row in csv.DictReader(handle)]


def ours(settings: dict[str, object], tokenizer: str) -> Callable[[Path, Path], list[str]]:
    def run(train: Path, test: Path) -> list[str]:
        model = satchel.train(
            train, model="ngram", tokenizer=tokenizer, settings=settings, out=train.parent / "run", force=True
        )
        return [prediction.label for prediction in model.predict(text for _, text in read(test))]

    return run


def logistic(train: Path, test: Path) -> list[str]:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    rows = read(train)
    pipeline = make_pipeline(
        TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, min_df=2), LogisticRegression(C=10, max_iter=1000)
    )
    pipeline.fit([text for _, text in rows], [label for label, _ in rows])
    return [str(label) for label in pipeline.predict([text for _, text in read(test)])]


def fasttext(train: Path, test: Path) -> list[str]:
    import fasttext as library

    names = sorted({label for label, _ in read(train)})
    lines = [f"__label__{names.index(label)} {' '.join(text.split())}\n" for label, text in read(train)]
    path = train.parent / "fasttext.txt"
    path.write_text("".join(lines), encoding="utf-8")
    model = library.train_supervised(str(path), wordNgrams=2, lr=0.5, epoch=25, thread=2, verbose=0)
    # Its own `predict` fails with NumPy 2; what it calls does not.
    found = [model.f.predict(f"{' '.join(text.split())}\n", 1, 0.0, "strict") for _, text in read(test)]
    return [names[int(answers[0][1].removeprefix("__label__"))] if answers else "" for answers in found]


WORDS: dict[str, object] = {"tokenizer.split": "punctuation"}
SIDES: dict[str, Callable[[Path, Path], list[str]]] = {
    "satchel (default)": ours({}, "bpe"),
    "satchel, words, order 3": ours(WORDS, "word"),
    "satchel, words, order 1": ours({**WORDS, "model.order": 1}, "word"),
    "satchel, characters": ours({}, "char"),
    "TF-IDF + logistic regression": logistic,
    "fastText": fasttext,
}


# --- measuring ---------------------------------------------------------------------------------------


def main() -> None:
    if sys.argv[1:2] == ["--side"]:
        _one_side(*sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--data", type=Path, default=SHARED)
    parser.add_argument("--only", choices=SETS)
    arguments = parser.parse_args()
    sides = [name for name in SIDES if name != "fastText" or importlib.util.find_spec("fasttext")]
    for name, make in SETS.items():
        if arguments.only in (None, name):
            if name != "python-modules" and not arguments.data.is_dir():
                print(f"{name}: left out, there is no {arguments.data}")
                continue
            train, test = make(arguments.data)
            random.Random(0).shuffle(train)
            for rows in (train[:FEW], train) if len(train) > FEW else (train,):
                _measure(name, rows, test, sides, arguments.rounds)


def _measure(name: str, train: Rows, test: Rows, sides: list[str], rounds: int) -> None:
    commonest = Counter(label for label, _ in train).most_common(1)[0][0]
    majority = sum(label == commonest for label, _ in test) / len(test)
    print(f"\n{name}: {len(train):,} rows, {len(test):,} to label; the commonest label {majority:.1%}; {rounds} rounds")
    with tempfile.TemporaryDirectory() as folder:
        for part, rows in (("train", train), ("test", test)):
            with open(Path(folder) / f"{part}.csv", "w", encoding="utf-8", newline="") as handle:
                csv.writer(handle).writerows([("label", "text"), *rows])
        found: dict[str, list[dict[str, float]]] = {side: [] for side in sides}
        for _ in range(rounds):
            for side in sides:
                command = [sys.executable, __file__, "--side", side, folder]
                done = subprocess.run(command, check=True, capture_output=True, text=True)
                found[side].append(json.loads(done.stdout))
    for side, results in found.items():
        accuracy = statistics.median(result["accuracy"] for result in results)
        low, high = interval(accuracy, len(test))
        seconds = statistics.median(result["seconds"] for result in results)
        memory = statistics.median(result["megabytes"] for result in results)
        print(f"  {side:<30} {accuracy:6.2%} ({low:.2%} to {high:.2%}) {seconds:7.2f} s {memory:7.0f} MB")


def _one_side(side: str, folder: str) -> None:
    """Train and answer in this process, and print what came of it."""
    train, test = Path(folder) / "train.csv", Path(folder) / "test.csv"
    # Importing is not what is measured, but what it takes of the memory is.
    if side == "TF-IDF + logistic regression":
        importlib.import_module("sklearn.linear_model")
    began = time.perf_counter()
    answers = SIDES[side](train, test)
    seconds = time.perf_counter() - began
    gold = [label for label, _ in read(test)]
    accuracy = sum(a == b for a, b in zip(answers, gold, strict=True)) / len(gold)
    megabytes = peak_megabytes()
    print(json.dumps({"accuracy": accuracy, "seconds": seconds, "megabytes": megabytes}))


if __name__ == "__main__":
    main()
