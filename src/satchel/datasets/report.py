"""Statistics of a corpus before training: counts, duplicates, conflicting labels, overlap with validation data."""

import hashlib
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from satchel.config import Settings
from satchel.datasets.corpora import infer_task
from satchel.text import tables
from satchel.text.reading import Corpus, DataSettings, Task, lines_in_parts, split_pieces

# Number of lines or rows between two progress messages.
REPORT_EVERY = 100_000
# Pairs whose lengths in words differ by more than this factor are reported as odd.
ODD_RATIO = 9
# Maximum number of line numbers in the report.
SHOWN_LINES = 10


class ReportSettings(Settings):
    """Settings of a report."""

    data: DataSettings = DataSettings()


def describe(corpus: Corpus, valid: Corpus | None, progress: Callable[[str], None]) -> dict[str, Any]:
    """Return the statistics of a corpus by name; with `valid`, also the part of `valid` that occurs in the corpus."""
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
        report["overlap_with_valid"] = _overlap(_fingerprints(corpus, task), _fingerprints(valid, task))
    return report


# --- plain text ----------------------------------------------------------------------------------------


def _describe_text(corpus: Corpus, progress: Callable[[str], None]) -> dict[str, Any]:
    words: Counter[str] = Counter()
    characters: Counter[str] = Counter()
    lengths = array("q")
    distinct: set[bytes] = set()
    blank = 0

    def counted(chunks: Iterable[str]) -> Iterator[str]:
        for chunk in chunks:
            characters.update(chunk)
            yield chunk

    for source in corpus.sources:
        for parts in lines_in_parts(counted(corpus.texts(source))):
            length, digest, is_blank = 0, _digest(), True
            # Pieces end between words.
            for piece in split_pieces(parts):
                words.update(piece.split())
                length += len(piece)
                digest.update(_encoded(piece))
                is_blank = is_blank and not piece.strip()
            if is_blank:
                blank += 1
                continue
            lengths.append(length)
            distinct.add(digest.digest())
            if len(lengths) % REPORT_EVERY == 0:
                progress(f"reading: {len(lengths):,} lines")
    return {
        "lines": len(lengths),
        "blank_lines": blank,
        "duplicate_lines": len(lengths) - len(distinct),
        "characters": characters.total(),
        "distinct_characters": len(characters),
        "control_characters": sum(count for c, count in characters.items() if c < " " and c not in "\t\n\r"),
        "carriage_returns": characters["\r"],
        "words": words.total(),
        "distinct_words": len(words),
        "words_seen_once": sum(count == 1 for count in words.values()),
        "line_length": _quantiles(lengths),
        "most_common_words": [word for word, _ in words.most_common(10)],
    }


# --- rows with a label or tags --------------------------------------------------------------------------


def _describe_rows(corpus: Corpus, task: Task, progress: Callable[[str], None]) -> dict[str, Any]:
    settings = corpus.settings
    annotation = "label_column" if task == "classify" else "tags_column"
    labels: Counter[str] = Counter()
    labels_of_text: defaultdict[bytes, set[str]] = defaultdict(set)
    lengths: list[int] = []
    words: list[int] = []
    distinct: set[bytes] = set()
    unlabelled: list[int] = []
    empty = padded = mismatched = 0
    source = corpus.sources[0]
    for number, row in enumerate(tables.read_rows(corpus, source, ("text_column", annotation)), start=1):
        text = tables.column_text(row, "text_column", settings, source.where)
        label = tables.label_text(row, annotation, settings)
        empty += not text.strip()
        if not label.strip() and (task == "classify" or text.strip()):
            unlabelled.append(row.line)
        padded += label != label.strip()
        if task == "classify":
            labels.update([label] if label.strip() else [])
        else:
            tags = label.split() if " " in label else list(label)
            labels.update(tags)
            mismatched += len(tags) != len(text.split() if " " in label else text)
        distinct.add(_fingerprint(f"{label}\0{text}"))
        if label.strip():
            labels_of_text[_fingerprint(text)].add(label)
        lengths.append(len(text))
        words.append(_word_count(text))
        if number % REPORT_EVERY == 0:
            progress(f"reading: {number:,} rows")
    report = {
        "rows": len(lengths),
        "distinct_labels" if task == "classify" else "distinct_tags": len(labels),
        "labels_seen_once": sum(count == 1 for count in labels.values()),
        "empty_texts": empty,
        "empty_labels": len(unlabelled),
        "lines_of_empty_labels": unlabelled[:SHOWN_LINES],
        "labels_with_outer_spaces": padded,
        "duplicate_rows": len(lengths) - len(distinct),
        "conflicting_texts": sum(len(texts) > 1 for texts in labels_of_text.values()),
        "characters_per_text": _quantiles(lengths),
        "words_per_text": _quantiles(words),
        "labels": dict(labels.most_common()),
    }
    if task == "tag":
        report["rows_with_other_number_of_tags"] = mismatched
    return report


# --- pairs ------------------------------------------------------------------------------------------------


def _describe_pairs(pairs: Iterable[tables.TextPair]) -> dict[str, Any]:
    sources: list[int] = []
    targets: list[int] = []
    distinct: set[bytes] = set()
    targets_of_source: defaultdict[bytes, set[bytes]] = defaultdict(set)
    empty_source = empty_target = same = odd = 0
    for source, target, _ in pairs:
        empty_source += not source.strip()
        empty_target += not target.strip()
        same += source == target
        sources.append(_word_count(source))
        targets.append(_word_count(target))
        short, long = sorted((sources[-1], targets[-1]))
        odd += 0 < short * ODD_RATIO < long
        distinct.add(_fingerprint(f"{source}\0{target}"))
        targets_of_source[_fingerprint(source)].add(_fingerprint(target))
    return {
        "pairs": len(sources),
        "empty_sources": empty_source,
        "empty_targets": empty_target,
        "target_equals_source": same,
        "odd_length_ratio": odd,
        "duplicate_pairs": len(sources) - len(distinct),
        "sources_with_several_targets": sum(len(texts) > 1 for texts in targets_of_source.values()),
        "words_per_source": _quantiles(sources),
        "words_per_target": _quantiles(targets),
    }


# --- overlap ----------------------------------------------------------------------------------------------


def _fingerprints(corpus: Corpus, task: Task) -> Iterator[bytes]:
    """Yield fingerprints of the lines that are not blank, of the texts of rows, or of the sources of pairs."""
    if task == "lm":
        for source in corpus.sources:
            for parts in lines_in_parts(corpus.texts(source)):
                digest, is_blank = _digest(), True
                for part in parts:
                    digest.update(_encoded(part))
                    is_blank = is_blank and not part.strip()
                if not is_blank:
                    yield digest.digest()
    elif task == "translate":
        yield from (_fingerprint(pair.source) for pair in tables.read_pairs(corpus))
    else:
        source = corpus.sources[0]
        for row in tables.read_rows(corpus, source):
            yield _fingerprint(tables.column_text(row, "text_column", corpus.settings, source.where))


def _overlap(train: Iterable[bytes], valid: Iterable[bytes]) -> dict[str, Any]:
    train_fingerprints = set(train)
    is_shared = [fingerprint in train_fingerprints for fingerprint in valid]
    shared, total = sum(is_shared), len(is_shared)
    return {"shared": shared, "of": total, "percent": round(100 * shared / max(1, total), 2)}


# --- lengths and duplicates -----------------------------------------------------------------------------


def _word_count(text: str) -> int:
    """Return the number of words, without a list of all of them."""
    return sum(len(piece.split()) for piece in split_pieces([text]))


def _fingerprint(text: str) -> bytes:
    return _digest(_encoded(text)).digest()


def _digest(data: bytes = b"") -> "hashlib.blake2b":
    return hashlib.blake2b(data, digest_size=8)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _quantiles(lengths: Sequence[int]) -> dict[str, int]:
    if not lengths:
        return {}
    return {
        "shortest": min(lengths),
        "median": int(np.median(lengths)),
        "95 %": int(np.quantile(lengths, 0.95)),
        "longest": max(lengths),
    }
