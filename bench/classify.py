"""N-gram classifiers against scikit-learn (TF-IDF, logistic regression) and fastText: accuracy, time, peak memory.

    python bench/classify.py [--rounds 3] [--data DIR] [--only imdb] [--quick]

Data: IMDB, SST-2 and @python-modules, each with 3,000 training rows and with all. Every classifier gets the same rows
and commonly documented settings; no setting was tuned on the test rows. The classifiers alternate, each in a new
process; times are medians and cover reading the training table up to predicting the label of every test row. fastText
is skipped if it is not installed (`pip install fasttext`).
"""

import argparse
import csv
import gzip
import importlib
import importlib.util
import json
import random
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import satchel
from measure import parser, peak_megabytes, read_sst2, run_worker
from satchel.data.examples import class_indices
from satchel.data.splits import stratified_split
from satchel.datasets.corpora import open_corpus
from satchel.evaluation.classification import interval
from satchel.text.reading import DataSettings
from satchel.text.tables import read_examples

# Number of training rows of the small variant of each data set.
SMALL = 3000
Rows = list[tuple[str, str]]  # label, text
Classifier = Callable[[Path, Path], list[str]]  # from a training and a test table to the labels of the test rows


# --- data --------------------------------------------------------------------------------------------


def imdb(data: Path) -> tuple[Rows, Rows]:
    """Return the training and test rows of IMDB."""
    parts = []
    for name in ("train", "test"):
        with gzip.open(data / "imdb" / f"{name}.tsv.gz", "rt", encoding="utf-8") as handle:
            rows = [line.rstrip("\n").split("\t") for line in handle]
        parts.append([(row[0], row[3]) for row in rows])
    return parts[0], parts[1]


def sst2(data: Path) -> tuple[Rows, Rows]:
    """Return the training and test rows of SST-2 (whole sentences)."""
    return read_sst2(data, "train"), read_sst2(data, "test")


def python_modules(data: Path) -> tuple[Rows, Rows]:
    """Return docstrings of the standard library labelled by module; a fifth of each label are test rows."""
    del data
    rows = [(row.label, row.text) for row in read_examples(open_corpus("@python-modules", DataSettings()))]
    classes, _ = class_indices([label for label, _ in rows], sorted({label for label, _ in rows}))
    is_test = stratified_split(classes, 0.2, 0)
    pairs = list(zip(rows, is_test, strict=True))
    return [row for row, test in pairs if not test], [row for row, test in pairs if test]


DATASETS: dict[str, Callable[[Path], tuple[Rows, Rows]]] = {
    "imdb": imdb,
    "sst2": sst2,
    "python-modules": python_modules,
}


# --- classifiers -------------------------------------------------------------------------------------


def read(path: Path) -> Rows:
    """Return the rows of a CSV file."""
    with open(path, encoding="utf-8", newline="") as handle:
        return [(row["label"], row["text"]) for row in csv.DictReader(handle)]


def ngram(settings: dict[str, object], tokenizer: str) -> Classifier:
    """Return Satchel's n-gram classifier."""

    def run(train: Path, test: Path) -> list[str]:
        model = satchel.train(
            train,
            model="ngram",
            tokenizer=tokenizer,
            settings=settings,
            out=train.parent / "run",
            force=True,
            task="classify",
        )
        return [prediction.label for prediction in model.predict(text for _, text in read(test))]

    return run


def logistic(train: Path, test: Path) -> list[str]:
    """Return the labels of logistic regression on TF-IDF features of words and bigrams."""
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
    """Return the labels of fastText with bigrams."""
    import fasttext as library

    names = sorted({label for label, _ in read(train)})
    lines = [f"__label__{names.index(label)} {' '.join(text.split())}\n" for label, text in read(train)]
    path = train.parent / "fasttext.txt"
    path.write_text("".join(lines), encoding="utf-8")
    model = library.train_supervised(str(path), wordNgrams=2, lr=0.5, epoch=25, thread=2, verbose=0)
    # `model.predict` fails with NumPy 2, so call the function that it wraps.
    predictions = [model.f.predict(f"{' '.join(text.split())}\n", 1, 0.0, "strict") for _, text in read(test)]
    return [names[int(labels[0][1].removeprefix("__label__"))] if labels else "" for labels in predictions]


WORDS: dict[str, object] = {"tokenizer.split": "punctuation"}
CLASSIFIERS: dict[str, Classifier] = {
    "satchel (default)": ngram({}, "bpe"),
    "satchel, words, order 3": ngram(WORDS, "word"),
    "satchel, words, order 1": ngram({**WORDS, "model.order": 1}, "word"),
    "satchel, characters": ngram({}, "char"),
    "TF-IDF + logistic regression": logistic,
    "fastText": fasttext,
}


# --- measurement -------------------------------------------------------------------------------------


def main() -> None:
    arguments = parser(__doc__, "--data", "--quick", rounds=3)
    arguments.add_argument("--only", choices=DATASETS, help="one data set")
    arguments.add_argument("--worker", nargs=2, metavar=("CLASSIFIER", "FOLDER"), help=argparse.SUPPRESS)
    options = arguments.parse_args()
    if options.worker:
        _run_classifier(*options.worker)
        return
    names = [name for name in CLASSIFIERS if name != "fastText" or importlib.util.find_spec("fasttext")]
    for dataset, read_rows in DATASETS.items():
        if options.only not in (None, dataset):
            continue
        if dataset != "python-modules" and not options.data.is_dir():
            print(f"{dataset}: skipped, {options.data} not found")
            continue
        train, test = read_rows(options.data)
        random.Random(0).shuffle(train)
        if options.quick:
            _compare(dataset, train[:500], test[:100], names, 1)
            continue
        for rows in (train[:SMALL], train) if len(train) > SMALL else (train,):
            _compare(dataset, rows, test, names, options.rounds)


def _compare(dataset: str, train: Rows, test: Rows, names: list[str], rounds: int) -> None:
    """Train and evaluate all classifiers and print one row for each."""
    majority_label = Counter(label for label, _ in train).most_common(1)[0][0]
    majority = sum(label == majority_label for label, _ in test) / len(test)
    print(
        f"\n{dataset}: {len(train):,} training rows, {len(test):,} test rows; majority label {majority:.1%}; "
        f"{rounds} rounds"
    )
    results: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory() as folder:
        for part, rows in (("train", train), ("test", test)):
            with open(Path(folder) / f"{part}.csv", "w", encoding="utf-8", newline="") as handle:
                csv.writer(handle).writerows([("label", "text"), *rows])
        for _ in range(rounds):
            for name in names:
                results[name].append(run_worker(__file__, "--worker", name, folder))
    for name, measurements in results.items():
        accuracy, seconds, memory = (
            statistics.median(measurement[key] for measurement in measurements)
            for key in ("accuracy", "seconds", "megabytes")
        )
        low, high = interval(accuracy, len(test))
        print(f"  {name:<30} {accuracy:6.2%} ({low:.2%} to {high:.2%}) {seconds:7.2f} s {memory:7.0f} MB")


def _run_classifier(name: str, folder: str) -> None:
    """Train and evaluate one classifier in this process and print the measurements as JSON."""
    train, test = Path(folder) / "train.csv", Path(folder) / "test.csv"
    # The memory includes the imported library, the time does not.
    if name == "TF-IDF + logistic regression":
        importlib.import_module("sklearn.linear_model")
    began = time.perf_counter()
    labels = CLASSIFIERS[name](train, test)
    seconds = time.perf_counter() - began
    gold = [label for label, _ in read(test)]
    accuracy = sum(a == b for a, b in zip(labels, gold, strict=True)) / len(gold)
    print(json.dumps({"accuracy": accuracy, "seconds": seconds, "megabytes": peak_megabytes()}))


if __name__ == "__main__":
    main()
