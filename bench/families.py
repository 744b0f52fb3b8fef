"""Held-out bits per byte of every kind of language model on one text.

    python bench/families.py [TEXT] [--valid FILE|FRACTION] [--vocabulary 2000] [--minutes 3] [--threads 1]
        [--only rnn lstm] [--quick]

All models use the same BPE tokenizer; every network trains for the same time, one after another. Prints bits per byte
with 95 % confidence intervals (bootstrap over blocks of 1,000 characters), number of parameters and training time.
"""

import tempfile
from pathlib import Path
from typing import Any

import satchel
from measure import parser
from satchel.api import compare

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
    "backpack with 5-grams": {"model.kind": "backpack", **BACKPACK, "model.ngram": 5},
}


def main() -> None:
    arguments = parser(__doc__, "text", "--threads", "--quick")
    arguments.add_argument("--valid", default="0.1", help="held-out file, or fraction of the text")
    arguments.add_argument("--vocabulary", type=int, default=2000, help="vocabulary size of the tokenizer")
    arguments.add_argument("--minutes", type=float, default=3.0, help="training time of each network")
    arguments.add_argument(
        "--only", nargs="*", default=list(FAMILIES), choices=FAMILIES, help="models in addition to ngram"
    )
    options = arguments.parse_args()
    valid: str | float = options.valid if Path(options.valid).exists() else float(options.valid)
    budget: dict[str, Any] = {"steps": 3} if options.quick else {"minutes": options.minutes}
    budget["threads"] = options.threads
    reports = {}
    with tempfile.TemporaryDirectory() as folder:
        chosen = {name: FAMILIES[name] for name in FAMILIES if name in ("ngram", *options.only)}
        runs = {name: Path(folder) / name.replace(" ", "-") for name in chosen}
        for name, settings in chosen.items():
            reports[name] = satchel.train(
                options.text,
                valid=valid,
                tokenizer=f"bpe:{options.vocabulary}" if name == "ngram" else runs["ngram"],
                settings=settings,
                out=runs[name],
                **({} if name == "ngram" else budget),
            ).report
            print(f"{name}: {reports[name].valid.bits_per_byte:.4f} bits per byte, {reports[name].seconds:.0f} s")
        rows = {Path(row.run).name: row for row in compare(list(runs.values())).rows}
    print(f"{'':<22} {'bits/byte':>9}  {'95 % interval':>16} {'parameters':>12} {'seconds':>8}")
    for name, report in reports.items():
        row = rows[runs[name].name]
        interval = f"{row.low:.4f} to {row.high:.4f}"
        print(f"{name:<22} {row.value:9.4f}  {interval:>16} {report.parameters:12,} {report.seconds:8.0f}")


if __name__ == "__main__":
    main()
