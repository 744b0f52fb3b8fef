"""N-gram language models against KenLM on WikiText-2: training time, peak memory, scaling, query speed, perplexity.

    python bench/ngram.py [--rounds 5] [--kenlm DIR] [--data DIR] [--quick]

`--kenlm` is the folder of KenLM's programs `lmplz` and `build_binary` (default: search PATH). Measurements that need a
missing program or the Python module `kenlm` are skipped. Each training runs in a new process; Satchel and KenLM
alternate. Medians over the rounds.
"""

import argparse
import gzip
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import numpy as np

from measure import parser, peak_megabytes, run_worker, time_alternately
from satchel import api, durable, tensors
from satchel.data.tokens import open_tokens, tokenize_pieces
from satchel.datasets.corpora import open_corpus
from satchel.ngram.arpa import escape
from satchel.ngram.smoothing import NgramSettings, estimate
from satchel.text.reading import DataSettings

ORDER = 5
# Number of rounds with ten copies of the text.
COPIES_ROUNDS = 3

Measurement = tuple[float, float]  # seconds, peak MB


def main() -> None:
    arguments = parser(__doc__, "--data", "--quick", rounds=5)
    arguments.add_argument("--kenlm", type=Path, help="folder of lmplz and build_binary")
    arguments.add_argument("--worker", nargs=3, metavar=("KIND", "SOURCE", "TARGET"), help=argparse.SUPPRESS)
    options = arguments.parse_args()
    if options.worker:
        kind, source, target = options.worker
        (_train_on_text if kind == "text" else _train_on_ids)(Path(source), Path(target))
        return
    data = options.data / "wikitext-2"
    if not data.is_dir():
        sys.exit(f"WikiText-2 not found in {data}: give the folder of the data sets with --data")
    with tempfile.TemporaryDirectory() as scratch:
        _bench(Path(scratch), data, _find_programs(options.kenlm), options.rounds, options.quick)


def _find_programs(folder: Path | None) -> dict[str, str]:
    paths = {name: shutil.which(name, path=str(folder) if folder else None) for name in ("lmplz", "build_binary")}
    return {name: path for name, path in paths.items() if path}


def _bench(scratch: Path, data: Path, programs: dict[str, str], rounds: int, quick: bool) -> None:
    lines = 1000 if quick else None
    train, test = (
        _preprocess(data / f"wiki.{part}.tokens.gz", scratch / f"{part}.txt", lines) for part in ("train", "test")
    )
    copies = _write_copies(train, scratch / "copies.txt", 10)
    rounds = 1 if quick else rounds
    results: dict[str, list[Measurement]] = {name: [] for name in ("text", "ids", "lmplz", "copies-text", "copies-ids")}
    for number in range(rounds):
        results["text"].append(_train("text", train, scratch / f"run-{number}"))
        results["ids"].append(_train("ids", scratch / f"run-{number}", scratch / f"ids-{number}"))
        if "lmplz" in programs:
            results["lmplz"].append(_train_lmplz(programs["lmplz"], train, scratch / "lmplz.arpa"))
        if number < COPIES_ROUNDS:
            for kind, source in (("text", copies), ("ids", scratch / "copies-text-0")):
                target = scratch / f"copies-{kind}-{number}"
                results[f"copies-{kind}"].append(_train(kind, source, target))
                if number > 0 or kind == "ids":
                    shutil.rmtree(target)
    print(f"training, order {ORDER}, WikiText-2 train; {rounds} rounds, median seconds and peak MB")
    for name, label in (("text", "satchel, from text"), ("ids", "satchel, from token ids"), ("lmplz", "KenLM lmplz")):
        if results[name]:
            seconds, memory = _medians(results[name])
            print(f"  {label:<36} {seconds:7.2f} s {memory:8.0f} MB")
    for name, label in (("text", "ten copies, from text"), ("ids", "ten copies, from token ids")):
        seconds, memory = _medians(results[f"copies-{name}"])
        ratio = seconds / _medians(results[name])[0]
        print(f"  {label:<36} {seconds:7.2f} s {memory:8.0f} MB  time / one copy {ratio:.1f}")
    _compare_queries(scratch, test, programs, max(rounds, 5))


def _medians(measurements: list[Measurement]) -> Measurement:
    seconds, memory = (statistics.median(column) for column in zip(*measurements, strict=True))
    return seconds, memory


def _train(kind: str, source: Path, target: Path) -> Measurement:
    """Train from a text or from a token file in a new process."""
    result = run_worker(__file__, "--worker", kind, str(source), str(target))
    return result["seconds"], result["megabytes"]


def _train_on_text(source: Path, target: Path) -> None:
    """Train from a text file to a run folder and print the measurement."""
    began = time.perf_counter()
    api.train(
        source, model="ngram", tokenizer="word", settings={"data.documents": "line", "model.order": ORDER}, out=target
    )
    _print_measurement(began)


def _train_on_ids(source: Path, target: Path) -> None:
    """Train from the token file of a run to a model file and print the measurement."""
    ids = open_tokens(source / "tokens/train.safetensors").ids
    vocabulary = int(ids.max()) + 1
    began = time.perf_counter()
    fitted = estimate(ids, vocabulary, NgramSettings(order=ORDER), ends=True)
    with durable.new_folder(target) as folder, folder.create("model.safetensors") as handle:
        tensors.write(handle, fitted.table.arrays(), {"format": "satchel"})
    _print_measurement(began)


def _print_measurement(began: float) -> None:
    print(json.dumps({"seconds": time.perf_counter() - began, "megabytes": peak_megabytes()}))


def _train_lmplz(program: str, source: Path, target: Path) -> Measurement:
    """Train from a text file to an ARPA file with KenLM."""
    began = time.perf_counter()
    with source.open("rb") as handle:
        process = subprocess.Popen(
            [program, "-o", str(ORDER), "-S", "30%", "--arpa", str(target)],
            stdin=handle,
            stderr=subprocess.DEVNULL,
        )
        _, _, usage = os.wait4(process.pid, 0)
    return time.perf_counter() - began, usage.ru_maxrss / 1024


def _compare_queries(scratch: Path, test: Path, programs: dict[str, str], rounds: int) -> None:
    """Print tokens per second and perplexity of the test text, for Satchel and for KenLM's binary formats."""
    model = api.load(scratch / "run-0", task="lm")
    tokens = tokenize_pieces(open_corpus(test, DataSettings(documents="line")).pieces(), model.tokenizer, "line")
    ids = np.array(tokens.ids)
    variants: dict[str, Callable[[], float]] = {"satchel": lambda: -float(model.predictor.score(ids).logprobs.mean())}
    try:
        import kenlm
    except ImportError:
        kenlm = None
    if kenlm is not None:
        arpa = model.export_arpa(scratch / "satchel.arpa")
        lines = [" ".join(map(escape, line.split())) for line in test.read_text(encoding="utf-8").split("\n") if line]
        for form in ("trie", "probing") if "build_binary" in programs else ():
            binary = scratch / f"{form}.bin"
            subprocess.run([programs["build_binary"], form, arpa, binary], check=True, capture_output=True)
            variants[f"KenLM full_scores, {form}"] = _full_scores(kenlm.Model(str(binary)), lines)
    times = time_alternately(variants, rounds, warmup=0)
    count = tokens.counts.tokens
    print(f"queries, {count:,} tokens of WikiText-2 test; {rounds} rounds, median")
    for name, seconds in times.items():
        rate = count / statistics.median(seconds) / 1e6
        print(f"  {name:<27} {rate:6.2f} M tokens/s   perplexity {np.exp(variants[name]()):.2f}")


def _full_scores(model: "kenlm.Model", lines: list[str]) -> Callable[[], float]:  # type: ignore[name-defined]  # noqa: F821
    """Return a function that computes the loss of a text in nats per token."""

    def score() -> float:
        total = count = 0
        for line in lines:
            for logprob, _, _ in model.full_scores(line):
                total += logprob
                count += 1
        return -total / count * float(np.log(10))

    return score


def _preprocess(source: Path, target: Path, lines: int | None) -> Path:
    """Write the first lines of a text without blank lines. `<unk>` is escaped: KenLM reserves it."""
    with gzip.open(source, "rt", encoding="utf-8", newline="\n") as handle:
        rows = (" ".join(map(escape, line.split())) for line in handle if line.strip())
        target.write_text("".join(f"{row}\n" for row in islice(rows, lines)), encoding="utf-8", newline="\n")
    return target


def _write_copies(source: Path, target: Path, count: int) -> Path:
    """Write copies of a text with distinct vocabularies: every word gets the number of its copy as a suffix."""
    with target.open("w", encoding="utf-8", newline="\n") as handle:
        for copy in range(count):
            for line in source.read_text(encoding="utf-8").split("\n"):
                handle.write(" ".join(f"{word}{copy}" for word in line.split()) + "\n" if line else "")
    return target


if __name__ == "__main__":
    main()
