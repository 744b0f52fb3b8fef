"""Wall time and memory of `satchel train --minutes M` for every task and kind of model.

    python bench/budget.py [--minutes 0.5] [--only "lm wikitext-2"] [--data DIR] [--quick]

The limit is 1.15 M minutes plus 15 s. One process at a time; peak resident memory of the process.
"""

import gzip
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from measure import parser

LM = ("default", "ngram", "dan", "window", "rnn", "gru", "lstm", "transformer", "backpack")
KINDS = {
    "lm": LM,
    "classify": LM,
    "tag": ("default", *LM[3:]),
    "translate": ("default", *LM[4:]),
}


def main() -> None:
    arguments = parser(__doc__, "--data", "--quick")
    arguments.add_argument("--minutes", type=float, default=0.5, help="value of --minutes (default: %(default)s)")
    arguments.add_argument("--only", default="", help="measure only cases whose name contains this text")
    options = arguments.parse_args()
    minutes = 0.05 if options.quick else options.minutes
    limit = 69 * minutes + 15
    print(f"--minutes {minutes:g}, limit {limit:.1f} s")
    print(f"{'':36} {'seconds':>8} {'memory':>9} {'steps':>7}")
    is_late = False
    with tempfile.TemporaryDirectory() as name:
        for task, data, files in sources(options.data, Path(name)):
            for kind in ("default",) if options.quick else KINDS[task]:
                label = f"{task} {data} {kind}"
                if options.only not in label:
                    continue
                seconds, mebibytes, steps = measure(task, files, kind, minutes, Path(name) / "run")
                note = " above the limit" if seconds > limit else ""
                is_late |= seconds > limit
                print(f"{label:36} {seconds:8.1f} {mebibytes:6.0f} MB {steps:7,}{note}", flush=True)
    sys.exit(is_late)


def sources(data: Path, folder: Path) -> Iterator[tuple[str, str, str]]:
    """Yield task, name and DATA argument of each data set; compressed files are unpacked into the folder."""
    yield "lm", "tiny-shakespeare", str(data / "tiny-shakespeare" / "input.txt")
    yield "lm", "wikitext-2", str(unpack(data / "wikitext-2" / "wiki.train.tokens.gz", folder / "wiki.txt"))
    reviews = [line.split("\t") for line in read(data / "imdb" / "train.tsv.gz").split("\n") if line]
    yield "classify", "imdb", table(folder / "imdb.tsv", "label", [(row[0], row[3]) for row in reviews])
    phrases = [line for line in read(data / "sst2" / "stsa.binary.train").split("\n") if line]
    yield "classify", "sst2", table(folder / "sst2.tsv", "label", [(line[0], line[2:]) for line in phrases])
    strings = read(data / "letter-counting" / "lettercounting-train.txt").split("\n")
    counts = ["".join(str(min(2, text[:end].count(letter))) for end, letter in enumerate(text)) for text in strings]
    rows = [(tags, text) for tags, text in zip(counts, strings, strict=True) if text]
    yield "tag", "letter-counting", table(folder / "letters.tsv", "tags", rows)
    sides = [unpack(data / "multi30k" / f"train.{side}.gz", folder / f"train.{side}") for side in ("de", "en")]
    yield "translate", "multi30k", ",".join(map(str, sides))


def read(path: Path) -> str:
    """Return the text of a file, plain or compressed."""
    content = path.read_bytes()
    return (gzip.decompress(content) if path.suffix == ".gz" else content).decode()


def unpack(path: Path, target: Path) -> Path:
    """Write the text of a compressed file to a target and return the target."""
    target.write_text(read(path), encoding="utf-8")
    return target


def table(path: Path, column: str, rows: list[tuple[str, str]]) -> str:
    """Write a table with a column of labels or tags and a column of texts; return its path."""
    path.write_text("".join(f"{first}\t{text}\n" for first, text in [(column, "text"), *rows]), encoding="utf-8")
    return str(path)


def measure(task: str, data: str, kind: str, minutes: float, run: Path) -> tuple[float, float, int]:
    """Train in a new process; return its wall time in seconds, its peak memory in MB, and the number of steps."""
    shutil.rmtree(run, ignore_errors=True)
    model = [] if kind == "default" else ["--model", kind]
    command = [sys.executable, "-m", "satchel", "train", data, "--task", task, "--minutes", f"{minutes:g}", *model]
    with tempfile.TemporaryFile() as stdout:
        began = time.perf_counter()
        process = subprocess.Popen([*command, "-o", str(run), "--json"], stdout=stdout, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command)
        stdout.seek(0)
        return seconds, usage.ru_maxrss / 1024, json.load(stdout)["steps"]


if __name__ == "__main__":
    main()
