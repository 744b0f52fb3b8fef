"""`satchel translate`: translations of texts and of files."""

import csv
import io
import json
from pathlib import Path

import pytest

import satchel
from satchel.api.translation import split_source
from tests.cli.conftest import (
    SOURCES,
    Cli,
    json_of,
)


def test_a_text_is_translated(cli: Cli, translator: Path) -> None:
    (result,) = json_of(cli, "translate", translator, SOURCES[1], "--best", "2")["translations"]
    assert result["source"] == SOURCES[1]
    assert result["others"][0]["score"] <= result["score"]
    assert set(result["alignment"]) >= {"source", "target", "values", "exact"}
    assert len(result["alignment"]["values"]) == len(result["alignment"]["target"])
    code, printed, _ = cli("translate", translator, SOURCES[1])
    assert code == 0
    assert printed.strip() == result["target"]
    code, printed, _ = cli("translate", translator, SOURCES[1], "--sample", "--best", "3", "--seed", "1")
    assert code == 0
    assert printed == cli("translate", translator, SOURCES[1], "--sample", "--best", "3", "--seed", "1")[1]
    assert len(printed.splitlines()) == 3


def test_every_row_of_a_file_is_translated_in_order(cli: Cli, translator: Path, tmp_path: Path) -> None:
    lines = [SOURCES[0], "", SOURCES[1], "   ", SOURCES[2], "\N{CJK UNIFIED IDEOGRAPH-5E74}", "5 " * 5000]
    (tmp_path / "in.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    code, _, messages = cli(
        "translate", translator, "--input", tmp_path / "in.txt", "-o", tmp_path / "out.txt", "--beam", "1"
    )
    assert code == 0, messages
    assert "exceeds the model's context and was translated in" in messages
    result = (tmp_path / "out.txt").read_text(encoding="utf-8").split("\n")
    assert len(result) == len(lines) + 1
    assert (result[1], result[3]) == ("", "   ")
    for line, target in zip(lines, result, strict=False):
        if len(line) < 100:
            assert target == (cli("translate", translator, line, "--beam", "1")[1].rstrip("\n"))
    with (tmp_path / "in.csv").open("w", newline="", encoding="utf-8") as handle:
        csv.writer(handle).writerows([["id", "source"], *enumerate(SOURCES)])
    assert cli("translate", translator, "--input", tmp_path / "in.csv", "-o", tmp_path / "out.csv")[0] == 0
    with (tmp_path / "out.csv").open(newline="", encoding="utf-8") as handle:
        rows = list(csv.DictReader(handle))
    assert [(row["id"], row["source"]) for row in rows] == [(str(n), source) for n, source in enumerate(SOURCES)]
    assert all(row["target"] for row in rows)
    values = json_of(cli, "translate", translator, "--input", tmp_path / "in.csv")["translations"]
    assert [each["target"] for each in values] == [row["target"] for row in rows]


def test_json_lines_are_translated(cli: Cli, translator: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = b'{"source": "5/3/21", "id": 7}\n{"source": ""}\n'
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(lines)))
    code, printed, _ = cli("translate", translator, "--jsonl")
    assert code == 0
    result = [json.loads(line) for line in printed.splitlines()]
    assert result[0]["id"] == 7
    assert result[1]["target"] == ""


def test_a_long_text_is_split_into_sentences_and_joined_with_its_white_space(cli: Cli, translator: Path) -> None:
    sentences = ["May 3, 2021.", "5/3/21 and 6/4/22!", "the third of May, 2021."]
    gaps = [" ", "\n\n", "  "]
    text = "".join(sentence + gap for sentence, gap in zip(sentences * 3, gaps * 3, strict=True)).rstrip()
    (result,) = json_of(cli, "translate", translator, text)["translations"]
    assert [part["source"] for part in result["parts"]] == sentences * 3
    assert all(text[part["start"] :].startswith(part["source"]) for part in result["parts"])
    # Each part is translated as it is alone.
    for part in result["parts"][:3]:
        alone = json_of(cli, "translate", translator, part["source"])["translations"][0]["target"]
        assert part["target"] == alone
    joined = "".join(
        part["target"] + gap for part, gap in zip(result["parts"], [*gaps * 2, *gaps[:2], ""], strict=True)
    )
    assert result["target"] == joined
    _, _, messages = cli("translate", translator, text)
    assert "was translated in 9 parts" in messages


def test_parts_cover_a_text_and_fit_the_limits() -> None:
    words = " ".join(f"w{number}" for number in range(300))
    text = f"  one two. three four!\n{words}. \u4e00\u4e8c\u3002\u4e09{'x' * 50}  "

    def count(part: str) -> int:
        return len(part)

    parts = split_source(text, count, 40, 16)
    place = 0
    for start, part in parts:
        assert text[place:start].strip() == ""
        assert text[start : start + len(part)] == part == part.strip()
        place = start + len(part)
    assert text[place:].strip() == ""
    assert [part for _, part in parts[:2]] == ["one two.", "three four!"]
    assert all(count(part) <= 16 for _, part in parts[2:-5])
    assert split_source("fits", count, 40, 16) == [(0, "fits")]
    assert split_source(" \n ", count, 40, 16) == []


def test_the_number_of_decoding_steps_is_linear_in_the_length_of_the_text(translator: Path) -> None:
    model = satchel.load(translator, task="translate")
    lengths = []
    for count in (50, 200):
        parts = model.translate("May 3, 2021. " * count, beam=1).parts
        assert len(parts) == count
        lengths.append(sum(len(part.target) for part in parts))
    assert lengths[1] == 4 * lengths[0]
