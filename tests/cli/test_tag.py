"""`satchel tag`: tags of texts and of files."""

import csv
import json
from pathlib import Path

from tests.cli.conftest import (
    TAG_OPTIONS,
    Cli,
    json_of,
)


def test_a_text_is_tagged(cli: Cli, tagger: Path) -> None:
    (result,) = json_of(cli, "tag", tagger, "the dogs ran")["predictions"]
    assert (result["text"], result["windows"]) == ("the dogs ran", 1)
    assert (result["tokens"], result["tags"]) == (["the", "dogs", "ran"], ["D", "N", "V"])
    assert len(result["probabilities"]) == 3
    code, printed, _ = cli("tag", tagger, "the dogs ran")
    assert code == 0
    assert [line.split()[:2] for line in printed.split("\n")[1:4]] == [["the", "D"], ["dogs", "N"], ["ran", "V"]]


def test_spaces_are_visible_in_the_table_of_characters(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "letters.tsv").write_text("text\ttags\na b\t010\nb a\t010\n" * 4)
    train = ("train", tmp_path / "letters.tsv", "--model", "transformer", "--steps", "1", *TAG_OPTIONS)
    assert cli(*train, "-o", tmp_path / "letters")[0] == 0
    assert cli("tag", tmp_path / "letters", "a b")[1].split("\n")[2].startswith("␣")


def test_every_row_of_a_file_is_tagged_and_keeps_its_columns(cli: Cli, tagger: Path, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text('id,text\n1,"the dogs ran"\n2,\n3,sit\n')
    assert cli("tag", tagger, "--input", tmp_path / "in.csv", "-o", tmp_path / "out.csv")[0] == 0
    with (tmp_path / "out.csv").open(newline="") as handle:
        rows = list(csv.DictReader(handle))
    assert [(row["id"], row["text"], row["tags"]) for row in rows] == [
        ("1", "the dogs ran", "D N V"),
        ("2", "", ""),
        ("3", "sit", "V"),
    ]
    assert cli("tag", tagger, "--input", tmp_path / "in.csv", "-o", tmp_path / "out.jsonl")[0] == 0
    first = json.loads((tmp_path / "out.jsonl").read_text().split("\n")[0])
    assert (first["tokens"], first["tags"]) == (["the", "dogs", "ran"], ["D", "N", "V"])
    assert cli("tag", tagger, "--input", tmp_path / "in.csv", "-o", tmp_path / "out.txt")[0] == 0
    assert (tmp_path / "out.txt").read_text() == "D N V\n\nV\n"
    code, printed, _ = cli("tag", tagger, "--input", tmp_path / "in.csv")
    assert (code, printed) == (0, "D N V\n\nV\n")


def test_a_text_longer_than_the_context_is_tagged_in_overlapping_windows_and_this_is_reported(
    cli: Cli, tagger: Path, tmp_path: Path
) -> None:
    words = "the dogs ran a cat sat " * 20
    (result,) = json_of(cli, "tag", tagger, words)["predictions"]
    assert result["windows"] == 7
    # At the beginning of a window of 32 words, the tags are those of the same words elsewhere.
    assert result["tags"] == ["D", "N", "V", "D", "N", "V"] * 20
    code, _, messages = cli("tag", tagger, words)
    assert code == 0
    assert "has 120 tokens, more than the context of 32, and is read in 7 windows" in messages
    (tmp_path / "in.tsv").write_text("text\n" + f"{words}\n" * 5 + "the dogs ran\n")
    code, printed, messages = cli("tag", tagger, "--input", tmp_path / "in.tsv")
    assert (code, len(printed.split("\n")), messages.count("has 120 tokens")) == (0, 7, 3)
    assert "2 further texts are longer than the context" in messages
    assert "longer" not in cli("tag", tagger, "the dogs ran")[2]
    explained = json_of(cli, "look", "attribution", tagger, words, "--target", "100:N")
    assert (explained["window"]["tokens"], explained["window"]["total"]) == (32, 120)
    assert explained["window"]["start"] <= 100 - 8 < 100 + 8 <= explained["window"]["start"] + 32
    assert len(explained["words"]) == 32


def test_tags_of_characters_are_separated_by_spaces_or_not(cli: Cli, tmp_path: Path) -> None:
    rows = ["abba\t0 0 1 1", "ab\t00", "b\t0", "aab\t0 1 0"]
    (tmp_path / "letters.tsv").write_text("text\ttags\n" + "\n".join(rows * 10) + "\n")
    options = ("--steps", 2, *TAG_OPTIONS, "-o", tmp_path / "run")
    code, _, messages = cli("train", tmp_path / "letters.tsv", *options)
    assert code == 0, messages
    assert "one tag per character" in messages
    assert json_of(cli, "evaluate", tmp_path / "run", tmp_path / "letters.tsv")["examples"] == 100
    assert len(cli("tag", tmp_path / "run", "--input", tmp_path / "letters.tsv")[1].split("\n")[0]) == 4
    (tmp_path / "names.tsv").write_text("text\ttags\n" + "ab\tB-X I-X\nb\tB-X\n" * 20)
    assert cli("train", tmp_path / "names.tsv", *options, "--force")[0] == 0
    printed = cli("tag", tmp_path / "run", "--input", tmp_path / "names.tsv")[1]
    assert all(tag in ("B-X", "I-X") for line in printed.split("\n") for tag in line.split())
    assert len(printed.split("\n")[0].split()) == 2
