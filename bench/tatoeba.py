"""Translation quality of the recipe `tatoeba-sv-en` (Swedish to English), with baselines and by source length.

    python bench/tatoeba.py [--minutes 20] [--threads 1] [-o RUN] [--quick]

5 % of the sentence pairs are the test set. No test sentence, Swedish or English, occurs in the training data or in the
validation data, which selects the best checkpoint.
"""

import gzip
import tempfile
from pathlib import Path
from typing import Any

import satchel
from measure import DATA, parser
from satchel.data.splits import held_out_pairs
from satchel.text.tables import TextPair

PAIRS = DATA / "tatoeba-swe-eng" / "swe.txt.gz"
TEST_SHARE, SEED = 0.05, 1
# Sentences to translate as examples; the first is from a lecture.
EXAMPLES = (
    "Så varför minskar inte vi våra utsläpp?",
    "Varför minskar vi inte våra utgifter?",
    "Igår kväll läste hon en bok om stjärnorna.",
    "Jag har aldrig sett en så vacker solnedgång.",
    "Om det regnar imorgon stannar vi hemma och lagar mat tillsammans.",
)


def split(folder: Path) -> tuple[Path, Path]:
    """Write the training and the test pairs as tables with the columns of the original file; return their paths."""
    lines = gzip.decompress(PAIRS.read_bytes()).decode().removesuffix("\n").split("\n")
    pairs = [TextPair(row[1], row[0], number) for number, row in enumerate(line.split("\t") for line in lines)]
    in_test = held_out_pairs(pairs, TEST_SHARE, SEED)
    for name, part in (("train.tsv", False), ("test.tsv", True)):
        rows = [line for line, is_test in zip(lines, in_test, strict=True) if is_test == part]
        (folder / name).write_text("\n".join([*rows, ""]), "utf-8")
    return folder / "train.tsv", folder / "test.tsv"


def main() -> None:
    arguments = parser(__doc__, "--threads", "--quick")
    arguments.add_argument("--minutes", type=float, default=20.0, help="training time")
    arguments.add_argument("-o", "--out", type=Path, help="run folder to keep (default: a temporary folder)")
    options = arguments.parse_args()
    budget: dict[str, Any] = {"steps": 3} if options.quick else {"minutes": options.minutes}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        train, test = split(folder)
        out = options.out or folder / "run"
        model = satchel.train(train, recipe="tatoeba-sv-en", threads=options.threads, out=out, **budget)
        report = model.report
        print(f"{report.parameters:,} parameters, {report.steps:,} updates, {report.seconds:,.0f} s", flush=True)
        result = model.evaluate(test)
        print(f"{result.headline}; perplexity {result.perplexity:.2f}; {result.signature}")
        for baseline, quality in result.baselines.items():
            print(f"  {baseline:<10} {quality.headline}", flush=True)
        for group in model.by_length(test):
            assert group.quality is not None
            print(f"  {group.name:<20} {group.count:>5,}  {group.quality.headline}", flush=True)
        for text in EXAMPLES:
            print(f"  {text}\n    {model.translate(text).target}")


if __name__ == "__main__":
    main()
