"""`satchel translate`, and what `evaluate`, `score` and `look` say of translators, from the command line."""

import csv
import io
import json
from pathlib import Path

import pytest

from tests.cli.conftest import Cli, answer

QUICK = [
    *("--set=model.width=32", "--set=model.heads=2", "--set=model.layers=1", "--set=model.context=48"),
    *("--set=training.batch_tokens=1024", "--set=training.learning_rate=3e-3", "--threads", "1"),
]
SOURCES = ("5/3/21", "May 3, 2021", "the third of May, 2021")


@pytest.fixture(scope="module")
def dates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was trained once for all."""
    from satchel.cli.main import run

    folder = tmp_path_factory.mktemp("dates") / "run"
    assert run(["train", "@dates", "--set=data.size=400", "--steps", "40", *QUICK, "-o", str(folder)]) == 0
    return folder


def test_pairs_train_a_translator_and_say_so(cli: Cli, tmp_path: Path) -> None:
    for name, content in (("a.de", "ein Hund\nein Mann\n\neine Frau\n"), ("a.en", "a dog\na man\nx\na woman\n")):
        (tmp_path / name).write_text(content)
    data = f"{tmp_path / 'a.de'},{tmp_path / 'a.en'}"
    code, printed, said = cli("train", data, "--steps", "2", "--valid", data, *QUICK, "-o", tmp_path / "run")
    assert code == 0, said
    assert "a translator (task translate), transformer" in printed
    assert "pairs       3; 1 left out that have an empty side" in printed
    assert "task=translate: as the data says" in said
    assert f"next: satchel translate {tmp_path / 'run'} 'a text'" in said
    found = answer(cli, "train", data, "--steps", "2", "--valid", data, *QUICK, "-o", tmp_path / "again")
    assert (found["task"], found["model"], found["steps"]) == ("translate", "transformer", 2)
    keys = {"sentences", "bleu", "bleu_lowercase", "chrf", "signature", "exact_match", "perplexity", "baselines"}
    assert keys <= set(found["valid"])


def test_a_text_is_translated(cli: Cli, dates: Path) -> None:
    (found,) = answer(cli, "translate", dates, SOURCES[1], "--best", "2")["translations"]
    assert found["source"] == SOURCES[1]
    assert found["others"][0]["score"] <= found["score"]
    assert set(found["alignment"]) == {"source", "target", "values", "exact"}
    assert len(found["alignment"]["values"]) == len(found["alignment"]["target"])
    code, printed, _ = cli("translate", dates, SOURCES[1])
    assert code == 0
    assert printed.strip() == found["target"]
    code, printed, _ = cli("translate", dates, SOURCES[1], "--sample", "--best", "3", "--seed", "1")
    assert code == 0
    assert printed == cli("translate", dates, SOURCES[1], "--sample", "--best", "3", "--seed", "1")[1]
    assert len(printed.splitlines()) == 3


def test_rows_of_a_file_are_translated_none_lost_and_none_moved(cli: Cli, dates: Path, tmp_path: Path) -> None:
    lines = [SOURCES[0], "", SOURCES[1], "   ", SOURCES[2], "\N{CJK UNIFIED IDEOGRAPH-5E74}", "5 " * 5000]
    (tmp_path / "in.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    code, _, said = cli("translate", dates, "--input", tmp_path / "in.txt", "-o", tmp_path / "out.txt", "--beam", "1")
    assert code == 0, said
    assert "is longer than the model's context: it was translated in" in said
    found = (tmp_path / "out.txt").read_text(encoding="utf-8").split("\n")
    assert len(found) == len(lines) + 1
    assert (found[1], found[3]) == ("", "   ")
    for line, target in zip(lines, found, strict=False):
        if len(line) < 100:
            assert target == (cli("translate", dates, line, "--beam", "1")[1].rstrip("\n"))
    with (tmp_path / "in.csv").open("w", newline="", encoding="utf-8") as handle:
        csv.writer(handle).writerows([["id", "source"], *enumerate(SOURCES)])
    assert cli("translate", dates, "--input", tmp_path / "in.csv", "-o", tmp_path / "out.csv")[0] == 0
    with (tmp_path / "out.csv").open(newline="", encoding="utf-8") as handle:
        rows = list(csv.DictReader(handle))
    assert [(row["id"], row["source"]) for row in rows] == [(str(n), source) for n, source in enumerate(SOURCES)]
    assert all(row["target"] for row in rows)
    told = answer(cli, "translate", dates, "--input", tmp_path / "in.csv")["translations"]
    assert [each["target"] for each in told] == [row["target"] for row in rows]


def test_lines_are_translated_as_they_come(cli: Cli, dates: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = b'{"source": "5/3/21", "id": 7}\n{"source": ""}\n'
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(lines)))
    code, printed, _ = cli("translate", dates, "--jsonl")
    assert code == 0
    found = [json.loads(line) for line in printed.splitlines()]
    assert found[0]["id"] == 7
    assert found[1]["target"] == ""


def test_how_good_it_is(cli: Cli, dates: Path) -> None:
    found = answer(cli, "evaluate", dates, "@dates", "--beam", "1")
    assert found["sentences"] == 40
    assert set(found["baselines"]) == {"copy", "memory"}
    assert "tok:13a" in found["signature"]
    assert not found["looks_swapped"]
    code, printed, _ = cli("evaluate", dates)
    assert code == 0
    assert "copying the source" in printed
    assert "the most similar training pair" in printed
    by_length = answer(cli, "evaluate", dates, "--by", "length")
    assert sum(row["count"] for row in by_length["rows"]) == 20
    by_position = answer(cli, "evaluate", dates, "--by", "position")
    assert len(by_position["rows"]) == 5
    for by in ("length", "position"):
        assert cli("evaluate", dates, "--by", by)[0] == 0


def test_a_given_translation_is_scored(cli: Cli, dates: Path) -> None:
    found = answer(cli, "score", dates, SOURCES[0], "--target", "2021-05-03")
    assert [token["text"] for token in found["tokens"]] == [*"2021-05-03", "<end>"]
    assert found["total_logprob"] == pytest.approx(sum(token["logprob"] for token in found["tokens"]))


def test_where_it_looked_is_shown_and_drawn(cli: Cli, dates: Path, tmp_path: Path) -> None:
    found = answer(cli, "look", "alignment", dates, SOURCES[0], "--target", "2021-05-03")["alignment"]
    assert found["source"] == ["5", "/", "3", "/", "21", "<end>"]
    assert sum(found["values"][0]) == pytest.approx(1, abs=1e-3)
    code, printed, _ = cli("look", "alignment", dates, SOURCES[0], "--layer", "0", "--head", "1")
    assert code == 0
    assert printed.split("\n")[0].split()[:2] == ["target", "most"]
    for ending in ("svg", "html", "json"):
        assert cli("look", "alignment", dates, SOURCES[0], "-o", tmp_path / f"map.{ending}")[0] == 0
        assert (tmp_path / f"map.{ending}").stat().st_size > 500


def test_no_number_of_an_alignment_is_broken_however_long_the_source(cli: Cli, dates: Path) -> None:
    """Words that do not fit beside each other come in parts, each with all target words."""
    code, printed, told = cli("look", "alignment", dates, " / ".join("123456789" * 4), "--target", "2021-05-03")
    assert code == 0
    assert "in per cent" in told
    parts = [part.split("\n") for part in printed.strip().split("\n\n")]
    assert len(parts) > 1
    for lines in parts:
        assert lines[0].split()[:2] == ["target", "most"]
        assert [line.split()[0] for line in lines[1:]] == ["2021", "-", "05", "-", "03", "<end>"]
        assert max(map(len, lines)) <= 80


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["look", "alignment", "RUN", "5/3/21", "--layer", "7"], "--layer 7: found layers 0 to 0"),
        (["translate", "RUN", "x", "--best", "5"], "best: found 5 of a beam of 4"),
        (["translate", "RUN", "x", "--beam", "0"], "beam"),
        (["translate", "RUN", "x", "--top-k", "3"], "a search draws nothing"),
        (["generate", "RUN", "x"], "is a translator, expected a language model"),
        (["evaluate", "RUN", "--by", "distance"], "--by distance: found no such way to part translations"),
        (["evaluate", "RUN", "a.txt,b.txt"], "found 1 lines, expected as many as in"),
        (["evaluate", "RUN", "none.tsv"], "found the columns text, label, expected source"),
        (["look", "contributions", "RUN", "x"], "a translator's contributions are an alignment"),
    ],
)
def test_what_cannot_be_is_told(
    cli: Cli, dates: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.txt").write_text("one\n")
    Path("b.txt").write_text("eins\nzwei\n")
    Path("none.tsv").write_text("text\tlabel\na\tb\n")
    code, _, told = cli(*(dates if each == "RUN" else each for each in arguments))
    assert code == 2
    assert said in told
