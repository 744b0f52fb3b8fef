"""`satchel tag`: tags of texts and of files."""

import csv
import json
from pathlib import Path

from tests.cli.conftest import (
    Cli,
    json_of,
)


def test_a_text_is_tagged(cli: Cli, tagger: Path) -> None:
    (result,) = json_of(cli, "tag", tagger, "the dogs ran")["predictions"]
    assert result == {"text": "the dogs ran", "tokens": ["the", "dogs", "ran"], "tags": ["D", "N", "V"]}
    code, printed, _ = cli("tag", tagger, "the dogs ran")
    assert code == 0
    assert [line.split()[:2] for line in printed.split("\n")[1:4]] == [["the", "D"], ["dogs", "N"], ["ran", "V"]]


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
