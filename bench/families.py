"""All families on one text: n-grams, means, windows, recurrence, attention, senses.

    python bench/families.py [TEXT] [--valid FILE|FRACTION] [--pieces 2000] [--minutes 3] [--threads 1]
        [--only rnn lstm] [--quick]

One tokenizer for all (pieces of words); every network gets the same minutes on the same machine, one after another.
Bits per byte of the held-out text with 95 % intervals (bootstrap over blocks of 1,000 characters), parameters, seconds.
"""

import argparse
import tempfile
from pathlib import Path
from typing import Any

import satchel
from satchel.api import compare

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
SHAPE: dict[str, Any] = {"model.width": 128, "model.layers": 4, "model.heads": 4, "model.context": 128}
RECURRENT = {"model.width": 256, "model.layers": 1}
BACKPACK = {**SHAPE, "model.senses": 8}
FAMILIES: dict[str, dict[str, Any]] = {
    "ngram": {"model.kind": "ngram", "model.order": 5},
    "dan": {"model.kind": "dan", "model.width": 128},
    "window": {"model.kind": "window", "model.width": 128},
    "rnn": {"model.kind": "rnn", **RECURRENT},
    "lstm": {"model.kind": "lstm", **RECURRENT},
    "transformer": {"model.kind": "transformer", **SHAPE},
    "backpack": {"model.kind": "backpack", **BACKPACK},
    "backpack on 5-grams": {"model.kind": "backpack", **BACKPACK, "model.ngram": 5},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=Path, nargs="?", default=SHARED / "tiny-shakespeare" / "input.txt")
    parser.add_argument("--valid", default="0.1")
    parser.add_argument("--pieces", type=int, default=2000)
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--threads", type=int, default=0, help="of each training; 0 is as many as there are")
    parser.add_argument("--only", nargs="*", default=list(FAMILIES), choices=FAMILIES, help="and the n-grams")
    parser.add_argument("--quick", action="store_true", help="a few steps: it shows that all of it runs")
    options = parser.parse_args()
    valid: str | float = options.valid if Path(options.valid).exists() else float(options.valid)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        chosen = {name: FAMILIES[name] for name in FAMILIES if name in ("ngram", *options.only)}
        runs = {name: Path(folder) / name.replace(" ", "-") for name in chosen}
        for name, settings in chosen.items():
            budget: dict[str, Any] = {"steps": 3} if options.quick else {"minutes": options.minutes}
            budget["threads"] = options.threads
            trained = satchel.train(
                options.text,
                valid=valid,
                tokenizer=f"bpe:{options.pieces}" if name == "ngram" else runs["ngram"],
                settings=settings,
                out=runs[name],
                **({} if name == "ngram" else budget),
            )
            rows.append((name, trained.report.parameters, trained.report.seconds))
            print(f"{name}: {trained.report.valid.bits_per_byte:.4f} bits per byte, {trained.report.seconds:.0f} s")
        found = {Path(row.run).name: row for row in compare(list(runs.values())).rows}
        print(f"{'':<22} {'bits/byte':>9}  {'95 % interval':>16} {'parameters':>12} {'seconds':>8}")
        for name, parameters, seconds in rows:
            row = found[runs[name].name]
            interval = f"{row.low:.4f} to {row.high:.4f}"
            print(f"{name:<22} {row.value:9.4f}  {interval:>16} {parameters:12,} {seconds:8.0f}")


if __name__ == "__main__":
    main()
