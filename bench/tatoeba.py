"""Everyday sentences, Swedish to English: what the recipe `tatoeba-sv-en` makes of them, beside what needs no model.

    python bench/tatoeba.py [--minutes 20] [--threads 1] [-o RUN] [--quick]

A twentieth of the pairs is the test. No sentence of it, Swedish or English, stands anywhere else: not in what is
learned from, and not in the other twentieth, on which the best of the validations is chosen.
"""

import argparse
import gzip
import tempfile
from pathlib import Path
from typing import Any

import satchel
from satchel.data.pairs import held_out_pairs
from satchel.text.tables import TextPair

SENTENCES = Path(__file__).resolve().parents[2] / "shared" / "data" / "tatoeba-swe-eng" / "swe.txt.gz"
TEST, SEED = 0.05, 1
# A lecture's sentence, and others.
ASKED = (
    "Så varför minskar inte vi våra utsläpp?",
    "Varför minskar vi inte våra utgifter?",
    "Igår kväll läste hon en bok om stjärnorna.",
    "Jag har aldrig sett en så vacker solnedgång.",
    "Om det regnar imorgon stannar vi hemma och lagar mat tillsammans.",
)


def parted(folder: Path) -> tuple[Path, Path]:
    """Return what is learned from, and the test: two tables of the same columns as the file they are of."""
    lines = gzip.decompress(SENTENCES.read_bytes()).decode().removesuffix("\n").split("\n")
    pairs = [TextPair(row[1], row[0], number) for number, row in enumerate(line.split("\t") for line in lines)]
    in_test = held_out_pairs(pairs, TEST, SEED)
    for name, wanted in (("train.tsv", False), ("test.tsv", True)):
        kept = [line for line, is_test in zip(lines, in_test, strict=True) if is_test == wanted]
        (folder / name).write_text("\n".join([*kept, ""]), "utf-8")
    return folder / "train.tsv", folder / "test.tsv"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--threads", type=int, default=0, help="0 is as many as there are")
    parser.add_argument("-o", "--out", type=Path, help="where the run is kept")
    parser.add_argument("--quick", action="store_true", help="a few steps: it shows that all of it runs")
    options = parser.parse_args()
    budget: dict[str, Any] = {"steps": 3} if options.quick else {"minutes": options.minutes}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        train, test = parted(folder)
        out = options.out or folder / "run"
        model = satchel.train(train, recipe="tatoeba-sv-en", threads=options.threads, out=out, **budget)
        report = model.report
        print(f"{report.parameters:,} parameters, {report.steps:,} updates, {report.seconds:,.0f} s", flush=True)
        found = model.evaluate(test)
        print(f"{found.headline}; perplexity {found.perplexity:.2f}; {found.signature}")
        for each, quality in found.baselines.items():
            print(f"  {each:<10} {quality.headline}", flush=True)
        for part in model.by_length(test):
            assert part.quality is not None
            print(f"  {part.name:<20} {part.count:>5,}  {part.quality.headline}", flush=True)
        for text in ASKED:
            print(f"  {text}\n    {model.translate(text).target}")


if __name__ == "__main__":
    main()
