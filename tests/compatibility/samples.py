"""Small generated data: texts, labelled tables and a table of pairs. The same bytes on every machine."""

import random
from pathlib import Path

ADJECTIVES = "old young small grey quiet hungry".split()
NOUNS = "dog cat fox bird horse mouse".split()
PLACES = "river house garden wood hill barn".split()
VERBS = "saw heard followed found left met".split()
ENDINGS = ("again", "in the morning", "before the rain", "and went home", "twice")


def _sentence(rng: random.Random) -> str:
    subject, other = rng.sample(NOUNS, 2)
    words = ["the", rng.choice(ADJECTIVES), subject, rng.choice(VERBS), "the", other]
    if rng.random() < 0.6:
        words += ["near", "the", rng.choice(PLACES)]
    if rng.random() < 0.4:
        words.append(rng.choice(ENDINGS))
    return " ".join(words).capitalize() + "."


def _text(seed: int, sentences: int) -> str:
    rng = random.Random(seed)
    return "\n".join(_sentence(rng) for _ in range(sentences)) + "\n"


def write_text(path: Path, *, seed: int = 1, sentences: int = 150) -> None:
    """Write one sentence per line."""
    path.write_text(_text(seed, sentences), encoding="utf-8", newline="\n")


def write_table(path: Path, *, seed: int = 2, rows: int = 150) -> None:
    """Write a table of labels and sentences; the label is the place, or `nowhere` without one."""
    lines = ["label\ttext"]
    for sentence in _text(seed, rows).splitlines():
        place = next((place for place in PLACES if place in sentence), "nowhere")
        lines.append(f"{place if place in PLACES[:3] else 'nowhere'}\t{sentence}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")


def write_pairs(path: Path, *, seed: int = 5, rows: int = 150) -> None:
    """Write a table of sentences and the same words in reverse order."""
    sources = _text(seed, rows).splitlines()
    targets = [" ".join(reversed(source.lower().rstrip(".").split())) for source in sources]
    lines = ["source\ttarget", *map("\t".join, zip(sources, targets, strict=True))]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")


def write_all(folder: Path) -> None:
    """Write text.txt, heldout.txt, rows.tsv, heldout.tsv and pairs.tsv into a folder."""
    write_text(folder / "text.txt")
    write_text(folder / "heldout.txt", seed=3, sentences=20)
    write_table(folder / "rows.tsv")
    write_table(folder / "heldout.tsv", seed=4, rows=30)
    write_pairs(folder / "pairs.tsv")
