"""What a person would want to know of a file before training on it."""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from satchel.config import Settings
from satchel.datasets.corpora import infer_task
from satchel.text import tables
from satchel.text.reading import Corpus, DataSettings, Task, lines

REPORT_EVERY = 100_000
# A translation this many times as long as its source, or as short, is most likely none.
ODD_RATIO = 9


class ReportSettings(Settings):
    """The settings that matter to a report."""

    data: DataSettings = DataSettings()


def describe(corpus: Corpus, valid: Corpus | None, progress: Callable[[str], None]) -> dict[str, Any]:
    """Return counts by name; with `valid`, also how much of it is in the corpus."""
    task = infer_task(corpus)
    report: dict[str, Any] = {"task": task, "files": len(corpus.sources), "bytes_on_disk": corpus.size}
    if corpus.skipped:
        report["other_files"] = corpus.skipped
    if task == "lm":
        report |= _describe_text(corpus, progress)
    elif task == "translate":
        report |= _describe_pairs(tables.read_pairs(corpus))
    else:
        report |= _describe_rows(corpus, task, progress)
    if corpus.repaired:
        report["repaired_byte_sequences"] = sum(corpus.repaired.values())
    if valid is not None:
        report["overlap_with_valid"] = _overlap(_units(corpus, task), _units(valid, task))
    return report


# --- plain text ----------------------------------------------------------------------------------------


def _describe_text(corpus: Corpus, progress: Callable[[str], None]) -> dict[str, Any]:
    words: Counter[str] = Counter()
    characters: Counter[str] = Counter()
    lengths = _Lengths()
    repeats = _Repeats()
    blank = 0

    def counted(chunks: Iterable[str]) -> Iterator[str]:
        for chunk in chunks:
            characters.update(chunk)
            yield chunk

    for line in (line for source in corpus.sources for line in lines(counted(corpus.texts(source)))):
        words.update(line.split())
        if not line.strip():
            blank += 1
            continue
        lengths.add(len(line))
        repeats.add(line)
        if len(lengths.values) % REPORT_EVERY == 0:
            progress(f"reading: {len(lengths.values):,} lines")
    once = sum(count == 1 for count in words.values())
    return {
        "lines": len(lengths.values),
        "blank_lines": blank,
        "duplicate_lines": repeats.count,
        "characters": characters.total(),
        "distinct_characters": len(characters),
        "control_characters": sum(count for c, count in characters.items() if c < " " and c not in "\t\n\r"),
        "carriage_returns": characters["\r"],
        "words": words.total(),
        "distinct_words": len(words),
        "words_seen_once": once,
        "line_length": lengths.summary(),
        "most_common_words": [word for word, _ in words.most_common(10)],
    }


def _text_lines(corpus: Corpus) -> Iterator[str]:
    for source in corpus.sources:
        yield from lines(corpus.texts(source))


# --- rows with a label or tags --------------------------------------------------------------------------


def _describe_rows(corpus: Corpus, task: Task, progress: Callable[[str], None]) -> dict[str, Any]:
    settings = corpus.settings
    answer = settings.label_column if task == "classify" else settings.tags_column
    labels: Counter[str] = Counter()
    answers: defaultdict[bytes, set[str]] = defaultdict(set)
    repeats, lengths, words = _Repeats(), _Lengths(), _Lengths()
    empty = unlabelled = padded = uneven = 0
    source = corpus.sources[0]
    for number, row in enumerate(tables.read_rows(corpus, source), start=1):
        text = tables.value(row, settings.text_column, source.where)
        label = tables.value(row, answer, source.where)
        empty += not text.strip()
        unlabelled += not label.strip()
        padded += label != label.strip()
        if task == "classify":
            labels[label] += 1
        else:
            tags = label.split() if " " in label else list(label)
            labels.update(tags)
            uneven += len(tags) != len(text.split() if " " in label else text)
        repeats.add(f"{label}\0{text}")
        answers[_fingerprint(text)].add(label)
        lengths.add(len(text))
        words.add(len(text.split()))
        if number % REPORT_EVERY == 0:
            progress(f"reading: {number:,} rows")
    report = {
        "rows": len(lengths.values),
        "distinct_labels" if task == "classify" else "distinct_tags": len(labels),
        "labels_seen_once": sum(count == 1 for count in labels.values()),
        "empty_texts": empty,
        "empty_labels": unlabelled,
        "labels_with_outer_spaces": padded,
        "duplicate_rows": repeats.count,
        "conflicting_texts": sum(len(found) > 1 for found in answers.values()),
        "characters_per_text": lengths.summary(),
        "words_per_text": words.summary(),
        "labels": dict(labels.most_common()),
    }
    if task == "tag":
        report["rows_with_other_number_of_tags"] = uneven
    return report


# --- pairs ------------------------------------------------------------------------------------------------


def _describe_pairs(pairs: Iterable[tables.TextPair]) -> dict[str, Any]:
    repeats, sources, targets = _Repeats(), _Lengths(), _Lengths()
    translations: defaultdict[bytes, set[bytes]] = defaultdict(set)
    empty_source = empty_target = same = odd = 0
    for source, target, _ in pairs:
        empty_source += not source.strip()
        empty_target += not target.strip()
        same += source == target
        short, long = sorted((len(source.split()), len(target.split())))
        odd += 0 < short * ODD_RATIO < long
        repeats.add(f"{source}\0{target}")
        translations[_fingerprint(source)].add(_fingerprint(target))
        sources.add(len(source.split()))
        targets.add(len(target.split()))
    return {
        "pairs": len(sources.values),
        "empty_sources": empty_source,
        "empty_targets": empty_target,
        "target_equals_source": same,
        "odd_length_ratio": odd,
        "duplicate_pairs": repeats.count,
        "sources_with_several_targets": sum(len(found) > 1 for found in translations.values()),
        "words_per_source": sources.summary(),
        "words_per_target": targets.summary(),
    }


# --- overlap ----------------------------------------------------------------------------------------------


def _units(corpus: Corpus, task: Task) -> Iterator[str]:
    """Return what is compared: lines, texts, or sources."""
    if task == "lm":
        yield from (line for line in _text_lines(corpus) if line.strip())
    elif task == "translate":
        yield from (pair.source for pair in tables.read_pairs(corpus))
    else:
        source = corpus.sources[0]
        for row in tables.read_rows(corpus, source):
            yield tables.value(row, corpus.settings.text_column, source.where)


def _overlap(train: Iterable[str], valid: Iterable[str]) -> dict[str, Any]:
    known = {_fingerprint(unit) for unit in train}
    total = shared = 0
    for unit in valid:
        total += 1
        shared += _fingerprint(unit) in known
    return {"shared": shared, "of": total, "percent": round(100 * shared / max(1, total), 2)}


# --- counting ---------------------------------------------------------------------------------------------


def _fingerprint(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()


@dataclass
class _Repeats:
    """Counts what has been there before."""

    count: int = 0
    _seen: set[bytes] = field(default_factory=set)

    def add(self, text: str) -> None:
        fingerprint = _fingerprint(text)
        self.count += fingerprint in self._seen
        self._seen.add(fingerprint)


@dataclass
class _Lengths:
    """Shortest, median and longest."""

    values: list[int] = field(default_factory=list)

    def add(self, length: int) -> None:
        self.values.append(length)

    def summary(self) -> dict[str, int]:
        if not self.values:
            return {}
        return {
            "shortest": min(self.values),
            "median": int(np.median(self.values)),
            "95 %": int(np.quantile(self.values, 0.95)),
            "longest": max(self.values),
        }
