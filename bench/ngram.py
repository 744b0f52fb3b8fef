"""Counted language models against KenLM on WikiText-2: quality, estimation, memory, scaling, scoring.

    python bench/ngram.py [--rounds 5] [--kenlm DIR] [--data DIR]

`--kenlm` is the folder of KenLM's `lmplz` and `build_binary` (default: found on PATH). Its figures,
and the Python module's, are left out where they are not installed. Both sides run in turn.
"""

import argparse
import gzip
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from satchel import api, durable, tensors
from satchel.data.tokens import open_tokens, tokenize_corpus
from satchel.datasets.corpora import open_corpus
from satchel.ngram.arpa import escape
from satchel.ngram.smoothing import NgramSettings, estimate
from satchel.text.reading import DataSettings

ORDER = 5
COPIES_ROUNDS = 3
SHARED = Path(__file__).resolve().parents[2] / "shared" / "data" / "wikitext-2"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--kenlm", type=Path)
    parser.add_argument("--data", type=Path, default=SHARED)
    arguments = parser.parse_args()
    if not arguments.data.is_dir():
        sys.exit(f"bench/ngram.py needs WikiText-2 in {arguments.data}: give --data")
    with tempfile.TemporaryDirectory() as scratch:
        _bench(Path(scratch), arguments.data, _tools(arguments.kenlm), arguments.rounds)


def _tools(folder: Path | None) -> dict[str, str]:
    found = {name: shutil.which(name, path=str(folder) if folder else None) for name in ("lmplz", "build_binary")}
    return {name: path for name, path in found.items() if path}


def _bench(scratch: Path, data: Path, tools: dict[str, str], rounds: int) -> None:
    train, test = (_unpacked(data / f"wiki.{part}.tokens.gz", scratch / f"{part}.txt") for part in ("train", "test"))
    copies = _copies(train, scratch / "copies.txt", 10)
    runs: dict[str, list[tuple[float, float]]] = {
        name: [] for name in ("text", "ids", "lmplz", "copies-text", "copies-ids")
    }
    for number in range(rounds):
        runs["text"].append(_measured("text", train, scratch / f"run-{number}"))
        runs["ids"].append(_measured("ids", scratch / f"run-{number}", scratch / f"ids-{number}"))
        if "lmplz" in tools:
            runs["lmplz"].append(_lmplz(tools["lmplz"], train, scratch / "lmplz.arpa"))
        if number < COPIES_ROUNDS:
            for kind, source in (("text", copies), ("ids", scratch / "copies-text-0")):
                target = scratch / f"copies-{kind}-{number}"
                runs[f"copies-{kind}"].append(_measured(kind, source, target))
                if number > 0 or kind == "ids":
                    shutil.rmtree(target)
    print(f"order {ORDER}, WikiText-2 train, {rounds} rounds in turn, median seconds and MB")
    for name in ("text", "ids", "lmplz"):
        if runs[name]:
            seconds, memory = (statistics.median(column) for column in zip(*runs[name], strict=True))
            print(f"  {name:<22} {seconds:7.2f} s {memory:8.0f} MB")
    for name in ("text", "ids"):
        seconds, memory = (statistics.median(column) for column in zip(*runs[f"copies-{name}"], strict=True))
        ratio = seconds / statistics.median(single for single, _ in runs[name])
        print(f"  ten copies, from {name:<5} {seconds:7.2f} s {memory:8.0f} MB  {ratio:.1f} x")
    _scoring(scratch, test, tools, rounds)


def _measured(kind: str, source: Path, target: Path) -> tuple[float, float]:
    """Return the seconds that `text` or `ids` took in a fresh process, and its peak memory in MB."""
    here = str(Path(__file__).parent)
    code = f"import sys; sys.path.insert(0, {here!r}); import ngram; ngram.{kind}({str(source)!r}, {str(target)!r})"
    printed = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    return float(printed[-2]), float(printed[-1])


def text(source: str, target: str) -> None:
    """Train from a text file to a run folder."""
    began = time.perf_counter()
    api.train(
        source, model="ngram", tokenizer="word", settings={"data.documents": "line", "model.order": ORDER}, out=target
    )
    _report(began)


def ids(source: str, target: str) -> None:
    """Train from a token file to a run folder."""
    tokens = open_tokens(Path(source) / "tokens/train.safetensors")
    model = tokens.ids.max() + 1
    began = time.perf_counter()
    fitted = estimate(tokens.ids, int(model), NgramSettings(order=ORDER), ends=True)
    with durable.new_folder(Path(target)) as folder, folder.create("model.safetensors") as handle:
        tensors.write(handle, fitted.table.arrays(), {"format": "satchel"})
    _report(began)


def _report(began: float) -> None:
    seconds = time.perf_counter() - began
    print(seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3)


def _lmplz(program: str, source: Path, target: Path) -> tuple[float, float]:
    began = time.perf_counter()
    with source.open("rb") as handle:
        process = subprocess.Popen(
            [program, "-o", str(ORDER), "-S", "30%", "--arpa", str(target)],
            stdin=handle,
            stderr=subprocess.DEVNULL,
        )
        _, _, usage = os.wait4(process.pid, 0)
    return time.perf_counter() - began, usage.ru_maxrss / 1e3


def _scoring(scratch: Path, test: Path, tools: dict[str, str], rounds: int) -> None:
    model = api.load(scratch / "run-0")
    settings = DataSettings(documents="line")
    tokens = tokenize_corpus(open_corpus(test, settings), model.tokenizer, "line")
    events = np.array(tokens.ids)
    contestants: dict[str, Callable[[], float]] = {
        "satchel": lambda: -float(model.predictor.score(events).logprobs.mean())
    }
    try:
        import kenlm
    except ImportError:
        kenlm = None
    if kenlm is not None:
        arpa = model.export_arpa(scratch / "satchel.arpa")
        lines = [" ".join(map(escape, line.split())) for line in test.read_text(encoding="utf-8").split("\n") if line]
        for form in ("trie", "probing") if "build_binary" in tools else ():
            binary = scratch / f"{form}.bin"
            subprocess.run([tools["build_binary"], form, arpa, binary], check=True, capture_output=True)
            contestants[f"kenlm full_scores, {form}"] = _full_scores(kenlm.Model(str(binary)), lines)
    times: dict[str, list[float]] = {name: [] for name in contestants}
    costs: dict[str, float] = {}
    for _ in range(max(rounds, 5)):
        for name, contestant in contestants.items():
            began = time.perf_counter()
            costs[name] = contestant()
            times[name].append(time.perf_counter() - began)
    count = tokens.counts.tokens
    print(f"scoring {count:,} tokens of WikiText-2 test, {max(rounds, 5)} rounds in turn, median")
    for name, seconds in times.items():
        rate = count / statistics.median(seconds) / 1e6
        print(f"  {name:<27} {rate:6.2f} M tokens/s   perplexity {np.exp(costs[name]):.2f}")


def _full_scores(model: "kenlm.Model", lines: list[str]) -> Callable[[], float]:  # type: ignore[name-defined]  # noqa: F821
    def score() -> float:
        total = count = 0
        for line in lines:
            for logprob, _, _ in model.full_scores(line):
                total += logprob
                count += 1
        return -total / count * float(np.log(10))

    return score


def _unpacked(source: Path, target: Path) -> Path:
    """Write a text without its blank lines, its `<unk>` escaped: to KenLM it is a word like any other."""
    with gzip.open(source, "rt", encoding="utf-8", newline="\n") as handle:
        kept = (" ".join(map(escape, line.split())) for line in handle if line.strip())
        target.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8", newline="\n")
    return target


def _copies(source: Path, target: Path, count: int) -> Path:
    """Write a text several times, each time with words of its own."""
    with target.open("w", encoding="utf-8", newline="\n") as handle:
        for copy in range(count):
            for line in source.read_text(encoding="utf-8").split("\n"):
                handle.write(" ".join(f"{word}{copy}" for word in line.split()) + "\n" if line else "")
    return target


if __name__ == "__main__":
    main()
