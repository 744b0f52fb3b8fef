"""Corpus statistics: every number of these small files is counted by hand."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from satchel.datasets.corpora import open_corpus
from satchel.datasets.report import describe
from satchel.text import decoding, reading
from satchel.text.reading import DataSettings


def report(path: Path | str, valid: Path | str | None = None, **settings: Any) -> dict[str, Any]:
    data_settings = DataSettings.model_validate(settings)
    valid_corpus = None if valid is None else open_corpus(valid, data_settings)
    return describe(open_corpus(path, data_settings), valid_corpus, lambda stage: None)


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8", newline="")
    return path


def test_the_statistics_of_a_text(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "the cat\nthe cat\n\n  \nthe dog\r\na\tb\0c\x1b\n")
    result = report(path)
    assert result == {
        "task": "lm",
        "files": 1,
        "bytes_on_disk": 36,
        "lines": 4,
        "blank_lines": 2,
        "duplicate_lines": 1,
        "characters": 36,
        "distinct_characters": len(set(path.read_bytes())),
        "control_characters": 2,
        "carriage_returns": 1,
        "words": 8,
        "distinct_words": 5,
        "words_seen_once": 3,
        "line_length": {"shortest": 6, "median": 7, "95 %": 7, "longest": 7},
        "most_common_words": ["the", "cat", "dog", "a", "b\0c\x1b"],
    }


def test_an_empty_text_has_a_report(tmp_path: Path) -> None:
    result = report(write(tmp_path / "a.txt", ""))
    assert result["lines"] == result["characters"] == result["words"] == 0
    assert result["line_length"] == {}


def test_other_files_and_replaced_byte_sequences_are_counted(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"a\xff\xffb\n")
    (tmp_path / "b.txt").write_bytes(b"\xff\n")
    (tmp_path / "c.png").touch()
    result = report(tmp_path, valid=tmp_path, encoding_errors="replace")
    assert result["files"] == 2
    assert result["other_files"] == 1
    assert result["repaired_byte_sequences"] == 3
    assert "other_files" not in report(tmp_path / "a.txt", encoding_errors="skip")


def test_the_overlap_of_texts_is_counted_in_lines(tmp_path: Path) -> None:
    train = write(tmp_path / "a.txt", "one\ntwo\n\nthree\n")
    valid = write(tmp_path / "b.txt", "two\r\n\nfour\nTWO\ntwo\n")
    assert report(train, valid)["overlap_with_valid"] == {"shared": 2, "of": 4, "percent": 50.0}
    empty = write(tmp_path / "c.txt", "\n")
    assert report(train, empty)["overlap_with_valid"] == {"shared": 0, "of": 0, "percent": 0.0}


def test_long_lines_are_described_like_short_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.txt", "one two three\r\none two three\n \r\nfour\tfive one two")
    expected = report(path, path)
    monkeypatch.setattr(decoding, "CHUNK", 3)
    monkeypatch.setattr(reading, "LONGEST_PIECE", 8)
    monkeypatch.setattr(reading, "SHORTEST_PIECE", 2)
    assert report(path, path) == expected
    assert expected["words"] == 10
    assert expected["overlap_with_valid"]["percent"] == 100


def test_memory_does_not_grow_with_the_length_of_a_line(tmp_path: Path) -> None:
    program = """
import sys
from satchel.cli.main import run
assert run(["data", sys.argv[1], "--json"]) == 0
(peak,) = (line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(peak, file=sys.stderr)
"""
    peaks = []
    for megabytes in (2, 24):
        path = write(tmp_path / "line.txt", "one two three, " * (megabytes << 16))
        done = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True)
        assert json.loads(done.stdout)["lines"] == 1
        peaks.append(int(done.stderr.split()[-1]) / 1024)
    assert peaks[1] < peaks[0] + 10


def test_the_statistics_of_labelled_rows(tmp_path: Path) -> None:
    rows = ["1\tgood film", "1\tgood film", "0\tgood film", "0\tbad", "1 \t ", "\tbad", "<b>\tx"]
    result = report(write(tmp_path / "a.tsv", "label\ttext\n" + "".join(f"{row}\n" for row in rows)))
    assert result["task"] == "classify"
    assert result["rows"] == 7
    assert result["distinct_labels"] == 4
    assert result["labels_seen_once"] == 2
    assert result["labels"] == {"1": 2, "0": 2, "1 ": 1, "<b>": 1}
    assert result["empty_texts"] == 1
    assert result["empty_labels"] == 1
    assert result["lines_of_empty_labels"] == [7]
    assert result["labels_with_outer_spaces"] == 1
    assert result["duplicate_rows"] == 1
    assert result["conflicting_texts"] == 1
    assert result["characters_per_text"]["longest"] == 9
    assert result["words_per_text"] == {"shortest": 0, "median": 1, "95 %": 2, "longest": 2}


def test_the_overlap_of_tables_is_counted_in_texts(tmp_path: Path) -> None:
    train = write(tmp_path / "a.tsv", "label\ttext\n1\ta\n0\tb\n")
    valid = write(tmp_path / "b.csv", "text,label\na,0\nc,1\nd,1\n")
    assert report(train, valid)["overlap_with_valid"] == {"shared": 1, "of": 3, "percent": 33.33}


def test_tags_are_split_at_spaces_or_else_by_character(tmp_path: Path) -> None:
    rows = [("the cat", "DET NOUN"), ("the cat", "DET"), ("abc", "IOI"), ("abc", "IO"), ("a b c", "A B")]
    result = report(write(tmp_path / "a.csv", "text,tags\n" + "".join(f"{text},{tags}\n" for text, tags in rows)))
    assert result["task"] == "tag"
    # A single tag `DET` without spaces counts as three tags for seven characters.
    assert result["rows_with_other_number_of_tags"] == 3
    assert result["labels"] == {"I": 3, "O": 2, "DET": 1, "NOUN": 1, "D": 1, "E": 1, "T": 1, "A": 1, "B": 1}
    assert result["distinct_tags"] == 9
    assert result["conflicting_texts"] == 2


def test_the_statistics_of_pairs(tmp_path: Path) -> None:
    pairs = [("a", "b"), ("a", "b"), ("a", "c"), ("same", "same"), ("", "x"), ("y", " "), ("w", "w " * 10)]
    source = write(tmp_path / "s.txt", "".join(f"{source}\n" for source, _ in pairs))
    target = write(tmp_path / "t.txt", "".join(f"{target}\n" for _, target in pairs))
    result = report(f"{source},{target}", valid=f"{source},{target}")
    assert result == {
        "task": "translate",
        "files": 2,
        "bytes_on_disk": source.stat().st_size + target.stat().st_size,
        "pairs": 7,
        "empty_sources": 1,
        "empty_targets": 1,
        "target_equals_source": 1,
        "odd_length_ratio": 1,
        "duplicate_pairs": 1,
        "sources_with_several_targets": 1,
        "words_per_source": {"shortest": 0, "median": 1, "95 %": 1, "longest": 1},
        "words_per_target": {"shortest": 0, "median": 1, "95 %": 7, "longest": 10},
        "overlap_with_valid": {"shared": 7, "of": 7, "percent": 100.0},
    }
    table = write(tmp_path / "p.tsv", "source\ttarget\n" + "".join(f"{a}\t{b}\n" for a, b in pairs))
    of_table = report(table)
    assert {key: of_table[key] for key in result if key not in ("files", "bytes_on_disk", "overlap_with_valid")} == {
        key: value for key, value in result.items() if key not in ("files", "bytes_on_disk", "overlap_with_valid")
    }
